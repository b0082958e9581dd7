//! Messages of a cluster's log: whatever an engine gives is refused or read, and what was read is written
//! again as the same bytes.
#![no_main]

use cluster::entry::{LogEntry, read_body};
use cluster::message::{ClusterId, LogMessage, MessageHead, MessageTag, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(message) = LogMessage::read(input) {
        let again = encode(&message.head, &message.body, false).expect("a body that was read fits");
        assert_eq!(LogMessage::read(&again).map(|again| again.head), Ok(message.head));
    }
    // As the body of a message whose checksum is right.
    let tag = MessageTag { member: 1, incarnation: 2, counter: 3 };
    let head = MessageHead { cluster: ClusterId([4; 8]), tag, revision: 5, time: 6 };
    let Some(bytes) = encode(&head, input, true) else { return };
    let message = LogMessage::read(&bytes).expect("a message is read as written");
    assert_eq!((message.head, &*message.body), (head, input));
    let Ok(entries) = read_body(input) else { return };
    for entry in &entries {
        if let LogEntry::Article(article) = entry {
            let mut facts = Vec::new();
            article.put_facts(&[], &mut facts);
            let time = 1_795_000_000;
            if let cluster::entry::ArticleBody::Inline(bytes) = article.body {
                assert!(
                    article.change(bytes, &[bytes], &facts, time).is_some(),
                    "a valid article is a change"
                );
            }
        }
    }
});
