//! Feeds to a real INN.

use super::batches::{batch, file, lower, section, waiting};
use super::{hand_in, status, wait_for_status};
use crate::client::Client;
use crate::running::Server;
use crate::transcripts::inn::Inn;
use std::collections::BTreeSet;
use std::fs;

#[test]
#[ignore = "needs INN and root: make transcripts-inn"]
fn inn_takes_each_article_once() {
    let Some(inn) = Inn::found() else { return };
    inn.start_empty();
    let section = format!(
        "\n[[peer]]\nname = \"inn.example\"\n[peer.send]\nto = \"{}\"\ngroups = \"misc.*,local.*\"\n",
        inn.peer_address()
    );
    let server = Server::start_with(|text| text.replace("\"site.example\"", "\"up.example\"") + &section);
    let mut client = server.client();
    hand_in(&mut client, 0..300, "misc.test");
    hand_in(&mut client, 300..310, "misc.test,local.closed");
    wait_for_status(&server, "inn.example", |feed| feed["lag_articles"] == 0);
    let feed = status(&server, "inn.example");
    assert_eq!(
        (&feed["accepted"], &feed["rejected"], &feed["missed"]),
        (&310.into(), &0.into(), &0.into()),
        "{feed}"
    );
    let mut reader = Client::greeted(inn.reader_address());
    assert!(reader.ask("GROUP misc.test").starts_with("211 310 1 310 "));
    assert!(reader.ask("GROUP local.closed").starts_with("211 10 1 10 "));
    // Everything is offered again, and INN has it already.
    let from = serde_json::json!({ "from": { "place": "oldest" } });
    let (_, ok) =
        server.control(&serde_json::json!({ "do": "feed", "peer": "inn.example", "command": from }));
    assert!(ok);
    wait_for_status(&server, "inn.example", |feed| feed["refused"] == 310);
}

/// Each compression that both support, with its program.
const FORMS: [(&str, &str); 4] = [
    ("none", "cat"),
    ("compress", "echo '#! cunbatch'; exec compress -c"),
    ("gzip", "echo '#! gunbatch'; exec gzip -c"),
    ("bzip2", "echo '#! bunbatch'; exec bzip2 -c"),
];

#[test]
#[ignore = "needs INN and root: make batches-inn"]
fn batches_of_every_form_are_filed_by_inn_and_those_of_inn_here() {
    let Some(inn) = Inn::found() else { return };
    let feeds = inn.site().join("etc/newsfeeds");
    let text = fs::read_to_string(&feeds).unwrap() + "lower:*:Tf,Wnb:\n";
    inn.write(&feeds, &text);
    inn.start_empty();
    // Each form has its own quarter of the articles.
    let keys = |part: usize, form: &str| {
        format!("batch_bytes = \"8 KiB\"\nbatch_compress = \"{form}\"\nhash = \"{}/4\"", part + 1)
    };
    let sections: String =
        FORMS.iter().enumerate().map(|(part, (form, _))| section(form, &keys(part, form))).collect();
    let server = Server::start_with(|text| text.replace("\"site.example\"", "\"up.example\"") + &sections);
    hand_in(&mut server.client(), 0..400, "misc.test");
    for (form, _) in FORMS {
        let (said, ok) = batch(&server, form);
        assert!(ok, "{said}");
        for batch in waiting(&server.data(), form) {
            inn.tool(&["rnews"], &fs::read(batch).unwrap());
        }
    }
    let mut reader = Client::greeted(inn.reader_address());
    assert!(reader.ask("GROUP misc.test").starts_with("211 400 1 400 "));
    // The reverse direction: INN's lists of articles, and its batcher.
    inn.tool(&["ctlinnd", "-s", "flush", "lower"], b"");
    let outgoing = inn.site().join("spool/outgoing");
    let list = fs::read_to_string(outgoing.join("lower")).unwrap();
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 400);
    let lower = lower();
    for ((form, program), lines) in FORMS.iter().zip(lines.chunks(100)) {
        let (work, made) = (outgoing.join(form), inn.site().join("tmp").join(form));
        inn.write(&work, &(lines.join("\n") + "\n"));
        let program = format!("({program}) > {}", made.display());
        inn.tool(&["batcher", "-b", "1000000", "-p", &program, form, work.to_str().unwrap()], b"");
        assert_eq!(file(&lower, &[made]), (100, 0), "{form}");
    }
}

#[test]
#[ignore = "needs INN and root: make batches-inn"]
fn a_part_of_all_articles_is_the_part_that_inn_sends() {
    const PARTS: [&str; 5] = ["1/2", "3/10", "2-5/10:4", "1-3/7:8", "11/16:12"];
    let Some(inn) = Inn::found() else { return };
    let name = |part: &str| format!("part.{}", part.replace(['/', ':'], "."));
    let feeds = inn.site().join("etc/newsfeeds");
    let entries = PARTS.iter().map(|part| format!("{}:*:Tf,Wm,Q{}:\n", name(part), part.replace(':', "_")));
    let text = fs::read_to_string(&feeds).unwrap() + &entries.collect::<String>();
    inn.write(&feeds, &text);
    inn.start_empty();
    let list = |part: &str| {
        let name = name(part);
        format!(
            "\n[[peer]]\nname = \"{name}\"\n[peer.send]\nhash = \"{part}\"\nfile = \"out/{name}\"\n\
             lines = [\"message-id\"]\n"
        )
    };
    let sections = PARTS.iter().map(|part| list(part)).collect::<String>() + &section("all", "");
    let server = Server::start_with(|text| text.replace("\"site.example\"", "\"up.example\"") + &sections);
    hand_in(&mut server.client(), 0..10_000, "misc.test");
    assert!(batch(&server, "all").1);
    for batch in waiting(&server.data(), "all") {
        inn.tool(&["rnews"], &fs::read(batch).unwrap());
    }
    let lines = |path: std::path::PathBuf| -> BTreeSet<String> {
        fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    };
    for part in PARTS {
        let name = name(part);
        wait_for_status(&server, &name, |feed| feed["lag_articles"] == 0);
        inn.tool(&["ctlinnd", "-s", "flush", &name], b"");
        let (ours, theirs) = (
            lines(server.data().join("out").join(&name)),
            lines(inn.site().join("spool/outgoing").join(&name)),
        );
        assert!(ours.len() > 500, "{part}: {}", ours.len());
        assert_eq!(ours, theirs, "{part}");
    }
}
