//! What files keep to that take another's place, at the server and on this machine.

use weft_nfs::{Ace, AceType, Acl, Attrs, NfsStat, ace_flag, ace_mask};

use crate::error::ClientError;

/// Hexadecimal digits that a temporary name ends with, which say who writes it.
pub(super) const DIGITS: usize = 16;
/// Longest name of a file, here and there.
pub(super) const NAME_BYTES_MAX: usize = 255;
/// Bits of a mode without which nobody may write.
const WRITABLE: u32 = 0o222;
/// Whom a mode speaks about too.
const CLASSES: [&[u8]; 3] = [b"OWNER@", b"GROUP@", b"EVERYONE@"];
/// Flags about what is made in a directory, and about who inherited.
const INHERITANCE: u32 = ace_flag::FILE_INHERIT
    | ace_flag::DIRECTORY_INHERIT
    | ace_flag::NO_PROPAGATE
    | ace_flag::INHERIT_ONLY
    | ace_flag::INHERITED;

/// What a file at the server gets that takes another's place.
pub(super) struct Kept {
    /// Permissions.
    pub(super) mode: u32,
    /// The list of the old one, if the server has lists: nothing is inherited then.
    pub(super) acl: Option<Acl>,
    /// Owner and group of the old one, as far as they have to be set.
    pub(super) owner: Option<Attrs>,
}

impl Kept {
    /// Whether making the file with mode and list is enough. A server may leave out a list that it
    /// does not understand, so that one with names is looked at afterwards.
    pub(super) fn comes_with_open(&self) -> bool {
        self.owner.is_none() && !self.is_listed()
    }

    /// Whether there is a list that may say more than the mode.
    fn is_listed(&self) -> bool {
        self.acl.as_ref().is_some_and(|acl| acl.0.iter().any(is_more))
    }

    /// A failure to make a file with the list, or to give it the list.
    pub(super) fn refusal(&self, e: ClientError) -> ClientError {
        let of_list = [NfsStat::NOSPC, NfsStat::BADOWNER, NfsStat::ATTRNOTSUPP, NfsStat::INVAL];
        match e.status().filter(|status| self.is_listed() && of_list.contains(status)) {
            Some(status) => ClientError::ListNotKept(status),
            None => e,
        }
    }
}

/// Whether an entry says what no mode does.
fn is_more(ace: &Ace) -> bool {
    let allows_or_denies = matches!(ace.acetype, AceType::ALLOW | AceType::DENY);
    let of_class = CLASSES.contains(&&ace.who.0[..]);
    !allows_or_denies || !of_class || ace.flag & INHERITANCE != 0
}

/// What of a name is in its temporary name, between a point and this mark: of a long one the end is
/// left out.
pub(super) fn kept<'a>(name: &'a [u8], mark: &str) -> &'a [u8] {
    let room = NAME_BYTES_MAX - 1 - mark.len() - DIGITS;
    name.get(..room).unwrap_or(name)
}

/// The end of a temporary name.
pub(super) fn digits(number: u64) -> String {
    format!("{number:0DIGITS$x}")
}

/// Whether this may be the end of a temporary name.
pub(super) fn are_digits(end: &[u8]) -> bool {
    end.len() == DIGITS && end.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A file at the server that nobody may write to, by its mode or its list, is not replaced.
///
/// # Errors
/// [`ClientError::Invalid`].
pub(super) fn require_writable_there(file: &Attrs) -> Result<(), ClientError> {
    let writes = |ace: &Ace| {
        let holds = ace.acetype == AceType::ALLOW && ace.flag & ace_flag::INHERIT_ONLY == 0;
        holds && ace.access_mask & ace_mask::WRITE_DATA != 0
    };
    match &file.acl {
        Some(acl) if acl.0.iter().any(writes) => Ok(()),
        _ => file.mode.map_or(Ok(()), require_writable),
    }
}

/// A file that nobody may write to is not replaced.
///
/// # Errors
/// [`ClientError::Invalid`].
pub(super) fn require_writable(mode: u32) -> Result<(), ClientError> {
    match mode & WRITABLE {
        0 => Err(ClientError::Invalid("is read-only (its mode lets nobody write)")),
        _ => Ok(()),
    }
}
