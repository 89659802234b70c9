//! Who a client is to its servers: the owner of its records (RFC 8881 §2.4).
//!
//! A program that is killed leaves opens, locks and layouts behind, which stand in the way of
//! others until its lease ends. Whoever comes with the same owner and a new verifier takes over at
//! once (§18.35.4, case 5). So the programs of one user on one machine share a row of owners, each
//! of which one process has at a time: it claims the first that is free. The claim is a name that
//! the kernel forgets with the process, seen by the very processes that could make the same owner:
//! those of this kernel (its boot id) in this network namespace. Both name the server as it was
//! asked for: it may have several addresses, and processes that use others claim nothing here.

use std::{
    fs, io,
    net::SocketAddr,
    os::{linux::net::SocketAddrExt, unix::net},
    sync::Arc,
};

use bytes::Bytes;

use crate::{error::ClientError, limits, random::random, rpc::machine_name};

/// The owner under which servers know a client. Clones are the same client.
#[derive(Debug, Clone)]
pub struct Identity {
    owner_id: Bytes,
    /// Nobody else has the owner while this lives.
    _claim: Option<Arc<net::UnixListener>>,
}

impl Identity {
    /// One that nobody has had, or will have: what it leaves behind stays until its lease ends.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn unique() -> Result<Identity, ClientError> {
        let unique = u64::from_be_bytes(random()?);
        let id = format!("weft {} {} {unique:016x}", machine_name(), std::process::id());
        Ok(Identity::from(Bytes::from(id)))
    }

    /// The first of this process's user on this machine that no live process has at this server: it
    /// takes over what a dead one left there. A unique one where none can be claimed.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn of_user(server: SocketAddr) -> Result<Identity, ClientError> {
        let uid = rustix::process::geteuid().as_raw();
        let Ok(place) = machine() else { return Identity::unique() };
        for number in 0..limits::IDENTITIES_MAX {
            if let Ok(claim) = claim(&format!("weft-client {server} {uid} {number}")) {
                let id = format!("weft {place} user {uid} at {server} {number}");
                return Ok(Identity { owner_id: id.into(), _claim: Some(Arc::new(claim)) });
            }
        }
        Identity::unique()
    }

    /// The owner as servers know it.
    pub fn owner_id(&self) -> &Bytes {
        &self.owner_id
    }
}

impl From<Bytes> for Identity {
    /// An owner that the caller answers for.
    fn from(owner_id: Bytes) -> Identity {
        Identity { owner_id, _claim: None }
    }
}

/// This kernel since it was started, and the network namespace: where a claim is seen.
fn machine() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let network = fs::read_link("/proc/self/ns/net")?;
    Ok(format!("{} {} {}", machine_name(), boot.trim(), network.display()))
}

fn claim(name: &str) -> io::Result<net::UnixListener> {
    net::UnixListener::bind_addr(&net::SocketAddr::from_abstract_name(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two at a time differ, also between threads; one that is given up is taken again, by which
    /// the next process takes over. A clone keeps the claim.
    #[test]
    fn an_owner_is_had_by_one_at_a_time() {
        let [a, b, c, d] = std::process::id().to_be_bytes();
        let of_user = move || Identity::of_user(([a, b, c, d], 1).into()).unwrap();
        let first = of_user();
        let second = std::thread::spawn(of_user).join().unwrap();
        assert_ne!(first.owner_id(), second.owner_id());
        let (owner, clone) = (first.owner_id().clone(), first.clone());
        drop(first);
        let third = of_user();
        assert_ne!(third.owner_id(), &owner, "a clone lives");
        drop(clone);
        assert_eq!(of_user().owner_id(), &owner, "given up, and not taken again");
        let elsewhere = Identity::of_user(([a, b, c, d], 2).into()).unwrap();
        assert_ne!(elsewhere.owner_id(), &owner, "it may be the same server by another address");
    }

    /// Unique ones always differ.
    #[test]
    fn unique_ones_differ() {
        let (a, b) = (Identity::unique().unwrap(), Identity::unique().unwrap());
        assert_ne!(a.owner_id(), b.owner_id());
    }
}
