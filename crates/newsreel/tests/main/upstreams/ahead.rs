//! Pipelined commands of a client are fetched together: over a slow link they take as long as directly.

use super::fake::{Fake, Fault, id};
use super::{fake_article, section, showing};
use crate::client::Client;
use crate::link::Link;
use crate::running::Server;
use std::time::{Duration, Instant};

/// Delay of a link on which a request takes a fifth of a second.
const ONE_WAY: Duration = Duration::from_millis(100);
/// Permitted duration relative to a direct connection, in tenths.
const TENTHS_MAX: u32 = 13;
/// Delay that other tests may add on the same machine. Round trips are counted, so that time is only to show
/// other waits.
const BUSY_MAX: Duration = Duration::from_secs(1);

/// Starts a server in front of this upstream, over such a link, with a connection that was used before.
fn warm(fake: &Fake, more: &str) -> (Link, Server, Client) {
    let link = Link::to(fake.address, ONE_WAY);
    let own = section("fake", link.address(), more).replace("\"0 s\"", "\"1 h\"");
    let server = showing(&[own]);
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    (link, server, client)
}

/// Sends all commands in one write and reads their responses, with blocks; also returns the duration.
fn pipelined(client: &mut Client, commands: &[String]) -> (Vec<(String, Vec<String>)>, Duration) {
    let begun = Instant::now();
    client.send(commands.concat());
    let answer = |_| {
        let line = client.line();
        let has_block = ["220 ", "221 ", "222 ", "224 ", "225 "].iter().any(|code| line.starts_with(code));
        let block = if has_block { client.block() } else { Vec::new() };
        (line, block)
    };
    (commands.iter().map(answer).collect(), begun.elapsed())
}

/// Runs the commands directly and through the server; returns the server's responses, and the number of round
/// trips.
fn compared(
    link: &Link,
    client: &mut Client,
    fake: &Fake,
    what: &str,
    commands: &[String],
) -> Vec<(String, Vec<String>)> {
    let mut direct = Client::greeted(link.address());
    direct.ask("GROUP comp.a");
    let (right, there) = pipelined(&mut direct, commands);
    fake.take("");
    let (mut answers, mut here) = (Vec::new(), Duration::ZERO);
    let trips = link.round_trips(|| (answers, here) = pipelined(client, commands));
    println!("{} {what}: there {there:?}, here {here:?}", commands.len());
    assert_eq!(trips, 1, "{what}: {:?}", fake.take(""));
    assert!(here <= there * TENTHS_MAX / 10 + BUSY_MAX, "{what}: there {there:?}, here {here:?}");
    let codes = |answers: &[(String, Vec<String>)]| -> Vec<String> {
        answers.iter().map(|(line, _)| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(codes(&answers), codes(&right), "{what}");
    answers
}

fn each(range: std::ops::RangeInclusive<u64>, command: impl Fn(u64) -> String) -> Vec<String> {
    range.map(|number| command(number) + "\r\n").collect()
}

#[test]
fn pipelined_articles_take_as_long_as_directly() {
    let fake = Fake::with("comp.a", 200, 2_000);
    let (link, server, mut client) = warm(&fake, "");
    for (what, from, by_id) in [("ARTICLE", 1, false), ("ARTICLE", 41, true), ("HEAD", 81, false)] {
        let which = |number: u64| if by_id { id("comp.a", number) } else { number.to_string() };
        let commands = each(from..=from + 39, |number| format!("{what} {}", which(number)));
        let answers = compared(&link, &mut client, &fake, what, &commands);
        for (number, (_, block)) in (from..).zip(&answers) {
            let right = fake_article(&fake, number);
            let right: Vec<_> = if what == "HEAD" { right.split("\r\n\r\n").next().unwrap() } else { &right }
                .lines()
                .collect();
            assert_eq!(block, &right, "{what} {number}");
        }
    }
    // Each of them came from there, once.
    assert_eq!(fake.take("ARTICLE"), [""; 0]);
    let stats = server.status()["cache"].clone();
    assert_eq!(stats["article"]["hits"].as_u64().unwrap_or_default(), 0, "{stats}");
}

#[test]
fn pipelined_group_and_stat_take_as_long_as_directly() {
    let fake = Fake::with("comp.a", 60, 500);
    (0..20).for_each(|at| fake.put(&format!("comp.g{at:02}"), at + 1, 500));
    let (link, _server, mut client) = warm(&fake, "");
    let groups = each(0..=19, |at| format!("GROUP comp.g{at:02}"));
    let answers = compared(&link, &mut client, &fake, "GROUP", &groups);
    for (at, (line, _)) in (0..).zip(&answers) {
        assert_eq!(*line, format!("211 1 {0} {0} comp.g{at:02}", at + 1));
    }
    let existence = each(41..=80, |number| format!("STAT {}", id("comp.a", number)));
    let answers = compared(&link, &mut client, &fake, "STAT", &existence);
    assert_eq!(answers.iter().filter(|(line, _)| line.starts_with("223 ")).count(), 20);
    // Missing articles are looked up once, and known marks are not requested again.
    fake.take("");
    pipelined(&mut client, &groups);
    assert_eq!(fake.take(""), [""; 0]);
}

#[test]
fn articles_pipelined_after_group_are_requested_together() {
    let fake = Fake::with("comp.a", 1, 500);
    (1..=20).for_each(|number| fake.put("comp.b", number, 2_000));
    let (link, _server, mut client) = warm(&fake, "");
    let commands = [vec!["GROUP comp.b\r\n".to_owned()], each(1..=20, |n| format!("BODY {n}"))].concat();
    let trips = link.round_trips(|| {
        let (answers, _) = pipelined(&mut client, &commands);
        assert!(answers[1..].iter().all(|(line, block)| line.starts_with("222 ") && block.len() > 20));
    });
    assert_eq!(trips, 2, "{:?}", fake.take(""));
}

#[test]
fn pipelined_overview_takes_as_long_as_it_would_there() {
    let fake = Fake::with("comp.a", 3_100, 300);
    let (link, _server, mut client) = warm(&fake, "");
    let one = |command: &'static str| move |number: u64| format!("{command} {number}");
    // Too far from each other for what is between them to be fetched as well.
    let some = |number: u64| format!("XOVER {}-{}", 600 + number * 60, 609 + number * 60);
    for (what, commands) in [
        ("OVER", each(1..=40, one("OVER"))),
        ("every third", each(1..=40, |number| format!("OVER {}", 100 + number * 3))),
        ("downwards", each(1..=40, |number| format!("XOVER {}", 300 - number * 3))),
        ("XHDR", each(401..=440, one("XHDR Subject"))),
        ("STAT", each(501..=540, one("STAT"))),
        ("ranges", each(1..=40, some)),
    ] {
        let answers = compared(&link, &mut client, &fake, what, &commands);
        let (first, last) = (&answers[0], answers.last().unwrap());
        let asked = commands[0].split([' ', '-']).find_map(|word| word.trim().parse::<u64>().ok());
        let begins = format!("{}", asked.unwrap());
        let is_first = |row: &String| row.split(['\t', ' ']).next() == Some(&begins);
        let is_stat = what == "STAT";
        assert!(is_stat || first.1.first().is_some_and(is_first), "{what}: {first:?}");
        let rows = match what {
            "STAT" => 0,
            "ranges" => 10,
            _ => 1,
        };
        assert_eq!((first.1.len(), last.1.len()), (rows, rows), "{what}");
    }
    // Nothing is asked for again.
    let trips = link.round_trips(|| _ = pipelined(&mut client, &each(1..=40, one("OVER"))));
    assert_eq!(trips, 0);
}

#[test]
fn pipelined_steps_to_neighbours_take_two_round_trips() {
    let fake = Fake::with("comp.a", 200, 300);
    fake.change(|groups| _ = groups.get_mut("comp.a").unwrap().articles.remove(&7));
    let (link, _server, mut client) = warm(&fake, "");
    assert!(client.ask("STAT 1").starts_with("223 1 "));
    let mut answers = Vec::new();
    let trips = link.round_trips(|| (answers, _) = pipelined(&mut client, &each(1..=40, |_| "NEXT".into())));
    let stepped: Vec<_> =
        answers.iter().map(|(line, _)| line.split(' ').nth(1).unwrap().to_owned()).collect();
    let right: Vec<_> = (2..=42).filter(|number| *number != 7).map(|number| number.to_string()).collect();
    assert_eq!(stepped, right);
    // The numbers, and the rows.
    assert!(trips <= 2, "{trips}: {:?}", fake.take(""));
}

#[test]
fn pipelined_responses_are_independent_of_each_other() {
    let (fake, other) = (Fake::with("comp.a", 60, 3_000), Fake::with("comp.a", 60, 3_000));
    fake.change(|groups| {
        let articles = &mut groups.get_mut("comp.a").unwrap().articles;
        (1..=60).filter(|number| number % 5 == 0).for_each(|number| _ = articles.remove(&number));
    });
    let alone = showing(&[section("fake", fake.address, "")]);
    let filled =
        showing(&[section("fake", fake.address, ""), section("other", other.address, "fill = true")]);
    for (at, fault) in
        [Fault::None, Fault::Exchanged, Fault::BreaksOff, Fault::Forgetful].into_iter().enumerate()
    {
        let from = at as u64 * 15 + 1;
        let commands = each(from..=from + 14, |number| format!("ARTICLE {}", id("comp.a", number)));
        fake.fail(fault);
        let (answers, _) = pipelined(&mut filled.client(), &commands);
        for (number, (line, block)) in (from..).zip(&answers) {
            assert!(line.starts_with("220 "), "{fault:?} {number}: {line}");
            let right = fake_article(&other, number);
            // Numbers of another server are not shown.
            let without_xref = |line: &&str| !line.starts_with("Xref: ");
            let block: Vec<_> = block.iter().map(String::as_str).filter(without_xref).collect();
            let right: Vec<_> = right.lines().filter(without_xref).collect();
            assert!(block == right, "{fault:?} {number}");
        }
        fake.fail(Fault::None);
    }
    let mut client = alone.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    let (answers, _) = pipelined(&mut client, &each(1..=60, |number| format!("ARTICLE {number}")));
    for (number, (line, _)) in (1..).zip(&answers) {
        let code = if number % 5 == 0 { "423 " } else { "220 " };
        assert!(line.starts_with(code), "{number}: {line}");
    }
}

#[test]
fn pipelined_articles_are_fetched_once_even_without_cache() {
    let fake = Fake::with("comp.a", 40, 200_000);
    let own = section("fake", fake.address, "").replace("\"0 s\"", "\"1 h\"");
    let server = Server::start_showing(&[], |text| {
        text.replace("128 KiB", "4 MiB") + &own + "[cache]\nsize = \"1 MiB\"\n"
    });
    let mut client = server.client();
    assert!(client.ask("GROUP comp.a").starts_with("211 "));
    let (answers, _) = pipelined(&mut client, &each(1..=40, |number| format!("ARTICLE {number}")));
    assert!(answers.iter().all(|(line, block)| line.starts_with("220 ") && block.len() > 2_000));
    assert_eq!(fake.take("ARTICLE").len(), 40);
}
