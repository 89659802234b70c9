//! The caller's identity: AUTH_NONE and AUTH_SYS (RFC 5531 §14 and Appendix A).

use bytes::Bytes;
use weft_xdr::rpc::{
    AUTH_SYS_GIDS_MAX, AUTH_SYS_MACHINE_BYTES_MAX, AuthFlavor, AuthSys, OpaqueAuth,
};

/// A credential, encoded once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential(OpaqueAuth);

impl Credential {
    /// AUTH_NONE: no user.
    pub const NONE: Credential = Credential(OpaqueAuth::NONE);

    /// This user and groups. Groups beyond the protocol's sixteen are left out.
    pub fn sys(machine: &str, uid: u32, gid: u32, gids: &[u32]) -> Credential {
        let machine = machine.as_bytes();
        let sys = AuthSys {
            stamp: 0,
            machine: Bytes::copy_from_slice(
                machine.get(..AUTH_SYS_MACHINE_BYTES_MAX).unwrap_or(machine),
            ),
            uid,
            gid,
            gids: gids.iter().copied().take(AUTH_SYS_GIDS_MAX).collect(),
        };
        Credential(OpaqueAuth { flavor: AuthFlavor::SYS, body: weft_xdr::to_bytes(&sys) })
    }

    /// A user of this machine, and the groups that he is in.
    pub fn of_user(uid: u32, gid: u32, gids: &[u32]) -> Credential {
        Credential::sys(&machine_name(), uid, gid, gids)
    }

    /// The user and groups this process runs as.
    pub fn of_process() -> Credential {
        let gids: Vec<u32> = rustix::process::getgroups()
            .map(|gids| gids.into_iter().map(|g| g.as_raw()).collect())
            .unwrap_or_default();
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Credential::of_user(uid.as_raw(), gid.as_raw(), &gids)
    }

    pub(crate) fn to_wire(&self) -> OpaqueAuth {
        self.0.clone()
    }
}

/// The machine's name as the kernel has it.
pub(crate) fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen groups are kept, the seventeenth is left out, and a long machine name is cut.
    #[test]
    fn limits_of_the_flavor_are_kept() {
        let many: Vec<u32> = (0..17).collect();
        let c = Credential::sys(&"m".repeat(300), 7, 8, &many);
        let sys: AuthSys = weft_xdr::from_bytes(c.0.body).unwrap();
        assert_eq!(sys.gids, many[..16]);
        assert_eq!(sys.machine.len(), AUTH_SYS_MACHINE_BYTES_MAX);
        assert_eq!((sys.uid, sys.gid), (7, 8));
    }
}
