//! The copies of a replicated file (P1.3, ADR 39): one that is read, and how they are made alike
//! where they may differ.

use std::future::Future;

use bytes::Bytes;
use weft_nfs::{IO_BYTES_MAX, StableHow};
use weft_store::types::{Content, Spread};

use super::{cluster::DataServers, error::DataServerError};
use crate::striped::Striped;

impl DataServers {
    /// Asks one copy of a file; the next where its data server is away, or has lost bytes.
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
        for copy in self.copies_to_read(file, offset)? {
            told = ask(copy).await;
            match &told {
                Err(DataServerError::Unreachable { .. } | DataServerError::Lost { .. }) => {}
                _ => break,
            }
        }
        told
    }

    /// Which copies may be read, in the order in which they are asked: those whose data server is
    /// there first, and for each stripe unit from another one on. Where they may differ the first
    /// only.
    fn copies_to_read(&self, file: &Striped, offset: u64) -> Result<Vec<u16>, DataServerError> {
        let Spread::Copies { alike: true } = file.spread else {
            return Ok(vec![file.first_stripe_index]);
        };
        let count = u64::try_from(file.data_servers.len()).unwrap_or(u64::MAX).max(1);
        let unit = offset / u64::from(file.stripe_unit_bytes).max(1);
        let from = u64::from(file.first_stripe_index) + unit % count;
        let index = |n| u16::try_from((from + n) % count).map_err(|_| self.damaged(file));
        let mut order = (0..count).map(index).collect::<Result<Vec<_>, _>>()?;
        let is_away = |index: &u16| {
            let id = file.data_servers.get(usize::from(*index));
            !id.is_some_and(|id| self.are_up(&[*id]))
        };
        order.sort_by_key(is_away);
        Ok(order)
    }

    /// Gives all copies of a file the bytes that the first has, durably, as far as any of them
    /// reaches. Nobody else may write meanwhile.
    ///
    /// **Cost**: each copy is read wherever one of them has data; what differs is written.
    ///
    /// # Errors
    /// [`DataServerError`]; some may be written. What was given up may still be carried out, until
    /// the file is fenced.
    pub async fn make_alike(&self, file: &Striped) -> Result<(), DataServerError> {
        let told = self.fetch_attrs(&[file]).await.pop();
        let objects = told.unwrap_or_else(|| Err(self.damaged(file)))?;
        let end = objects.lengths.iter().copied().max().unwrap_or(0);
        let mut at = 0;
        while at < end {
            let found = self.seek_in(file, Content::Data, (at, end), |_| true).await?;
            let Some(data) = found else { return Ok(()) };
            let len = (end - data).min(IO_BYTES_MAX as u64);
            self.make_range_alike(file, data, len).await?;
            at = data + len;
        }
        Ok(())
    }

    async fn make_range_alike(
        &self,
        file: &Striped,
        offset: u64,
        len: u64,
    ) -> Result<(), DataServerError> {
        let right = self.read_copy(file, file.first_stripe_index, offset, len).await?;
        for (index, _) in file.holders() {
            let index = u16::try_from(index).map_err(|_| self.damaged(file))?;
            if index != file.first_stripe_index
                && self.read_copy(file, index, offset, len).await? != right
            {
                self.write_copy(file, index, offset, right.clone()).await?;
            }
        }
        Ok(())
    }

    async fn write_copy(
        &self,
        file: &Striped,
        index: u16,
        offset: u64,
        data: Bytes,
    ) -> Result<(), DataServerError> {
        let written = self.write_of(file, Some(index), (offset, data), StableHow::FILE_SYNC);
        written.await.map(drop)
    }
}
