//! The indirect path (design D6, P0.1): the metadata server reads and writes the bytes of
//! striped files itself, for clients without layouts.

use bytes::{Bytes, BytesMut};
use weft_layout::{Rights, VerifierMask, file_verifier};
use weft_nfs::{IO_BYTES_MAX, NfsStat, StableHow, Verifier};
use weft_store::types::DataServerId;

use super::{
    cluster::DataServers,
    each,
    error::DataServerError,
    gather::{Target, Written},
};
use crate::striped::Striped;

/// Largest READ or WRITE sent to a data server, bytes.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// A part of a file range that one message to one data server can carry.
#[derive(Debug)]
struct Piece {
    target: Target,
    /// Index of the data server in the file's list.
    index: usize,
    /// Offset in the file, which is that in the sparse object too.
    offset: u64,
    /// Offset within the range asked for.
    at: usize,
    len: usize,
    /// How long the object is at least, by what the volume knows: less is a loss, not a hole.
    length_min: u64,
    /// The file's number.
    object: u64,
}

impl DataServers {
    /// Reads a range of a file: holes are zeros, and so is what lies behind the file's end, which
    /// only the caller knows. At most `IO_BYTES_MAX` (4 MiB) are read. Of copies that are alike one
    /// is read that can be.
    ///
    /// **Cost**: no copy if the range lies within a stripe unit, else one.
    ///
    /// # Errors
    /// [`DataServerError`]; Lost where an object ends before the bytes that it once had.
    pub async fn read(
        &self,
        file: &Striped,
        offset: u64,
        len: u64,
    ) -> Result<Bytes, DataServerError> {
        if !file.is_copied() {
            self.meet(&file.holder_ids()).await?;
            return self.read_of(file, None, offset, len).await;
        }
        self.of_one_copy(file, offset, |copy| self.read_copy(file, copy, offset, len)).await
    }

    /// The same of one of the copies of a file.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub(super) async fn read_copy(
        &self,
        file: &Striped,
        index: u16,
        offset: u64,
        len: u64,
    ) -> Result<Bytes, DataServerError> {
        let id = file.data_servers.get(usize::from(index)).copied();
        self.meet(id.as_slice()).await?;
        self.read_of(file, Some(index), offset, len).await
    }

    /// What the objects have of a range; of copies that one.
    async fn read_of(
        &self,
        file: &Striped,
        copy: Option<u16>,
        offset: u64,
        len: u64,
    ) -> Result<Bytes, DataServerError> {
        let len = usize::try_from(len).unwrap_or(IO_BYTES_MAX).min(IO_BYTES_MAX);
        let pieces = self.pieces(file, (offset, len), Rights::READ, copy)?;
        let places: Vec<_> = pieces.iter().map(|p| p.at).collect();
        let parts = each::all(pieces.into_iter().map(read_piece)).await;
        let mut parts: Vec<Bytes> = parts.into_iter().collect::<Result<_, _>>()?;
        if parts.len() == 1 && parts.first().is_some_and(|p| p.len() == len) {
            return Ok(parts.swap_remove(0));
        }
        let mut out = BytesMut::zeroed(len);
        for (at, part) in places.into_iter().zip(parts) {
            if let Some(to) = out.get_mut(at..at + part.len()) {
                to.copy_from_slice(&part);
            }
        }
        Ok(out.freeze())
    }

    /// Writes a range of a file that reaches so far; how durable it is, and the verifier to compare
    /// with [`Self::commit`]'s. It returns when no part of it is under way any more. Small ones may
    /// leave together with others of the file.
    ///
    /// # Errors
    /// [`DataServerError`], also that of one it left with; some of it may be written.
    pub async fn write(
        &self,
        file: &Striped,
        offset: u64,
        data: Bytes,
        stable: StableHow,
    ) -> Result<(StableHow, Verifier), DataServerError> {
        self.meet(&file.holder_ids()).await?;
        self.gather.came();
        let _turn = self.turns.hold_copies(file, offset, data.len() as u64).await;
        let stable = self.durability(&file.data_servers, stable);
        let done = self.write_of(file, None, (offset, data), stable).await?;
        let committed = done.iter().map(|(_, w)| w.committed).min();
        let committed = committed.unwrap_or(StableHow::FILE_SYNC);
        Ok((committed, self.verifier_of(file, &done).await?))
    }

    /// The same of what is in each object, or of one copy: what each data server said, with its
    /// index.
    pub(super) async fn write_of(
        &self,
        file: &Striped,
        copy: Option<u16>,
        (offset, data): (u64, Bytes),
        stable: StableHow,
    ) -> Result<Vec<(usize, Written)>, DataServerError> {
        let pieces = self.pieces(file, (offset, data.len()), Rights::READ_WRITE, copy)?;
        let jobs = pieces.into_iter().map(|piece| {
            let part = data.slice(piece.at..piece.at + piece.len);
            let written = self.gather.clone().write(piece.target, piece.offset, part, stable);
            async move { written.await.map(|written| (piece.index, written)) }
        });
        let done = each::all(jobs.collect::<Vec<_>>()).await;
        each::all_done(done)
    }

    /// Makes everything written to a file durable, by whomever. The verifier differs from that
    /// of a write if one of its data servers may have lost some of it.
    ///
    /// # Errors
    /// [`DataServerError`].
    pub async fn commit(&self, file: &Striped) -> Result<Verifier, DataServerError> {
        self.meet(&file.holder_ids()).await?;
        let mut jobs = Vec::new();
        for (index, id) in file.holders() {
            let index = u16::try_from(index).map_err(|_| self.damaged(file))?;
            let server = self.server(id)?;
            let handle = self.handle(file, index, id, Rights::READ_WRITE)?;
            jobs.push(async move {
                let done = server.session().await?.ds_commit(handle).await;
                let done = done.map_err(|e| DataServerError::of_client(server.id, &e))?;
                server.told_verifier(done.0);
                Ok(done.0)
            });
        }
        let verifiers = each::all(jobs).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.with_those_without(file, verifiers).await
    }

    /// The verifier of a file whose objects are on data servers that told these, in stripe order.
    /// Those without an object count too, so that it stays when they get one: who never told its
    /// own to this process is asked.
    ///
    /// # Errors
    /// [`DataServerError`]: one is not known.
    pub(super) async fn with_those_without(
        &self,
        file: &Striped,
        told: Vec<[u8; 8]>,
    ) -> Result<Verifier, DataServerError> {
        let mut told = told.into_iter();
        let mut all = Vec::with_capacity(file.data_servers.len());
        for (index, id) in file.data_servers.iter().enumerate() {
            let told = if file.holds(index) { told.next() } else { None };
            all.push(match (told, self.server(*id)?) {
                (Some(told), _) => told,
                (None, server) => match server.known_verifier() {
                    Some(known) => known,
                    None => server.verifier().await?,
                },
            });
        }
        Ok(combined(all.iter().map(std::slice::from_ref)))
    }

    /// The verifiers of these become known, for [`DataServers::layout_body`].
    ///
    /// # Errors
    /// [`DataServerError`] of one that cannot be asked.
    pub async fn meet_verifiers(&self, ids: &[DataServerId]) -> Result<(), DataServerError> {
        for id in ids {
            self.server(*id)?.verifier().await?;
        }
        Ok(())
    }

    /// The verifier of a file now, and what makes it of that of each of its data servers.
    ///
    /// # Errors
    /// Unreachable: one is not known.
    pub(super) fn masks(
        &self,
        file: &Striped,
    ) -> Result<(Verifier, Vec<VerifierMask>), DataServerError> {
        let of = |id: &DataServerId| {
            let why = "its write verifier is not known";
            let unknown = || DataServerError::Unreachable { id: *id, why: why.into() };
            self.server(*id)?.known_verifier().ok_or_else(unknown)
        };
        let all = file.data_servers.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let verifier = combined(all.iter().map(std::slice::from_ref));
        let masks = all.iter().map(|own| VerifierMask::between(verifier.0, *own)).collect();
        Ok((verifier, masks))
    }

    /// The messages for a range: to write, to each object that has bytes of it; to read, to one
    /// that has them, of copies to this one.
    fn pieces(
        &self,
        file: &Striped,
        (offset, len): (u64, usize),
        rights: Rights,
        copy: Option<u16>,
    ) -> Result<Vec<Piece>, DataServerError> {
        let damaged = || self.damaged(file);
        let rule = file.distribution().map_err(|_| damaged())?;
        let mut pieces = Vec::new();
        let mut extent_at = 0;
        for extent in rule.extents(offset, len as u64) {
            let homes = match copy.map(u32::from) {
                Some(copy) => copy..copy + 1,
                None => rule.homes(extent.stripe_index),
            };
            for home in homes {
                let index = u16::try_from(home).map_err(|_| damaged())?;
                if !rights.write && !file.holds(index.into()) {
                    // No object: a hole.
                    continue;
                }
                let id = file.data_servers.get(usize::from(index)).ok_or_else(damaged)?;
                let server = self.server(*id)?;
                let handle = self.handle(file, index, *id, rights)?;
                let (mut from, mut left, mut at) = (extent.object_offset, extent.len, extent_at);
                while left > 0 {
                    let part = left.min(PIECE_BYTES_MAX);
                    let len = usize::try_from(part).map_err(|_| damaged())?;
                    pieces.push(Piece {
                        target: Target { server: server.clone(), handle: handle.clone() },
                        index: index.into(),
                        offset: from,
                        at,
                        len,
                        length_min: file.length_min(index.into()),
                        object: file.object,
                    });
                    (from, left, at) = (from + part, left - part, at + len);
                }
            }
            extent_at += usize::try_from(extent.len).map_err(|_| damaged())?;
        }
        Ok(pieces)
    }

    /// The file's verifier after a write: of the data servers that took part, what they said to
    /// this very write; of the others what they say now, or the last that is known. One that is
    /// not known and cannot be asked gets none, so that COMMIT's will differ. Those without an
    /// object are asked only if none is known: COMMIT takes what is, see
    /// [`Self::with_those_without`].
    pub(super) async fn verifier_of(
        &self,
        file: &Striped,
        done: &[(usize, Written)],
    ) -> Result<Verifier, DataServerError> {
        let mut all = Vec::with_capacity(file.data_servers.len());
        for (index, id) in file.data_servers.iter().copied().enumerate() {
            let mine = done.iter().filter(|(at, _)| *at == index);
            let mut said: Vec<_> = mine.flat_map(|(_, w)| w.verifiers.iter().copied()).collect();
            said.dedup();
            if said.is_empty() {
                let server = self.server(id)?;
                let known = server.known_verifier();
                let asks = file.holds(index) || known.is_none() && server.is_up();
                let told = if asks { server.verifier().await.map(Some) } else { Ok(known) };
                // It took no part. If it has lost bytes since, COMMIT's will differ.
                said.extend(told.unwrap_or_else(|error| {
                    tracing::debug!(%error, "write verifier not told: the last one known");
                    server.known_verifier()
                }));
            }
            all.push(said);
        }
        Ok(combined(all.iter().map(Vec::as_slice)))
    }
}

/// The verifier of a file, of those of all its data servers, in order. A handle can make it of that
/// of one of them ([`VerifierMask`]).
pub(super) fn combined<'a>(verifiers: impl Iterator<Item = &'a [[u8; 8]]>) -> Verifier {
    let mut hash = blake3::Hasher::new_derive_key("weft combined write verifier v1");
    for said in verifiers {
        hash.update(&(said.len() as u64).to_be_bytes());
        said.iter().for_each(|v| {
            hash.update(v);
        });
    }
    let mut bits = [0; 4];
    hash.finalize_xof().fill(&mut bits);
    Verifier(file_verifier(u32::from_be_bytes(bits)))
}

/// What the data server has of a piece; shorter than the piece where the object ends.
async fn read_piece(piece: Piece) -> Result<Bytes, DataServerError> {
    let Piece { target: Target { server, handle }, offset, len, length_min, object, .. } = piece;
    let session = server.session().await?;
    let mut parts: Vec<Bytes> = Vec::new();
    let mut got = 0;
    while got < len {
        let want = u32::try_from(len - got).unwrap_or(u32::MAX);
        match session.ds_read(handle.clone(), offset + got as u64, want).await {
            Ok((data, _)) if data.is_empty() => break,
            Ok((data, _)) => {
                got += data.len();
                parts.push(data);
            }
            Err(e) if e.status() == Some(NfsStat::PNFS_IO_HOLE) => break,
            Err(e) => return Err(DataServerError::of_client(server.id, &e)),
        }
    }
    let (found, expected) = (offset + got as u64, length_min);
    if got < len && found < expected {
        return Err(DataServerError::Lost { id: server.id, object, found, expected });
    }
    Ok(match parts.len() {
        0 => Bytes::new(),
        1 => parts.swap_remove(0),
        _ => parts.concat().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The combined verifier changes with each part, with their order, and when one data server
    /// has said two things during one write.
    #[test]
    fn verifiers_combine() {
        let (a, b) = ([1; 8], [2; 8]);
        let of = |lists: &[&[[u8; 8]]]| combined(lists.iter().copied());
        let all = [
            of(&[&[a], &[b]]),
            of(&[&[b], &[a]]),
            of(&[&[a], &[a]]),
            of(&[&[a, b], &[]]),
            of(&[&[a], &[]]),
            of(&[&[a, b], &[b]]),
            of(&[&[a]]),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(all[0], of(&[&[a], &[b]]));
    }
}
