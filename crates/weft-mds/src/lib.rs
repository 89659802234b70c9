//! The metadata server: one volume, exported at the root.
//!
//! Rooms, from above; each uses only those below it (`tidy.toml` has the table):
//!
//! - `role`, `background`: the server as others see it, and what goes on beside requests.
//! - `ops`: one operation a file. Never: epochs, placement, objects.
//! - `server`: the rooms put together.
//! - `admin`: what administrators ask and set.
//! - `clients`: what clients hold, and how it is taken back. Never: where bytes are.
//! - `files`: where bytes are, and how they are changed. Never: a COMPOUND, arguments, sessions,
//!   callbacks.
//! - `export`: who may do what, and how users are called. Never: files.
//! - [`data_servers`]: the way to the data servers' bytes. Never: operations.
//!
//! **Invariants of absence.** A wire type never reaches the disk, a disk type never the wire:
//! `translate` and `ops` stand between. Nothing here is a data server.

mod admin;
mod background;
mod clients;
mod control_address;
mod control_link;
pub mod data_servers;
mod deps;
mod export;
mod files;
mod handle;
pub mod network;
mod ops;
mod protocol_state;
mod role;
mod server;
pub mod striped;
mod translate;

#[cfg(test)]
mod testing;

pub use background::run_background;
pub use deps::Deps;
pub use export::{Access, ClientRule, Delegated, Export, Naming, View};
pub use files::{LayoutKind, ObjectCreation, Precreate, SmallFiles, Striping};
pub use handle::Handle;
pub use server::{Mds, MdsParts, Reconfiguration, Task};
