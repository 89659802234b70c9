//! What the program `weft` puts together from the servers' crates: configuration files, starting
//! servers by them, the admin service over HTTP, and addresses as people write them.

pub mod address;
pub mod admin_service;
pub mod admin_token;
pub mod config;
mod disk_kind;
mod machine;
pub mod size;
pub mod start;
mod unix_socket;
