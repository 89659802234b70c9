//! Access control lists on the wire: RFC 8881 §6.2.

use weft_xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_named, xdr_struct};

use crate::basic::Opaque;

/// Most entries read of one list: more than are kept, so that whoever sends too many is told so.
pub const ACES_MAX: usize = 4096;

xdr_named! {
    /// `acetype4`, §6.2.1.1.
    pub struct AceType {
        ALLOW = 0,
        DENY = 1,
        AUDIT = 2,
        ALARM = 3,
    }
}

/// Bits of `acemask4`, §6.2.1.3.
pub mod ace_mask {
    /// Read data, or list a directory.
    pub const READ_DATA: u32 = 0x1;
    /// Write data, or add a file.
    pub const WRITE_DATA: u32 = 0x2;
    /// Append data, or add a subdirectory.
    pub const APPEND_DATA: u32 = 0x4;
    /// Read named attributes.
    pub const READ_NAMED_ATTRS: u32 = 0x8;
    /// Write named attributes.
    pub const WRITE_NAMED_ATTRS: u32 = 0x10;
    /// Execute, or search.
    pub const EXECUTE: u32 = 0x20;
    /// Delete what is in a directory.
    pub const DELETE_CHILD: u32 = 0x40;
    /// Read attributes.
    pub const READ_ATTRIBUTES: u32 = 0x80;
    /// Change times.
    pub const WRITE_ATTRIBUTES: u32 = 0x100;
    /// Change retention.
    pub const WRITE_RETENTION: u32 = 0x200;
    /// Hold retention.
    pub const WRITE_RETENTION_HOLD: u32 = 0x400;
    /// Delete the object itself.
    pub const DELETE: u32 = 0x1_0000;
    /// Read the list.
    pub const READ_ACL: u32 = 0x2_0000;
    /// Change the list and the mode.
    pub const WRITE_ACL: u32 = 0x4_0000;
    /// Change owner and group.
    pub const WRITE_OWNER: u32 = 0x8_0000;
    /// Use local access.
    pub const SYNCHRONIZE: u32 = 0x10_0000;
    /// Every bit there is.
    pub const ALL: u32 = 0x1f_07ff;
}

/// Bits of `aceflag4`, §6.2.1.4.
pub mod ace_flag {
    /// Made in the directory, and no directory: gets the entry.
    pub const FILE_INHERIT: u32 = 0x1;
    /// Directories made in the directory get it.
    pub const DIRECTORY_INHERIT: u32 = 0x2;
    /// And do not hand it on.
    pub const NO_PROPAGATE: u32 = 0x4;
    /// It says nothing about the directory itself.
    pub const INHERIT_ONLY: u32 = 0x8;
    /// Audits who succeeds.
    pub const SUCCESSFUL_ACCESS: u32 = 0x10;
    /// Audits who is refused.
    pub const FAILED_ACCESS: u32 = 0x20;
    /// `who` is a group; means nothing with special identifiers.
    pub const IDENTIFIER_GROUP: u32 = 0x40;
    /// It was inherited; in `dacl` and `sacl` alone.
    pub const INHERITED: u32 = 0x80;
    /// Every bit there is.
    pub const ALL: u32 = 0xff;
}

/// Bits of `aclsupport`, §6.2.1.2.
pub mod acl_support {
    /// Entries that allow.
    pub const ALLOW: u32 = 1;
    /// Entries that deny.
    pub const DENY: u32 = 2;
}

xdr_struct! {
    /// `nfsace4`: §6.2.1.
    pub struct Ace {
        /// Allow, deny, audit, alarm.
        pub acetype: AceType,
        /// Inheritance and group flags.
        pub flag: u32,
        /// Permissions that the entry allows or denies: bits of [`ace_mask`].
        pub access_mask: u32,
        /// Whom the entry is about: `user@domain`, or a special identifier such as `OWNER@`.
        pub who: Opaque,
    }
}

/// `acl` attribute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acl(pub Vec<Ace>);
impl Decode for Acl {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Acl(r.array(ACES_MAX)?))
    }
}
impl Encode for Acl {
    fn encode(&self, w: &mut Writer) {
        w.array(&self.0);
    }
}

xdr_struct! {
    /// `nfsacl41`: the `dacl` attribute, §6.2.2, §6.4.3.
    pub struct Acl41 {
        /// `na41_flag`: automatic inheritance.
        pub flag: u32,
        /// `na41_aces`.
        pub aces: Acl,
    }
}
