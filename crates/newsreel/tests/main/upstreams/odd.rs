//! Unusual behaviour of correct servers, and limits on what any server may cost.

use super::caching::{processor_time, resident_bytes};
use super::fake::{Fake, Fault, id};
use super::{article_of, section, showing};
use crate::operated::Operated;
use crate::waiting::wait_until;
use std::time::{Duration, Instant};

/// Memory that a list may use at most, in bytes.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

#[test]
fn upward_renumbering_of_a_cached_group_is_noticed() {
    for with_rows in [true, false] {
        let fake = Fake::with("comp.a", 12, 500);
        let server = showing(&[section("fake", fake.address, "")]);
        let mut client = server.client();
        assert_eq!(client.ask("GROUP comp.a"), "211 12 1 12 comp.a");
        if with_rows {
            assert!(client.ask("OVER 1-12").starts_with("224 "));
            client.block();
        }
        for number in 1..=12 {
            article_of(&mut client, &format!("ARTICLE {number}")).unwrap();
        }
        fake.change(|groups| {
            let group = groups.get_mut("comp.a").unwrap();
            group.articles =
                std::mem::take(&mut group.articles).into_iter().map(|(n, text)| (n + 3, text)).collect();
            group.high = 15;
        });
        assert!(client.ask("STAT 5").starts_with("403 "), "{with_rows}");
        assert_eq!(client.ask("GROUP comp.a"), "211 12 4 15 comp.a");
        assert_eq!(client.ask("STAT 5"), format!("223 5 {}", id("comp.a", 2)));
        let article = article_of(&mut client, "ARTICLE 4").unwrap();
        assert!(article.contains(&format!("Message-ID: {}", id("comp.a", 1))), "{article:?}");
    }
}

#[test]
fn articles_with_bare_cr_or_lf_are_absent_without_blaming_the_server() {
    let fake = Fake::with("comp.a", 6, 500);
    fake.put("comp.a", 5, 100_000);
    fake.change(|groups| {
        for (number, odd) in [(2, "xx\rxx"), (3, "xx\nxx"), (4, "x\n.\nx")] {
            let article = groups.get_mut("comp.a").unwrap().articles.get_mut(&number).unwrap();
            article.push_str(&format!("{odd}\r\n"));
        }
        let large = groups.get_mut("comp.a").unwrap().articles.get_mut(&5).unwrap();
        large.push_str("xx\rxx\r\n");
    });
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 6 "));
    for number in [2, 3, 4] {
        assert!(client.ask(&format!("ARTICLE {}", id("comp.a", number))).starts_with("430 "), "{number}");
        assert!(client.ask(&format!("ARTICLE {number}")).starts_with("423 "), "{number}");
    }
    for number in [1, 6] {
        assert!(article_of(&mut client, &format!("ARTICLE {number}")).is_some(), "{number}");
    }
    // Part of a large one was shown before the detection, so it does not end.
    fake.hold(Some(90_000));
    assert!(client.ask("ARTICLE 5").starts_with("220 "));
    fake.hold(None);
    assert!(!client.rest().ends_with("\r\n.\r\n"));
    let upstream = &server.status()["upstreams"][0];
    assert_eq!(upstream["wrong"].as_u64().unwrap_or_default(), 0, "{upstream}");
    assert_eq!(upstream["failures"].as_u64().unwrap_or_default(), 0, "{upstream}");
}

#[test]
fn large_article_with_an_early_bare_cr_is_not_started() {
    let fake = Fake::with("comp.a", 1, 500);
    (2..=3).for_each(|number| fake.put("comp.a", number, 100_000));
    fake.change(|groups| {
        let articles = &mut groups.get_mut("comp.a").unwrap().articles;
        for (number, from, to) in [(2, "xxxx\r\n", "xx\rx\r\n"), (3, "Subject: S", "Subject: S\r")] {
            let article = articles.get_mut(&number).unwrap();
            *article = article.replace(from, to);
        }
    });
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 3 "));
    for number in 2..=3 {
        // More has arrived than is held back of a large article.
        fake.hold(Some(90_000));
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                fake.wait_until_held();
                // Asked of the upstream, and answered after what it has sent before.
                assert!(server.client().ask("GROUP comp.a").starts_with("211 3 "));
                fake.hold(None);
            });
            client.ask(&format!("ARTICLE {number}"))
        });
        assert!(answer.starts_with("423 "), "{number}: {answer}");
    }
    assert!(client.ask("HEAD 3").starts_with("423 "));
    assert!(article_of(&mut client, "ARTICLE 1").is_some());
    let upstream = &server.status()["upstreams"][0];
    assert_eq!(upstream["wrong"].as_u64().unwrap_or_default(), 0, "{upstream}");
}

#[test]
fn nothing_is_kept_of_a_refused_answer() {
    let commands = ["OVER 1-10", "LISTGROUP comp.a", "HDR Newsgroups 1-10"];
    for (fault, lied_to) in [(Fault::Descending, &commands[..]), (Fault::RowAgain, &commands[..1])] {
        for refused in lied_to {
            let fake = Fake::with("comp.a", 10, 500);
            let server = showing(&[section("fake", fake.address, "")]);
            let mut client = server.client();
            assert!(client.ask("GROUP comp.a").starts_with("211 10 "));
            fake.fail(fault);
            // If a part was shown before, the connection ends.
            let answer = client.ask(refused);
            assert!(
                answer.starts_with("403 ") || !client.rest().ends_with("\r\n.\r\n"),
                "{fault:?} {refused}: {answer}"
            );
            fake.fail(Fault::None);
            let mut client = server.client();
            assert!(client.ask("GROUP comp.a").starts_with("211 10 "));
            for (command, lines) in [("OVER 3-7", 5), ("OVER 1-10", 10), (commands[1], 10), (commands[2], 10)]
            {
                let answer = client.ask(command);
                assert!(answer.starts_with('2'), "{fault:?} {refused}, {command}: {answer}");
                assert_eq!(client.block().len(), lines, "{fault:?} {refused}, {command}");
            }
        }
    }
}

#[test]
fn article_without_body_is_not_shown_or_kept() {
    let (liar, honest) = (Fake::with("comp.a", 2, 200), Fake::with("comp.a", 2, 200));
    let alone = showing(&[section("liar", liar.address, "")]);
    let filled =
        showing(&[section("liar", liar.address, ""), section("honest", honest.address, "fill = true")]);
    for (server, is_filled) in [(&alone, false), (&filled, true)] {
        liar.fail(Fault::None);
        let mut client = server.client();
        assert!(client.ask("GROUP comp.a").starts_with("211 "));
        let right = article_of(&mut client, "ARTICLE 1").unwrap();
        assert!(client.ask("OVER 1-2").starts_with("224 "));
        client.block();
        liar.fail(Fault::NoBody);
        let article = article_of(&mut client, "ARTICLE 2");
        assert_eq!(article.map(|lines| lines.len()), is_filled.then_some(right.len()), "{is_filled}");
        liar.fail(Fault::None);
        assert_eq!(article_of(&mut client, "ARTICLE 2").unwrap().len(), right.len(), "{is_filled}");
    }
}

#[test]
fn endless_list_costs_little_memory_and_time() {
    let (fake, site) = (Fake::with("comp.a", 6, 500), Operated::new());
    site.edit(|text| text + &section("fake", fake.address, ""));
    let serving = site.serve();
    let mut client = serving.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 6 "));
    let (before, used) = (resident_bytes(serving.pid()), processor_time(serving.pid()));
    fake.fail(Fault::EndlessList);
    assert!(client.ask("LISTGROUP comp.a").starts_with("403 "));
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    let shown = client.rest();
    assert!(!shown.ends_with("\r\n.\r\n"));
    // On a busy machine it takes longer by the clock.
    let used = processor_time(serving.pid()).saturating_sub(used);
    assert!(used < Duration::from_secs(20), "{used:?} of processor time");
    let more = resident_bytes(serving.pid()).saturating_sub(before);
    println!("{more} bytes more, {used:?} of processor time");
    assert!(more < MEMORY_BYTES_MAX, "{more} bytes");
}

/// The first reader's list is cut off; after that the list is not requested for a while, and never for a
/// pattern that the upstream's groups cannot match.
#[test]
fn endless_list_costs_other_upstreams_groups_one_answer() {
    let (endless, honest) = (Fake::with("comp.a", 6, 500), Fake::with("misc.a", 6, 500));
    let of = |fake: &Fake, name: &str, groups: &str| {
        section(name, fake.address, &format!("groups = \"{groups}\""))
    };
    let server = showing(&[of(&endless, "endless", "comp.*"), of(&honest, "honest", "misc.*")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 6 "));
    endless.fail(Fault::EndlessList);
    assert!(client.ask("LIST ACTIVE misc.*").starts_with("215 "));
    assert_eq!(client.block(), ["misc.a 6 1 y"]);
    assert_eq!(endless.take("LIST"), [""; 0]);
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    drop(client);
    wait_until("the list is given up", || server.status()["upstreams"][0]["wrong"].as_u64() == Some(1));
    assert_eq!(endless.take("LIST").len(), 1);
    wait_until("readers no longer get the list that is given up", || {
        let mut client = server.client();
        client.send("LIST ACTIVE\r\nQUIT\r\n");
        client.rest().lines().next_back().is_some_and(|line| line.starts_with("205 "))
    });
    for command in ["LIST ACTIVE", "LIST COUNTS", "LIST ACTIVE *.a"] {
        let begun = Instant::now();
        let mut client = server.client();
        assert!(client.ask(command).starts_with('2'), "{command}");
        let groups = client.block();
        assert!(groups.iter().all(|line| line.starts_with("misc.a ")), "{command}: {groups:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{command}: {:?}", begun.elapsed());
    }
    assert_eq!(endless.take("LIST"), [""; 0]);
    // Everything else is asked as before.
    assert!(server.client().ask("GROUP comp.a").starts_with("211 6 "));
}

#[test]
fn group_uses_the_marks_of_a_recent_list() {
    let fake = Fake::with("comp.a", 6, 500);
    (1..=20).for_each(|number| fake.put(&format!("comp.g{number}"), number, 500));
    let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"");
    let server = showing(&[own]);
    let mut client = server.client();
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    assert_eq!(client.block().len(), 21);
    for number in 1..=20 {
        assert_eq!(
            client.ask(&format!("GROUP comp.g{number}")),
            format!("211 1 {number} {number} comp.g{number}")
        );
    }
    assert_eq!(client.ask("GROUP comp.a"), "211 6 1 6 comp.a");
    assert_eq!(fake.take("GROUP"), [""; 0]);
    // A group missing in the list is requested.
    fake.put("comp.new", 1, 500);
    assert_eq!(client.ask("GROUP comp.new"), "211 1 1 1 comp.new");
    assert_eq!(fake.take("GROUP"), ["GROUP comp.new"]);
}

#[test]
fn invalid_message_ids_are_not_requested() {
    let fake = Fake::with("comp.a", 1, 500);
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    for command in ["STAT", "HEAD", "BODY", "ARTICLE", "OVER", "HDR Subject", "XHDR Subject"] {
        assert!(client.ask(&format!("{command} <a>")).starts_with("501 "), "{command}");
    }
    assert_eq!(fake.take(""), [""; 0]);
}

#[test]
fn texts_of_an_upstream_are_passed_on_as_configured() {
    let fake = Fake::with("comp.a", 1, 500);
    let all =
        "pass_lists = [\"motd\", \"SUBSCRIPTIONS\", \"DISTRIBUTIONS\", \"DISTRIB.PATS\", \"MODERATORS\"]";
    let site = Operated::new();
    site.edit(|text| text + &section("fake", fake.address, all));
    let serving = site.serve();
    for (list, lines) in [("DISTRIBUTIONS", &["usa In the USA"]), ("DISTRIB.PATS", &["10:local.*:local"])] {
        let mut client = serving.client();
        assert!(client.ask(&format!("LIST {list}")).starts_with("215 "), "{list}");
        assert_eq!(client.block(), lines, "{list}");
    }
    let mut client = serving.client();
    client.ask("CAPABILITIES");
    let lists = client.block().into_iter().find(|line| line.starts_with("LIST ")).unwrap();
    assert!(lists.contains(" DISTRIBUTIONS ") && lists.contains(" DISTRIB.PATS "), "{lists}");
    // By default no upstream is asked.
    let server = showing(&[section("fake", fake.address, "")]);
    server.client().ask("LIST DISTRIBUTIONS");
    assert_eq!(fake.take("LIST DISTRIBUTIONS").len(), 1);
}

#[test]
fn unreadable_row_costs_no_other_row_and_is_made_from_its_article() {
    for fault in [Fault::BrokenRow, Fault::RowTwice, Fault::TabInRow, Fault::RowWithoutId] {
        let fake = Fake::with("comp.a", 20, 500);
        fake.fail(fault);
        let server = showing(&[section("fake", fake.address, "")]);
        let mut client = server.client();
        assert!(client.ask("GROUP comp.a").starts_with("211 20 "));
        for range in ["1-20", "3", "2-4"] {
            assert!(client.ask(&format!("OVER {range}")).starts_with("224 "), "{fault:?} {range}");
            let rows = client.block();
            let row = rows.iter().find(|row| row.starts_with("3\t")).unwrap();
            let fields: Vec<_> = row.split('\t').collect();
            assert_eq!((fields[1], fields[4]), ("S 3", id("comp.a", 3).as_str()), "{fault:?} {range}");
            let numbers: Vec<u64> =
                rows.iter().map(|row| row.split('\t').next().unwrap().parse().unwrap()).collect();
            assert!(numbers.is_sorted_by(|one, next| one < next), "{fault:?} {range}: {numbers:?}");
            assert_eq!(numbers.len(), if range == "1-20" { 20 } else { numbers.len().min(3) });
        }
        assert!(article_of(&mut client, "ARTICLE 3").is_some(), "{fault:?}");
    }
}

#[test]
fn malformed_message_id_costs_no_other_article() {
    let fake = Fake::with("comp.a", 20, 500);
    fake.change(|groups| {
        let article = groups.get_mut("comp.a").unwrap().articles.get_mut(&3).unwrap();
        *article = article.replacen(&id("comp.a", 3), "<a b@x>", 1);
    });
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 20 "));
    for (range, rows) in [("1-20", 19), ("2-4", 2)] {
        assert!(client.ask(&format!("OVER {range}")).starts_with("224 "), "{range}");
        assert_eq!(client.block().len(), rows, "{range}");
    }
    assert!(client.ask("NEWNEWS comp.a 20000101 000000 GMT").starts_with("230 "));
    assert_eq!(client.block().len(), 19);
}

#[test]
fn gap_of_numbers_costs_no_questions() {
    for high in [2_147_483_647, 1 << 40] {
        let fake = Fake::with("comp.a", 20, 500);
        fake.put("comp.a", high, 500);
        let server = showing(&[section("fake", fake.address, "")]);
        let mut client = server.client();
        assert!(client.ask("GROUP comp.a").starts_with(&format!("211 21 1 {high} ")));
        fake.take("");
        for (command, count) in
            [("OVER 1-", 21), ("XOVER 1-20", 20), ("HDR Subject 1-", 21), ("LISTGROUP", 21)]
        {
            assert!(client.ask(command).starts_with('2'), "{command}");
            assert_eq!(client.block().len(), count, "{command}");
        }
        assert!(client.ask(&format!("OVER {}-", high - 10)).starts_with("224 "));
        assert_eq!(client.block().len(), 1);
        let asked = fake.take("");
        assert!(asked.len() < 20, "{} questions: {:?}", asked.len(), asked.first());
    }
}

#[test]
fn next_article_is_found_after_thousands_that_expired() {
    let fake = Fake::with("comp.a", 3, 100);
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 3 "));
    fake.change(|groups| groups.get_mut("comp.a").unwrap().articles.clear());
    fake.put("comp.a", 9_000, 100);
    assert!(client.ask("NEXT").starts_with("223 9000 "));
    assert!(client.ask("LAST").starts_with("422 "));
}

#[test]
fn renumbering_is_noticed_when_a_row_or_an_article_shows_it() {
    for (known, shown_by) in [("ARTICLE 3", "OVER 1-12"), ("OVER 1-12", "ARTICLE 3")] {
        let fake = Fake::with("comp.a", 12, 500);
        let server = showing(&[section("fake", fake.address, "")]);
        let mut client = server.client();
        assert!(client.ask("GROUP comp.a").starts_with("211 12 "));
        assert!(client.ask(known).starts_with("22"));
        client.block();
        assert!(client.ask("HDR Newsgroups 1-12").starts_with("225 "));
        client.block();
        // The newest articles, by which renumbering is noticed otherwise, stay.
        fake.change(|groups| {
            let article = groups.get_mut("comp.a").unwrap().articles.get_mut(&3).unwrap();
            *article = article.replace("<3.", "<other.");
        });
        let answer = client.ask(shown_by);
        if answer.starts_with("22") {
            client.block();
        }
        assert!(client.ask("STAT 3").starts_with("403 "), "{shown_by}: {answer}");
        assert!(client.ask("GROUP comp.a").starts_with("211 12 "));
        assert_eq!(client.ask("STAT 3"), "223 3 <other.comp.a@fake.example>");
        fake.take("");
        assert!(client.ask("HDR Newsgroups 1-12").starts_with("225 "));
        client.block();
        assert_eq!(fake.take("HDR"), ["HDR Newsgroups 1-12"]);
    }
}

#[test]
fn refused_list_of_numbers_leaves_the_selected_group() {
    let fake = Fake::with("comp.a", 5, 500);
    (1..=3).for_each(|number| fake.put("comp.b", number, 500));
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 5 "));
    assert!(client.ask("STAT 2").starts_with("223 "));
    fake.fail(Fault::Descending);
    assert!(client.ask("LISTGROUP comp.b").starts_with("403 "));
    fake.fail(Fault::None);
    assert_eq!(client.ask("STAT"), format!("223 2 {}", id("comp.a", 2)));
}

#[test]
fn article_that_always_breaks_off_leaves_the_groups_of_its_upstream_available() {
    let fake = Fake::with("comp.a", 6, 500);
    (1..=9).for_each(|n| fake.put(&format!("comp.b{n}"), 1, 500));
    let server = showing(&[section("fake", fake.address, "")]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 6 "));
    fake.fail(Fault::BreaksOffAt(5));
    for n in 1..=9 {
        assert!(client.ask("ARTICLE 5").starts_with("403 "), "{n}");
        assert!(server.client().ask(&format!("GROUP comp.b{n}")).starts_with("211 1 "), "{n}");
    }
    assert!(article_of(&mut client, "ARTICLE 6").is_some());
}

#[test]
fn renumbering_of_a_group_of_which_only_old_articles_are_known_is_noticed() {
    for known in ["OVER 1-50", "ARTICLE 50"] {
        let fake = Fake::with("comp.a", 100, 200);
        let server = showing(&[section("fake", fake.address, "")]);
        let mut client = server.client();
        assert!(client.ask("GROUP comp.a").starts_with("211 100 "));
        assert!(client.ask(known).starts_with("22"), "{known}");
        client.block();
        fake.change(|groups| {
            let group = groups.get_mut("comp.a").unwrap();
            for (number, article) in &mut group.articles {
                *article = article.replace(&format!("<{number}."), &format!("<other{number}."));
            }
        });
        (101..=120).for_each(|number| fake.put("comp.a", number, 200));
        assert!(client.ask("GROUP comp.a").starts_with("211 120 "), "{known}");
        assert_eq!(client.ask("STAT 50"), "223 50 <other50.comp.a@fake.example>", "{known}");
    }
}
