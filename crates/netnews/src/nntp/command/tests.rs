//! Tests of command lines, verb by verb, and of lines that are not commands.

use super::verb::TABLE;
use super::*;
use proptest::prelude::*;

fn ok(line: &str) -> NntpCommand<'_> {
    parse(line.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e:?}"))
}

fn code(line: &str) -> u16 {
    parse(line.as_bytes()).expect_err(line).code()
}

fn id(text: &str) -> MessageId<'_> {
    MessageId::parse(text.as_bytes()).unwrap()
}

fn range(low: u64, high: Option<u64>) -> NumberRange {
    NumberRange { low, high }
}

#[test]
fn reading() {
    assert_eq!(ok("ARTICLE"), NntpCommand::Article(ArticleSelector::Current));
    assert_eq!(ok("article 12"), NntpCommand::Article(ArticleSelector::Number(12)));
    assert_eq!(ok("Head <a@b>"), NntpCommand::Head(ArticleSelector::MessageId(id("<a@b>"))));
    assert_eq!(ok("BODY 0"), NntpCommand::Body(ArticleSelector::Number(0)));
    assert_eq!(
        ok("STAT 9223372036854775807"),
        NntpCommand::Stat(ArticleSelector::Number(ARTICLE_NUMBER_MAX))
    );
    assert_eq!(ok("GROUP misc.test"), NntpCommand::Group(b"misc.test"));
    assert_eq!(ok("LISTGROUP"), NntpCommand::ListGroup { group: None, range: None });
    assert_eq!(
        ok("LISTGROUP misc.test 3-"),
        NntpCommand::ListGroup { group: Some(b"misc.test"), range: Some(range(3, None)) }
    );
    assert_eq!((ok("LAST"), ok("next")), (NntpCommand::Last, NntpCommand::Next));
    for bad in [
        "ARTICLE 9223372036854775808",
        "ARTICLE -5",
        "ARTICLE 1-2",
        "ARTICLE <a b>",
        "ARTICLE <>",
        "STAT a@b",
        "HEAD 1 2",
        "GROUP",
        "GROUP a b",
        "LISTGROUP a b",
        "LISTGROUP a 1 2",
        "NEXT 1",
        "LAST x",
    ] {
        assert_eq!(code(bad), 501, "{bad}");
    }
}

#[test]
fn ranges() {
    assert_eq!(ok("OVER"), NntpCommand::Over(RangeSelector::Current));
    assert_eq!(ok("OVER 5"), NntpCommand::Over(RangeSelector::Range(range(5, Some(5)))));
    assert_eq!(ok("OVER 5-"), NntpCommand::Over(RangeSelector::Range(range(5, None))));
    assert_eq!(ok("OVER 5-3"), NntpCommand::Over(RangeSelector::Range(range(5, Some(3)))));
    assert_eq!(ok("OVER <a@b>"), NntpCommand::Over(RangeSelector::MessageId(id("<a@b>"))));
    assert_eq!(
        ok("XOVER 1-9223372036854775807"),
        NntpCommand::Xover(Some(range(1, Some(ARTICLE_NUMBER_MAX))))
    );
    assert_eq!(ok("XOVER"), NntpCommand::Xover(None));
    for bad in [
        "OVER -5",
        "OVER -",
        "OVER 5-9223372036854775808",
        "OVER 1-2-3",
        "OVER 1,2",
        "OVER a",
        "OVER 1 - 2",
        "XOVER <a@b>",
        "OVER +1",
    ] {
        assert_eq!(code(bad), 501, "{bad}");
    }
    assert!(range(5, Some(3)).is_empty() && !range(5, Some(5)).is_empty() && !range(5, None).is_empty());
    assert!(range(5, None).contains(5) && range(5, Some(6)).contains(6) && !range(5, Some(6)).contains(7));
    assert!(!range(5, None).contains(4));
}

#[test]
fn single_headers() {
    assert_eq!(ok("HDR Subject"), NntpCommand::Hdr { field: b"Subject", select: RangeSelector::Current });
    assert_eq!(
        ok("HDR :lines 1-2"),
        NntpCommand::Hdr { field: b":lines", select: RangeSelector::Range(range(1, Some(2))) }
    );
    assert_eq!(
        ok("XHDR From <a@b>"),
        NntpCommand::Xhdr { field: b"From", select: RangeSelector::MessageId(id("<a@b>")) }
    );
    let NntpCommand::Xpat { field, select, patterns } = ok("XPAT subject 1-  *a*\t*b c*  ") else {
        panic!("no XPAT")
    };
    assert_eq!((field, select), (&b"subject"[..], RangeSelector::Range(range(1, None))));
    assert_eq!(words(patterns).collect::<Vec<_>>(), [&b"*a*"[..], b"*b", b"c*"]);
    for verb in ["HDR", "XHDR", "XPAT"] {
        for name in ["Subject:", "Sub:ject", ":", "::bytes", "Subj\u{e9}t", ":by\u{e9}"] {
            assert_eq!(code(&format!("{verb} {name} 1 *")), 501, "{verb} {name}");
        }
        assert_eq!(code(&format!("{verb} Subject: 1-2")), 501, "{verb}");
    }
    for bad in
        ["HDR", "HDR Subject 1 2", "XHDR", "XPAT", "XPAT subject", "XPAT subject 1-2", "XPAT subject x *"]
    {
        assert_eq!(code(bad), 501, "{bad}");
    }
}

#[test]
fn lists() {
    let list = |line| match ok(line) {
        NntpCommand::List(kind) => kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(list("LIST"), ListKeyword::Active(None));
    assert_eq!(list("list active comp.*,!comp.os.*"), ListKeyword::Active(Some(b"comp.*,!comp.os.*")));
    assert_eq!(list("LIST ACTIVE.TIMES"), ListKeyword::ActiveTimes(None));
    assert_eq!(list("LIST counts x.*"), ListKeyword::Counts(Some(b"x.*")));
    assert_eq!(list("LIST Distrib.Pats"), ListKeyword::DistribPats);
    assert_eq!(list("LIST DISTRIBUTIONS"), ListKeyword::Distributions);
    assert_eq!(list("LIST HEADERS"), ListKeyword::Headers(None));
    assert_eq!(list("LIST HEADERS msgid"), ListKeyword::Headers(Some(b"msgid")));
    assert_eq!(list("LIST EXTENSIONS"), ListKeyword::Extensions);
    let modtime = |since, wildmat| ListKeyword::ActiveModtime { since, wildmat };
    assert_eq!(list("LIST active.modtime 123"), modtime(b"123", None));
    assert_eq!(list("LIST ACTIVE.MODTIME 20200101000000 a.*"), modtime(b"20200101000000", Some(b"a.*")));
    assert_eq!(list("LIST MODERATORS"), ListKeyword::Moderators);
    assert_eq!(list("LIST MOTD"), ListKeyword::Motd);
    assert_eq!(list("LIST NEWSGROUPS *"), ListKeyword::Newsgroups(Some(b"*")));
    assert_eq!(list("LIST OVERVIEW.FMT"), ListKeyword::OverviewFmt);
    assert_eq!(list("LIST SUBSCRIPTIONS *"), ListKeyword::Subscriptions(Some(b"*")));
    for bad in [
        "LIST ACTIVE a b",
        "LIST OVERVIEW.FMT x",
        "LIST MOTD x",
        "LIST ACTIVE.MODTIME",
        "LIST ACTIVE.MODTIME now",
        "LIST ACTIVE.MODTIME 1 a b",
        "LIST EXTENSIONS x",
        "LIST HEADERS all",
        "LIST HEADERS RANGE x",
        "LIST XYZZY",
    ] {
        assert_eq!(code(bad), 501, "{bad}");
    }
    assert_eq!(parse(b"LIST XYZZY"), Err(CommandError::UnknownKeyword));
    let row = verb::find(b"LIST").unwrap();
    assert!(list_keywords().all(|keyword| words(row.arguments.as_bytes()).next().is_some_and(|choices| {
        choices.split(|b| b"[]|".contains(b)).any(|choice| choice == keyword.as_bytes())
    })));
}

#[test]
fn since() {
    let expected = NntpCommand::NewGroups { date: b"930415", time: b"000000" };
    for line in
        ["NEWGROUPS 930415 000000", "NEWGROUPS 930415 000000 GMT", "newgroups 930415 000000 gmt <comp>"]
    {
        assert_eq!(ok(line), expected, "{line}");
    }
    assert_eq!(
        ok("NEWNEWS comp.* 19930415 235959 GMT"),
        NntpCommand::NewNews { wildmat: b"comp.*", date: b"19930415", time: b"235959" }
    );
    for bad in [
        "NEWGROUPS",
        "NEWGROUPS 930415",
        "NEWGROUPS 9304150 000000",
        "NEWGROUPS 930415 0000",
        "NEWGROUPS 930415 000000 EST",
        "NEWGROUPS 93041x 000000",
        "NEWGROUPS 930415 000000 GMT x",
        "NEWNEWS * 930415",
        "NEWNEWS 930415 000000",
    ] {
        assert_eq!(code(bad), 501, "{bad}");
    }
}

#[test]
fn transfer() {
    assert_eq!(ok("POST"), NntpCommand::Post);
    assert_eq!(ok("IHAVE <a@b>"), NntpCommand::Ihave(id("<a@b>")));
    assert_eq!(ok("CHECK <a@b>"), NntpCommand::Check(b"<a@b>"));
    assert_eq!(ok("TAKETHIS <a@b> "), NntpCommand::Takethis(b"<a@b>"));
    assert_eq!(ok("MODE STREAM"), NntpCommand::ModeStream);
    assert_eq!(ok("mode headfeed"), NntpCommand::ModeHeadfeed);
    for bad in ["IHAVE", "IHAVE a@b", "IHAVE <a@b> x", "POST x", "CHECK", "MODE", "MODE READER x"] {
        assert_eq!(code(bad), 501, "{bad}");
    }
}

/// A peer that sends TAKETHIS sends the article after it even if the line is wrong: it must never be an
/// error.
#[test]
fn streaming_keeps_a_malformed_argument() {
    assert_eq!(ok("CHECK no brackets"), NntpCommand::Check(b"no brackets"));
    assert_eq!(ok("TAKETHIS  <a b> x"), NntpCommand::Takethis(b"<a b> x"));
    assert_eq!(ok("TAKETHIS"), NntpCommand::Takethis(b""));
    assert_eq!(parse(b"takethis <\x01\xff>"), Ok(NntpCommand::Takethis(b"<\x01\xff>")));
    assert_eq!(parse(b"CHECK <a\x7fb>"), Ok(NntpCommand::Check(b"<a\x7fb>")));
}

#[test]
fn session() {
    assert_eq!((ok("mode reader"), ok("MODE xyz")), (NntpCommand::ModeReader, NntpCommand::Mode(b"xyz")));
    assert_eq!(ok("CAPABILITIES"), NntpCommand::Capabilities { keyword: None });
    assert_eq!(ok("CAPABILITIES AUTOUPDATE"), NntpCommand::Capabilities { keyword: Some(b"AUTOUPDATE") });
    assert_eq!(
        (ok("DATE"), ok("HELP"), ok("QUIT"), ok("SLAVE")),
        (NntpCommand::Date, NntpCommand::Help, NntpCommand::Quit, NntpCommand::Slave)
    );
    assert_eq!(ok("STARTTLS"), NntpCommand::StartTls);
    assert_eq!(ok("AUTHINFO USER fred"), NntpCommand::AuthinfoUser(b"fred"));
    assert_eq!(ok("authinfo pass two words"), NntpCommand::AuthinfoPass(b"two words"));
    assert_eq!(
        ok("AUTHINFO SASL PLAIN AGZv"),
        NntpCommand::AuthinfoSasl { mechanism: b"PLAIN", initial: Some(b"AGZv") }
    );
    assert_eq!(
        ok("AUTHINFO SASL EXTERNAL"),
        NntpCommand::AuthinfoSasl { mechanism: b"EXTERNAL", initial: None }
    );
    assert_eq!(ok("AUTHINFO GENERIC x y"), NntpCommand::Authinfo(b"GENERIC"));
    assert_eq!(ok("COMPRESS deflate"), NntpCommand::Compress { algorithm: b"deflate" });
    assert_eq!(ok("XGTITLE comp.*"), NntpCommand::Xgtitle { wildmat: Some(b"comp.*") });
    assert_eq!(ok("XPATH <a@b>"), NntpCommand::Xpath(id("<a@b>")));
    assert_eq!(ok("xbatch 1024"), NntpCommand::Xbatch { bytes: 1024 });
    assert_eq!(ok("XROVER 1-"), NntpCommand::Xrover(Some(NumberRange { low: 1, high: None })));
    for refused in ["XINDEX a.b", "XTHREAD", "XREPLIC a.b:1", "XMOTD 20200101 000000"] {
        assert_eq!(code(refused), 500, "{refused}");
    }
    for bad in [
        "DATE x",
        "QUIT now",
        "CAPABILITIES a b",
        "CAPABILITIES ab",
        "CAPABILITIES 1st",
        "CAPABILITIES <a@b>",
        "AUTHINFO",
        "AUTHINFO USER",
        "AUTHINFO SASL",
        "COMPRESS",
        "XPATH x",
        "XBATCH",
        "XBATCH 0",
        "XBATCH x",
        "XBATCH 1 2",
        "STARTTLS x",
    ] {
        assert_eq!(code(bad), 501, "{bad}");
    }
}

#[test]
fn separators() {
    for line in ["GROUP a.b", "group\ta.b", "  GROUP a.b", "GrOuP   \t a.b \t "] {
        assert_eq!(ok(line), NntpCommand::Group(b"a.b"), "{line:?}");
    }
    // A bare CR was once treated as a space at the start of a line, unlike elsewhere.
    assert_eq!(parse(b"\r XPAT x"), Err(CommandError::UnknownCommand));
    assert_eq!(parse(b"\rQUIT"), Err(CommandError::UnknownCommand));
    assert_eq!(ok("QUIT  \t"), NntpCommand::Quit);
}

#[test]
fn no_commands() {
    for (line, expected) in [
        (&b""[..], CommandError::Empty),
        (b" \t", CommandError::Empty),
        (b"XYZZY", CommandError::UnknownCommand),
        (b"GROUPS a", CommandError::UnknownCommand),
        (b"GROU", CommandError::UnknownCommand),
        (b"\xff\x00", CommandError::UnknownCommand),
        (b"GROUP a\0b", CommandError::BadOctet),
        (b"GROUP a\rb", CommandError::BadOctet),
        (b"HELP \x7f", CommandError::BadOctet),
    ] {
        assert_eq!(parse(line), Err(expected), "{line:?}");
    }
    let mut out = Vec::new();
    parse(b"GROUP").unwrap_err().append(&mut out);
    parse(b"NOPE").unwrap_err().append(&mut out);
    assert_eq!(out, b"501 Syntax is: GROUP newsgroup\r\n500 Unknown command\r\n");
}

#[test]
fn help_is_made_from_the_table() {
    let mut out = Vec::new();
    help(|_| true, &mut out);
    let text = str::from_utf8(&out).unwrap();
    for verb in TABLE {
        let shown = text.lines().any(|line| line.split_whitespace().next() == Some(verb.text));
        assert!(shown, "{}", verb.text);
        assert_eq!(verb.text, verb.text.to_uppercase());
        assert_eq!(verb::find(verb.text.to_lowercase().as_bytes()), Some(verb));
    }
    assert!(out.split(|&b| b == b'\n').all(|line| line.len() < crate::nntp::wire::LINE_BYTES_MAX));
    let mut few = Vec::new();
    help(|verb| verb.capability == "POST", &mut few);
    assert_eq!(few, b"  POST - inject an article\r\n");
}

proptest! {
    #[test]
    fn any_line_is_a_command_or_a_syntax_error(line in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Err(syntax) = parse(&line) {
            prop_assert!(matches!(syntax.code(), 500 | 501));
        }
    }

    #[test]
    fn any_arguments(at in 0..TABLE.len(), rest in "[ \t<>@a-c0-9.*-]{0,20}") {
        let line = format!("{} {rest}", TABLE[at].text);
        match parse(line.as_bytes()) {
            Err(syntax) => prop_assert_eq!(syntax.code(), 501),
            // Case and padding do not matter.
            Ok(command) => {
                let padded = format!("  {}\t {rest}\t ", TABLE[at].text.to_lowercase());
                prop_assert_eq!(Ok(command), parse(padded.as_bytes()));
            }
        }
    }
}
