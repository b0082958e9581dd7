//! Reads a fixture: a tar archive, compressed with zstd.

/// A file of a site.
pub struct Packed {
    /// Path below the site's directory.
    pub path: String,
    pub bytes: Vec<u8>,
    /// The file that this is another name of, if it is one.
    pub link: Option<String>,
}

/// A site as an older version left it; see `fixtures/README.md`.
pub struct Fixture {
    /// Version, or commit, that wrote it.
    pub version: &'static str,
    /// How many numbers beyond the highest one a group may have used, as far as is known once the machine
    /// went down: so many were promised in the journal.
    pub promised: u64,
    archive: &'static [u8],
}

impl Fixture {
    pub const ALL: [Self; 3] = [
        Self { version: "b571c6a", promised: 0, archive: include_bytes!("fixtures/b571c6a.tar.zst") },
        Self { version: "0.1.0", promised: 2048, archive: include_bytes!("fixtures/0.1.0.tar.zst") },
        Self { version: "f0b3803", promised: 2048, archive: include_bytes!("fixtures/f0b3803.tar.zst") },
    ];

    pub fn files(&self) -> Vec<Packed> {
        unpack(self.archive)
    }
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
