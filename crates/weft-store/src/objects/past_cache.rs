//! Reading and writing past the page cache: who may is told in [`super::page_cache`].

use std::{fs::File, io, os::unix::fs::FileExt, sync::atomic::Ordering::Relaxed};

use bytes::BytesMut;
use rustix::io::Errno;

use super::{
    error::{self, ObjectError},
    object_id::ObjectId,
    page_cache::CachePolicy,
    store::ObjectStore,
};

impl ObjectStore {
    /// Writes past the page cache, from the first byte on as many as went there: none if the file
    /// system goes another way, or if the disk is full, which it says again to who writes through
    /// the cache. The caller has the epoch, so that the object is not removed meanwhile.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn write_past_cache(
        &self,
        id: ObjectId,
        offset: u64,
        data: &[u8],
    ) -> io::Result<usize> {
        let Some(file) = self.opened_past_cache(id) else { return Ok(0) };
        match file.write_at(data, offset) {
            Err(e) if is_refused(&e) => Ok(0),
            written => written.inspect(|bytes| {
                self.past_cache.written.fetch_add(*bytes as u64, Relaxed);
            }),
        }
    }

    /// None also where there are no descriptors left, say: that is no failure of the disk.
    fn opened_past_cache(&self, id: ObjectId) -> Option<File> {
        let opened = self.dir.open_past_cache(id);
        opened.inspect_err(|error| tracing::debug!(?id, %error, "not past the page cache")).ok()
    }

    /// Whether anything may be written past the page cache: by the policy, and by the file system.
    pub fn passes_cache(&self) -> bool {
        self.past_cache.policy != CachePolicy::Keep
    }

    /// Bytes that the kernel was given to write past the page cache since the store was opened; it
    /// may have found reasons not to. (Whether a page is in the cache cannot be seen from outside:
    /// to look at one may bring it in.)
    pub fn written_past_cache(&self) -> u64 {
        self.past_cache.written.load(Relaxed)
    }

    /// Fills memory that begins at the start of a page with what an object has from `offset` on,
    /// past the page cache, and cuts it where the object ends. `None`: read it through the cache.
    ///
    /// # Errors
    /// What the disk says.
    pub fn read_past_cache(
        &self,
        id: ObjectId,
        offset: u64,
        mut memory: BytesMut,
    ) -> Result<Option<BytesMut>, ObjectError> {
        let Some(file) = self.opened_past_cache(id) else { return Ok(None) };
        match file.read_at(&mut memory, offset) {
            Ok(bytes) => {
                memory.truncate(bytes);
                Ok(Some(memory))
            }
            Err(e) if is_refused(&e) => Ok(None),
            Err(e) => Err(error::io("read an object")(e)),
        }
    }
}

/// The file system does not go past its cache there, or the disk is full: no failure of the disk.
fn is_refused(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSPC, Errno::DQUOT].map(Some).contains(&errno)
}
