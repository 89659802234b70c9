//! In whose name a request is made.
//!
//! The kernel tells a caller's user and group. The other groups are the process' own, which the
//! process table knows: they are looked up once a second at most for a process.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use weft_client::rpc::Credential;

/// How long a process' groups are believed.
const GROUPS_VALID: Duration = Duration::from_secs(1);
/// Processes whose groups are remembered: then all are forgotten, and asked for again.
const CALLERS_MAX: usize = 1024;

/// Process, user and group.
type Caller = (u32, u32, u32);

/// The credentials of callers.
pub struct Callers {
    /// Everybody's: a mount of a user's own.
    only: Option<Credential>,
    recent: Mutex<HashMap<Caller, (Instant, Credential)>>,
}

impl Callers {
    /// Each caller is himself.
    pub fn each() -> Callers {
        Callers { only: None, recent: Mutex::default() }
    }

    /// Every caller is this one.
    pub fn only(credential: Credential) -> Callers {
        Callers { only: Some(credential), recent: Mutex::default() }
    }

    /// In whose name a request is made.
    pub fn credential(&self, request: &fuser::Request) -> Credential {
        if let Some(only) = &self.only {
            return only.clone();
        }
        let caller = (request.pid(), request.uid(), request.gid());
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, known)) = recent.get(&caller)
            && at.elapsed() < GROUPS_VALID
        {
            return known.clone();
        }
        let (pid, uid, gid) = caller;
        let credential = Credential::of_user(uid, gid, &groups_of(pid));
        if recent.len() >= CALLERS_MAX {
            recent.clear();
        }
        recent.insert(caller, (Instant::now(), credential.clone()));
        credential
    }
}

/// A process' supplementary groups; none of one that is gone, or of a namespace that we do not see.
fn groups_of(pid: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    groups_in(&status)
}

fn groups_in(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or_default().split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups are those that the process table tells.
    #[test]
    fn groups_are_read() {
        assert_eq!(groups_in("Name:\tx\nGid:\t5\t5\nGroups:\t4 24 1000 \nNgid: 0"), [4, 24, 1000]);
        assert!(groups_in("Groups:\t\n").is_empty());
        let own: Vec<u32> =
            rustix::process::getgroups().unwrap().into_iter().map(|g| g.as_raw()).collect();
        assert_eq!(groups_of(std::process::id()), own);
    }
}
