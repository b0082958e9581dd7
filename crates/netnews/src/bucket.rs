//! Usenetfs' rule that assigns a name to one of the small directories of a managed directory.
//!
//! A managed directory looks flat and is stored as buckets, so that no lower directory is large. The bucket
//! follows from the name alone: from its last digits if it consists of digits, as an article's name does;
//! every other name is in [`OTHERS`]. Names are not changed. The `usenetfs` mount and the storage method
//! `bucketed` both follow this rule, so they read each other's trees. Sources: UFS-02 to UFS-04, UFS-11.

use std::fmt;
use std::str::FromStr;

/// Directory of all names that are not article numbers.
pub const OTHERS: &str = "aaa";

/// Number of trailing digits of a name that a rule may use.
const DIGITS: usize = 4;

/// Digits of a name that form its bucket. Each scheme is named after the bucket of 123456.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BucketScheme {
    /// `345`: digits 2 to 4 from the right. Ten neighbours share a bucket; the paper's choice.
    #[default]
    Tens,
    /// `34/56`: two levels of a hundred directories each.
    Pairs,
    /// `56/34`: like `Pairs`, with the faster digits first.
    SwappedPairs,
    /// `456`: the last three digits; neighbours are apart.
    Last,
}

impl BucketScheme {
    /// All schemes.
    pub const ALL: [Self; 4] = [Self::Tens, Self::Pairs, Self::SwappedPairs, Self::Last];

    /// Returns the scheme's name: its bucket of 123456.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tens => "345",
            Self::Pairs => "34/56",
            Self::SwappedPairs => "56/34",
            Self::Last => "456",
        }
    }

    /// Returns the bucket of an article's name, or [`OTHERS`].
    pub fn bucket(self, name: &[u8]) -> BucketPath {
        if !is_article(name) {
            return BucketPath::new(OTHERS.as_bytes());
        }
        let mut digits = [b'0'; DIGITS];
        for (digit, byte) in digits.iter_mut().rev().zip(name.iter().rev()) {
            *digit = *byte;
        }
        self.of_digits(digits)
    }

    /// Returns the bucket of an article number.
    pub fn bucket_of_number(self, number: u64) -> BucketPath {
        let mut digits = [b'0'; DIGITS];
        let mut rest = number;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.of_digits(digits)
    }

    fn of_digits(self, [thousands, hundreds, tens, ones]: [u8; DIGITS]) -> BucketPath {
        match self {
            Self::Tens => BucketPath::new(&[thousands, hundreds, tens]),
            Self::Pairs => BucketPath::new(&[thousands, hundreds, b'/', tens, ones]),
            Self::SwappedPairs => BucketPath::new(&[tens, ones, b'/', thousands, hundreds]),
            Self::Last => BucketPath::new(&[hundreds, tens, ones]),
        }
    }

    /// Returns the number of directory levels of a bucket.
    pub fn levels(self) -> usize {
        if matches!(self, Self::Pairs | Self::SwappedPairs) { 2 } else { 1 }
    }

    /// Returns whether a directory directly below a managed one may be a bucket, or the first level of one.
    pub fn is_first_level(self, name: &[u8]) -> bool {
        name == OTHERS.as_bytes() || self.is_level(name)
    }

    /// Returns whether a name is one level of an article's bucket.
    pub fn is_level(self, name: &[u8]) -> bool {
        name.len() == if self.levels() == 2 { 2 } else { 3 } && is_article(name)
    }
}

impl fmt::Display for BucketScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for a name that is no scheme's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownScheme;

impl fmt::Display for UnknownScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not one of 345, 34/56, 56/34 and 456")
    }
}

impl std::error::Error for UnknownScheme {}

impl FromStr for BucketScheme {
    type Err = UnknownScheme;

    fn from_str(text: &str) -> Result<Self, UnknownScheme> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == text).ok_or(UnknownScheme)
    }
}

/// The path of a bucket, below the managed directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketPath {
    bytes: [u8; 5],
    len: u8,
}

impl BucketPath {
    fn new(path: &[u8]) -> Self {
        let mut bytes = [0; 5];
        for (to, from) in bytes.iter_mut().zip(path) {
            *to = *from;
        }
        Self { bytes, len: path.len().min(bytes.len()) as u8 }
    }

    /// Returns the path as text, such as `345` or `34/56`.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Display for BucketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns whether a name may be an article's: digits alone, any number of them.
pub fn is_article(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(scheme: BucketScheme, name: &str) -> String {
        scheme.bucket(name.as_bytes()).to_string()
    }

    #[test]
    fn the_papers_examples() {
        let tens = |name: &str| bucket(BucketScheme::Tens, name);
        // UFS-02, UFS-03.
        assert_eq!(["123456", "987", "0987", "5"].map(tens), ["345", "098", "098", "000"]);
        assert_eq!(tens("1234567890123456789012345"), "234", "25 digits");
        assert!((123_450..123_460).all(|n| tens(&n.to_string()) == "345"), "ten neighbours share one");
        // UFS-04.
        let others = ["foo", "", "12a", "-5", "12.", ".overview", "aaa", "\u{663}\u{664}\u{665}\u{666}"];
        assert_eq!(others.map(tens), ["aaa"; 8]);
        // UFS-11.
        let schemes = BucketScheme::ALL.map(|scheme| bucket(scheme, "123456"));
        assert_eq!(schemes, ["345", "34/56", "56/34", "456"]);
        assert_eq!(BucketScheme::ALL.map(|scheme| bucket(scheme, "7")), ["000", "00/07", "07/00", "007"]);
    }

    #[test]
    fn a_number_and_its_name_have_the_same_bucket() {
        for scheme in BucketScheme::ALL {
            for n in (0..20_000).chain([99_999, 100_000, 987_654_321, u64::MAX]) {
                assert_eq!(scheme.bucket_of_number(n), scheme.bucket(n.to_string().as_bytes()), "{n}");
            }
            assert_eq!(scheme.name().parse(), Ok(scheme));
            let first = bucket(scheme, "4711");
            assert!(scheme.is_first_level(first.split('/').next().unwrap().as_bytes()));
            assert_eq!(first.split('/').count(), scheme.levels());
        }
        assert_eq!("543".parse::<BucketScheme>(), Err(UnknownScheme));
        assert!(BucketScheme::Tens.is_first_level(b"aaa") && !BucketScheme::Tens.is_first_level(b"0987"));
        assert!(!BucketScheme::Tens.is_first_level(b"12") && BucketScheme::Pairs.is_first_level(b"12"));
    }
}
