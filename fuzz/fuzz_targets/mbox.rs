//! A file of mails: what is read does not depend on how it arrives, and written again it is read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::mbox::{MboxSplitter, MboxStep, append_mail};

type Mails = Vec<(Option<i64>, Vec<u8>)>;

fuzz_target!(|file: &[u8]| {
    let mails = read(file, usize::MAX);
    assert_eq!(mails, read(file, 7));
    let mut again = Vec::new();
    for (at, text) in &mails {
        append_mail("a@b", at.unwrap_or(0), text, &mut again);
    }
    let texts = |mails: &Mails| -> Vec<Vec<u8>> {
        mails
            .iter()
            .map(|(_, text)| {
                [text.as_slice(), if text.is_empty() || text.ends_with(b"\n") { b"" } else { b"\n" }].concat()
            })
            .collect()
    };
    assert_eq!(texts(&read(&again, usize::MAX)), texts(&mails));
});

fn read(file: &[u8], piece: usize) -> Mails {
    let mut splitter = MboxSplitter::new(1 << 20);
    let (mut start, mut end, mut mails) = (0, 0, Mails::new());
    loop {
        match splitter.step(&file[start..end], end == file.len()) {
            MboxStep::More => end = end.saturating_add(piece).min(file.len()),
            MboxStep::Mail(bytes, mail) => {
                let mut text = Vec::new();
                mail.append_text(&mut text);
                mails.push((mail.arrived, text));
                start += bytes;
            }
            MboxStep::Skip(bytes) | MboxStep::Damaged(bytes, _) => start += bytes,
            MboxStep::End => return mails,
        }
    }
}
