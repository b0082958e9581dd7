//! Tests of the text of a status.

use super::*;
use operators::report::{
    BatchesStatus, BufferReport, ClassReport, FeedStatus, FilterStatus, JournalReaderReport,
    KeptVolumeReport, LoginStatus, ModerationStatus, OutputStatus, Overhead, SourceCounts, SpamCheckStatus,
    SpamSources,
};

fn spam_source(name: &str, articles: u64, would_refuse: u64) -> SpamSource {
    let refused = would_refuse.min(3);
    let hour = SourceCounts { articles: 1, ..SourceCounts::default() };
    SpamSource { name: name.into(), hour, day: SourceCounts { articles, refused, would_refuse } }
}

fn report(server: Option<ServerStatus>) -> Report {
    Report {
        version: "1.0".into(),
        path_identity: "news.example.org".into(),
        server,
        spool: SpoolStatus {
            dir: "data".into(),
            durability: "always".into(),
            stopped: None,
            articles: 1_234,
            groups: 7,
            history_entries: 5_000,
            journal_bytes: 1 << 20,
            measured: 8_200,
            overhead: Some(Overhead { record_bytes: 90, history_bytes: 50, ..Overhead::default() }),
            classes: vec![ClassReport {
                name: "text".into(),
                method: "cnfs".into(),
                oldest_arrival: Some(1_000),
                hour_bytes_per_sec: 2048.0,
                day_bytes_per_sec: 1024.0,
                stays_secs: Some(7_200),
                keep_target_secs: Some(86_400),
                stays_worst_secs: Some(21_600),
                ..ClassReport::default()
            }],
            buffers: vec![BufferReport {
                name: "text0".into(),
                size_bytes: 2 << 30,
                area_bytes: 2 << 30,
                used_bytes: 1 << 30,
                cycle: 2,
                oldest_arrival: Some(1_000),
                ..BufferReport::default()
            }],
            kept: vec![KeptVolumeReport {
                name: "archive".into(),
                method: "tradspool".into(),
                articles: 12,
                bytes: 1_024,
                room_bytes: 2_048,
                full: true,
                oldest_arrival: Some(1_000),
            }],
            ..SpoolStatus::default()
        },
    }
}

#[test]
fn a_stopped_site_is_reported() {
    let expected = "news.example.org: no server runs\n\n\
                    spool data, durability always\n  \
                    articles     1,234 articles in 7 groups, 5,000 Message-IDs in history, 0 requested from peers\n  \
                    journal      1.00 MiB, 0 B of it not durable yet, 0 rows to replay after a crash\n  \
                    indexes      0 B of history, 0 B of overview, 0 B of residents, 0 B of checkpoints\n  \
                    overhead     on disk for each article beyond its own bytes: 140 (record 90, journal 0, history 50, \
                    overview 0, residents 0, checkpoint 0)\n\n\
                    class  method  oldest article   last hour    last day  articles stay  worst day  target  promise\n\
                    text   cnfs               2 h  2.00 KiB/s  1.00 KiB/s            2 h        6 h     1 d           BELOW \
                    TARGET\n\n\
                    buffer      size      used   %  cycle  oldest article\n\
                    text0   2.00 GiB  1.00 GiB  50      2             2 h\n\n\
                    kept by class  method     articles      size      room  oldest article\n\
                    archive        tradspool        12  1.00 KiB  2.00 KiB             2 h  FULL";
    assert_eq!(text(&report(None), 8_205), expected);
}

#[test]
fn spool_whose_disk_is_away_is_shown_in_part() {
    let mut report = report(None);
    report.spool.unopened = Some("buffer \"text1\" is missing".into());
    let away = BufferReport { name: "text1".into(), away: true, ..BufferReport::default() };
    report.spool.buffers.push(away);
    (report.spool.classes, report.spool.kept) = (Vec::new(), Vec::new());
    let expected = "news.example.org: no server runs\n\n\
                    spool data, durability always\n  \
                    at its last checkpoint: 1,234 articles in 7 groups\n  \
                    CANNOT BE OPENED: buffer \"text1\" is missing\n\n\
                    buffer      size      used   %  cycle  oldest article\n\
                    text0   2.00 GiB  1.00 GiB  50      2             2 h\n\
                    text1        0 B                                       AWAY";
    assert_eq!(text(&report, 8_205), expected);
}

#[test]
fn readers_of_the_journal_are_listed() {
    let mut report = report(None);
    let slow = JournalReaderReport {
        name: "feed.peer".into(),
        durable: true,
        position: 1_000_000,
        backlog_bytes: 3 << 20,
        lost_bytes: 1_024,
        lost_articles: 1_200,
        damage: None,
    };
    let memory = JournalReaderReport { name: "tail".into(), position: 7, ..JournalReaderReport::default() };
    let damage = Some("its file was missing; it went back to the oldest row".into());
    let back =
        JournalReaderReport { name: "days".into(), durable: true, damage, ..JournalReaderReport::default() };
    report.spool.readers = vec![slow, memory, back];
    let shown = text(&report, 8_205);
    let expected = "\n\nreader of the journal   position   backlog  articles lost\n\
                    feed.peer              1,000,000  3.00 MiB          1,200\n\
                    tail                           7       0 B              0  until it ends\n\
                    days                           0       0 B              0  DAMAGED: its file was missing; it \
                    went back to the oldest row";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn young_site_has_no_forecast() {
    let mut report = report(None);
    report.spool.overhead = None;
    report.spool.classes[0].stays_secs = None;
    report.spool.classes[0].stays_worst_secs = None;
    let shown = text(&report, 8_205);
    assert!(
        shown.contains("\n  overhead     on disk for each article beyond its own bytes: not known yet\n"),
        "{shown}"
    );
    assert!(
        shown.contains(
            "text   cnfs               2 h  2.00 KiB/s  1.00 KiB/s  not known yet                1 d"
        ),
        "{shown}"
    );
}

/// Collapses runs of spaces.
fn squeezed(text: &str) -> String {
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_running_server_reports_everything() {
    let peer = PeerStatus {
        name: "upstream".into(),
        connections: 4,
        offered: 10_000,
        accepted: 9,
        rejected: 1,
        feed: Some(FeedStatus {
            connections: 2,
            state: "waiting".into(),
            retry_secs: Some(90),
            lag_articles: 1_500,
            lag_bytes: 2_048,
            lag_secs: 65,
            offered: 20,
            wanted: 21,
            refused: 22,
            accepted: 23,
            rejected: 24,
            deferred: 25,
            waiting: 26,
            missed: 27,
            articles_per_sec: 28.5,
            sent_bytes: 2_048,
            output: Some(OutputStatus {
                to: "out/leaf".into(),
                waiting_files: 2,
                waiting_bytes: 3_072,
                batches_made: 5,
                batches_handed_over: 3,
            }),
            last_error: Some("timed out".into()),
            ..FeedStatus::default()
        }),
    };
    let server = ServerStatus {
        pid: 7,
        uptime_secs: 65,
        listen: vec!["127.0.0.1:1119".into()],
        web: vec!["127.0.0.1:8119".into()],
        peers: vec![peer],
        connections: 1_000,
        compressed: 5,
        refused: 6,
        readers_served: 7,
        logins: LoginStatus { succeeded: 8, failed: 9, lock_outs: 10, refused: 11 },
        certificate_expires: Some(8_205 + 86_400),
        reloads: 12,
        paused_since: Some(8_205 - 65),
        paused_reason: "disk".into(),
        accepted: 13,
        rejected: 14,
        try_later: 15,
        receive_bytes: 2_048,
        early_cancels: 16,
        early_hides: 21,
        moderation: ModerationStatus { waiting: 17, sent: 18, failed: 19, held: 20 },
        batches: BatchesStatus {
            waiting: 21,
            waiting_bytes: 1_024,
            filed: 22,
            accepted: 23,
            damaged: 24,
            problem: "no room".into(),
        },
        upstreams: vec![UpstreamStatus {
            name: "isp".into(),
            host: "isp.example:563".into(),
            connections: 2,
            connections_limit: 3,
            questions: 1_002,
            failures: 33,
            wrong: 34,
            bytes: 2_048,
            posts_waiting: 36,
            posts_refused: 37,
            problem: "timed out waiting for an answer".into(),
        }],
        cache: Some(CacheStatus {
            used_bytes: 1_024,
            size_bytes: 2_048,
            files: 35,
            kinds: vec![CacheCounts {
                of: "article".into(),
                requests: 1_003,
                hits: 500,
                cache_bytes: 3_072,
                upstream_bytes: 4_096,
            }],
            ..CacheStatus::default()
        }),
        pulls: vec![PullStatus {
            name: "far".into(),
            from: "far.example:119".into(),
            last_run: Some(8_200),
            complete: Some(8_145),
            fetched: 2_500,
            accepted: 2_400,
            last_error: "the server closed the connection".into(),
            ..PullStatus::default()
        }],
        filters: vec![FilterStatus {
            name: "perl".into(),
            down: true,
            judged: 1_001,
            unjudged: 31,
            starts: 32,
        }],
        spam: vec![SpamCheckStatus { name: "injector-rate".into(), mode: "shadow".into(), found: 1_002 }],
        spam_sources: SpamSources {
            sites: vec![
                spam_source("news.flood.example", 2_000, 1_002),
                spam_source("news.quiet.example", 3_000, 0),
            ],
            addresses: vec![spam_source("192.0.2.1", 5, 0)],
        },
        ..ServerStatus::default()
    };
    let mut report = report(Some(server));
    report.spool.stopped = Some("no space left".into());
    report.spool.mended_pages = 20;
    (report.spool.hot_memory_bytes, report.spool.released_bytes) = (Some(48 << 20), 3 << 30);
    let shown = text(&report, 8_205);
    let head = "news.example.org: newsreel 1.0, process 7, up 1 min 5 s\n  \
                listens on   127.0.0.1:1119\n  \
                web on       127.0.0.1:8119\n  \
                connections  1,000 now, 5 of them compressed, 6 refused, 7 readers served\n  \
                logins       8 succeeded, 9 failed, 10 lock-outs, 11 refused by them\n  \
                certificate  expires in 1 d\n  \
                reloads      12\n  \
                PAUSED       for 1 min 5 s (disk); newsreel ctl go\n  \
                articles     13 accepted, 14 rejected, 15 to be tried later, 2.00 KiB of receive buffers\n  \
                cancels      16 waiting for their article\n  \
                hides        21 articles listed by notices before they came\n  \
                moderation   17 to be mailed, 18 mailed, 19 put aside, 20 to approve\n  \
                batches      21 waiting, 1.00 KiB in them, 22 filed, 23 articles accepted, \
                24 damaged pieces in quarantine\n  \
                NOT FILED    no room\n\n";
    assert!(shown.starts_with(head), "{shown}");
    let hot = "\n  busy feeds   48.0 MiB of recent writes in memory, 3.00 GiB released since the start\n";
    assert!(shown.contains(hot), "{shown}");
    assert!(shown.contains("\n  repaired     20 unreadable pages rebuilt\n"), "{shown}");
    assert!(shown.contains("\nupstream            4   10,000         9         1\n"), "{shown}");
    let pull = "pull  from             last run  complete   to do  fetched  accepted\n\
                far   far.example:119  5 s ago   1 min ago      0    2,500     2,400\n  \
                far: the server closed the connection\n";
    assert!(shown.contains(pull), "{shown}");
    let upstream = "upstream server state connections at most questions failures wrong received posts refused\n\
                    isp isp.example:563 away 2 3 1,002 33 34 2.00 KiB 36 37\n \
                    isp: timed out waiting for an answer\n";
    assert!(squeezed(&shown).contains(squeezed(upstream).trim()), "{shown}");
    let cache = "cached requests hits share from cache from upstream\n\
                 article 1,003 500 49 % 3.00 KiB 4.00 KiB\n1.00 KiB of 2.00 KiB in 35 files";
    assert!(squeezed(&shown).contains(cache), "{shown}");
    let filter = "filter  state         judged  not judged  started\n\
                  perl    cannot judge   1,001          31       32\n";
    assert!(shown.contains(filter), "{shown}");
    let spam = "built-in filter mode found would have refused\ninjector-rate shadow - 1,002\n";
    assert!(squeezed(&shown).contains(spam), "{shown}");
    let sources = "injecting site articles refused would have refused in the last hour\n\
                   news.flood.example 2,000 3 1,002 1\n";
    assert!(squeezed(&shown).contains(sources), "{shown}");
    assert!(
        !shown.contains("quiet") && !shown.contains("posting address"),
        "nothing of them was found: {shown}"
    );
    let feed = "feed to   state                      connections  articles behind    journal        time  \
                later  last error\nupstream  waiting, again in 1 min 30 s            2            1,500  2.00 KiB  \
                1 min 5 s     26  timed out";
    assert!(squeezed(&shown).contains(&squeezed(feed)), "{shown}");
    let sent = "sent to offered wanted refused accepted rejected deferred missed sent articles/s\n\
                upstream 20 21 22 23 24 25 27 2.00 KiB 28";
    assert!(squeezed(&shown).contains(sent), "{shown}");
    let taken = "taken away for files waiting bytes batches made handed over at\n\
                 upstream 2 3.00 KiB 5 3 out/leaf";
    assert!(squeezed(&shown).contains(taken), "{shown}");
    assert!(shown.contains("\n  ACCEPTS NOTHING: no space left\n"), "{shown}");
    let late = text(&report, 8_205 + 86_400);
    assert!(late.contains("\n  certificate  expires in 0 s\n"), "{late}");
    assert!(late.contains("\n  MEASURED     1 d AGO: the disk does not answer\n"), "{late}");
    assert!(text(&report, 8_206 + 86_400).contains("\n  certificate  EXPIRED\n"));
}
