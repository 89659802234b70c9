//! In whose name a request is made.
//!
//! The kernel tells a caller's user and group. The other groups are the thread's own, which the
//! process table knows. They are looked up for every request that has a caller: whoever gives up a
//! group has given it up at once.

use weft_client::rpc::Credential;

/// The credentials of callers.
pub struct Callers {
    /// Everybody's: a mount of a user's own.
    only: Option<Credential>,
}

impl Callers {
    /// Each caller is himself.
    pub fn each() -> Callers {
        Callers { only: None }
    }

    /// Every caller is this one.
    pub fn only(credential: Credential) -> Callers {
        Callers { only: Some(credential) }
    }

    /// In whose name a request is made.
    pub fn credential(&self, request: &fuser::Request) -> Credential {
        match &self.only {
            Some(only) => only.clone(),
            None => {
                let groups = groups_of(request.pid());
                Credential::of_user(request.uid(), request.gid(), &groups)
            }
        }
    }
}

/// A thread's supplementary groups; none of one that is gone, or of a namespace that we do not see.
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
