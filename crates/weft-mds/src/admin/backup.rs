//! Backups of the volume while it serves: one at a time, at the pace of whoever takes it, and not
//! for longer than somebody does.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::spawn_blocking,
};
use weft_server::report::{AdminError, ByteStream};
use weft_store::{
    types::Timestamp,
    volume::{Backup, BackupError, Volume},
};

/// Pieces that wait for the caller.
const PIECES_WAITING: usize = 4;
/// How long a caller may take none. What the volume replaces meanwhile keeps its place on the
/// disk, so nobody holds a backup for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a backup is being taken.
#[derive(Debug)]
pub(super) struct Backups(Arc<Semaphore>);

impl Default for Backups {
    fn default() -> Self {
        Backups(Arc::new(Semaphore::new(1)))
    }
}

impl Backups {
    /// Begins a backup.
    ///
    /// # Errors
    /// Another one is being taken, or the volume cannot be read.
    pub(super) async fn take(
        &self,
        volume: Volume,
        now: Timestamp,
    ) -> Result<ByteStream, AdminError> {
        let Ok(turn) = self.0.clone().try_acquire_owned() else {
            let why = "another backup is being taken: one at a time";
            return Err(AdminError::Failed(why.into()));
        };
        let failed = |e: &dyn std::fmt::Display| AdminError::Failed(format!("no backup: {e}"));
        let backup = spawn_blocking(move || volume.backup(now)).await;
        let backup = backup.map_err(|e| failed(&e))?.map_err(|e| failed(&e))?;
        let (pieces, stream) = mpsc::channel(PIECES_WAITING);
        spawn_blocking(move || send(backup, pieces, turn));
        Ok(stream)
    }
}

/// Writes the backup out; a failure is the last that the caller gets.
fn send(backup: Backup, pieces: mpsc::Sender<io::Result<Bytes>>, turn: OwnedSemaphorePermit) {
    let mut out = Pieces(pieces);
    match backup.write(&mut out) {
        Ok(_) => {}
        Err(BackupError::Output(e)) => tracing::warn!(error = %e, "a backup was not finished"),
        Err(e) => {
            tracing::error!(error = %e, "a backup failed");
            // Nobody may be listening any more.
            let _ = out.0.try_send(Err(io::Error::other(e.to_string())));
        }
    }
    drop(turn);
}

/// What is written goes to the caller, who may take his time.
struct Pieces(mpsc::Sender<io::Result<Bytes>>);

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Ok(Bytes::copy_from_slice(bytes));
        match Handle::current().block_on(tokio::time::timeout(PATIENCE, self.0.send(piece))) {
            Ok(Ok(())) => Ok(bytes.len()),
            Ok(Err(_)) => Err(io::Error::other("its caller has gone")),
            Err(_) => Err(io::Error::other("its caller took nothing for a minute")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weft_store::volume::{BackupReader, VolumeConfig};

    use super::*;

    fn volume() -> Volume {
        Volume::in_memory(&VolumeConfig::default()).unwrap()
    }

    /// What is sent is a whole backup; there is one at a time; when it was taken, or its caller has
    /// gone, the next may come.
    #[tokio::test(flavor = "multi_thread")]
    async fn one_backup_at_a_time() {
        let (backups, volume) = (Backups::default(), volume());
        for _ in 0..2 {
            let stream = backups.take(volume.clone(), Timestamp::default()).await.unwrap();
            drop(stream);
            let turn = backups.0.clone().acquire_owned().await.unwrap();
            drop(turn);
        }
        let busy = backups.0.clone().acquire_owned().await.unwrap();
        let refused = backups.take(volume.clone(), Timestamp::default()).await.unwrap_err();
        assert!(refused.to_string().contains("another backup"), "{refused}");
        drop(busy);
        let mut stream = backups.take(volume, Timestamp::default()).await.unwrap();
        let mut file = Vec::new();
        while let Some(piece) = stream.recv().await {
            file.extend_from_slice(&piece.unwrap());
        }
        let mut reader = BackupReader::start(&file[..]).unwrap();
        while reader.next_block().unwrap().is_some() {}
        assert_eq!(reader.summary().inodes, 1);
    }
}
