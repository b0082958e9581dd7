//! A site of an older version is served by this one, with all data of its operator and readers
//! (`docs/formats/growing.md`).

use crate::operated::Operated;
use crate::unpack::Fixture;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Copies the site of a fixture.
fn site(fixture: &Fixture) -> (Operated, String) {
    let site = Operated::unmade();
    let mut expected = String::new();
    for file in fixture.files() {
        let path = site.dir().join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match file.link {
            Some(link) => fs::hard_link(site.dir().join(link), &path).unwrap(),
            None => fs::write(&path, &file.bytes).unwrap(),
        }
        if file.path == "data/secret" || file.path == "data/users" || file.path == "data/posting-secret" {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        if file.path == "expected" {
            expected = String::from_utf8(file.bytes).unwrap();
        }
    }
    (site, expected)
}

#[test]
fn site_of_each_older_version_is_served_with_all_its_data() {
    for fixture in Fixture::ALL {
        served_with_all_its_data(&fixture);
    }
}

fn served_with_all_its_data(fixture: &Fixture) {
    let (site, expected) = site(fixture);
    // The fixture is old, so expiry and forgetting are disabled.
    site.edit(|text| {
        text.replacen("[site]\n", "[site]\nremember_days = 36500\n", 1).replacen(
            "[moderation]\n",
            "[moderation]\ngive_up_after = \"36500 days\"\n",
            1,
        )
    });
    // Later versions want longer passwords.
    let password: &[u8] = if fixture.version == "b571c6a" { b"secret\n" } else { b"secret of a reader\n" };
    let checked = site.run_with(&["user", "check", "reader"], password);
    assert!(checked.status.success(), "{}", fixture.version);
    let mails = || fs::read_dir(site.dir().join("data/moderation")).unwrap().count();
    assert_eq!(mails(), 1, "a post waits for its moderator");
    let serving = site.serve();
    let mut client = serving.client();
    let mut articles = 0;
    for line in expected.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["group", name, high, _] => {
                // Also for an empty group: a higher mark would show newsreaders articles that never came.
                let answer = client.ask(&format!("GROUP {name}"));
                let fields: Vec<&str> = answer.split(' ').collect();
                let (shown, high): (u64, u64) = (fields[3].parse().unwrap(), high.parse().unwrap());
                assert!((high..=high + fixture.promised).contains(&shown), "{answer}");
            }
            ["article", name, number, id, _] => {
                assert!(client.ask(&format!("GROUP {name}")).starts_with("211 "));
                assert_eq!(client.ask(&format!("STAT {number}")), format!("223 {number} {id}"));
                assert!(client.ask(&format!("ARTICLE {id}")).starts_with("220 "));
                assert!(client.block().iter().any(|line| *line == format!("Message-ID: {id}")));
                articles += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert!(articles > 200);
    // Known from an overwritten article, and from a cancel that came before its article.
    assert!(client.ask("CHECK <3000@origin.example>").starts_with("438 "));
    let status: serde_json::Value = serde_json::from_str(&site.done(&["status", "--json"])).unwrap();
    assert_eq!(status["server"]["early_cancels"], 1);
    assert!(!site.dir().join("data/early-cancels").exists(), "it is part of the journal now");
    assert_eq!(mails(), 1);
    drop(serving);
    site.done(&["verify"]);
}

#[test]
fn snapshot_before_the_first_start_has_what_the_older_version_kept_in_files() {
    for fixture in Fixture::ALL {
        snapshot_has_what_was_kept_in_files(&fixture);
    }
}

fn snapshot_has_what_was_kept_in_files(fixture: &Fixture) {
    let (site, _) = site(fixture);
    site.edit(|text| text.replacen("[site]\n", "[site]\nremember_days = 36500\n", 1));
    let file = site.home().join("news.snapshot");
    assert!(site.dir().join("data/early-cancels").exists());
    site.done(&["snapshot", file.to_str().unwrap()]);
    assert!(!site.dir().join("data/early-cancels").exists(), "it is part of the journal now");
    let restored = Operated::unmade();
    fs::create_dir_all(restored.dir()).unwrap();
    // Compression has no dictionary at first, so the same buffers would not hold all.
    let config = fs::read_to_string(site.dir().join("newsreel.toml")).unwrap();
    let roomy = config.replace("size = \"64 KiB\"", "size = \"1 MiB\"");
    fs::write(restored.dir().join("newsreel.toml"), roomy).unwrap();
    restored.done(&["restore", file.to_str().unwrap()]);
    let _serving = restored.serve();
    let status: serde_json::Value = serde_json::from_str(&restored.done(&["status", "--json"])).unwrap();
    assert_eq!(status["server"]["early_cancels"], 1);
}
