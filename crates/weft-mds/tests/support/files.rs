//! What is in files: bytes that tell their place, written and read in requests of a usual size.

use weft_nfs::{FileHandle, Stateid};

use super::{Client, read, write};

/// A file, and what it is open by.
pub type File = (FileHandle, Stateid);

/// Bytes of one request.
const REQUEST_BYTES: usize = 1 << 19;

/// Bytes that tell their place.
pub fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(|i| (i / 4096 + i % 251) as u8).collect()
}

/// Writes these bytes.
pub async fn fill(c: &mut Client, file: &File, offset: u64, data: &[u8]) {
    for (n, part) in (0..).zip(data.chunks(REQUEST_BYTES)) {
        let at = offset + n * REQUEST_BYTES as u64;
        c.compound().putfh(&file.0).op(write(file.1, at, part)).send().await.ok();
    }
}

/// All of a file.
pub async fn contents(c: &mut Client, file: &File) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let op = read(file.1, all.len() as u64, REQUEST_BYTES as u32);
        let (data, eof) = c.compound().putfh(&file.0).op(op).send().await.ok().data();
        all.extend_from_slice(&data);
        if eof {
            return all;
        }
    }
}
