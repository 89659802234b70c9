//! ONC RPC version 2 messages: RFC 5531. Credentials: AUTH_NONE and AUTH_SYS (RFC 5531 §14,
//! Appendix A).

use bytes::Bytes;

use crate::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer};

/// The only RPC version there is.
pub const RPC_VERSION: u32 = 2;
/// Longest body of a credential or verifier, RFC 5531 §8.2.
pub const AUTH_BYTES_MAX: usize = 400;
/// Most supplementary groups an AUTH_SYS credential can carry.
pub const AUTH_SYS_GIDS_MAX: usize = 16;
/// Longest machine name of AUTH_SYS.
pub const AUTH_SYS_MACHINE_BYTES_MAX: usize = 255;

crate::xdr_named! {
    /// Authentication flavors, RFC 5531 §8.2.
    pub struct AuthFlavor {
        NONE = 0,
        SYS = 1,
        SHORT = 2,
        GSS = 6,
        TLS = 7,
    }
}

/// Flavor and body of a credential or verifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpaqueAuth {
    /// How the caller authenticates itself.
    pub flavor: AuthFlavor,
    /// Body, at most [`AUTH_BYTES_MAX`] bytes.
    pub body: Bytes,
}

impl OpaqueAuth {
    /// AUTH_NONE with its empty body.
    pub const NONE: OpaqueAuth = OpaqueAuth { flavor: AuthFlavor::NONE, body: Bytes::new() };
}

impl Decode for OpaqueAuth {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("opaque_auth");
        Ok(OpaqueAuth { flavor: AuthFlavor::decode(r)?, body: r.opaque(AUTH_BYTES_MAX)? })
    }
}
impl Encode for OpaqueAuth {
    fn encode(&self, w: &mut Writer) {
        self.flavor.encode(w);
        w.opaque(&self.body);
    }
}

/// An AUTH_SYS credential: the caller, as the client's kernel names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSys {
    /// Arbitrary, chosen by the caller.
    pub stamp: u32,
    /// Host name of the caller, as it says.
    pub machine: Bytes,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups, at most [`AUTH_SYS_GIDS_MAX`].
    pub gids: Vec<u32>,
}

impl Decode for AuthSys {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("authsys_parms");
        Ok(AuthSys {
            stamp: r.u32()?,
            machine: r.opaque(AUTH_SYS_MACHINE_BYTES_MAX)?,
            uid: r.u32()?,
            gid: r.u32()?,
            gids: r.array(AUTH_SYS_GIDS_MAX)?,
        })
    }
}
impl Encode for AuthSys {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.stamp);
        w.opaque(&self.machine);
        w.u32(self.uid);
        w.u32(self.gid);
        w.array(&self.gids);
    }
}

/// The header of a call; the arguments follow it in the reader it was decoded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallHeader {
    /// Program number.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Says who calls.
    pub credential: OpaqueAuth,
    /// Proves the credential, where the flavor has proofs.
    pub verifier: OpaqueAuth,
}

/// The start of a message: transaction id, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A call, its arguments following.
    Call(u32, CallHeader),
    /// A call of another RPC version, which is answered with RPC_MISMATCH.
    CallOfWrongVersion(u32),
    /// A reply, its results following when accepted.
    Reply(u32, Reply),
}

/// How a call was answered (RFC 5531 §9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Executed: results follow.
    Success,
    /// No such program here.
    ProgUnavail,
    /// Program known, version not; lowest and highest supported.
    ProgMismatch(u32, u32),
    /// No such procedure.
    ProcUnavail,
    /// Arguments could not be decoded.
    GarbageArgs,
    /// The server is out of order.
    SystemErr,
    /// RPC version not 2.
    RpcMismatch,
    /// Credential refused, with its auth_stat.
    AuthError(u32),
}

/// auth_stat values used in [`Reply::AuthError`].
pub mod auth_stat {
    /// Bad credential (seal broken, or malformed).
    pub const BADCRED: u32 = 1;
    /// Credential of a flavor that is not accepted.
    pub const TOOWEAK: u32 = 5;
}

const CALL: u32 = 0;
const REPLY: u32 = 1;
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;

impl Decode for Message {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.label("rpc_msg");
        let xid = r.u32()?;
        match r.u32()? {
            CALL => decode_call(xid, r),
            REPLY => Ok(Message::Reply(xid, decode_reply(r)?)),
            _ => Err(r.error(DecodeErrorKind::Value)),
        }
    }
}

fn decode_call(xid: u32, r: &mut Reader) -> Result<Message, DecodeError> {
    if r.u32()? != RPC_VERSION {
        return Ok(Message::CallOfWrongVersion(xid));
    }
    let header = CallHeader {
        program: r.u32()?,
        version: r.u32()?,
        procedure: r.u32()?,
        credential: OpaqueAuth::decode(r)?,
        verifier: OpaqueAuth::decode(r)?,
    };
    Ok(Message::Call(xid, header))
}

fn decode_reply(r: &mut Reader) -> Result<Reply, DecodeError> {
    match r.u32()? {
        ACCEPTED => {
            let _verifier = OpaqueAuth::decode(r)?;
            match r.u32()? {
                0 => Ok(Reply::Success),
                1 => Ok(Reply::ProgUnavail),
                2 => Ok(Reply::ProgMismatch(r.u32()?, r.u32()?)),
                3 => Ok(Reply::ProcUnavail),
                4 => Ok(Reply::GarbageArgs),
                5 => Ok(Reply::SystemErr),
                _ => Err(r.error(DecodeErrorKind::Value)),
            }
        }
        DENIED => match r.u32()? {
            0 => {
                let _low_high = (r.u32()?, r.u32()?);
                Ok(Reply::RpcMismatch)
            }
            1 => Ok(Reply::AuthError(r.u32()?)),
            _ => Err(r.error(DecodeErrorKind::Value)),
        },
        _ => Err(r.error(DecodeErrorKind::Value)),
    }
}

/// Writes a call's header; the arguments are encoded after it.
pub fn call(w: &mut Writer, xid: u32, header: &CallHeader) {
    w.u32(xid);
    w.u32(CALL);
    w.u32(RPC_VERSION);
    w.u32(header.program);
    w.u32(header.version);
    w.u32(header.procedure);
    header.credential.encode(w);
    header.verifier.encode(w);
}

/// Writes a reply's header; results of [`Reply::Success`] are encoded after it.
pub fn reply(w: &mut Writer, xid: u32, reply: &Reply) {
    w.u32(xid);
    w.u32(REPLY);
    let accepted = |w: &mut Writer, stat: u32| {
        w.u32(ACCEPTED);
        OpaqueAuth::NONE.encode(w);
        w.u32(stat);
    };
    match *reply {
        Reply::Success => accepted(w, 0),
        Reply::ProgUnavail => accepted(w, 1),
        Reply::ProgMismatch(low, high) => {
            accepted(w, 2);
            w.u32(low);
            w.u32(high);
        }
        Reply::ProcUnavail => accepted(w, 3),
        Reply::GarbageArgs => accepted(w, 4),
        Reply::SystemErr => accepted(w, 5),
        Reply::RpcMismatch => {
            w.u32(DENIED);
            w.u32(0);
            w.u32(RPC_VERSION);
            w.u32(RPC_VERSION);
        }
        Reply::AuthError(stat) => {
            w.u32(DENIED);
            w.u32(1);
            w.u32(stat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reply form survives the wire, and every truncation of it is an error.
    #[test]
    fn replies_round_trip_and_truncate() {
        let all = [
            Reply::Success,
            Reply::ProgUnavail,
            Reply::ProgMismatch(4, 4),
            Reply::ProcUnavail,
            Reply::GarbageArgs,
            Reply::SystemErr,
            Reply::RpcMismatch,
            Reply::AuthError(auth_stat::TOOWEAK),
        ];
        for form in all {
            let mut w = Writer::new();
            reply(&mut w, 7, &form);
            let wire = w.into_bytes();
            assert_eq!(
                crate::from_bytes::<Message>(wire.clone()).unwrap(),
                Message::Reply(7, form.clone())
            );
            for cut in 0..wire.len() {
                assert!(crate::from_bytes::<Message>(wire.slice(..cut)).is_err(), "{form:?} {cut}");
            }
        }
    }

    /// A call with an AUTH_SYS credential survives the wire; 17 groups do not.
    #[test]
    fn calls_round_trip_and_group_limit_holds() {
        let mut sys = AuthSys {
            stamp: 1,
            machine: Bytes::from_static(b"host"),
            uid: 1000,
            gid: 100,
            gids: vec![5; AUTH_SYS_GIDS_MAX],
        };
        let header = CallHeader {
            program: 100_003,
            version: 4,
            procedure: 1,
            credential: OpaqueAuth { flavor: AuthFlavor::SYS, body: crate::to_bytes(&sys) },
            verifier: OpaqueAuth::NONE,
        };
        let mut w = Writer::new();
        call(&mut w, 9, &header);
        let wire = w.into_bytes();
        let Message::Call(9, back) = crate::from_bytes(wire).unwrap() else { panic!("not a call") };
        assert_eq!(back, header);
        assert_eq!(crate::from_bytes::<AuthSys>(back.credential.body).unwrap(), sys);
        sys.gids.push(5);
        assert!(crate::from_bytes::<AuthSys>(crate::to_bytes(&sys)).is_err());
    }
}
