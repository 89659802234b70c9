//! LOCK (12), LOCKT (13), LOCKU (14): RFC 8881 §18.10-§18.12.

use weft_nfs::{
    Failure, NfsStat, OpOk, Stateid,
    ops::{LockArgs, Locker, LocktArgs, LockuArgs, StateidOk},
};

use crate::{
    compound::{Compound, OpResult},
    mds::{Mds, refused},
};

/// RFC 8881 §18.10.
pub(super) fn lock(mds: &Mds, c: &mut Compound<Mds>, a: &LockArgs) -> OpResult {
    let file = mds.current_file(c)?;
    let client = c.client()?;
    mds.reclaim_rule(c, a.reclaim)?;
    let mut a = a.clone();
    match &mut a.locker {
        Locker::New { open_stateid, .. } => *open_stateid = c.stateid(*open_stateid)?,
        Locker::Existing { lock_stateid } => *lock_stateid = c.stateid(*lock_stateid)?,
    }
    let key = mds.handle(file.no).key();
    let stateid = loop {
        let taken = mds.state().lock(client, key, &a);
        match taken {
            Err(r) if mds.clear_way_of_lock(c, &r) => {}
            taken => break taken.map_err(refused)?,
        }
    };
    mds.depend_on_forgotten(c);
    // A write lock may have become a read lock.
    mds.notify_lock_waiters();
    set(c, stateid);
    Ok(OpOk::Lock(StateidOk { stateid }))
}

/// RFC 8881 §18.11.
pub(super) fn lockt(mds: &Mds, c: &mut Compound<Mds>, a: &LocktArgs) -> OpResult {
    let file = mds.current_file(c)?;
    let client = c.client()?;
    mds.refuse_in_grace()?;
    let key = mds.handle(file.no).key();
    loop {
        let tested = mds.state().lockt(client, key, a);
        match tested {
            Err(r) if mds.clear_way_of_lock(c, &r) => {}
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
    let stateid = mds.state().locku(client, mds.handle(file.no).key(), &a).map_err(refused)?;
    mds.notify_lock_waiters();
    set(c, stateid);
    Ok(OpOk::Locku(StateidOk { stateid }))
}

fn set(c: &mut Compound<Mds>, stateid: Stateid) {
    c.current_stateid = Some(stateid);
}

impl Mds {
    /// Who may take new state, and who may reclaim (RFC 8881 §8.4.2, §18.51.3): in grace only
    /// reclaims of clients known from before; afterwards, and once the client said
    /// RECLAIM_COMPLETE, only new state; before it said so, none.
    ///
    /// # Errors
    /// GRACE, NO_GRACE; DEADSESSION if the client was destroyed while its request was on its way
    /// (STALE_CLIENTID is no status of OPEN or LOCK, §15.2).
    pub(in crate::mds) fn reclaim_rule(
        &self,
        c: &mut Compound<Mds>,
        reclaim: bool,
    ) -> Result<(), Failure> {
        let client = c.client()?;
        let (owner, complete) = {
            let sessions = self.core.sessions();
            let known = sessions.client(client).ok_or(NfsStat::DEADSESSION)?;
            (known.owner().ownerid.0.clone(), sessions.reclaim_is_complete(client))
        };
        self.depend_on_forgotten(c);
        let mut grace = self.grace();
        if reclaim {
            let allowed = grace.is_on() && !complete && grace.may_reclaim(&owner);
            if !allowed {
                return Err(NfsStat::NO_GRACE.into());
            }
            grace.reclaimed(c.now);
            return Ok(());
        }
        if grace.is_on() || !complete { Err(NfsStat::GRACE.into()) } else { Ok(()) }
    }
}
