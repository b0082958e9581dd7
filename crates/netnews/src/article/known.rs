//! The header fields this program knows by name.
//!
//! One table has all names; `Known::find` compares lengths and packed octets instead of strings, since it
//! runs for every header line of every article. Called by `Article::parse`, HDR and the checks of
//! proto-articles. Sources: RFC 5536 section 3, RFC 5537, RFC 8315, and the articles of 1993.

/// The longest name in the table.
const NAME_BYTES_MAX: usize = 32;

macro_rules! known {
    ($($variant:ident = $name:literal,)*) => {
        /// A header field known by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Known {
            $(#[doc = $name] $variant,)*
        }

        impl Known {
            /// All known fields, in the order of their values.
            pub const ALL: &'static [Known] = &[$(Known::$variant),*];
            const NAMES: &'static [&'static str] = &[$($name),*];

            /// Returns the name as it is usually written.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Known::$variant => $name,)*
                }
            }
        }
    };
}

known! {
    MessageId = "Message-ID",
    Path = "Path",
    Newsgroups = "Newsgroups",
    From = "From",
    Subject = "Subject",
    Date = "Date",
    References = "References",
    Lines = "Lines",
    Xref = "Xref",
    Control = "Control",
    Approved = "Approved",
    Distribution = "Distribution",
    Expires = "Expires",
    Supersedes = "Supersedes",
    FollowupTo = "Followup-To",
    ReplyTo = "Reply-To",
    Sender = "Sender",
    Organization = "Organization",
    Keywords = "Keywords",
    Summary = "Summary",
    InjectionDate = "Injection-Date",
    InjectionInfo = "Injection-Info",
    NntpPostingDate = "NNTP-Posting-Date",
    NntpPostingHost = "NNTP-Posting-Host",
    XTrace = "X-Trace",
    XComplaintsTo = "X-Complaints-To",
    CancelLock = "Cancel-Lock",
    CancelKey = "Cancel-Key",
    AlsoControl = "Also-Control",
    Archive = "Archive",
    ArchivedAt = "Archived-At",
    UserAgent = "User-Agent",
    MimeVersion = "MIME-Version",
    ContentType = "Content-Type",
    ContentTransferEncoding = "Content-Transfer-Encoding",
    InReplyTo = "In-Reply-To",
    OriginalSender = "Original-Sender",
    XPgpSig = "X-PGP-Sig",
    DateReceived = "Date-Received",
}

/// Number of known header fields.
pub(super) const COUNT: usize = Known::NAMES.len();

/// First and last octets of a name, in lower case: for 4 to 16 octets it holds all of them.
type PackedName = (u64, u64);

const EMPTY: (u8, PackedName, Known) = (0, (0, 0), Known::MessageId);

/// (length, packed name, field), grouped by length; `STARTS[n]..STARTS[n + 1]` are those of length n.
const SORTED: [(u8, PackedName, Known); COUNT] = {
    let mut rows = [EMPTY; COUNT];
    let (mut length, mut filled) = (0, 0);
    while length < NAME_BYTES_MAX {
        let mut i = 0;
        while i < COUNT {
            let name = Known::NAMES[i].as_bytes();
            if name.len() == length
                && let Some(packed) = pack(name)
            {
                rows[filled] = (length as u8, packed, Known::ALL[i]);
                filled += 1;
            }
            i += 1;
        }
        length += 1;
    }
    assert!(filled == COUNT, "a known name is too short or too long");
    rows
};

const STARTS: [u8; NAME_BYTES_MAX + 1] = {
    let mut starts = [0; NAME_BYTES_MAX + 1];
    let mut length = 0;
    while length <= NAME_BYTES_MAX {
        let mut i = 0;
        while i < COUNT {
            if (SORTED[i].0 as usize) < length {
                starts[length] += 1;
            }
            i += 1;
        }
        length += 1;
    }
    starts
};

/// Bit that makes ASCII letters lower case. Setting it merges other octets too, but only letters become
/// letters, and only CR becomes `-`, and no header line contains one before its end. Hence names may contain
/// only letters and `-`.
const SMALL_4: u32 = 0x2020_2020;
const SMALL_8: u64 = 0x2020_2020_2020_2020;

const fn pack(name: &[u8]) -> Option<PackedName> {
    if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        return Some((u64::from_le_bytes(*first) | SMALL_8, u64::from_le_bytes(*last) | SMALL_8));
    }
    if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first) | SMALL_4, u32::from_le_bytes(*last) | SMALL_4);
        return Some(((first as u64) << 32 | last as u64, 0));
    }
    None
}

impl Known {
    /// Returns the field called `name`, in any case. `name` must not contain a CR.
    pub fn find(name: &[u8]) -> Option<Known> {
        let packed = pack(name)?;
        let from = usize::from(*STARTS.get(name.len())?);
        let to = usize::from(*STARTS.get(name.len() + 1)?);
        let (_, _, known) = SORTED.get(from..to)?.iter().find(|(_, key, _)| *key == packed)?;
        let whole = name.len() <= 16 || known.name().as_bytes().eq_ignore_ascii_case(name);
        whole.then_some(*known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        for (i, &known) in Known::ALL.iter().enumerate() {
            assert_eq!(known as usize, i);
            let name = known.name();
            for text in [name.to_string(), name.to_lowercase(), name.to_uppercase()] {
                assert_eq!(Known::find(text.as_bytes()), Some(known), "{text}");
            }
        }
    }

    #[test]
    fn name_with_one_octet_changed_is_not_found() {
        for &known in Known::ALL {
            let name = known.name().as_bytes();
            for at in 0..name.len() {
                for octet in (0x21..0x7f).filter(|&b: &u8| b != b':' && !b.eq_ignore_ascii_case(&name[at])) {
                    let mut other = name.to_vec();
                    other[at] = octet;
                    let found = Known::find(&other);
                    assert!(
                        found.is_none_or(|k| k.name().as_bytes().eq_ignore_ascii_case(&other)),
                        "{other:?}"
                    );
                }
            }
            assert_ne!(Known::find(&name[1..]), Some(known));
            assert_ne!(Known::find(&name[..name.len() - 1]), Some(known));
        }
        assert_eq!(Known::find(b""), None);
        assert_eq!(Known::find(&[b'a'; 300]), None);
    }
}
