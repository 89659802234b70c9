//! LOCK (12), LOCKT (13), LOCKU (14): RFC 8881 §18.10-§18.12.

use weft_nfs::{
    OpOk, Stateid,
    ops::{LockArgs, Locker, LocktArgs, LockuArgs, StateidOk},
};
use weft_server::{
    compound::{Compound, OpResult},
    refusal::refused,
};

use crate::server::Mds;

/// RFC 8881 §18.10.
pub(super) fn lock(mds: &Mds, c: &mut Compound<Mds>, a: &LockArgs) -> OpResult {
    let file = mds.current_file(c)?;
    let client = c.client()?;
    mds.clients.reclaim_rule(&mut c.deps, client, a.reclaim, c.now)?;
    let mut a = a.clone();
    match &mut a.locker {
        Locker::New { open_stateid, .. } => *open_stateid = c.stateid(*open_stateid)?,
        Locker::Existing { lock_stateid } => *lock_stateid = c.stateid(*lock_stateid)?,
    }
    if !a.reclaim {
        mds.files.require_confirmed(client, &file)?;
    }
    let key = mds.files.key(file.no);
    let stateid = loop {
        let taken = mds.protocol.state().lock(client, key, &a);
        match taken {
            Err(r) if mds.clients.clear_way_of_lock(&mut c.deps, &r) => {}
            taken => break taken.map_err(refused)?,
        }
    };
    mds.clients.records.depend_on_forgotten(&mut c.deps);
    // A write lock may have become a read lock.
    mds.clients.notify_lock_waiters();
    set(c, stateid);
    Ok(OpOk::Lock(StateidOk { stateid }))
}

/// RFC 8881 §18.11.
pub(super) async fn lockt(mds: &Mds, c: &mut Compound<Mds>, a: &LocktArgs) -> OpResult {
    let file = mds.current_file(c)?;
    let client = c.client()?;
    mds.protocol.refuse_in_grace()?;
    let key = mds.files.key(file.no);
    // Who is alone with a file locks it by itself (§10.4.2).
    mds.clients.delegations.take_back_to_read(client, key).await?;
    loop {
        let tested = mds.protocol.state().lockt(client, key, a);
        match tested {
            Err(r) if mds.clients.clear_way_of_lock(&mut c.deps, &r) => {}
            tested => return tested.map(|()| OpOk::Lockt).map_err(refused),
        }
    }
}

/// RFC 8881 §18.12.
pub(super) fn locku(mds: &Mds, c: &mut Compound<Mds>, a: &LockuArgs) -> OpResult {
    // What is no file has no locks: BAD_STATEID says that, its type has no status (§15.2).
    let file = mds.current_inode(c)?;
    let client = c.client()?;
    let mut a = a.clone();
    a.lock_stateid = c.stateid(a.lock_stateid)?;
    let stateid =
        mds.protocol.state().locku(client, mds.files.key(file.no), &a).map_err(refused)?;
    mds.clients.notify_lock_waiters();
    set(c, stateid);
    Ok(OpOk::Locku(StateidOk { stateid }))
}

fn set(c: &mut Compound<Mds>, stateid: Stateid) {
    c.current_stateid = Some(stateid);
}
