//! `newsreel group sync`: copies the groups of another server.

use crate::operated::{Operated, complaints};

fn with_groups(groups: &[(&str, &str, &str)]) -> Operated {
    let site = Operated::new();
    for (name, flag, description) in groups {
        site.run(&["group", "add", name, "--flag", flag, "--description", description]);
    }
    site
}

#[test]
fn groups_are_synced_with_another_server() {
    let there = with_groups(&[
        ("comp.same", "y", "Same"),
        ("comp.closed", "n", "Closed there"),
        ("comp.new", "m", "New and moderated"),
        ("comp.alias", "=comp.same", ""),
        ("rec.other", "y", ""),
    ]);
    let here = with_groups(&[
        ("comp.same", "y", "Same"),
        ("comp.closed", "y", "Open here"),
        ("comp.gone", "y", ""),
        ("rec.gone", "y", ""),
    ]);
    let peer = there.serve();
    let address = peer.client_address();
    let sync = |more: &[&str]| {
        let arguments = [&["group", "sync", &address, "--groups", "comp.*"], more].concat();
        here.run(&arguments)
    };
    let told = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let list = || here.done(&["group", "export"]);
    let before = list();
    let dry = sync(&["--dry-run"]);
    let expected = "add comp.alias =comp.same \nadd comp.new m New and moderated\n\
                    change comp.closed: flag n description Closed there\nnot there comp.gone\n\
                    would be done: 2 groups added, 1 changed, 1 not there, which stay (--remove removes them)\n";
    assert_eq!(told(&dry), expected);
    assert_eq!(list(), before);

    // A third of the groups is more than may be removed without confirmation.
    let refused = sync(&["--remove"]);
    assert!(!refused.status.success() && complaints(&refused).contains("more than 5 %"), "{refused:?}");
    assert_eq!(list(), before, "nothing is done at all");
    for served in [true, false] {
        let serving = served.then(|| here.serve());
        let done = sync(&["--remove", "--remove-max", "34"]);
        let summary = if served {
            "2 groups added, 1 changed, 1 removed\n"
        } else {
            "0 groups added, 0 changed, 0 removed\n"
        };
        assert!(done.status.success() && told(&done).ends_with(summary), "{done:?}");
        drop(serving);
    }
    let after = list();
    for line in
        ["comp.alias =comp.same", "comp.closed n Closed there", "comp.new m New and moderated", "rec.gone y"]
    {
        assert!(after.contains(line), "no {line} in {after}");
    }
    assert!(!after.contains("comp.gone") && !after.contains("rec.other"), "{after}");
    drop(peer);
    let failed = sync(&[]);
    assert!(!failed.status.success() && complaints(&failed).contains(&address), "{failed:?}");
    assert_eq!(list(), after);
}
