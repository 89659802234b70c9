//! Sessions with data servers, made at first use and shared by all files.

use std::{collections::HashMap, sync::Arc, time::Instant};

use tokio::sync::OnceCell;

use super::plan::{DataServerAddrs, LayoutError};
use crate::{
    error::ClientError,
    joined, limits,
    session::{Session, SessionOptions},
    sync::Mutex,
};

/// The data servers in use.
#[derive(Debug)]
pub struct DataServers {
    options: SessionOptions,
    by_addrs: Mutex<HashMap<DataServerAddrs, Arc<Entry>>>,
}

#[derive(Debug, Default)]
struct Entry {
    session: OnceCell<Session>,
    avoid_until: Mutex<Option<Instant>>,
}

impl DataServers {
    /// An empty pool; sessions are opened with these options.
    pub fn new(options: SessionOptions) -> DataServers {
        DataServers { options, by_addrs: Mutex::new(HashMap::new()) }
    }

    /// The session with a data server, opened over the first of its addresses that answers.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when none does, at once if that was found out recently.
    pub async fn session(&self, addrs: &DataServerAddrs) -> Result<Session, ClientError> {
        let entry = self.entry(addrs)?;
        entry.is_worth_trying(addrs)?;
        let open = || async {
            // Who has waited for another one's try need not try again.
            entry.is_worth_trying(addrs)?;
            let session = self.open(addrs).await;
            if session.is_err() {
                self.avoid(addrs);
            }
            session
        };
        entry.session.get_or_try_init(open).await.cloned()
    }

    /// Remembers for a while that a data server does not answer.
    pub fn avoid(&self, addrs: &DataServerAddrs) {
        if let Ok(entry) = self.entry(addrs) {
            *entry.avoid_until.lock() = Some(Instant::now() + limits::DATA_SERVER_AVOID);
        }
    }

    /// Ends all sessions.
    pub async fn close(&self) {
        let entries: Vec<_> = std::mem::take(&mut *self.by_addrs.lock()).into_values().collect();
        let mut closing = tokio::task::JoinSet::new();
        for entry in entries {
            if let Some(session) = entry.session.get() {
                closing.spawn(session.clone().close());
            }
        }
        while joined::next(&mut closing).await.is_some() {}
    }

    async fn open(&self, addrs: &DataServerAddrs) -> Result<Session, ClientError> {
        let mut last = LayoutError::new("a data server without addresses").into();
        for addr in addrs.iter() {
            match Session::open(*addr, self.options.clone()).await {
                Ok(session) => return Ok(session),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn entry(&self, addrs: &DataServerAddrs) -> Result<Arc<Entry>, ClientError> {
        let mut by_addrs = self.by_addrs.lock();
        if let Some(entry) = by_addrs.get(addrs) {
            return Ok(entry.clone());
        }
        if by_addrs.len() >= limits::DATA_SERVERS_MAX {
            return Err(LayoutError::new("too many data servers").into());
        }
        Ok(by_addrs.entry(addrs.clone()).or_default().clone())
    }
}

impl Entry {
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

    use super::*;
    use crate::{core::Role, rpc::Credential};

    /// Of many who want a data server that does not answer, one tries; the others fail with it and
    /// do not try one after another.
    #[tokio::test]
    async fn one_tries_for_all() {
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let addrs: DataServerAddrs = vec![nobody].into();
        let options = SessionOptions::new(Role::Ds, Bytes::from_static(b"test"), Credential::NONE);
        let patience = Duration::from_millis(300);
        let servers = Arc::new(DataServers::new(SessionOptions { patience, ..options }));
        let mut wanting = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let (servers, addrs) = (servers.clone(), addrs.clone());
            wanting.spawn(async move { servers.session(&addrs).await.map(drop).unwrap_err() });
        }
        let failures = wanting.join_all().await;
        let told: Vec<_> = failures.iter().map(ToString::to_string).collect();
        let tries = told.iter().filter(|why| !why.contains("it failed a moment ago")).count();
        assert_eq!(tries, 1, "{told:?}");
    }
}
