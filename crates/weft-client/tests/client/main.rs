//! The client library against a server that does what a test tells it, through real sockets. One
//! program: what the client is made of is compiled for it once.

mod fake;

mod blocking;
mod cached;
mod closes;
mod files;
mod gather;
mod mirrors;
mod session;
mod unknown_outcome;
