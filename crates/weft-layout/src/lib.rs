//! Layouts: what the metadata server grants, in the forms the wire and the data servers need.
//!
//! [`FilesLayout`] and [`FilesDeviceAddr`] are the bodies of the files layout type (RFC 8881 §13)
//! in both directions, [`FlexLayout`], [`FlexDeviceAddr`] and [`FlexReturn`] those of the
//! flexfiles type (RFC 8435). A layout and its devices give a [`weft_stripe::Distribution`].
//! [`DataServerHandle`] is the filehandle by which a data server knows, without asking anybody,
//! what its bearer may do, and [`local`] what is said of it within one host.
//!
//! **Invariants of absence.** No I/O, no clock, no random numbers, no addresses resolved. A body
//! that decodes obeys every count rule of the RFC and the limits here, so that users index freely.

mod files;
mod flexfiles;
mod flexfiles_return;
mod handle;
mod lists;
pub mod local;
mod net_addr;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_flexfiles;

pub use files::{
    DATA_SERVERS_MAX, FilesDeviceAddr, FilesLayout, LayoutError, NflUtil, STRIPE_COUNT_MAX,
    STRIPE_UNIT_STEP_BYTES,
};
pub use flexfiles::{
    FlexDataServer, FlexDeviceAddr, FlexFlags, FlexLayout, FlexMirror, FlexVersion, MIRRORS_MAX,
    VERSIONS_MAX,
};
pub use flexfiles_return::{
    FlexIoErrors, FlexIoStats, FlexReturn, FlexUpdate, IoLatency, REPORTS_MAX,
};
pub use handle::{
    Access, DataServerHandle, HANDLE_BYTES, HandleError, HandleKey, HandleKeys, NotAdmitted,
    Rights, Slots, VerifierMask, file_verifier,
};
pub use net_addr::{MULTIPATH_MAX, NetAddr, NetAddrError};
