//! Filehandles of the metadata server: 16 bytes, persistent, meaningless to clients.
//!
//! ```text
//! 0      1      2..4   4..8     8..16
//! version 'M'   zero   volume   inode number (never reused, so no generation)
//! ```

use bytes::Bytes;
use weft_nfs::{FileHandle, NfsStat};
use weft_state::FileKey;
use weft_store::types::InodeNo;

const VERSION: u8 = 1;
const KIND: u8 = b'M';

/// A decoded filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Volume.
    pub volume: u32,
    /// Inode in it.
    pub ino: InodeNo,
}

impl Handle {
    /// The state machines' name of the file.
    pub fn key(&self) -> FileKey {
        FileKey { volume: self.volume, object: self.ino.0 }
    }

    /// The handle of a file by that name.
    pub fn of(key: FileKey) -> Handle {
        Handle { volume: key.volume, ino: InodeNo(key.object) }
    }

    /// The wire form.
    pub fn to_wire(self) -> FileHandle {
        let mut out = [0; 16];
        out[0] = VERSION;
        out[1] = KIND;
        out[4..8].copy_from_slice(&self.volume.to_be_bytes());
        out[8..].copy_from_slice(&self.ino.0.to_be_bytes());
        FileHandle(Bytes::copy_from_slice(&out))
    }

    /// Reads the wire form.
    ///
    /// # Errors
    /// BADHANDLE when it cannot be one of ours (RFC 8881 §15.1.2.1).
    pub fn from_wire(fh: &FileHandle) -> Result<Handle, NfsStat> {
        let raw: &[u8; 16] = fh.0.as_ref().try_into().map_err(|_| NfsStat::BADHANDLE)?;
        let [VERSION, KIND, 0, 0, v0, v1, v2, v3, ino @ ..] = raw else {
            return Err(NfsStat::BADHANDLE);
        };
        let volume = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
        Ok(Handle { volume, ino: InodeNo(u64::from_be_bytes(*ino)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wire form comes back, and nothing else is accepted: no cut, no longer one, no flip of
    /// the fixed bytes.
    #[test]
    fn only_our_own_handles_are_read() {
        let h = Handle { volume: 7, ino: InodeNo(0x0102_0304_0506_0708) };
        let wire = h.to_wire();
        assert_eq!(Handle::from_wire(&wire), Ok(h));
        for cut in 0..16 {
            assert!(Handle::from_wire(&FileHandle(wire.0.slice(..cut))).is_err());
        }
        for i in 0..4 {
            let mut bad = wire.0.to_vec();
            bad[i] ^= 1;
            assert!(Handle::from_wire(&FileHandle(bad.into())).is_err());
        }
        let long = [&wire.0[..], &[0]].concat();
        assert!(Handle::from_wire(&FileHandle(long.into())).is_err());
    }
}
