//! CREATE (6): RFC 8881 §18.4: everything but regular files.

use weft_nfs::{
    NfsStat, OpOk,
    ops::{CreateArgs, CreateOk, CreateType},
};
use weft_server::compound::{Compound, OpResult};
use weft_store::{
    types::{Kind, Timestamp},
    volume::{Exclusivity, New, SetTime},
};

use super::{
    attrs::{On, Settings, settings},
    lookup::{checked_name, current_directory},
};
use crate::{server::Mds, translate::change_info};

/// Mode of an object whose creator gave none.
const DEFAULT_MODE: u16 = 0o700;

/// Mode of every symbolic link.
const SYMLINK_MODE: u16 = 0o777;

/// RFC 8881 §18.4. The new object becomes the current filehandle.
pub(super) async fn create(mds: &Mds, c: &mut Compound<Mds>, a: CreateArgs) -> OpResult {
    let dir = current_directory(mds, c)?;
    let name = checked_name(&a.name)?;
    // Nothing that CREATE makes has a size to set; nor has it FBIG (§15.2).
    if a.attrs.size.is_some() {
        return Err(NfsStat::INVAL.into());
    }
    let settings = settings(&mds.names, &a.attrs, On::Creation, c.minorversion).await?;
    let mut new = new_object(&settings, DEFAULT_MODE, Exclusivity::Guarded);
    match a.objtype {
        CreateType::Directory => new.kind = Kind::Directory,
        CreateType::Link(target) => {
            if target.is_empty() {
                return Err(NfsStat::INVAL.into());
            }
            new.kind = Kind::Symlink;
            // Nobody looks at it, and POSIX says so; Linux sends one cut by the umask in 4.2.
            new.mode = SYMLINK_MODE;
            new.umask = 0;
            new.target = target;
        }
        CreateType::Block(d) => (new.kind, new.rdev) = (Kind::BlockDevice, (d.major, d.minor)),
        CreateType::Char(d) => (new.kind, new.rdev) = (Kind::CharDevice, (d.major, d.minor)),
        CreateType::Socket => new.kind = Kind::Socket,
        CreateType::Fifo => new.kind = Kind::Fifo,
        // §18.4.3: a type CREATE cannot make.
        CreateType::Other(_) => return Err(NfsStat::BADTYPE.into()),
    }
    let cred = mds.credential(c);
    mds.files.volume().admit().await;
    let volume = mds.files.volume();
    let trial = || volume.dry_run().create(dir, name, &new, &cred, mds.files.wall());
    let client = c.client()?;
    let allowed = || c.deps.see(trial()).map(drop);
    let _undelegated = mds.clients.delegations.before_new_name(client, dir, allowed).await?;
    let made = c.deps.see(mds.files.volume().create(dir, name, &new, &cred, mds.files.wall()))?;
    c.set_current(mds.files.handle(made.inode.no));
    Ok(OpOk::Create(CreateOk { change: change_info(made.dir_change), attrset: settings.mask }))
}

/// A new object with these settings.
pub(super) fn new_object(s: &Settings, default_mode: u16, how: Exclusivity) -> New {
    let time = |t: Option<SetTime>| -> Option<Timestamp> {
        match t {
            Some(SetTime::Client(t)) => Some(t),
            Some(SetTime::Server) | None => None,
        }
    };
    New {
        umask: s.umask,
        is_mode_default: s.set.mode.is_none(),
        acl: s.set.acl.clone(),
        uid: s.set.uid,
        gid: s.set.gid,
        size: s.set.size,
        atime: time(s.set.atime),
        mtime: time(s.set.mtime),
        ..New::of(Kind::File, s.set.mode.map_or(default_mode, |m| m.apply(default_mode)), how)
    }
}
