//! Layouts: opaque bodies handed to a driver chosen by type (P4.1), which turns a layout and
//! its device into a [`Plan`] that the I/O room executes.

mod devices;
mod files;
pub(crate) mod plan;
mod servers;

pub use devices::DeviceCache;
pub use files::FilesDriver;
pub use plan::{
    DataServerAddrs, IoRules, LayoutDriver, LayoutError, Plan, Purpose, Replicas, StripeTarget,
};
pub use servers::DataServers;
