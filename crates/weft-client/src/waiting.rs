//! What a client waits for, for whoever wants to tell its user.

use std::{fmt, net::SocketAddr, sync::Arc};

use weft_nfs::NfsStat;

use crate::core::Role;

/// Something a request is waiting for. Told again with every try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The server that is waited for.
    pub server: SocketAddr,
    /// What it is to us.
    pub role: Role,
    /// Why.
    pub why: WaitReason,
}

/// Why a request waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitReason {
    /// GRACE: the server has been restarted, and its clients of before come first.
    Grace,
    /// DELAY and its kin: the server asks to come again.
    Delay,
    /// No connection; why.
    Unreachable(Arc<str>),
    /// There is a connection, and no answer has come over it for a while.
    NoAnswer,
}

/// Told of every wait, at once and briefly: it is called where requests are made.
pub type OnWait = Arc<dyn Fn(&Waiting) + Send + Sync>;

impl WaitReason {
    /// The wait that a status asks for.
    pub(crate) fn of(status: NfsStat) -> WaitReason {
        match status {
            NfsStat::GRACE => WaitReason::Grace,
            _ => WaitReason::Delay,
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitReason::Grace => f.write_str(
                "it is in its grace period after a restart, in which clients of before come first \
                 (`weft status` there says how long, and for whom)",
            ),
            WaitReason::Delay => f.write_str(
                "it asks to wait: another client, or a data server, is in the way \
                 (`weft status` there tells which data servers are away)",
            ),
            WaitReason::Unreachable(why) => write!(f, "it cannot be reached: {why}"),
            WaitReason::NoAnswer => f.write_str("no answer so far"),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Mds => "server",
            Role::Ds => "data server",
        };
        write!(f, "waiting for {role} {}: {}", self.server, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever reads that the server makes them wait reads where to look for whom.
    #[test]
    fn words() {
        for why in [WaitReason::Grace, WaitReason::Delay] {
            assert!(why.to_string().contains("`weft status`"), "{why}");
        }
        assert_eq!(WaitReason::NoAnswer.to_string(), "no answer so far");
    }
}
