//! READDIR (26): RFC 8881 §18.23.

use std::ops::ControlFlow;

use bytes::Bytes;
use tokio::task::yield_now;
use weft_nfs::{
    AttrNo, Attrs, Bitmap, Component, Failure, NfsStat, OpOk, Verifier,
    ops::{DirEntry, ReaddirArgs, ReaddirOk},
};
use weft_server::compound::{Compound, OpResult};
use weft_state::LetsGo;
use weft_store::types::{Inode, InodeNo};
use weft_xdr::{Encode, Writer};

use super::{
    attrs,
    attrs::{Facts, SET_ONLY, needs_server_attrs, tells_occupied},
    getattr::{facts, heard_of},
    lookup::current_directory,
};
use crate::{export::acl::ACE_BYTES_MIN, files::Looker, server::Mds};

/// Largest reply, bytes: what Linux asks for at most.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Verifier, end of list, eof.
const FIXED_BYTES: usize = 16;
/// An entry without its name and attributes: "another one", cookie, name length, bitmap length,
/// attribute length.
const ENTRY_BYTES_MIN: usize = 24;
/// Entries after which others have their turn on this thread: some 100 microseconds.
const ENTRIES_AT_ONCE: usize = 64;
/// Cookies that mean "." and ".." elsewhere (§18.23.3).
const RESERVED_COOKIES: [u64; 2] = [1, 2];

struct Found {
    cookie: u64,
    name: Bytes,
    inode: Inode,
}

/// RFC 8881 §18.23. Cookies are stable for ever, so the verifier is always zero.
pub(super) async fn readdir(mds: &Mds, c: &mut Compound<Mds>, a: &ReaddirArgs) -> OpResult {
    let dir = current_directory(mds, c)?;
    if RESERVED_COOKIES.contains(&a.cookie) {
        return Err(NfsStat::BAD_COOKIE.into());
    }
    if a.cookie != 0 && a.cookieverf != Verifier::default() {
        return Err(NfsStat::NOT_SAME.into());
    }
    // §18.23.3: set-only attributes cannot be asked for.
    if !a.attr_request.and(&SET_ONLY).is_empty() {
        return Err(NfsStat::INVAL.into());
    }
    let budget = usize::try_from(a.maxcount).unwrap_or(usize::MAX).min(REPLY_BYTES_MAX);
    let budget = budget.checked_sub(FIXED_BYTES).ok_or(NfsStat::TOOSMALL)?;
    c.reserve_reply(budget as u64).await?;
    let facts = facts(mds, c, &a.attr_request).await?;
    let (found, mut eof) = collect(mds, c, dir, a, budget, &facts).await?;
    let some_left = !eof;
    let (entries, fitted_all) = encode(mds, c, found, &a.attr_request, budget, &facts).await?;
    eof &= fitted_all;
    if entries.is_empty() && (some_left || !fitted_all) {
        return Err(NfsStat::TOOSMALL.into());
    }
    Ok(OpOk::Readdir(ReaddirOk { cookieverf: Verifier::default(), entries, eof }))
}

/// Entries that may fit, by a lower bound of their size; and whether the directory ends there.
async fn collect(
    mds: &Mds,
    c: &mut Compound<Mds>,
    dir: InodeNo,
    a: &ReaddirArgs,
    budget: usize,
    facts: &Facts<'_>,
) -> Result<(Vec<Found>, bool), Failure> {
    let cred = mds.credential(c);
    let mut room = budget;
    let mut found: Vec<Found> = Vec::new();
    let mut attr_bytes: Option<usize> = None;
    let listed = attrs::lists(&a.attr_request);
    loop {
        let (mut full, enough) = (false, found.len() + ENTRIES_AT_ONCE);
        let after = found.last().map_or(a.cookie, |f| f.cookie);
        let seen = mds.files.volume().readdir(dir, after, &cred, |e| {
            let inode = kept(e.inode, listed);
            // But for lists they differ little in size from entry to entry: those of the first are
            // the guess.
            let unlisted = || Inode { acl: None, ..inode.clone() };
            let of_first = || attr_bytes_at_least(mds, &unlisted(), &a.attr_request, facts);
            let guess = *attr_bytes.get_or_insert_with(of_first);
            let least = ENTRY_BYTES_MIN + e.name.len() + guess.max(aces(&inode) * ACE_BYTES_MIN);
            full = least > room;
            if full {
                return ControlFlow::Break(());
            }
            room -= least;
            let name = Bytes::copy_from_slice(e.name);
            found.push(Found { cookie: e.cookie, name, inode });
            if found.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let eof = c.deps.see(seen)?;
        if eof || full {
            return Ok((found, eof));
        }
        yield_now().await;
    }
}

/// What is kept of an inode until the reply is written: no list that nobody wants, it may be long.
fn kept(inode: &Inode, listed: bool) -> Inode {
    let acl = inode.acl.clone().filter(|_| listed);
    Inode { acl, ..inode.clone() }
}

/// Entries of its list.
fn aces(inode: &Inode) -> usize {
    inode.acl.as_ref().map_or(0, |acl| acl.entries().len())
}

/// A lower bound of what the attributes of an entry take, bytes.
fn attr_bytes_at_least(mds: &Mds, inode: &Inode, wanted: &Bitmap, facts: &Facts<'_>) -> usize {
    let wire = mds.files.handle(inode.no).to_wire();
    encoded_len(&attrs::values(inode, wire, wanted, facts)).saturating_sub(64)
}

async fn encode(
    mds: &Mds,
    c: &mut Compound<Mds>,
    found: Vec<Found>,
    wanted: &Bitmap,
    budget: usize,
    facts: &Facts<'_>,
) -> Result<(Vec<DirEntry>, bool), Failure> {
    let (names, plain): (Vec<_>, Vec<_>) =
        found.into_iter().map(|f| ((f.cookie, f.name), f.inode)).unzip();
    let inodes = known_to_others(mds, c, plain, wanted).await?;
    mds.names.learn(inodes.iter().flatten(), attrs::lists(wanted)).await;
    let (mut entries, mut room) = (Vec::with_capacity(names.len()), budget);
    let mut at_once = 0;
    for ((cookie, name), inode) in names.into_iter().zip(inodes) {
        at_once += 1 + inode.as_ref().map_or(0, aces);
        let attrs = entry_attrs(mds, inode, wanted, facts)?;
        let entry = DirEntry { cookie, name: Component(name), attrs };
        let mut w = Writer::new();
        entry.encode(&mut w);
        let len = w.len() + 4;
        if len > room {
            return Ok((entries, false));
        }
        room -= len;
        entries.push(entry);
        if at_once >= ENTRIES_AT_ONCE {
            at_once = 0;
            yield_now().await;
        }
    }
    Ok((entries, true))
}

/// The entries as whoever writes them has them, if that is wanted.
async fn known_to_others(
    mds: &Mds,
    c: &mut Compound<Mds>,
    plain: Vec<Inode>,
    wanted: &Bitmap,
) -> Result<Vec<Result<Inode, Failure>>, Failure> {
    if !needs_server_attrs(wanted) {
        return Ok(plain.into_iter().map(Ok).collect());
    }
    let client = c.client()?;
    let told = mds.clients.delegations.ask_writers(client, &plain).await;
    let looker = Looker { client, lets_go: LetsGo::Nothing, occupied: tells_occupied(wanted) };
    let looked = mds.files.look(&mut c.deps, looker, plain).await;
    let mut with_told = |inode: Inode| {
        let told = told.get(&inode.no).copied();
        heard_of(mds, c, inode, told)
    };
    Ok(looked.into_iter().map(|inode| inode.and_then(&mut with_told)).collect())
}

/// An entry whose attributes cannot be had says so, if it was asked to (§5.8.1.12); else the
/// whole READDIR fails.
fn entry_attrs(
    mds: &Mds,
    inode: Result<Inode, Failure>,
    wanted: &Bitmap,
    facts: &Facts<'_>,
) -> Result<Attrs, Failure> {
    match inode {
        Ok(inode) => Ok(attrs::values(&inode, mds.files.handle(inode.no).to_wire(), wanted, facts)),
        Err(f) if wanted.contains(AttrNo::RDATTR_ERROR) => {
            Ok(Attrs { rdattr_error: Some(f.status), ..Attrs::default() })
        }
        Err(f) => Err(f),
    }
}

fn encoded_len(attrs: &Attrs) -> usize {
    let mut w = Writer::new();
    attrs.encode(&mut w);
    w.len()
}
