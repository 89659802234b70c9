//! Copying between two files whose stripes lie on the same data servers: each copies its own.

use weft_control::codec::{CopyArgs, CopyOk, Nothing, Procedure};
use weft_nfs::Verifier;
use weft_xdr::Decode;

use super::{cluster::DataServers, error::DataServerError, indirect::combined, objects::name};
use crate::striped::Striped;

/// Bytes of one object that one request copies at most: a fraction of a second, in which the
/// object cannot be fenced.
const COPY_BYTES_MAX: u64 = 64 << 20;

impl DataServers {
    /// Most bytes of a file that one [`Self::copy`] may be asked for.
    pub fn copy_bytes_max(file: &Striped) -> u64 {
        COPY_BYTES_MAX.saturating_mul(file.data_servers.len() as u64)
    }

    /// Copies a range to a file that lines up ([`Striped::lines_up`]), holes as holes. The
    /// verifier is to be compared with that of [`Self::commit`] of the destination.
    ///
    /// **Cost**: one message to each data server, no data.
    ///
    /// # Errors
    /// [`DataServerError`]; some of it may be copied. One that was given up may still be carried
    /// out, until the destination is fenced.
    pub async fn copy(
        &self,
        source: &Striped,
        from: u64,
        destination: &Striped,
        to: u64,
        len: u64,
    ) -> Result<Verifier, DataServerError> {
        let copied =
            self.on_pairs::<CopyOk>(Procedure::COPY, (source, from), (destination, to), len);
        let verifiers: Vec<_> = copied.await?.into_iter().map(|ok| ok.verifier).collect();
        Ok(combined(verifiers.iter().map(std::slice::from_ref)))
    }

    /// Makes a range of a file that lines up the same blocks, on every data server, durably.
    ///
    /// # Errors
    /// [`DataServerError`]: `Unsupported` or `Unaligned` where blocks cannot be shared. Some data
    /// servers may have done it.
    pub async fn clone_range(
        &self,
        source: &Striped,
        from: u64,
        destination: &Striped,
        to: u64,
        len: u64,
    ) -> Result<(), DataServerError> {
        let cloned =
            self.on_pairs::<Nothing>(Procedure::CLONE, (source, from), (destination, to), len);
        cloned.await.map(drop)
    }

    /// Asks every data server about the range of its own pair of objects.
    async fn on_pairs<T: Decode + Send + 'static>(
        &self,
        procedure: Procedure,
        (source, from): (&Striped, u64),
        (destination, to): (&Striped, u64),
        len: u64,
    ) -> Result<Vec<T>, DataServerError> {
        let (target, epoch) = (name(destination), destination.fence_epoch);
        let answers = self.on_all(source, |server, object, _| async move {
            let (source, destination) = (object, target);
            let args = CopyArgs { source, destination, epoch, from, to, len };
            server.ask::<T>(procedure, &args).await
        });
        answers.await
    }
}
