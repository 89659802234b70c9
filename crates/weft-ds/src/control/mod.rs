//! The data server's side of the control program.

mod machine;
mod names;
mod peers;
mod service;
#[cfg(test)]
mod tests;

pub use service::Service;
