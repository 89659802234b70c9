//! Sessions with data servers, made at first use and shared by all files.

use std::{collections::HashMap, path::Path, sync::Arc, time::Instant};

use tokio::sync::OnceCell;

use super::plan::{DataServerAddrs, LayoutError, Plan, StripeTarget};
use crate::{
    error::ClientError,
    joined, limits,
    local::{Door, LocalHold, LocalObject, LocalObjects},
    session::{Session, SessionOptions},
    sync::Mutex,
};

/// The data servers in use.
#[derive(Debug)]
pub struct DataServers {
    options: SessionOptions,
    by_key: Mutex<HashMap<Key, Arc<Entry>>>,
    /// Objects on this host, if they are read by descriptor.
    local: Option<Arc<LocalObjects>>,
}

/// A data server's addresses, and the minor version spoken with it.
type Key = (DataServerAddrs, u32);

#[derive(Debug, Default)]
struct Entry {
    session: OnceCell<Session>,
    avoid_until: Mutex<Option<Instant>>,
    door: Door,
}

impl DataServers {
    /// An empty pool; sessions are opened with these options.
    pub fn new(options: SessionOptions) -> DataServers {
        DataServers { options, by_key: Mutex::new(HashMap::new()), local: None }
    }

    /// The same, and objects of data servers that have a socket in this directory are read by
    /// descriptor (ADR 32).
    #[must_use]
    pub fn with_local_sockets(self, dir: &Path) -> DataServers {
        DataServers { local: Some(LocalObjects::new(dir)), ..self }
    }

    /// What is had of objects on this host, if they are read by descriptor.
    pub fn local(&self) -> Option<&Arc<LocalObjects>> {
        self.local.as_ref()
    }

    /// The object of a target, if it was asked for after `since` and not too long ago.
    pub fn known_object(&self, target: &StripeTarget, since: Instant) -> Option<LocalObject> {
        self.local.as_ref()?.known(&target.fh.0, since)
    }

    /// The same of a target whose data server is on this host, if that hands it out; asked for if
    /// it is not known.
    pub async fn local_object(
        &self,
        target: &StripeTarget,
        session: &Session,
        since: Instant,
    ) -> Option<LocalObject> {
        let (local, fh) = (self.local.as_ref()?, &target.fh.0);
        if let Some(known) = local.known(fh, since) {
            return Some(known);
        }
        if !session.is_on_this_host() {
            return None;
        }
        let entry = self.entry(&self.key(target)).ok()?;
        local.ask(&entry.door, &session.server_owner(), (fh, since)).await
    }

    /// What closes the descriptors of a layout with it.
    pub fn hold(&self, plan: &Plan) -> Option<LocalHold> {
        let local = self.local.as_ref()?;
        let all = plan.stripes.iter().flat_map(|replicas| replicas.all());
        let fhs = all.map(|target| target.fh.0.clone()).collect();
        Some(LocalHold::new(local.clone(), fhs))
    }

    /// The session with a target's data server, opened over the first of its addresses that
    /// answers.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when none does, at once if that was found out recently.
    pub async fn session(&self, target: &StripeTarget) -> Result<Session, ClientError> {
        let key = self.key(target);
        let entry = self.entry(&key)?;
        entry.is_worth_trying(&key.0)?;
        let open = || async {
            // Who has waited for another one's try need not try again.
            entry.is_worth_trying(&key.0)?;
            let session = self.open(&key).await;
            if session.is_err() {
                entry.avoid();
            }
            session
        };
        entry.session.get_or_try_init(open).await.cloned()
    }

    /// Remembers for a while that a target's data server does not answer.
    pub fn avoid(&self, target: &StripeTarget) {
        if let Ok(entry) = self.entry(&self.key(target)) {
            entry.avoid();
        }
    }

    fn key(&self, target: &StripeTarget) -> Key {
        (target.server.clone(), target.minorversion.unwrap_or(self.options.minorversion))
    }

    /// Ends all sessions.
    pub async fn close(&self) {
        let entries: Vec<_> = std::mem::take(&mut *self.by_key.lock()).into_values().collect();
        let mut closing = tokio::task::JoinSet::new();
        for entry in entries {
            if let Some(session) = entry.session.get() {
                closing.spawn(session.clone().close());
            }
        }
        while joined::next(&mut closing).await.is_some() {}
    }

    async fn open(&self, (addrs, minorversion): &Key) -> Result<Session, ClientError> {
        let options = SessionOptions { minorversion: *minorversion, ..self.options.clone() };
        let mut last = LayoutError::new("a data server without addresses").into();
        for addr in addrs.iter() {
            match Session::open(*addr, options.clone()).await {
                Ok(session) => return Ok(session),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn entry(&self, key: &Key) -> Result<Arc<Entry>, ClientError> {
        let mut by_key = self.by_key.lock();
        if let Some(entry) = by_key.get(key) {
            return Ok(entry.clone());
        }
        if by_key.len() >= limits::DATA_SERVERS_MAX {
            return Err(LayoutError::new("too many data servers").into());
        }
        Ok(by_key.entry(key.clone()).or_default().clone())
    }
}

impl Entry {
    fn avoid(&self) {
        *self.avoid_until.lock() = Some(Instant::now() + limits::DATA_SERVER_AVOID);
    }

    fn is_worth_trying(&self, addrs: &DataServerAddrs) -> Result<(), ClientError> {
        if self.avoid_until.lock().is_none_or(|until| Instant::now() >= until) {
            return Ok(());
        }
        let none = || LayoutError::new("a data server without addresses");
        let addr = addrs.first().copied().ok_or_else(none)?;
        Err(ClientError::Unreachable { addr, why: "it failed a moment ago".into() })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, TcpListener},
        time::Duration,
    };

    use bytes::Bytes;
    use weft_nfs::{DeviceId, FileHandle};

    use super::*;
    use crate::{core::Role, rpc::Credential};

    /// Of many who want a data server that does not answer, one tries; the others fail with it and
    /// do not try one after another.
    #[tokio::test]
    async fn one_tries_for_all() {
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let target = StripeTarget {
            device: DeviceId([1; 16]),
            server: vec![nobody].into(),
            minorversion: None,
            fh: FileHandle(Bytes::new()),
            stateid: None,
        };
        let options = SessionOptions::new(Role::Ds, Bytes::from_static(b"test"), Credential::NONE);
        let patience = Duration::from_millis(300);
        let servers = Arc::new(DataServers::new(SessionOptions { patience, ..options }));
        let mut wanting = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let (servers, target) = (servers.clone(), target.clone());
            wanting.spawn(async move { servers.session(&target).await.map(drop).unwrap_err() });
        }
        let failures = wanting.join_all().await;
        let told: Vec<_> = failures.iter().map(ToString::to_string).collect();
        let tries = told.iter().filter(|why| !why.contains("it failed a moment ago")).count();
        assert_eq!(tries, 1, "{told:?}");
    }
}
