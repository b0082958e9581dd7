//! Entry points for the targets in `fuzz/`: functions that read octets from a file and are not public
//! otherwise. Nothing else calls these.

use spool_base::key::ArticleKey;
use spool_methods::cnfs::record::{self, RecordHeader};
use spool_methods::tree_file_again;

/// Reads a file of a tree (`docs/formats/tree.md`) and writes its article again in both forms; returns `None`
/// if the file is damaged or none of ours.
pub fn tree_file(file: &[u8]) -> Option<[Vec<u8>; 2]> {
    tree_file_again(file)
}

/// Returns a record of an article with these bytes after its Xref line, as the spool stores it. The first of
/// the bytes is also part of its key.
pub fn record(article: &[u8]) -> Vec<u8> {
    let data = [b"Xref: h a.b:7\r\n", article, record::END].concat();
    let header = RecordHeader {
        data_bytes: data.len() as u32,
        header_bytes: 0,
        place: 0,
        sequence: article.len() as u64,
        key: ArticleKey(u128::from(article.first().copied().unwrap_or(0)) << 90),
        arrived: 1,
        expires: 2,
        message_id_at: 0,
        message_id_bytes: 0,
        class: 3,
        packed: false,
    };
    let mut record = Vec::new();
    header.put(&mut record);
    record.extend_from_slice(&data);
    record::seal(&mut record);
    record
}

/// Returns the number of entries of a snapshot (`docs/formats/snapshot.md`); an error if it is damaged.
pub fn snapshot(file: &[u8]) -> std::io::Result<u64> {
    crate::spool::snapshot::entries_in(file)
}

/// Reads the entries of a part of a snapshot and writes them again; `None` if one is invalid.
pub fn snapshot_again(content: &[u8]) -> Option<Vec<u8>> {
    crate::spool::snapshot::entries_again(content)
}

/// Returns the files of a record, with CRLF and with LF.
pub fn tree_files_of(record: &[u8]) -> Option<[Vec<u8>; 2]> {
    spool_methods::tree_files_of(record)
}
