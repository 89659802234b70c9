//! The metadata server: one volume, exported at the root.

mod admin;
mod background;
mod clients;
mod export;
mod files;
mod handle;
mod ops;
mod server;
mod translate;

#[cfg(test)]
mod testing;

use admin::{device_reports, threshold};
use clients::delegations;
use export::names;
use files::{
    copying, creation, disk_reserve, migration as small_files, placement as layouts, pool, reaper,
};
use ops::attrs;
use server::{CLIENT_RECORD_VERSION, data_server_failure, refused};

pub use export::{Access, ClientRule, Export, Naming, View};
pub use files::{ObjectCreation, Precreate, SmallFiles, Striping};
pub use handle::Handle;
pub use server::{Mds, MdsParts};
