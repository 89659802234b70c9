//! Layouts: opaque bodies handed to a driver chosen by type (P4.1), which turns a layout and
//! its devices into a [`Plan`] that the I/O room executes. Drivers of others do as well as ours:
//! [`crate::fs::ClientBuilder::driver`] takes any.

mod devices;
mod drivers;
mod exported;
mod files;
mod flexfiles;
pub(crate) mod plan;
mod servers;

pub use devices::DeviceCache;
pub use drivers::Drivers;
pub use exported::ExportedLayout;
pub(crate) use exported::LayoutSource;
pub use files::FilesDriver;
pub use flexfiles::FlexFilesDriver;
pub use plan::{
    DataServerAddrs, IoFailure, IoRules, LayoutDriver, LayoutError, Plan, Purpose, Replicas,
    StripeTarget,
};
pub use servers::DataServers;
