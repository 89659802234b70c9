//! What can go wrong for a user of the client, in words a user can read.

use std::{io, net::SocketAddr, sync::Arc};

use weft_nfs::{NfsStat, OpNum};
use weft_xdr::DecodeError;

use crate::{layout::plan::LayoutError, limits::PRIVILEGED_PORTS, rpc::error::RpcError};

/// Why an operation of the client failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// The server refused an operation. Waits (DELAY, GRACE) were tried before.
    #[error("{}", words(*.op, *.status))]
    Nfs {
        /// The operation that failed.
        op: OpNum,
        /// Its status.
        status: NfsStat,
    },
    /// The RPC layer failed in a way that repeating does not cure.
    #[error(transparent)]
    Rpc(RpcError),
    /// The server could not be reached for as long as the caller is willing to wait.
    #[error("server {addr} cannot be reached: {why}")]
    Unreachable {
        /// The server.
        addr: SocketAddr,
        /// The last failure.
        why: Arc<str>,
    },
    /// Nobody knows the server's name.
    #[error("no such server {name}: {why}; try its address, or look whether the name is right")]
    NoSuchHost {
        /// The name.
        name: Arc<str>,
        /// What the system's resolver said.
        why: Arc<str>,
    },
    /// None of a server's addresses takes a connection.
    #[error("server {name} cannot be reached: {why}; is it running, and is its port right?")]
    NoAddressAnswers {
        /// The server.
        name: Arc<str>,
        /// What each address said.
        why: Arc<str>,
    },
    /// A blocking call on a thread that drives an async runtime.
    #[error(
        "a blocking call would stop the async runtime of this thread: use the async client there, \
         or a thread of its own"
    )]
    WouldStopRuntime,
    /// A client or file that came along with `fork`: its connections are the parent's.
    #[error("this client was made by process {0}, before a fork: connect anew in this process")]
    Forked(u32),
    /// Whoever waited was to give up ([`crate::blocking::give_up_when`]).
    #[error("interrupted: what was begun may be done or not")]
    Interrupted,
    /// The server does not serve this machine, or not the port we came from.
    #[error("{}", not_served(*.server, *.local))]
    NotServed {
        /// The server.
        server: SocketAddr,
        /// Our end of the connection to it.
        local: SocketAddr,
    },
    /// The session was lost while a request that must not run twice was under way.
    #[error("the server lost our session during {op}: it may or may not have been executed")]
    OutcomeUnknown {
        /// The first operation that must not be repeated.
        op: OpNum,
    },
    /// The server's answer breaks the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The server's bytes are not what they should be.
    #[error("the server's answer cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// A layout that this client cannot use.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The session was closed by us.
    #[error("the session is closed")]
    Closed,
    /// A local file failed.
    #[error("{0}")]
    Local(Arc<io::Error>),
    /// The caller's argument makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// The server has dropped our open as often as we opened the file again.
    #[error("the server keeps dropping our open file: is it restarted again and again? Try later")]
    OpenLost,
    /// A path leads through more symbolic links than [`crate::limits::SYMLINKS_MAX`].
    #[error("too many levels of symbolic links")]
    SymlinkLoop,
    /// A file that was to be read whole is longer than the caller allowed.
    #[error("the file is longer than asked for")]
    FileTooLong,
    /// A file that takes the place of another cannot be given its access control list.
    #[error(
        "a new file cannot be given the access control list of the one that is there ({}); \
         written in place, that one keeps it",
        words_of_list(*.0)
    )]
    ListNotKept(NfsStat),
    /// Data servers kept losing what was written before it could be committed.
    #[error("a data server lost uncommitted data again and again")]
    NotCommitted,
}

/// How a server's answer breaks the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The result is not one of this operation, or not one it may have.
    #[error("{0} answered with something else")]
    UnexpectedResult(OpNum),
    /// The results do not begin with that of SEQUENCE.
    #[error("the first result is not SEQUENCE's")]
    NoSequence,
    /// SEQUENCE's result names another slot, session or sequence id than its request.
    #[error("reply to another slot's request")]
    WrongSlot,
    /// Not a single request fits the session.
    #[error("the session granted is too small")]
    SessionTooSmall,
    /// GETATTR left out the size.
    #[error("GETATTR without the size")]
    NoSize,
    /// READ returned no bytes, and said that there are more.
    #[error("READ of nothing before the end")]
    EmptyRead,
    /// The last cookie of a READDIR is the one it was asked to start from.
    #[error("READDIR does not move on")]
    ReaddirStuck,
    /// GETDEVICEINFO returned a device of another layout type than asked for.
    #[error("device of another layout type")]
    WrongDevice,
}

impl ClientError {
    /// An operation was answered with another's result, or one it may not have.
    pub fn unexpected(op: OpNum) -> ClientError {
        ProtocolError::UnexpectedResult(op).into()
    }

    /// The server's status, if that is what failed.
    pub fn status(&self) -> Option<NfsStat> {
        match self {
            ClientError::Nfs { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the server no longer knows a stateid we sent: the open must be renewed.
    pub(crate) fn is_lost_state(&self) -> bool {
        matches!(
            self.status(),
            Some(
                NfsStat::BAD_STATEID
                    | NfsStat::STALE_STATEID
                    | NfsStat::OLD_STATEID
                    | NfsStat::EXPIRED
                    | NfsStat::ADMIN_REVOKED
                    | NfsStat::DELEG_REVOKED
            )
        )
    }

    /// Whether the server no longer knows a layout we hold.
    pub(crate) fn is_layout_gone(&self) -> bool {
        self.is_lost_state()
            || matches!(
                self.status(),
                Some(NfsStat::BADLAYOUT | NfsStat::NOMATCHING_LAYOUT | NfsStat::PNFS_NO_LAYOUT)
            )
    }

    /// Whether there is no room for what was to be written, for now or for this user.
    pub fn is_no_room(&self) -> bool {
        matches!(self.status(), Some(NfsStat::NOSPC | NfsStat::DQUOT | NfsStat::FBIG))
    }

    /// Whether the metadata server may do better than the data server that said this.
    pub(crate) fn is_curable(&self) -> bool {
        match self {
            ClientError::Nfs { status, .. } => !self.is_no_room() && *status != NfsStat::ROFS,
            ClientError::Rpc(RpcError::Source(_)) => false,
            ClientError::Rpc(_)
            | ClientError::Unreachable { .. }
            | ClientError::NoSuchHost { .. }
            | ClientError::NoAddressAnswers { .. }
            | ClientError::NotServed { .. }
            | ClientError::Protocol(_)
            | ClientError::Decode(_)
            | ClientError::OutcomeUnknown { .. } => true,
            ClientError::Layout(_)
            | ClientError::Closed
            | ClientError::WouldStopRuntime
            | ClientError::Forked(_)
            | ClientError::Interrupted
            | ClientError::Local(_)
            | ClientError::Invalid(_)
            | ClientError::OpenLost
            | ClientError::SymlinkLoop
            | ClientError::FileTooLong
            | ClientError::ListNotKept(_)
            | ClientError::NotCommitted => false,
        }
    }
}

impl From<RpcError> for ClientError {
    fn from(e: RpcError) -> Self {
        ClientError::Rpc(e)
    }
}

impl From<io::Error> for ClientError {
    fn from(e: io::Error) -> Self {
        ClientError::Local(Arc::new(e))
    }
}

fn words_of_list(status: NfsStat) -> String {
    match status {
        NfsStat::NOSPC => "it has too many entries, or there is no space left".to_string(),
        _ => format!("the server says {status}"),
    }
}

fn words(op: OpNum, status: NfsStat) -> String {
    match describe(status) {
        Some(words) => words.to_string(),
        None => format!("refused by the server ({op}: {status})"),
    }
}

/// What the administrator of a server must allow. Why it refuses us, a server does not say.
fn not_served(server: SocketAddr, local: SocketAddr) -> String {
    let (ip, port) = (local.ip().to_canonical(), local.port());
    let rule = format!("[[export.client]] networks = [\"{ip}\"], access = \"rw\"");
    match PRIVILEGED_PORTS.contains(&port) {
        true => format!(
            "server {server} does not serve {ip}: its administrator can allow it in its \
             configuration: {rule}"
        ),
        false => format!(
            "server {server} does not serve {ip} from port {port}. Perhaps it wants a privileged \
             port: run this as root, or let its administrator allow it in its configuration: \
             {rule}, privileged_ports = false"
        ),
    }
}

/// A status in words, as a shell user expects them.
pub fn describe(status: NfsStat) -> Option<&'static str> {
    Some(match status {
        NfsStat::PERM => "operation not permitted",
        NfsStat::NOENT => "no such file or directory",
        NfsStat::IO => "input/output error on the server",
        NfsStat::NXIO => "no data server is configured",
        NfsStat::ACCESS => "permission denied",
        NfsStat::EXIST => "file exists",
        NfsStat::XDEV => "not on the same volume",
        NfsStat::NOTDIR => "not a directory",
        NfsStat::ISDIR => "is a directory",
        NfsStat::INVAL => "invalid argument",
        NfsStat::FBIG => "file too large",
        NfsStat::NOSPC => "no space left on the servers",
        NfsStat::ROFS => "read-only file system",
        NfsStat::MLINK => "too many links",
        NfsStat::NAMETOOLONG => "file name too long",
        NfsStat::NOTEMPTY => "directory not empty",
        NfsStat::DQUOT => "disk quota exceeded",
        NfsStat::STALE => "stale file handle",
        NfsStat::DELAY => {
            "the server asks to wait again and again (a data server may be away, or another client \
             hold the file)"
        }
        NfsStat::GRACE => "the server is still in its grace period",
        NfsStat::SYMLINK => "is a symbolic link",
        NfsStat::WRONG_TYPE => "wrong type of file",
        NfsStat::NOTSUPP => "operation not supported by the server",
        NfsStat::BADNAME | NfsStat::BADCHAR => "invalid file name",
        NfsStat::FILE_OPEN | NfsStat::SHARE_DENIED => "file is in use",
        NfsStat::LOCKED | NfsStat::DENIED => "file is locked",
        NfsStat::WRONGSEC => "the server wants other credentials",
        NfsStat::MINOR_VERS_MISMATCH => "the server does not speak this NFS minor version",
        NfsStat::CLID_INUSE => "another client uses our identity",
        NfsStat::BAD_STATEID | NfsStat::EXPIRED => {
            "the server has dropped our open file: it was restarted, or did not hear from us for a \
             lease. Try again"
        }
        NfsStat::SERVERFAULT => "the server failed",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An open that is lost is told with its reasons.
    #[test]
    fn words_of_a_lost_open() {
        let lost = ClientError::Nfs { op: OpNum::READ, status: NfsStat::BAD_STATEID };
        for e in [lost, ClientError::OpenLost] {
            assert!(e.to_string().contains("restarted"), "{e}");
        }
    }

    /// Who is refused reads what to ask the administrator for.
    #[test]
    fn words_of_a_refusal() {
        let server = ([10, 0, 0, 1], 2049).into();
        let said = |address: &str| {
            let local = address.parse().unwrap();
            ClientError::NotServed { server, local }.to_string()
        };
        let rule = "[[export.client]] networks = [\"10.0.0.7\"], access = \"rw\"";
        let ordinary = said("10.0.0.7:40000");
        assert!(ordinary.contains("from port 40000"), "{ordinary}");
        assert!(ordinary.contains(&format!("{rule}, privileged_ports = false")), "{ordinary}");
        let privileged = said("[::ffff:10.0.0.7]:700");
        assert!(privileged.ends_with(rule), "{privileged}");
    }
}
