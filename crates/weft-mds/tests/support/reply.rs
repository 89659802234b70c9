//! The reply of a COMPOUND, and what tests want of it.

use bytes::Bytes;
use weft_nfs::{
    Attrs, ChangeInfo, CompoundReply, FailureBody, FileHandle, NfsStat, OpOk, OpReply, Stateid,
    ops::{LayoutgetOk, ListxattrsOk, OpenOk, ReaddirOk, SequenceOk},
};

/// A whole reply, with its bytes.
#[derive(Debug, Clone)]
pub struct Reply {
    pub raw: Bytes,
    pub compound: CompoundReply,
}

impl Reply {
    pub fn new(raw: Bytes) -> Reply {
        let compound = weft_xdr::from_bytes(raw.clone()).expect("a reply that can be decoded");
        let reply = Reply { raw, compound };
        // RFC 8881 §16.2.3: the overall status is that of the last operation, and only the last
        // one may have failed.
        let statuses: Vec<_> = reply.compound.results.iter().map(OpReply::status).collect();
        if let Some((last, before)) = statuses.split_last() {
            assert_eq!(*last, reply.compound.status);
            assert!(before.iter().all(|s| *s == NfsStat::OK), "{statuses:?}");
        }
        reply
    }

    pub fn status(&self) -> NfsStat {
        self.compound.status
    }

    /// Expects this overall status.
    #[track_caller]
    pub fn is(self, status: NfsStat) -> Reply {
        assert_eq!(self.status(), status, "{:?}", self.compound.results.last());
        self
    }

    #[track_caller]
    pub fn ok(self) -> Reply {
        self.is(NfsStat::OK)
    }

    /// How many operations were executed.
    pub fn len(&self) -> usize {
        self.compound.results.len()
    }

    #[track_caller]
    pub fn last(&self) -> &OpReply {
        self.compound.results.last().expect("a result")
    }

    /// The body of the failure the COMPOUND ended with.
    #[track_caller]
    pub fn failure(&self) -> &FailureBody {
        match &self.last().result {
            Err(f) => &f.body,
            Ok(ok) => panic!("no failure: {ok:?}"),
        }
    }

    #[track_caller]
    fn find<T>(&self, what: &str, pick: impl Fn(&OpOk) -> Option<T>) -> T {
        let found = self.compound.results.iter().rev().find_map(|r| pick(r.result.as_ref().ok()?));
        found.unwrap_or_else(|| panic!("no {what} in {:?}", self.compound))
    }

    #[track_caller]
    pub fn sequence(&self) -> SequenceOk {
        self.find("SEQUENCE", |ok| match ok {
            OpOk::Sequence(s) => Some(s.clone()),
            _ => None,
        })
    }

    /// The last filehandle.
    #[track_caller]
    pub fn fh(&self) -> FileHandle {
        self.find("GETFH", |ok| match ok {
            OpOk::Getfh(g) => Some(g.object.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub fn attrs(&self) -> Attrs {
        *self.find("GETATTR", |ok| match ok {
            OpOk::Getattr(g) => Some(g.attrs.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub fn open(&self) -> OpenOk {
        self.find("OPEN", |ok| match ok {
            OpOk::Open(o) => Some(o.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub fn readdir(&self) -> ReaddirOk {
        self.find("READDIR", |ok| match ok {
            OpOk::Readdir(r) => Some(r.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub fn layout(&self) -> LayoutgetOk {
        self.find("LAYOUTGET", |ok| match ok {
            OpOk::Layoutget(l) => Some(l.clone()),
            _ => None,
        })
    }

    /// The value of the last GETXATTR.
    #[track_caller]
    pub fn xattr(&self) -> Bytes {
        self.find("GETXATTR", |ok| match ok {
            OpOk::Getxattr(x) => Some(x.value.0.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub fn xattrs(&self) -> ListxattrsOk {
        self.find("LISTXATTRS", |ok| match ok {
            OpOk::Listxattrs(x) => Some(x.clone()),
            _ => None,
        })
    }

    /// What the last SETXATTR or REMOVEXATTR changed.
    #[track_caller]
    pub fn changed(&self) -> ChangeInfo {
        self.find("change of an extended attribute", |ok| match ok {
            OpOk::Setxattr(x) | OpOk::Removexattr(x) => Some(x.info),
            _ => None,
        })
    }

    /// The data of the last READ.
    #[track_caller]
    pub fn data(&self) -> (Bytes, bool) {
        self.find("READ", |ok| match ok {
            OpOk::Read(r) => match &r.data {
                weft_xdr::Payload::Bytes(b) => Some((b.clone(), r.eof)),
                weft_xdr::Payload::File(_) => None,
            },
            _ => None,
        })
    }

    /// The last stateid that any operation left.
    #[track_caller]
    pub fn stateid(&self) -> Stateid {
        self.find("stateid", |ok| match ok {
            OpOk::Open(o) => Some(o.stateid),
            OpOk::Layoutget(l) => Some(l.stateid),
            OpOk::Layoutreturn(l) => l.stateid,
            OpOk::Close(s) | OpOk::Lock(s) | OpOk::Locku(s) | OpOk::OpenDowngrade(s) => {
                Some(s.stateid)
            }
            _ => None,
        })
    }
}
