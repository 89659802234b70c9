//! Arguments and results of the operations, grouped as RFC 8881 §18 uses them.

mod directory;
mod file;
mod layout;
mod lock;
mod open;
mod session;
mod v42_data;
mod xattr;

pub use directory::*;
pub use file::*;
pub use layout::*;
pub use lock::*;
pub use open::*;
pub use session::*;
pub use v42_data::*;
pub use xattr::*;
