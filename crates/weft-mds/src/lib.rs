//! The metadata server: one volume, exported at the root.
//!
//! Rooms, from above; each uses only those below it: [`role`] and [`background`] (the server as
//! others see it), [`ops`] (one operation a file), [`server`] (the rooms put together), [`admin`],
//! [`clients`] (what clients hold), [`files`] (where bytes are, and how they are changed),
//! [`export`] (who may do what).

mod admin;
mod background;
mod clients;
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
pub use export::{Access, ClientRule, Export, Naming, View};
pub use files::{ObjectCreation, Precreate, SmallFiles, Striping};
pub use handle::Handle;
pub use server::{Mds, MdsParts};
