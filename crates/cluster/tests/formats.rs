//! Messages of the log: every kind of change goes through it unchanged, bytes of released formats are read as
//! they were meant, and no input makes the reader panic or allocate without bound.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use cluster::entry::{ArticleBody, LogEntry, MemberEntry, Section, SectionWriter, UnsharedChange, read_body};
use cluster::message::{ClusterId, LogMessage, MESSAGE_BYTES_MAX, MessageHead, MessageTag, encode};
use disk::SimRandom;
use netnews::overview_row::OverviewFields;
use netnews::{Article, Known};
use spool::*;

const ID: &str = "<1@golden.example>";

fn wire(body: &str) -> Vec<u8> {
    format!(
        "Path: here!there!not-for-mail\r\nFrom: a@x.example\r\nNewsgroups: a.b,c.d\r\nSubject: one\r\n\
         Message-ID: {ID}\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n{body}"
    )
    .into_bytes()
}

fn tagged() -> Vec<u8> {
    let mut tagged = Vec::new();
    RowFacts {
        wire_bytes: 300,
        path: b"there!not-for-mail",
        distribution: b"world",
        origin: "peer there",
        kind: ArticleKind::CONTROL,
        sites: &[0b101],
        hidden: Some(("spam", "too many")),
        stands_for: Some(ArticleKey(7 << 100)),
    }
    .put(&mut tagged);
    tagged
}

/// Calls `with` with an article of these bytes.
fn with_article<T>(wire: &[u8], with: impl FnOnce(NewArticle<'_>) -> T) -> T {
    let article = Article::parse(wire).unwrap();
    let tagged = tagged();
    with(NewArticle {
        message_id: ID.as_bytes(),
        key: None,
        // Cut in two, as an article with another Path is.
        pieces: &[&wire[..20], &wire[20..]],
        header_bytes: article.body_offset(),
        message_id_at: wire.windows(ID.len()).position(|w| w == ID.as_bytes()).unwrap(),
        groups: ArticleGroups::Named(&[b"a.b", b"c.d"]),
        numbers: &[],
        fields: OverviewFields::of(&article, ID.as_bytes()),
        arrived: 1_795_000_000,
        expires: Some(1_796_000_000),
        criteria: Criteria {
            from: article.header(Known::From).unwrap(),
            verdict: Some("good"),
            ..Criteria::default()
        },
        tagged: TaggedFields::new(&tagged).unwrap(),
    })
}

fn sites() -> Vec<String> {
    ["there", "elsewhere", "third"].map(str::to_owned).to_vec()
}

fn updates() -> Vec<GroupUpdate> {
    let new = NewGroup {
        name: "a.b".into(),
        flag: GroupFlag::Moderated,
        description: "About b".into(),
        creator: "usenet".into(),
        created: 1_795_000_000,
        high: 12,
    };
    let change = GroupChange { flag: Some(GroupFlag::Alias("c.d".into())), description: Some("B".into()) };
    vec![
        GroupUpdate::Add(new),
        GroupUpdate::Change("a.b".into(), change),
        GroupUpdate::Change("a.b".into(), GroupChange::default()),
        GroupUpdate::Remove("c.d".into()),
        GroupUpdate::RaiseHigh("a.b".into(), 1 << 40),
    ]
}

/// Writes every kind of entry; returns the body.
fn everything() -> Vec<u8> {
    let mut writer = SectionWriter::default();
    let sites = sites();
    let wire = wire("text\r\n");
    let mut draw = || 5;
    let id = ArticleIdent::Id(ID.as_bytes());
    with_article(&wire, |article| writer.push(&Change::Article(article), &sites, &mut draw)).unwrap();
    for change in [
        Change::Remember { id: ArticleIdent::InnHash([9; 16]), arrived: 1_795_000_001 },
        Change::Forget { id, arrived: 1_795_000_002 },
        Change::Cancel { id: ArticleIdent::Key(ArticleKey(3 << 90)) },
        Change::Hide { message_id: ID.as_bytes(), by: "operator", reason: "why", since: 0 },
        Change::Unhide { id },
        Change::Groups(&updates()),
        Change::Site { name: "third" },
    ] {
        writer.push(&change, &sites, &mut draw).unwrap();
    }
    writer.push_member(&MemberEntry { number: 2, incarnation: 9, has_left: false, name: "fe2" }).unwrap();
    writer.push_mark().unwrap();
    writer.finish().into_iter().flat_map(|section| section.bytes).collect()
}

fn head() -> MessageHead {
    let tag = MessageTag { member: 2, incarnation: 9, counter: 1 };
    MessageHead { cluster: ClusterId(*b"GOLDEN!!"), tag, revision: 3, time: 1_795_000_003 }
}

/// Checks that a message has what [`everything`] wrote.
fn assert_everything(bytes: &[u8]) {
    let message = LogMessage::read(bytes).unwrap();
    assert_eq!(message.head, head());
    let entries = read_body(&message.body).unwrap();
    let id = ArticleIdent::Id(ID.as_bytes());
    let wire = wire("text\r\n");
    let [article, remember, forget, cancel, hide, unhide, groups, site, member, LogEntry::Mark] =
        &entries[..]
    else {
        panic!("{entries:?}")
    };
    let LogEntry::Article(article) = article else { panic!("{article:?}") };
    assert_eq!(article.message_id, ID.as_bytes());
    assert_eq!(article.groups.as_deref(), Some(&[&b"a.b"[..], b"c.d"][..]));
    assert_eq!((article.expires, article.verdict), (Some(1_796_000_000), Some("good")));
    assert_eq!(article.body, ArticleBody::Inline(&wire));
    assert_eq!(article.sites(), ["there", "third"]);
    let mut facts = Vec::new();
    article.put_facts(&[0b101], &mut facts);
    assert_eq!(facts, tagged());
    let pieces: [&[u8]; 1] = [&wire];
    let change = article.change(&wire, &pieces, &facts, 1_795_000_009).unwrap();
    let Change::Article(new) = change else { panic!("{change:?}") };
    with_article(&wire, |sent| {
        assert_eq!((new.header_bytes, new.message_id_at), (sent.header_bytes, sent.message_id_at));
        assert_eq!((new.fields, new.arrived), (sent.fields, 1_795_000_009));
        assert_eq!(new.criteria.from, sent.criteria.from);
    });
    assert!(matches!(
        remember,
        LogEntry::Remember { id: ArticleIdent::InnHash([9, ..]), arrived: 1_795_000_001 }
    ));
    assert!(matches!(forget, LogEntry::Forget { id: found, arrived: 1_795_000_002 } if *found == id));
    assert!(matches!(cancel, LogEntry::Cancel { id: ArticleIdent::Key(key) } if key.0 == 3 << 90));
    assert!(matches!(hide, LogEntry::Hide { by: "operator", reason: "why", .. }));
    assert!(matches!(unhide, LogEntry::Unhide { id: found } if *found == id));
    assert!(matches!(groups, LogEntry::Groups(found) if *found == updates()));
    assert!(matches!(site, LogEntry::Site { name: "third" }));
    let expected = MemberEntry { number: 2, incarnation: 9, has_left: false, name: "fe2" };
    assert!(matches!(member, LogEntry::Member(found) if *found == expected));
}

#[test]
fn every_kind_of_change_is_read_as_written() {
    for compresses in [false, true] {
        assert_everything(&encode(&head(), &everything(), compresses).unwrap());
    }
}

#[test]
fn messages_of_format_1_are_read_and_written_as_when_it_was_released() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/format-1.nrl");
    let written = encode(&head(), &everything(), false).unwrap();
    // A new format has a file of its own, made so; those of released formats stay.
    if std::env::var_os("NEWSREEL_WRITE_GOLDEN").is_some() {
        std::fs::write(file, &written).unwrap();
    }
    let golden = std::fs::read(file).unwrap();
    assert_everything(&golden);
    assert_eq!(written, golden, "the format has changed");
}

#[test]
fn a_large_article_comes_in_parts_before_its_entry() {
    let wire = wire(&"a line of text that is not short\r\n".repeat(40_000));
    let mut writer = SectionWriter::default();
    with_article(&wire, |article| writer.push(&Change::Article(article), &sites(), || 77)).unwrap();
    let sections = writer.finish();
    assert_eq!(sections.len(), 4, "three parts and the article");
    assert_eq!(
        sections.iter().map(|section| section.follows).collect::<Vec<_>>(),
        [false, false, false, true]
    );
    let mut bytes = Vec::new();
    for section in &sections {
        assert!(encode(&head(), &section.bytes, false).unwrap().len() <= MESSAGE_BYTES_MAX);
        for entry in read_body(&section.bytes).unwrap() {
            match entry {
                LogEntry::Part(part) => {
                    assert_eq!((part.upload, part.of), (77, 3));
                    bytes.extend_from_slice(part.bytes);
                }
                LogEntry::Article(article) => {
                    assert_eq!(article.body, ArticleBody::Upload { upload: 77, bytes: wire.len() });
                    assert!(article.fits(&bytes) && bytes == wire);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Returns what becomes of sections that are messages of their own, each of which must be possible.
fn entries_of(sections: &[Section]) -> Vec<LogEntry<'_>> {
    sections
        .iter()
        .flat_map(|section| {
            assert!(encode(&head(), &section.bytes, false).is_some(), "{} bytes", section.bytes.len());
            read_body(&section.bytes).unwrap()
        })
        .collect()
}

#[test]
fn a_section_ends_before_an_article_for_which_it_has_no_room() {
    let mut writer = SectionWriter::default();
    let line = "a line of text that is not short\r\n";
    let wires: Vec<Vec<u8>> = [200, 4_000, 3_000, 26_000, 10].map(|lines| wire(&line.repeat(lines))).into();
    for wire in &wires {
        with_article(wire, |article| writer.push(&Change::Article(article), &sites(), || 77)).unwrap();
    }
    let sections = writer.finish();
    let entries = entries_of(&sections);
    assert_eq!(entries.len(), wires.len());
    for (entry, wire) in entries.iter().zip(&wires) {
        let LogEntry::Article(article) = entry else { panic!("{entry:?}") };
        assert_eq!(article.body, ArticleBody::Inline(wire));
        assert_eq!(article.groups.as_deref(), Some(&[&b"a.b"[..], b"c.d"][..]));
        assert_eq!(article.sites(), ["there", "third"]);
    }
}

#[test]
fn a_set_of_groups_that_is_too_long_for_a_message_comes_in_several() {
    let name = |n: usize| format!("local.hierarchy.with.a.long.name.group{n}");
    let add = |n| NewGroup { name: name(n), description: "d".repeat(80), ..NewGroup::default() };
    let mut updates: Vec<GroupUpdate> = (0..20_000).map(|n| GroupUpdate::Add(add(n))).collect();
    let expected = updates.clone();
    // Of several updates of one group the first counts.
    updates.push(GroupUpdate::Remove(name(1)));
    let mut writer = SectionWriter::default();
    writer.push_mark().unwrap();
    let pushed = writer.push(&Change::Groups(&updates), &[], || 0).unwrap();
    let sections = writer.finish();
    let entries = entries_of(&sections);
    assert_eq!(entries.len(), 1 + pushed);
    let updates_of = |entry| match entry {
        LogEntry::Groups(updates) => updates,
        other => panic!("{other:?}"),
    };
    let read: Vec<GroupUpdate> = entries.into_iter().skip(1).flat_map(updates_of).collect();
    assert!(read == expected && pushed > 1);
}

#[test]
fn what_the_log_cannot_carry_is_refused_before_it_is_sent() {
    let mut writer = SectionWriter::default();
    let refused = writer.push(&Change::Position { record: b"here" }, &[], || 0).unwrap_err();
    assert_eq!(refused.to_string(), "a position cannot go through the log of a cluster");
    let long = "x".repeat(1_025);
    let hide = Change::Hide { message_id: ID.as_bytes(), by: "operator", reason: &long, since: 0 };
    let described = GroupChange { description: Some(long.clone()), ..GroupChange::default() };
    let described = [GroupUpdate::Change("a.b".into(), described)];
    let created = NewGroup { name: "a.b".into(), creator: long.clone(), ..NewGroup::default() };
    let created = [GroupUpdate::Add(created)];
    for (change, refusal) in [
        (hide, ChangeRefusal::Hider),
        (Change::Groups(&described), ChangeRefusal::GroupText),
        (Change::Groups(&created), ChangeRefusal::GroupText),
        (Change::Site { name: &long }, ChangeRefusal::SiteName),
        (
            Change::Note { kind: NoteKind::ControlDate, key: long.as_bytes(), value: None, since: 0 },
            ChangeRefusal::Note,
        ),
    ] {
        assert_eq!(writer.push(&change, &[], || 0), Err(UnsharedChange::Refused(refusal)));
    }
    let other = with_article(&wire("text\r\n"), |article| {
        let article = NewArticle { header_bytes: article.header_bytes - 1, ..article };
        writer.push(&Change::Article(article), &[], || 0)
    });
    assert_eq!(other, Err(UnsharedChange::OtherArticle));
    let huge = wire(&"x\r\n".repeat(14 << 20));
    let refused = with_article(&huge, |article| writer.push(&Change::Article(article), &[], || 0));
    assert_eq!(refused, Err(UnsharedChange::TooLong));
}

#[test]
fn altered_bodies_are_refused_or_read_and_never_panic() {
    let random = &mut SimRandom::new(5);
    let whole = everything();
    let (mut refused, mut read) = (0, 0);
    for _ in 0..20_000 {
        let mut body = whole.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.up_to(body.len() - 1);
            match random.below(3) {
                0 => body[at] = random.below(256) as u8,
                1 => body.truncate(at.max(1)),
                _ => {
                    body.remove(at);
                }
            }
            if body.is_empty() {
                body.push(0);
            }
        }
        match read_body(&body) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1_000 && read > 100, "{refused} refused, {read} read");
}
