//! The data server's side of the control program.

mod names;
mod service;
#[cfg(test)]
mod tests;

pub use service::Service;
