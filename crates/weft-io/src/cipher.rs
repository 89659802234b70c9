//! What makes the records of a connection secret, and unchangeable on their way.

use std::{fmt::Debug, io};

use bytes::Bytes;
use weft_xdr::Segment;

/// Seals the records of one direction, in the order in which they are sent.
pub trait SealRecords: Debug + Send {
    /// The record as it is sent.
    ///
    /// # Errors
    /// It cannot be sealed (it is too long, or a part of it is a range of a file); nothing more
    /// can be sent then.
    fn seal(&mut self, record: Vec<Segment>) -> io::Result<Bytes>;
}

/// Opens the records of one direction, in the order in which they were sent.
pub trait OpenRecords: Debug + Send {
    /// The record as it was before it was sealed.
    ///
    /// # Errors
    /// It is not the next that the peer sealed: somebody forged, changed, repeated, left out or
    /// reordered one. Nothing that comes later can be believed.
    fn open(&mut self, record: Bytes) -> io::Result<Bytes>;
}

/// Both directions of a connection, as one of its ends sees them.
#[derive(Debug)]
pub struct Ciphers {
    /// For what is sent.
    pub seal: Box<dyn SealRecords>,
    /// For what is received.
    pub open: Box<dyn OpenRecords>,
}
