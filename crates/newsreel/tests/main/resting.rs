//! Overview of groups that have become quiet is written without waiting for more.

use crate::client::article;
use crate::operated::Operated;
use crate::waiting::wait_until;

#[test]
fn overview_of_a_quiet_group_is_written_to_disk() {
    let site = Operated::with(&["--peer", "127.0.0.1", "--reader", "127.0.0.1"]);
    site.done(&["group", "add", "test.resting"]);
    let server = site.serve();
    let mut client = server.client();
    for n in 0..40 {
        let id = format!("<{n}@resting.example>");
        client.send(format!("TAKETHIS {id}\r\n{}", article(&id, "test.resting", "short")));
        assert_eq!(client.line(), format!("239 {id}"));
    }
    let overview = site.dir().join("index").join("overview");
    let written = || {
        let files = std::fs::read_dir(&overview).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    // Less than a block, and nothing more comes.
    wait_until("the overview is written", || written() > 0);
    assert_eq!(client.ask("GROUP test.resting"), "211 40 1 40 test.resting");
    client.send("OVER 1-40\r\nSTAT 40\r\n");
    assert!(client.line().starts_with("224 "));
    assert_eq!(client.block().len(), 40);
    assert!(client.line().starts_with("223 40 "));
}
