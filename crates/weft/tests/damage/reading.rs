//! Every byte is right, or it is an error.

use weft_client::fs::{Client, File, OpenOptions};
use weft_nfs::NfsStat;

use super::expected::{Byte, Expected};
use super::model::Model;

/// Reads all files, piece by piece where something is wrong with them; of one that is fenced ahead,
/// what it has on other data servers can be read, and nobody waits for the rest.
pub async fn all(client: &Client, model: &Model, expected: &Expected) {
    for (file, names) in model.named() {
        let wanted = &model.files[file];
        let opened = client.open(&names[0], OpenOptions::read()).await.expect("open");
        assert_eq!(opened.size(), wanted.len() as u64, "size of {names:?}");
        if expected.fenced.contains(&file) {
            let read = opened.read_at(0, wanted.len()).await;
            let status = read.err().map(|e| e.error.status());
            assert!(matches!(status, None | Some(Some(NfsStat::IO))), "{names:?}: {status:?}");
            opened.close().await.expect("close");
            continue;
        }
        let bytes = expected.bytes.get(&file);
        let mut at = 0;
        while at < wanted.len() {
            let kind = bytes.map_or(Byte::Right, |bytes| bytes[at]);
            let same = bytes.map(|bytes| bytes[at..].iter().position(|other| *other != kind));
            let until = same.flatten().map_or(wanted.len(), |len| at + len);
            piece(&opened, (at, &wanted[at..until]), kind, &names[0]).await;
            at = until;
        }
        opened.close().await.expect("close");
    }
}

async fn piece(file: &File, (at, wanted): (usize, &[u8]), kind: Byte, name: &str) {
    let read = file.read_at(at as u64, wanted.len()).await;
    let what = || format!("{name}: {} bytes at {at}, {kind:?}", wanted.len());
    match (kind, read) {
        (Byte::Changed, _) => {}
        (Byte::Right, Ok(read)) => assert!(read[..] == *wanted, "{}: other bytes", what()),
        (Byte::Lost, Err(e)) if e.error.status() == Some(NfsStat::IO) => {}
        (_, Ok(_)) => panic!("{}: read", what()),
        (_, Err(e)) => panic!("{}: {e}", what()),
    }
}
