//! A file at a server that is read for whoever writes it elsewhere, piece by piece.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{
    client::Client,
    error::{At, FsError},
    file::File,
    pieces::{PIECE_BYTES, PieceSender},
};
use crate::{error::ClientError, joined};

/// Pieces that are read at a time.
const READ_AT_A_TIME: usize = 4;

impl Client {
    /// Reads what is no hole of an open file, a few pieces at a time, for an upload
    /// ([`super::Upload::pieces`]), which is told the end, or that there is none. If the upload
    /// takes no more, that is no error here: it says itself why.
    ///
    /// # Errors
    /// [`FsError`]; the file became shorter meanwhile.
    pub async fn give(&self, file: &Arc<File>, to: PieceSender) -> Result<(), FsError> {
        let given = self.give_data(file, &to).await;
        let end = match &given {
            Ok(()) => Ok(None),
            Err(e) => Err(std::io::Error::other(e.to_string())),
        };
        // Whoever receives it may have failed.
        let _ = to.send(end).await;
        given.at(file.path())
    }

    async fn give_data(&self, file: &Arc<File>, to: &PieceSender) -> Result<(), ClientError> {
        let mut reads: JoinSet<Result<bool, ClientError>> = JoinSet::new();
        let mut at = 0;
        while let Some((start, end)) = self.next_data_of(file, at).await? {
            let mut offset = start;
            while offset < end {
                if reads.len() >= READ_AT_A_TIME && !one_is_wanted(&mut reads).await? {
                    return Ok(());
                }
                let len = usize::try_from(end - offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
                let (file, to, from) = (file.clone(), to.clone(), offset);
                reads.spawn(async move {
                    let data = file.io().read(from, len).await?;
                    Ok(to.send(Ok(Some((from, data)))).await.is_ok())
                });
                offset += len as u64;
            }
            at = end;
        }
        while !reads.is_empty() {
            if !one_is_wanted(&mut reads).await? {
                return Ok(());
            }
        }
        file.require_uncut().await
    }

    /// [`Client::next_data`], asked only of files that may have holes.
    pub(super) async fn next_data_of(
        &self,
        file: &File,
        at: u64,
    ) -> Result<Option<(u64, u64)>, ClientError> {
        match file.may_have_holes() {
            true => self.next_data(file, at).await.map_err(|e| e.error),
            false => Ok((at < file.size()).then_some((at, file.size()))),
        }
    }
}

/// Whether the piece of the next read that ended was taken.
async fn one_is_wanted(
    reads: &mut JoinSet<Result<bool, ClientError>>,
) -> Result<bool, ClientError> {
    joined::next(reads).await.unwrap_or(Ok(Ok(false)))?
}
