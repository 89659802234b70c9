//! Files for programs without an async runtime: [`fs`](crate::fs) with calls that wait.
//!
//! All blocking clients of a process share a runtime of a few threads of its own, made with the
//! first of them; any thread may call. One that drives an async runtime itself may not: it would
//! stand still, so it is told
//! [`ClientError::WouldStopRuntime`](crate::ClientError::WouldStopRuntime).
//!
//! **After `fork`** connections and threads are the parent's. In the child every call on a client
//! or file from before fails with [`ClientError::Forked`](crate::ClientError::Forked), and dropping
//! one does nothing: connect anew there.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use weft_client::{blocking::Client, fs::OpenOptions};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::open_url(&"weft://fs.example.org/".parse()?)?;
//! let mut file = client.open("/hello", OpenOptions::replace(0o644))?;
//! file.write_all(b"hello")?;
//! file.close()?;
//! let mut text = String::new();
//! client.open("/hello", OpenOptions::read())?.read_to_string(&mut text)?;
//! client.close()?;
//! # Ok(()) }
//! ```

mod client;
mod dir;
mod file;
mod runtime;

pub use client::Client;
pub use dir::ReadDir;
pub use file::File;
pub use runtime::give_up_when;
