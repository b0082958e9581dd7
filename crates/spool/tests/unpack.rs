//! Reads a fixture: a tar archive, compressed with zstd.

/// A file of a site.
pub struct Packed {
    /// Path below the site's directory.
    pub path: String,
    pub bytes: Vec<u8>,
    /// The file that this is another name of, if it is one.
    pub link: Option<String>,
}

/// The files of `b571c6a.tar.zst`; see `fixtures/README.md`.
pub fn b571c6a() -> Vec<Packed> {
    unpack(include_bytes!("fixtures/b571c6a.tar.zst"))
}

fn unpack(archive: &[u8]) -> Vec<Packed> {
    const BLOCK: usize = 512;
    let tar = zstd::decode_all(archive).unwrap();
    let (mut files, mut at) = (Vec::new(), 0);
    while tar[at] != 0 {
        let text = |range: std::ops::Range<usize>| {
            let field = &tar[at + range.start..at + range.end];
            String::from_utf8(field.split(|b| *b == 0).next().unwrap().to_vec()).unwrap()
        };
        let path = text(0..100);
        let len = usize::from_str_radix(text(124..136).trim(), 8).unwrap();
        let start = at + BLOCK;
        let link = (tar[at + 156] == b'1').then(|| text(157..257));
        files.push(Packed { path, bytes: tar[start..start + len].to_vec(), link });
        at = start + len.next_multiple_of(BLOCK);
    }
    files
}
