//! The groups of users of this machine.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;

/// The system's file of groups.
const GROUPS_FILE: &str = "/etc/group";

/// Changes a file's group to the one that `site.control_group` names.
pub(super) fn give(path: &Path, name: &str) -> io::Result<()> {
    let number = number(name)?;
    chown(path, None, Some(number)).map_err(|error| {
        let why = "the server's user must be a member of the group";
        io::Error::new(
            error.kind(),
            format!("site.control_group: {why} `{name}` to open it the socket: {error}"),
        )
    })
}

/// Returns the number of the group that `site.control_group` names; it may be the number itself.
fn number(name: &str) -> io::Result<u32> {
    let groups = fs::read_to_string(GROUPS_FILE).unwrap_or_default();
    let found = number_in(&groups, name).or_else(|| name.parse().ok());
    let missing = || format!("site.control_group: there is no group `{name}`; make it, or leave out the key");
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing()))
}

fn number_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let number = (fields.next()? == name).then(|| fields.nth(1))??;
        number.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_and_numbers() {
        let groups = "root:x:0:\n# a comment\nnews:x:9:alice,bob\n7:x:8:\nbroken:x\n";
        assert_eq!(number_in(groups, "news"), Some(9));
        assert_eq!(number_in(groups, "7"), Some(8), "a name, not a number");
        for none in ["", "new", "alice", "broken", "9"] {
            assert_eq!(number_in(groups, none), None, "{none}");
        }
        assert_eq!(number("4294967290").unwrap(), 4_294_967_290);
        let refused = number("no such group").unwrap_err().to_string();
        assert!(refused.contains("no group `no such group`"), "{refused}");
    }
}
