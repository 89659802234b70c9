//! What a client waits for, for whoever wants to tell its user.

use std::{fmt, net::SocketAddr, sync::Arc};

use weft_nfs::{Component, NfsStat, OpArgs, OpNum, ops::OpenClaim};

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
    /// The request that waits, if it is known.
    pub request: Option<Requested>,
}

/// An operation that the server did not execute yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// The operation.
    pub op: OpNum,
    /// The name that it is about, or the last one that leads there; none if it goes by handle.
    pub name: Option<Component>,
}

impl Requested {
    /// The operation at an index of a request.
    pub(crate) fn of(ops: &[OpArgs], index: usize, op: OpNum) -> Requested {
        let before = ops.get(..=index).unwrap_or(ops);
        Requested { op, name: before.iter().rev().find_map(name_of).cloned() }
    }

    /// The operation of a request that its sender would name: the last one that is about a name,
    /// or else the last one that does not only set handles and tell attributes.
    pub(crate) fn most_of(ops: &[OpArgs]) -> Option<Requested> {
        let named = ops.iter().rposition(|op| name_of(op).is_some() && op.op() != OpNum::LOOKUP);
        let index = named.or_else(|| ops.iter().rposition(|op| !ASIDE.contains(&op.op())));
        let index = index.or_else(|| ops.len().checked_sub(1))?;
        Some(Requested::of(ops, index, ops[index].op()))
    }
}

/// Operations that come with others.
const ASIDE: [OpNum; 4] = [OpNum::GETATTR, OpNum::GETFH, OpNum::SAVEFH, OpNum::RESTOREFH];

/// The name in an operation.
fn name_of(op: &OpArgs) -> Option<&Component> {
    match op {
        OpArgs::Lookup(args) => Some(&args.name),
        OpArgs::Create(args) => Some(&args.name),
        OpArgs::Link(args) => Some(&args.newname),
        OpArgs::Remove(args) => Some(&args.target),
        OpArgs::Rename(args) => Some(&args.oldname),
        OpArgs::Open(args) => match &args.claim {
            OpenClaim::Null(name) | OpenClaim::DelegateCur(_, name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

impl fmt::Display for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        match &self.name {
            Some(Component(name)) => {
                write!(f, " of {}", String::from_utf8_lossy(name).escape_debug())
            }
            None => Ok(()),
        }
    }
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
                "it asks to wait: another client, or a data server, is in the way (`weft status` \
                 there tells which data servers are away, and `weft clients` which client holds \
                 files and does not answer: `weft clients evict` ends it)",
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
        write!(f, "waiting for {role} {}: ", self.server)?;
        if let Some(request) = &self.request {
            write!(f, "{request}: ")?;
        }
        write!(f, "{}", self.why)
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::ops::{LookupArgs, RemoveArgs};

    use super::*;

    /// Whoever reads that the server makes them wait reads where to look for whom.
    #[test]
    fn words() {
        for why in [WaitReason::Grace, WaitReason::Delay] {
            assert!(why.to_string().contains("`weft status`"), "{why}");
        }
        assert_eq!(WaitReason::NoAnswer.to_string(), "no answer so far");
    }

    /// A wait names the operation and the last name before it; a name writes nothing on terminals.
    #[test]
    fn what_waits() {
        let lookup = |name: &'static str| {
            OpArgs::Lookup(LookupArgs { name: Component(name.as_bytes().into()) })
        };
        let ops = [OpArgs::Putrootfh, lookup("d"), lookup("a\x1b[m"), OpArgs::Getfh, lookup("z")];
        let said = |index, op| Requested::of(&ops, index, op).to_string();
        assert_eq!(said(0, OpNum::PUTROOTFH), "PUTROOTFH");
        assert_eq!(said(1, OpNum::LOOKUP), "LOOKUP of d");
        assert_eq!(said(3, OpNum::GETFH), "GETFH of a\\u{1b}[m");
        let most = |ops: &[OpArgs]| Requested::most_of(ops).map(|most| most.to_string());
        assert_eq!(most(&ops).as_deref(), Some("LOOKUP of z"));
        let target = Component(b"f".as_slice().into());
        let remove = OpArgs::Remove(RemoveArgs { target });
        let removes = [OpArgs::Putrootfh, lookup("d"), remove, lookup("e"), OpArgs::Getfh];
        assert_eq!(most(&removes).as_deref(), Some("REMOVE of f"));
        assert_eq!((most(&[OpArgs::Getfh]).as_deref(), most(&[])), (Some("GETFH"), None));
        let request = Some(Requested::of(&ops, 1, OpNum::LOOKUP));
        let server = ([10, 0, 0, 1], 2049).into();
        let waiting = Waiting { server, role: Role::Mds, why: WaitReason::NoAnswer, request };
        let expected = "waiting for server 10.0.0.1:2049: LOOKUP of d: no answer so far";
        assert_eq!(waiting.to_string(), expected);
    }
}
