//! What the program `weft` puts together from the servers' crates: configuration files, starting
//! servers by them, and the admin service over HTTP.

pub mod admin_service;
pub mod config;
mod size;
pub mod start;
