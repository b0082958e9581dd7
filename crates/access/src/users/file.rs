//! The text of the users file.
//!
//! Invariant: names are prepared, unique and in the order of the file's lines. A file with an invalid line is
//! rejected as a whole: a program might accept a user who is silently missing. Called by `store` and `edit`.
//! Source: `docs/formats/users.md`.

use super::User;
use super::credentials::{Argon2Hash, ScramKeys, StoredCredentials};
use super::mail::MailMark;
use super::name::prepared;
use disk::{Disk, hex, read_small};
use hashbrown::HashMap;
use site_base::summed::{text_without_sum, with_sum};
use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Name of the file in the site's directory.
pub const FILE_NAME: &str = "users";
/// First word of the file.
const MAGIC: &str = "newsreel-users";
/// Version of the format: with a hash of everything in its last line.
const VERSION: &str = "2";
/// Version of a file in which a user has a mail address.
const VERSION_WITH_MAIL: &str = "3";
/// The previous version, without a hash.
const VERSION_OLD: &str = "1";
/// Longest file that is read, in bytes: about a million users.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// Octets of the decoy secret.
pub(super) const DECOY_BYTES: usize = 16;

/// Reason why a text is not a users file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserTableError {
    /// The first line is not that of a users file of a known version.
    Head,
    /// The hash in the last line is not that of the text.
    Hash,
    /// A line is not that of a user.
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the error.
        what: &'static str,
    },
    /// A user has a second line.
    SecondUser {
        /// Number of the second line, from 1.
        line: usize,
        /// The user's name.
        name: Box<str>,
    },
}

impl fmt::Display for UserTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => {
                write!(f, "line 1: not \"{MAGIC} {VERSION} SECRET\"; it is another version's, or damaged")
            }
            Self::Hash => f.write_str(
                "it is damaged, or was changed by hand: the hash in its last line is of something else",
            ),
            Self::Line { line, what } => write!(f, "line {line}: {what}"),
            Self::SecondUser { line, name } => write!(f, "line {line}: a second user `{name}`"),
        }
    }
}

impl std::error::Error for UserTableError {}

/// A user's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRecord {
    /// The user.
    pub user: User,
    /// Time when the password was last set, or the user was created: Unix seconds.
    pub changed: u64,
    /// `None` if there is no password here; a program or a certificate decides.
    pub credentials: Option<StoredCredentials>,
    /// The mail address of the user.
    pub mail: Option<MailMark>,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserTable {
    /// Secret from which the salts shown for unknown users are made.
    pub decoy: [u8; DECOY_BYTES],
    records: Vec<UserRecord>,
    by_name: HashMap<Box<str>, usize>,
}

impl UserTable {
    /// A file without users.
    pub fn empty(decoy: [u8; DECOY_BYTES]) -> Self {
        Self { decoy, records: Vec::new(), by_name: HashMap::new() }
    }

    /// Returns the line of the user with this prepared name.
    pub fn get(&self, name: &str) -> Option<&UserRecord> {
        self.records.get(*self.by_name.get(name)?)
    }

    /// Returns true if a user has this name, or one that differs in the case of letters alone.
    pub fn has_alike(&self, name: &str) -> bool {
        self.get(name).is_some()
            || self.records.iter().any(|record| record.user.name.eq_ignore_ascii_case(name))
    }

    /// Returns all users, in the order of their lines.
    pub fn iter(&self) -> impl Iterator<Item = &UserRecord> {
        self.records.iter()
    }

    /// Returns true if there is no user.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds a record, replacing one with the same name.
    pub fn put(&mut self, record: UserRecord) {
        let at = *self.by_name.entry(record.user.name.clone()).or_insert(self.records.len());
        match self.records.get_mut(at) {
            Some(old) => *old = record,
            None => self.records.push(record),
        }
    }

    /// Removes a user; returns false if there is none of that name.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.records.len();
        self.records.retain(|record| &*record.user.name != name);
        let names = self.records.iter().enumerate();
        self.by_name = names.map(|(at, record)| (record.user.name.clone(), at)).collect();
        self.records.len() < before
    }

    /// Returns true if any user is in `group`.
    pub fn has_group(&self, group: &str) -> bool {
        self.records.iter().any(|record| record.user.groups.iter().any(|own| &**own == group))
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let has_mail = self.records.iter().any(|record| record.mail.is_some());
        let version = if has_mail { VERSION_WITH_MAIL } else { VERSION };
        let mut text = format!("{MAGIC} {version} {}\n", hex::digits(&self.decoy));
        for record in &self.records {
            let groups = record.user.groups.join(",");
            let (argon2, scram) = match &record.credentials {
                Some(made) => (made.argon2.as_str().to_owned(), made.scram.to_string()),
                None => ("-".to_owned(), "-".to_owned()),
            };
            let (name, changed) = (&record.user.name, record.changed);
            // Writing to a String does not fail.
            let _infallible = write!(text, "{name}\t{groups}\t{changed}\t{argon2}\t{scram}");
            if has_mail {
                let mail = record.mail.as_ref().map_or("-".to_owned(), MailMark::to_string);
                let _infallible = write!(text, "\t{mail}");
            }
            text.push('\n');
        }
        with_sum(text)
    }

    /// Parses the text of the file.
    pub fn parse(text: &str) -> Result<Self, UserTableError> {
        let head = text.lines().next().unwrap_or_default();
        let (decoy, version) = parse_head(head).ok_or(UserTableError::Head)?;
        let text = match version {
            VERSION_OLD => text,
            _ => text_without_sum(text.as_bytes()).ok_or(UserTableError::Hash)?,
        };
        let mut lines = text.lines();
        let _head = lines.next();
        let mut table = Self::empty(decoy);
        for (at, text) in lines.enumerate() {
            let line = at + 2;
            let has_mail = version == VERSION_WITH_MAIL;
            let record = parse_record(text, has_mail).map_err(|what| UserTableError::Line { line, what })?;
            if table.by_name.contains_key(&record.user.name) {
                return Err(UserTableError::SecondUser { line, name: record.user.name });
            }
            table.put(record);
        }
        Ok(table)
    }
}

fn parse_head(line: &str) -> Option<([u8; DECOY_BYTES], &str)> {
    let (version, secret) = line.strip_prefix(MAGIC)?.strip_prefix(' ')?.split_once(' ')?;
    if ![VERSION, VERSION_OLD, VERSION_WITH_MAIL].contains(&version) {
        return None;
    }
    Some((hex::octets(secret.as_bytes())?, version))
}

fn parse_record(line: &str, has_mail: bool) -> Result<UserRecord, &'static str> {
    let (line, mail) = match line.rsplit_once('\t') {
        Some((line, "-")) if has_mail => (line, None),
        Some((line, mail)) if has_mail => {
            (line, Some(MailMark::parse(mail).ok_or("not a mark of an address")?))
        }
        _ => (line, None),
    };
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, groups, changed, argon2, scram] = fields.as_slice() else {
        return Err("not five fields with TABs between");
    };
    let name = prepared(name.as_bytes()).filter(|prepared| prepared == name).ok_or("not a name")?;
    let groups: Vec<&str> = groups.split(',').filter(|group| !group.is_empty()).collect();
    if !groups.iter().all(|group| is_group_name(group)) {
        return Err("not names of groups");
    }
    let credentials = match (*argon2, *scram) {
        ("-", "-") => None,
        (argon2, scram) => Some(StoredCredentials {
            argon2: Argon2Hash::parse(argon2).ok_or("not an Argon2 hash, or one that asks for too much")?,
            scram: ScramKeys::parse(scram).ok_or("not SCRAM-SHA-256 keys")?,
        }),
    };
    Ok(UserRecord {
        user: User::new(name, groups),
        changed: changed.parse().map_err(|_| "not a time")?,
        credentials,
        mail,
    })
}

/// Longest name of a group of users, in bytes; as in the configuration.
const GROUP_NAME_BYTES_MAX: usize = 15;

/// Returns true if `name` is valid for a group of users.
pub fn is_group_name(name: &str) -> bool {
    (1..=GROUP_NAME_BYTES_MAX).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// Returns true if the users file is whole.
pub fn is_whole(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| UserTable::parse(text).is_ok())
}

/// Reads the users file in `data`; `None` if there is none.
pub fn load(disk: &dyn Disk, data: &Path) -> io::Result<Option<UserTable>> {
    let path = data.join(FILE_NAME);
    let Some(bytes) = read_small(disk, &path, FILE_BYTES_MAX)? else { return Ok(None) };
    let invalid = |what: &dyn fmt::Display| {
        io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()))
    };
    let text = std::str::from_utf8(&bytes).map_err(|error| invalid(&error))?;
    UserTable::parse(text).map(Some).map_err(|error| invalid(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, groups: &[&str], password: Option<&[u8]>) -> UserRecord {
        UserRecord {
            user: User::new(name, groups.iter().copied()),
            changed: 1_234_567_890,
            credentials: password.map(|password| StoredCredentials::new(password).unwrap()),
            mail: None,
        }
    }

    #[test]
    fn written_file_reads_back_the_same() {
        let mut table = UserTable::empty([7; DECOY_BYTES]);
        table.put(record("fred", &["staff", "moderators"], Some(b"flintstone")));
        table.put(record("wilma", &[], None));
        let text = table.text();
        assert!(text.starts_with("newsreel-users 2 07070707070707070707070707070707\nfred\tstaff,moderators\t1234567890\t$argon2id$"));
        assert!(text.contains("\nwilma\t\t1234567890\t-\t-\nsum "));
        let old = text_without_sum(text.as_bytes()).unwrap().replacen(" 2 ", " 1 ", 1);
        assert_eq!(UserTable::parse(&old).unwrap(), table, "as earlier versions wrote it");
        for at in 0..text.len() {
            let mut flipped = text.clone().into_bytes();
            flipped[at] ^= 1;
            assert!(!is_whole(&flipped) && !is_whole(&text.as_bytes()[..at]), "{at}");
        }
        let mut again = UserTable::parse(&text).unwrap();
        assert_eq!(again, table);
        assert!(again.has_group("staff") && !again.has_group("staf"));
        assert!(again.remove("fred") && !again.remove("fred"));
        assert!(again.get("fred").is_none() && again.get("wilma").is_some());
    }

    #[test]
    fn a_file_with_mail_addresses_has_a_version_of_its_own() {
        let mut table = UserTable::empty([7; DECOY_BYTES]);
        let mail = Some(MailMark::of(&table, "fred@example.org"));
        table.put(UserRecord { mail, ..record("fred", &["web"], Some(b"flintstone")) });
        table.put(record("wilma", &[], None));
        let text = table.text();
        assert!(text.starts_with("newsreel-users 3 ") && !text.contains("example.org"), "{text}");
        assert!(text.contains("\nwilma\t\t1234567890\t-\t-\t-\nsum "), "{text}");
        assert_eq!(UserTable::parse(&text), Ok(table.clone()));
        table.remove("fred");
        assert!(table.text().starts_with("newsreel-users 2 "), "earlier versions read it again");
    }

    #[test]
    fn errors_name_the_damaged_line() {
        let head = format!("newsreel-users 1 {}\n", "ab".repeat(DECOY_BYTES));
        for (text, expected) in [
            (String::new(), "line 1: "),
            ("newsreel-users 3 ab\n".to_owned(), "line 1: "),
            (format!("{head}fred\n"), "line 2: not five fields"),
            (format!("{head}a b\t\t1\t-\t-\n"), "line 2: not a name"),
            (format!("{head}a\t\t1\t-\t-\na\t\t1\t-\t-\n"), "line 3: a second user `a`"),
            (format!("{head}a\tx y\t1\t-\t-\n"), "line 2: not names of groups"),
            (format!("{head}a\t\tsoon\t-\t-\n"), "line 2: not a time"),
            (format!("{head}a\t\t1\t$argon2id$\t-\n"), "line 2: not an Argon2 hash"),
        ] {
            let error = UserTable::parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
