//! The copies of a replicated file (P1.3, ADR 39): one that is read, and how they are made alike
//! where they may differ.

use std::{future::Future, sync::Arc};

use weft_nfs::{IO_BYTES_MAX, StableHow};
use weft_store::types::{Content, DataServerId, Spread};

use super::{cluster::DataServers, error::DataServerError, server::Server};
use crate::striped::Striped;

/// What became of a part of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// Where the next part begins; `None`: there is none.
    pub next: Option<u64>,
    /// Some copy had other bytes.
    pub differed: bool,
}

impl DataServers {
    /// Asks one copy of a file, of those whose data server is there as long as there are any; the
    /// next where it falls silent, has lost bytes, or cannot read them.
    ///
    /// # Errors
    /// [`DataServerError`] of the last that was asked.
    pub(super) async fn of_one_copy<T, F>(
        &self,
        file: &Striped,
        offset: u64,
        ask: impl Fn(u16) -> F,
    ) -> Result<T, DataServerError>
    where
        F: Future<Output = Result<T, DataServerError>>,
    {
        let mut told = Err(self.damaged(file));
        let mut rest = Vec::new();
        for copy in self.copies_to_read(file, offset)? {
            rest.push((copy, self.server_of_copy(file, copy)?));
        }
        while !rest.is_empty() {
            // Several may fall silent while one is asked.
            let next = rest.iter().position(|(_, server)| server.answers()).unwrap_or(0);
            let (copy, server) = rest.remove(next);
            told = match rest.is_empty() {
                true => ask(copy).await,
                false => tokio::select! {
                    told = ask(copy) => told,
                    () = server.silent() => Err(silent(server.id)),
                },
            };
            match &told {
                // Others are of the same epoch.
                Ok(_) | Err(DataServerError::Fenced { .. }) => break,
                Err(error) => tracing::debug!(%error, "another copy is asked"),
            }
        }
        told
    }

    /// The data server that has a copy.
    fn server_of_copy(&self, file: &Striped, copy: u16) -> Result<Arc<Server>, DataServerError> {
        let id = file.data_servers.get(usize::from(copy)).ok_or_else(|| self.damaged(file))?;
        self.server(*id)
    }

    /// Copies that may be read, each stripe unit beginning with another one. If the copies may
    /// differ, only the first.
    fn copies_to_read(&self, file: &Striped, offset: u64) -> Result<Vec<u16>, DataServerError> {
        let Spread::Copies { alike: true } = file.spread else {
            return Ok(vec![file.first_stripe_index]);
        };
        let first = file.copy_asked_at(offset).ok_or_else(|| self.damaged(file))?;
        Ok((first..file.stripe_count()).chain(0..first).collect())
    }

    /// Compares the next bytes of the copies of a file, from an offset on, that one of them has, up
    /// to `end`, and gives each what the first has. What is written is durable. Others may write
    /// meanwhile, to all copies; nobody cuts the file.
    ///
    /// **Cost**: each copy is read, up to 4 MiB; what differs is written.
    ///
    /// # Errors
    /// [`DataServerError`]; some may be written. What was given up may still be carried out, until
    /// the file is fenced.
    pub async fn compare_copies(
        &self,
        file: &Striped,
        from: u64,
        end: u64,
    ) -> Result<Compared, DataServerError> {
        let found = match from < end {
            true => self.seek_in(file, Content::Data, (from, end), |_| true).await?,
            false => None,
        };
        let Some(data) = found else { return Ok(Compared { next: None, differed: false }) };
        let len = (end - data).min(IO_BYTES_MAX as u64);
        let _turn = self.turns.hold(file, data, len).await;
        let right = self.read_copy(file, file.first_stripe_index, data, len).await?;
        let mut differed = false;
        for (copy, _) in file.holders() {
            let copy = u16::try_from(copy).map_err(|_| self.damaged(file))?;
            if copy != file.first_stripe_index
                && self.read_copy(file, copy, data, len).await? != right
            {
                differed = true;
                let (what, stable) = ((data, right.clone()), StableHow::FILE_SYNC);
                self.write_of(file, Some(copy), what, stable).await?;
            }
        }
        Ok(Compared { next: Some(data + len), differed })
    }
}

fn silent(id: DataServerId) -> DataServerError {
    DataServerError::Unreachable { id, why: "it does not answer".into() }
}
