//! Layouts: what the metadata server grants, in the forms the wire and the data servers need.
//!
//! [`FilesLayout`] and [`FilesDeviceAddr`] are the bodies of the files layout type (RFC 8881 §13)
//! in both directions; together they give a [`weft_stripe::Distribution`]. [`DataServerHandle`]
//! is the filehandle by which a data server knows, without asking anybody, what its bearer may do.
//!
//! **Invariants of absence.** No I/O, no clock, no random numbers, no addresses resolved. A body
//! that decodes obeys every count rule of the RFC and the limits here, so that users index freely.

mod files;
mod handle;
mod net_addr;
#[cfg(test)]
mod tests;

pub use files::{
    DATA_SERVERS_MAX, FilesDeviceAddr, FilesLayout, LayoutError, MULTIPATH_MAX, NflUtil,
    STRIPE_COUNT_MAX, STRIPE_UNIT_STEP_BYTES,
};
pub use handle::{
    Access, DataServerHandle, HandleError, HandleKey, HandleKeys, NotAdmitted, Rights,
};
pub use net_addr::{NetAddr, NetAddrError};
