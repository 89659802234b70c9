//! Weft's NFSv4.1/4.2 + pNFS client, without a mount: what the CLI, adapters and the metadata
//! server's own indirect path are built on.
//!
//! From the bottom: [`rpc`] (calls over one connection, any program) → [`core`] (the session as
//! a state machine without I/O) → [`session`] (COMPOUNDs exactly once, over reconnections) →
//! [`layout`] (drivers, devices, data servers) → [`io`] (striped data of an open file) → [`node`]
//! (names, attributes and opens by handle) → [`fs`] (files by path). Beside them `cache`: what is
//! known of a file's bytes, a core without I/O too; `local`, objects of data servers on this host
//! that are read by descriptor; [`url`] names servers and paths, and [`blocking`] is the face for
//! programs without a runtime.
//!
//! **Invariants of absence.** Nothing here knows a server's insides or its stores. No peer can
//! make it panic, and nothing a peer drives grows without a bound in [`limits`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use weft_client::fs::{Client, ClientOptions, OpenOptions};
//!
//! let client = Client::connect("127.0.0.1:2049".parse()?, ClientOptions::default()).await?;
//! let file = client.open("/hello", OpenOptions::replace(0o644)).await?;
//! file.write_at(0, "hello".into()).await?;
//! file.close().await?;
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! Small programs to start from stand in `examples/`: write and read back, list a directory, write
//! by stripe unit, gather small writes.

pub mod begun;
pub mod blocking;
mod boxed;
mod cache;
pub mod core;
mod delegation;
mod errno;
pub mod error;
pub mod fs;
mod identity;
pub mod io;
mod joined;
pub mod layout;
pub mod limits;
mod local;
pub mod node;
mod random;
pub mod rpc;
pub mod session;
mod sync;
pub mod url;
mod waiting;

pub use error::ClientError;
pub use identity::Identity;
pub use waiting::{OnWait, Requested, WaitReason, Waiting};
