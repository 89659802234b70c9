//! `--verify`: both sides are read again and compared.

use std::{fs, os::unix::fs::FileExt, sync::Arc};

use bytes::Bytes;
use weft_client::fs::{File, OpenOptions, PIECE_BYTES};

use super::{local, place::Place, spot::Spot};
use crate::client_cmds::connect::Remote;

/// A file that is read again.
enum Side {
    Local(Arc<fs::File>, String),
    Cluster(Box<File>, Arc<Remote>),
}

/// Compares a file with its copy.
///
/// # Errors
/// They differ, or cannot be read.
pub(super) async fn compare(
    (from, source): (&Place, &Spot),
    (to, copy): (&Place, &Spot),
) -> Result<(), String> {
    let (a, b) = (Side::open(from, source).await?, Side::open(to, copy).await?);
    let differ = differ(&a, &b).await;
    let closed = (a.close().await, b.close().await);
    if let Some(at) = differ? {
        let (source, copy) = (from.show(&source.path), to.show(&copy.path));
        return Err(format!("{copy}: differs from {source}, from byte {at} on (copy it again)"));
    }
    closed.0.and(closed.1)
}

/// The first byte that differs, if one does.
async fn differ(a: &Side, b: &Side) -> Result<Option<u64>, String> {
    let mut at = 0;
    loop {
        let (x, y) = tokio::try_join!(a.read(at), b.read(at))?;
        let same = x.iter().zip(&y).take_while(|(x, y)| x == y).count();
        if same < x.len().max(y.len()) {
            return Ok(Some(at + same as u64));
        }
        if x.is_empty() {
            return Ok(None);
        }
        at += x.len() as u64;
    }
}

impl Side {
    async fn open(place: &Place, spot: &Spot) -> Result<Side, String> {
        let path = &spot.path;
        match place {
            Place::Local => {
                let file = match local::open_listed(spot) {
                    Ok(Some((file, _))) => Ok(file),
                    Ok(None) => fs::File::open(path),
                    Err(e) => Err(e),
                };
                let file = file.map_err(|e| format!("{}: {e}", path.display()))?;
                Ok(Side::Local(Arc::new(file), path.display().to_string()))
            }
            Place::Cluster(remote) => {
                let file = remote.client.open(path, OpenOptions::read()).await;
                let file = file.map_err(|e| remote.failed(&e))?;
                Ok(Side::Cluster(Box::new(file), remote.clone()))
            }
        }
    }

    /// The next bytes, as many as there are up to a piece.
    async fn read(&self, at: u64) -> Result<Bytes, String> {
        match self {
            Side::Local(file, name) => {
                let file = file.clone();
                let read = tokio::task::spawn_blocking(move || read_local(&file, at)).await;
                let read = read.map_err(std::io::Error::other).flatten();
                read.map_err(|e| format!("{name}: {e}"))
            }
            Side::Cluster(file, remote) => {
                file.read_at(at, PIECE_BYTES).await.map_err(|e| remote.failed(&e))
            }
        }
    }

    async fn close(self) -> Result<(), String> {
        match self {
            Side::Local(..) => Ok(()),
            Side::Cluster(file, remote) => file.close().await.map_err(|e| remote.failed(&e)),
        }
    }
}

fn read_local(file: &fs::File, at: u64) -> std::io::Result<Bytes> {
    let mut data = vec![0; PIECE_BYTES];
    let mut len = 0;
    while len < data.len() {
        match file.read_at(&mut data[len..], at + len as u64)? {
            0 => break,
            n => len += n,
        }
    }
    data.truncate(len);
    Ok(data.into())
}
