//! OPEN (18): RFC 8881 §18.16.

use weft_nfs::{
    AttrNo, Bitmap, ChangeInfo, ClientId, Failure, NfsStat, OpOk, Seqid, Stateid, delegate,
    open_result,
    ops::{CreateHow, OpenArgs, OpenClaim, OpenDelegation, OpenOk},
    share,
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};
use weft_store::{
    types::{Inode, InodeNo, Kind, Rwx},
    volume::{Authority, Created, Exclusivity, New, SetAttr, SetMode},
};

use super::{
    attrs::{On, Settings, settings},
    create::new_object,
    data_access::{require, require_to_read},
    lookup::{checked_name, directory_not_symlink},
    setattr,
};
use crate::{
    clients::{Opened, Undelegated},
    server::Mds,
    translate::change_info,
};

/// Mode of a file whose creator gave none.
const DEFAULT_MODE: u16 = 0o600;

/// What the name or handle led to.
struct Target<'a> {
    inode: Inode,
    change: ChangeInfo,
    attrset: Bitmap,
    /// Others' delegations are kept away until the open stands.
    undelegated: Option<Undelegated<'a>>,
}

/// RFC 8881 §18.16.
pub(super) async fn open(mds: &Mds, c: &mut Compound<Mds>, a: OpenArgs) -> OpResult {
    // Delegation wants in the high bits are wishes; unknown ones are no error (Linux gives up
    // CLAIM_FH for good after an INVAL: nfs4_clear_cap_atomic_open_v1).
    let access = a.share_access & share::ACCESS_MASK;
    if access == 0 || a.share_deny > share::DENY_BOTH {
        return Err(NfsStat::INVAL.into());
    }
    let (client, reclaims) = (c.client()?, matches!(a.claim, OpenClaim::Previous(_)));
    mds.clients.reclaim_rule(&mut c.deps, client, reclaims, c.now)?;
    if a.claim == OpenClaim::Previous(delegate::WRITE) && mds.clients.delegations.lost_some(client)
    {
        return Err(NfsStat::RECLAIM_BAD.into());
    }
    mds.files.volume().admit().await;
    let target = claimed(mds, c, &a).await?;
    let client = c.client()?;
    let (stateid, inode) = stand(mds, c, &a, target.inode.no)?;
    let undelegated = target.undelegated.is_some();
    // RFC 9754 §2: an extension of 4.2.
    let wanted = a.share_access & share::WANT_OPEN_XOR_DELEGATION != 0;
    let instead = wanted && c.minorversion >= 2 && mds.export().delegated.writes;
    let how = How { undelegated, instead };
    let granted = granted(mds, (client, &inode), &a, (stateid, how));
    c.set_current(mds.files.handle(inode.no));
    c.current_stateid = Some(granted.current);
    c.opened = true;
    Ok(OpOk::Open(OpenOk {
        stateid: granted.stateid,
        cinfo: target.change,
        rflags: granted.rflags,
        attrset: target.attrset,
        delegation: granted.delegation,
    }))
}

/// Records the open; its stateid, and the file as it is then.
fn stand(
    mds: &Mds,
    c: &mut Compound<Mds>,
    a: &OpenArgs,
    ino: InodeNo,
) -> Result<(Stateid, Inode), Failure> {
    let (client, file) = (c.client()?, mds.files.key(ino));
    let access = a.share_access & share::ACCESS_MASK;
    let opened = mds.protocol.state().open(client, &a.owner, file, access, a.share_deny);
    let stateid = opened.map_err(refused)?;
    mds.clients.records.depend_on_forgotten(&mut c.deps);
    // Marked after it was given, so that whoever takes marks away sees it. And the file may have
    // been removed between the look and the open.
    let noted = mds.clients.note_holder(&mut c.deps, client);
    match noted.and_then(|()| c.deps.see(mds.files.volume().inode(ino))) {
        Ok(inode) => Ok((stateid, inode)),
        Err(gone) => {
            mds.protocol.state().close(client, &stateid, file).map_err(refused)?;
            Err(gone)
        }
    }
}

/// What an OPEN grants.
struct Granted {
    /// The open, or the anonymous stateid in its place.
    stateid: Stateid,
    /// What later operations of the COMPOUND take for the current stateid.
    current: Stateid,
    rflags: u32,
    delegation: OpenDelegation,
}

/// How a delegation goes with an open.
#[derive(Clone, Copy)]
struct How {
    /// This request keeps delegations away from others.
    undelegated: bool,
    /// It may take the place of the open.
    instead: bool,
}

/// The delegation that goes with an open, or takes its place.
fn granted(
    mds: &Mds,
    (client, inode): (ClientId, &Inode),
    args: &OpenArgs,
    (stateid, how): (Stateid, How),
) -> Granted {
    let to_write = mds.export().delegated.writes;
    let opened = Opened { client, inode, args, changes: how.undelegated, to_write };
    let delegation = mds.clients.delegations.grant(&opened);
    // Orphans are kept while they are open, over a restart too (design D18).
    let rflags = open_result::LOCKTYPE_POSIX | open_result::PRESERVE_UNLINKED;
    let instead = in_place_of_open(args, &stateid, &delegation).filter(|_| how.instead);
    match instead.filter(|_| gave_up(mds, client, &stateid, inode.no)) {
        None => {
            let key = mds.files.key(inode.no);
            let notifies = match mds.protocol.state().notifies_of_locks(client, key) {
                true => open_result::MAY_NOTIFY_LOCK,
                false => 0,
            };
            Granted { stateid, current: stateid, rflags: rflags | notifies, delegation }
        }
        Some(current) => Granted {
            stateid: Stateid::ANONYMOUS,
            current,
            rflags: rflags | open_result::NO_OPEN_STATEID,
            delegation,
        },
    }
}

/// Whether an open is closed for the delegation in its place: not if another OPEN of this owner has
/// joined it since, then both stand.
fn gave_up(mds: &Mds, client: ClientId, open: &Stateid, ino: InodeNo) -> bool {
    let closed = mds.protocol.state().close(client, open, mds.files.key(ino));
    if closed.as_ref().is_ok_and(|closed| closed.last_open_of_file) {
        mds.files.closed(ino);
    }
    closed.is_ok()
}

/// The delegation, if it can be all that is granted: the client needs nothing that only an open can
/// say, as what others are denied. RFC 9754 §4.
fn in_place_of_open(a: &OpenArgs, open: &Stateid, delegation: &OpenDelegation) -> Option<Stateid> {
    let is_new = open.seqid == Seqid(1) && !matches!(a.claim, OpenClaim::Previous(_));
    let granted = match delegation {
        OpenDelegation::Read { stateid, .. } | OpenDelegation::Write { stateid, .. } => stateid,
        OpenDelegation::None | OpenDelegation::NoneExt(..) => return None,
    };
    (is_new && a.share_deny == share::DENY_NONE).then_some(*granted)
}

/// What the claim leads to, made or emptied if it is to be.
async fn claimed<'a>(
    mds: &'a Mds,
    c: &mut Compound<Mds>,
    a: &OpenArgs,
) -> Result<Target<'a>, Failure> {
    match &a.claim {
        OpenClaim::Null(name) => by_name(mds, c, a, name).await,
        OpenClaim::Fh | OpenClaim::Previous(_) => by_handle(mds, c, a).await,
        OpenClaim::DelegateCur(delegation, name) => {
            let dir = directory_not_symlink(mds, c)?;
            let found = look(mds, c, dir, checked_name(name)?)?;
            let ino = found.ok_or(NfsStat::NOENT)?.no;
            under_delegation(mds, c, ino, *delegation)?;
            by_name(mds, c, a, name).await
        }
        OpenClaim::DelegCurFh(delegation) => {
            let ino = c.handle()?.ino;
            under_delegation(mds, c, ino, *delegation)?;
            by_handle(mds, c, a).await
        }
        OpenClaim::DelegatePrev(_) | OpenClaim::DelegPrevFh => Err(NfsStat::NOTSUPP.into()),
    }
}

/// CLAIM_DELEGATE_CUR and CLAIM_DELEG_CUR_FH: the delegation must be one on this file.
fn under_delegation(
    mds: &Mds,
    c: &Compound<Mds>,
    ino: InodeNo,
    delegation: Stateid,
) -> Result<(), Failure> {
    let delegation = c.stateid(delegation)?;
    let (client, file) = (c.client()?, mds.files.key(ino));
    let mut state = mds.protocol.state();
    state.delegation_check(client, &delegation, file).map_err(refused)?;
    // Linux claims its opens when it is to give the delegation back.
    state.delegation_returning(client, file);
    Ok(())
}

/// CLAIM_NULL and CLAIM_DELEGATE_CUR: a name in the current directory.
async fn by_name<'a>(
    mds: &'a Mds,
    c: &mut Compound<Mds>,
    a: &OpenArgs,
    name: &weft_nfs::Component,
) -> Result<Target<'a>, Failure> {
    let dir = directory_not_symlink(mds, c)?;
    let name = checked_name(name)?;
    let Some(how) = &a.openhow else { return present(mds, c, a, dir, name).await };
    let (settings, exclusivity) = creation(mds, how, c.minorversion).await?;
    // Before anything is made: what is there may not be openable this way.
    let found = look(mds, c, dir, name)?;
    let mut undelegated = match &found {
        Some(found) => creatable(mds, c, a, found, exclusivity).await?,
        None => None,
    };
    if let Err(read_only) = c.view.writable() {
        // As with a file that was there: what made it may be long past.
        if let (None, Some(found)) = (&undelegated, &found) {
            undelegated = existing(mds, c, a, found).await?;
        }
        let target = not_created(mds, c, dir, found, &settings)?.ok_or(read_only)?;
        return Ok(Target { undelegated, ..target });
    }
    if found.is_none() {
        mds.protocol.state().check_room_for_open(c.client()?, &a.owner).map_err(refused)?;
    }
    let new = new_object(&settings, DEFAULT_MODE, exclusivity);
    let (made, _unlisted) = make(mds, c, (dir, name), new, found.is_some()).await?;
    let change = change_info(made.dir_change);
    if made.created {
        permitted(mds, c, a, &made.inode, Claimant::Had)?;
        return Ok(Target { inode: made.inode, change, attrset: settings.mask, undelegated });
    }
    // Somebody else made it since it was looked for: it is looked at like any other.
    let undelegated = existing(mds, c, a, &made.inode).await?;
    let (inode, attrset) = truncate_existing(mds, c, made.inode, &settings).await?;
    Ok(Target { inode, change, attrset, undelegated })
}

/// Makes a file, or finds it, once others have given back their delegations of the directory: not
/// for a name that was found there, which is no news.
async fn make<'a>(
    mds: &'a Mds,
    c: &mut Compound<Mds>,
    (dir, name): (InodeNo, &[u8]),
    new: New,
    was_found: bool,
) -> Result<(Created, Undelegated<'a>), Failure> {
    let (client, cred) = (c.client()?, mds.credential(c));
    let (delegations, volume) = (&mds.clients.delegations, mds.files.volume());
    let unlisted = if was_found {
        delegations.changing(mds.files.key(dir))
    } else {
        let trial = || volume.dry_run().create(dir, name, &new, &cred, mds.files.wall());
        let allowed = || c.deps.see(trial()).map(drop);
        delegations.before_new_name(client, dir, allowed).await?
    };
    let made = mds.files.make(&mut c.deps, (dir, name), new, &cred).await?;
    if was_found && made.dir_change.before != made.dir_change.after {
        // It was removed since.
        delegations.take_back(client, mds.files.key(dir), false).await?;
    }
    Ok((made, unlisted))
}

/// A file that must be there.
async fn present<'a>(
    mds: &'a Mds,
    c: &mut Compound<Mds>,
    a: &OpenArgs,
    dir: InodeNo,
    name: &[u8],
) -> Result<Target<'a>, Failure> {
    let cred = mds.credential(c);
    let parent = c.deps.see(mds.files.volume().inode(dir))?;
    let inode = c.deps.see(mds.files.volume().lookup(dir, name, &cred))?;
    let change = unchanged(&parent);
    let undelegated = existing(mds, c, a, &inode).await?;
    Ok(Target { inode, change, attrset: Bitmap::EMPTY, undelegated })
}

/// Whether an OPEN that creates may find this: an exclusive one its own work only (§18.16.3).
async fn creatable<'a>(
    mds: &'a Mds,
    c: &mut Compound<Mds>,
    a: &OpenArgs,
    found: &Inode,
    exclusivity: Exclusivity,
) -> Result<Option<Undelegated<'a>>, Failure> {
    match (exclusivity, found.create_verifier) {
        (Exclusivity::Unchecked, _) => existing(mds, c, a, found).await,
        (Exclusivity::Exclusive(v), Some(w)) if v == w => Ok(None),
        (Exclusivity::Guarded | Exclusivity::Exclusive(_), _) => Err(NfsStat::EXIST.into()),
    }
}

/// Where nothing may be changed, a file that is there is opened all the same, unless it were cut.
fn not_created(
    mds: &Mds,
    c: &mut Compound<Mds>,
    dir: InodeNo,
    found: Option<Inode>,
    settings: &Settings,
) -> Result<Option<Target<'static>>, Failure> {
    let Some(inode) = found.filter(|_| settings.set.size != Some(0)) else { return Ok(None) };
    let change = unchanged(&c.deps.see(mds.files.volume().inode(dir))?);
    Ok(Some(Target { inode, change, attrset: Bitmap::EMPTY, undelegated: None }))
}

/// UNCHECKED on an existing file: of the attributes only a size of zero counts (§18.16.3).
async fn truncate_existing(
    mds: &Mds,
    c: &mut Compound<Mds>,
    inode: Inode,
    settings: &Settings,
) -> Result<(Inode, Bitmap), Failure> {
    if settings.set.size != Some(0) {
        return Ok((inode, Bitmap::EMPTY));
    }
    c.view.writable()?;
    // Whoever was delegated it may have brought what it wrote since it was looked at.
    let inode = c.deps.see(mds.files.volume().inode(inode.no))?;
    let set = SetAttr { size: Some(0), ..SetAttr::default() };
    let cred = mds.credential(c);
    let inode = setattr::apply(mds, c, inode, (&set, Authority::ByPermission), &cred).await?;
    Ok((inode, Bitmap::of(&[AttrNo::SIZE])))
}

/// CLAIM_FH, CLAIM_DELEG_CUR_FH and CLAIM_PREVIOUS: the current filehandle is the file.
async fn by_handle<'a>(
    mds: &'a Mds,
    c: &mut Compound<Mds>,
    a: &OpenArgs,
) -> Result<Target<'a>, Failure> {
    let inode = mds.current_file(c)?;
    let settings = match &a.openhow {
        None => Settings::default(),
        Some(CreateHow::Unchecked(attrs)) => {
            settings(&mds.names, attrs, On::Creation, c.minorversion).await?
        }
        // §18.16.3: the object exists, so any other way of creating it fails.
        Some(_) => return Err(NfsStat::EXIST.into()),
    };
    let undelegated = match a.claim {
        OpenClaim::Previous(_) => {
            // Filehandles are no secret, so that anyone may name a file he never had open.
            permitted(mds, c, a, &inode, Claimant::Had)?;
            None
        }
        _ => {
            not_removed(a, &inode)?;
            existing(mds, c, a, &inode).await?
        }
    };
    let (inode, attrset) = truncate_existing(mds, c, inode, &settings).await?;
    let change = ChangeInfo { atomic: false, before: 0, after: 0 };
    Ok(Target { inode, change, attrset, undelegated })
}

/// A removed file is opened no more (STALE, §15.1.2.6), whoever has it open. Linux opens a name
/// that it remembers by handle, and would open the removed file as long as anybody has it open; or
/// as its own CLOSE is on its way.
fn not_removed(a: &OpenArgs, inode: &Inode) -> Result<(), Failure> {
    match inode.nlink == 0 && a.claim == OpenClaim::Fh {
        true => Err(NfsStat::STALE.into()),
        false => Ok(()),
    }
}

/// How to create, with the attributes checked.
async fn creation(
    mds: &Mds,
    how: &CreateHow,
    minorversion: u32,
) -> Result<(Settings, Exclusivity), Failure> {
    let (attrs, exclusivity) = match how {
        CreateHow::Unchecked(a) => (a, Exclusivity::Unchecked),
        CreateHow::Guarded(a) => (a, Exclusivity::Guarded),
        CreateHow::Exclusive(v) => {
            // RFC 8881 §6.4.3: nobody else may do anything with it yet, whatever it inherits.
            let mode = Some(SetMode::all(DEFAULT_MODE));
            let set = SetAttr { mode, ..SetAttr::default() };
            let settings = Settings { set, ..Settings::default() };
            return Ok((settings, Exclusivity::Exclusive(v.0)));
        }
        CreateHow::Exclusive41(v, a) => (a, Exclusivity::Exclusive(v.0)),
    };
    Ok((settings(&mds.names, attrs, On::Creation, minorversion).await?, exclusivity))
}

fn look(
    mds: &Mds,
    c: &mut Compound<Mds>,
    dir: InodeNo,
    name: &[u8],
) -> Result<Option<Inode>, Failure> {
    let cred = mds.credential(c);
    match c.deps.see(mds.files.volume().lookup(dir, name, &cred)) {
        Ok(inode) => Ok(Some(inode)),
        Err(f) if f.status == NfsStat::NOENT => Ok(None),
        Err(f) => Err(f),
    }
}

/// Whether a file that is there already may be opened this way: its type (§18.16.4), the mode,
/// the denials of others, and their delegations, which are taken back first.
async fn existing<'a>(
    mds: &'a Mds,
    c: &mut Compound<Mds>,
    a: &OpenArgs,
    inode: &Inode,
) -> Result<Option<Undelegated<'a>>, Failure> {
    let access = a.share_access & share::ACCESS_MASK;
    match inode.kind {
        Kind::File => {}
        Kind::Directory => return Err(NfsStat::ISDIR.into()),
        Kind::Symlink => return Err(NfsStat::SYMLINK.into()),
        _ => return Err(NfsStat::WRONG_TYPE.into()),
    }
    permitted(mds, c, a, inode, Claimant::Opens)?;
    let file = mds.files.key(inode.no);
    let truncate = truncates(a);
    let excludes = access & share::ACCESS_WRITE != 0 || a.share_deny & share::DENY_READ != 0;
    let (client, delegations) = (c.client()?, &mds.clients.delegations);
    mds.files.require_confirmed(client, inode)?;
    let undelegated = if truncate || excludes {
        Some(delegations.take_back(client, file, truncate).await?)
    } else {
        delegations.take_back_to_read(client, file).await?;
        None
    };
    let check = || mds.protocol.state().open_check(client, &a.owner, file, access, a.share_deny);
    let Err(denied) = check() else { return Ok(undelegated) };
    let holders = mds.protocol.state().share_holders(client, file, access, a.share_deny);
    if !mds.clients.clear_way(&mut c.deps, &holders) {
        return Err(refused(denied));
    }
    check().map_err(refused)?;
    Ok(undelegated)
}

/// What a caller says of his right to open a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claimant {
    /// That he has it now.
    Opens,
    /// That he had it: before a restart, or by the exclusive create that this one repeats. Its
    /// verifier is no secret; Linux's can be guessed.
    Had,
}

/// Whether the mode allows the access that is asked for. What he says he had the owner may ask for
/// whatever the mode: he may have had it before he changed that, and could change it back (as
/// Linux's server does).
fn permitted(
    mds: &Mds,
    c: &Compound<Mds>,
    a: &OpenArgs,
    inode: &Inode,
    claimant: Claimant,
) -> Result<(), Failure> {
    if claimant == Claimant::Had && mds.credential(c).uid == inode.uid {
        return Ok(());
    }
    if a.share_access & share::ACCESS_READ != 0 {
        require_to_read(mds, c, inode)?;
    }
    if a.share_access & share::ACCESS_WRITE != 0 {
        require(mds, c, inode, Rwx::WRITE)?;
    }
    if a.share_deny != share::DENY_NONE && !mds.export().readers_deny {
        require_to_deny(mds, c, inode)?;
    }
    Ok(())
}

/// Refuses share denials (RFC 8881 §9.7) of callers that may not write the file: they would keep
/// everybody from it, its owner and root too. Linux' server asks the same for DENY_READ
/// (`do_open_permission`); its client never denies.
///
/// # Errors
/// ACCESS.
fn require_to_deny(mds: &Mds, c: &Compound<Mds>, inode: &Inode) -> Result<(), Failure> {
    c.view.writable().map_err(|_| NfsStat::ACCESS)?;
    require(mds, c, inode, Rwx::WRITE)
}

/// Whether an OPEN of a file that exists empties it.
fn truncates(a: &OpenArgs) -> bool {
    matches!(&a.openhow, Some(CreateHow::Unchecked(attrs)) if attrs.size == Some(0))
}

fn unchanged(dir: &Inode) -> ChangeInfo {
    ChangeInfo { atomic: true, before: dir.change, after: dir.change }
}
