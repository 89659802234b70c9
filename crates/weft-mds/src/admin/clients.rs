//! What administrators ask of clients: who is there and what each holds, who is awaited in grace;
//! and the end of one that will not come back.

use weft_nfs::ClientId;
use weft_server::report::{AdminError, AwaitedClient, ClientStatus, Evicted, GraceStatus};
use weft_state::{Client, HeldCounts};

use super::{
    client_names::{client_name, owner_text},
    report::Admin,
};

impl Admin {
    /// The grace period, while it is on.
    pub(super) fn grace_status(&self) -> Option<GraceStatus> {
        let left = self.clients.grace_left(self.core.clock.now())?;
        let awaited = |ownerid: &bytes::Bytes| AwaitedClient {
            name: client_name(ownerid),
            owner: owner_text(ownerid),
            address: self.clients.records.former_address(ownerid).map(|a| a.to_string()),
        };
        let mut awaited: Vec<_> = left.awaited.iter().map(awaited).collect();
        awaited.sort_by(|a, b| a.name.cmp(&b.name));
        Some(GraceStatus { left_s: left.left_ms.div_ceil(1000), awaited })
    }

    /// Every client with a session, or that holds something, by name.
    pub(super) fn client_statuses(&self) -> Vec<ClientStatus> {
        let now = self.core.clock.now();
        let mut all: Vec<_> = {
            let sessions = self.core.sessions();
            let confirmed = sessions.clients().filter(|c| c.is_confirmed());
            let status = |c: &Client| {
                let minor = sessions.minorversion_of(c.clientid());
                let live = sessions.is_live(c.clientid(), now);
                (c.clientid(), status_of(c, now.since(c.renewed()), minor, live))
            };
            confirmed.map(status).collect()
        };
        let state = self.protocol.state();
        for (client, status) in &mut all {
            let held = state.count_held(*client);
            let HeldCounts { opens, locks, delegations, layouts, waiting_for_locks } = held;
            let status: &mut ClientStatus = status;
            (status.opens, status.locks, status.delegations) = (opens, locks, delegations);
            (status.layouts, status.waiting_for_locks) = (layouts, waiting_for_locks);
        }
        drop(state);
        let mut all: Vec<_> = all.into_iter().map(|(_, status)| status).collect();
        all.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        all
    }

    /// Ends a client, named by its id, its machine, its owner or its address, at once and for
    /// good: what it held is free, and nobody waits for it in grace.
    pub(super) async fn evict_client(&self, who: &str) -> Result<Evicted, AdminError> {
        let fits = |id: &str, name: &str, owner: &str, address: &str| {
            [id, name, owner, address].contains(&who)
        };
        let found = self.client_statuses().into_iter();
        let found = found.filter(|c| fits(&c.id, &c.name, &c.owner, &c.address));
        let found: Vec<_> = found.collect();
        let awaited = self.clients.grace_left(self.core.clock.now());
        let awaited = awaited.map(|left| left.awaited).unwrap_or_default();
        let awaited = awaited.into_iter().filter(|ownerid| {
            let address = self.clients.records.former_address(ownerid);
            let address = address.map(|a| a.to_string()).unwrap_or_default();
            fits("", &client_name(ownerid), &owner_text(ownerid), &address)
        });
        let awaited: Vec<bytes::Bytes> = awaited.collect();
        only_one(who, &found, &awaited)?;
        let awaited = awaited.first();
        if let Some(ownerid) = awaited {
            self.clients.never_reclaims(ownerid);
        }
        let client = found.into_iter().next();
        let id = client.as_ref().and_then(|c| u64::from_str_radix(&c.id, 16).ok());
        id.into_iter().for_each(|id| self.clients.evict(ClientId(id)));
        let forgotten = self.clients.records.last_forgotten();
        let durable = self.files.volume().durable(forgotten).await;
        durable.map_err(|e| AdminError::Failed(format!("the volume does not keep it: {e}")))?;
        tracing::warn!(who, "client evicted by an administrator");
        Ok(Evicted { client, was_awaited: awaited.is_some() })
    }
}

/// A name may be that of several clients, of which some live: then none of them is meant.
fn only_one(who: &str, found: &[ClientStatus], awaited: &[bytes::Bytes]) -> Result<(), AdminError> {
    let is_found = |owner: &String| found.iter().any(|c| c.owner == *owner);
    let absent = awaited.iter().map(|o| owner_text(o)).filter(|owner| !is_found(owner));
    let absent = absent.map(|owner| format!("{owner:?} (awaited in grace)"));
    let all: Vec<_> = found.iter().map(|c| c.id.clone()).chain(absent).collect();
    match all.len() {
        0 => Err(AdminError::NoClient(who.to_owned())),
        1 => Ok(()),
        count => Err(AdminError::BadRequest(format!(
            "{who}: {count} clients are called so; evict the one you mean by its id or owner: {}",
            all.join(", ")
        ))),
    }
}

fn status_of(client: &Client, silent_ms: u64, minor: u32, live: bool) -> ClientStatus {
    let ownerid = &client.owner().ownerid.0;
    ClientStatus {
        id: format!("{:016x}", client.clientid().0),
        name: client_name(ownerid),
        owner: owner_text(ownerid),
        address: client.address().to_string(),
        implementation: client.impl_name().map(|name| owner_text(name.as_bytes())),
        lease_valid: live,
        silent_s: silent_ms / 1000,
        minor_version: minor,
        sessions: client.sessions().len(),
        opens: 0,
        locks: 0,
        delegations: 0,
        layouts: 0,
        waiting_for_locks: 0,
    }
}
