//! Clients whose I/O comes through the metadata server although the data servers have the file: it
//! works, but it is not parallel, and nobody would notice.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard},
};

use weft_nfs::ClientId;
use weft_state::Millis;
use weft_store::types::DataServerId;

/// Whoever sent nothing this way for so long does so no more.
const RECENT_MS: u64 = 60_000;
/// Fewer requests are an accident: a layout that was just recalled, say.
const REQUESTS_MIN: u64 = 4;
/// Clients remembered; the table of clients is as long.
const CLIENTS_MAX: usize = 4096;

#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    bytes: u64,
    last: Option<Millis>,
    /// Whether it was ever granted a layout.
    has_layouts: bool,
    /// Data servers that should have received the requests.
    data_servers: BTreeSet<DataServerId>,
}

/// What one client sends through here, lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fallback {
    pub(crate) client: ClientId,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) has_layouts: bool,
    pub(crate) data_servers: Vec<DataServerId>,
}

impl Fallback {
    /// The likely reason, in words.
    pub(crate) fn why(&self) -> String {
        if !self.has_layouts {
            return "it asks for no layouts: its mount has no pNFS".into();
        }
        let ids: Vec<_> = self.data_servers.iter().map(|id| id.0.to_string()).collect();
        let which = match &ids[..] {
            [] => "the data servers".to_owned(),
            [only] => format!("data server {only}"),
            several => format!("all of data servers {}", several.join(", ")),
        };
        format!(
            "it is given layouts, so it does not reach {which}: their ports, or the addresses it \
             is told"
        )
    }
}

/// All clients that do so.
#[derive(Debug, Default)]
pub(crate) struct Fallbacks(Mutex<HashMap<ClientId, Seen>>);

impl Fallbacks {
    fn lock(&self) -> MutexGuard<'_, HashMap<ClientId, Seen>> {
        self.0.lock().expect("fallbacks lock")
    }

    fn with(&self, client: ClientId, change: impl FnOnce(&mut Seen)) {
        let mut all = self.lock();
        if all.len() < CLIENTS_MAX || all.contains_key(&client) {
            change(all.entry(client).or_default());
        }
    }

    /// The client was granted a layout.
    pub(crate) fn granted(&self, client: ClientId) {
        self.with(client, |seen| seen.has_layouts = true);
    }

    /// The client sent a request of so many bytes, which this data server should have had.
    pub(crate) fn came(
        &self,
        client: ClientId,
        (bytes, should): (u64, Option<DataServerId>),
        now: Millis,
    ) {
        self.with(client, |seen| {
            if seen.last.is_none_or(|last| now.since(last) >= RECENT_MS) {
                (seen.requests, seen.bytes) = (0, 0);
                seen.data_servers.clear();
            }
            seen.last = Some(now);
            seen.requests += 1;
            seen.bytes = seen.bytes.saturating_add(bytes);
            seen.data_servers.extend(should);
        });
    }

    /// Who does so at the moment; those that `is_known` does not know are forgotten.
    pub(crate) fn now(&self, now: Millis, is_known: impl Fn(ClientId) -> bool) -> Vec<Fallback> {
        let mut all = self.lock();
        all.retain(|client, _| is_known(*client));
        let recent = |seen: &Seen| {
            let is_recent = seen.last.is_some_and(|last| now.since(last) < RECENT_MS);
            is_recent && seen.requests >= REQUESTS_MIN
        };
        let found = all.iter().filter(|(_, seen)| recent(seen));
        let mut found: Vec<_> = found
            .map(|(client, seen)| {
                let Seen { requests, bytes, has_layouts, .. } = *seen;
                let data_servers = seen.data_servers.iter().copied().collect();
                Fallback { client: *client, requests, bytes, has_layouts, data_servers }
            })
            .collect();
        found.sort_by_key(|f| f.client);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client is told of from its fourth request on, for as long as it goes on; the reason is
    /// another once it has had a layout; one that is gone is forgotten.
    #[test]
    fn who_falls_back_is_told() {
        let (all, a, b) = (Fallbacks::default(), ClientId(1), ClientId(2));
        let at = |n: u64| Millis(1000 + n);
        let should = |n: u64| Some(DataServerId(u32::from(n > 1) + 1));
        for n in 0..4 {
            assert_eq!(all.now(at(n), |_| true), []);
            all.came(a, (10, should(n)), at(n));
        }
        all.granted(b);
        let data_servers = vec![DataServerId(1), DataServerId(2)];
        let told = Fallback { client: a, requests: 4, bytes: 40, has_layouts: false, data_servers };
        assert_eq!(all.now(at(4), |_| true), std::slice::from_ref(&told));
        assert!(told.why().contains("asks for no layouts"));
        all.granted(a);
        let told = Fallback { has_layouts: true, ..told };
        assert_eq!(all.now(at(3 + RECENT_MS - 1), |_| true), std::slice::from_ref(&told));
        assert!(told.why().contains("does not reach all of data servers 1, 2:"));
        let one = Fallback { data_servers: vec![DataServerId(2)], ..told };
        assert!(one.why().contains("does not reach data server 2:"));
        assert_eq!(all.now(at(3 + RECENT_MS), |_| true), []);
        all.came(a, (10, None), at(3 + RECENT_MS));
        assert_eq!(all.now(at(3 + RECENT_MS), |_| true), [], "counted anew");
        assert_eq!(all.now(at(4 + RECENT_MS), |_| false), []);
        assert!(all.lock().is_empty());
    }

    /// The table is as long as that of clients, and no longer.
    #[test]
    fn it_is_bounded() {
        let all = Fallbacks::default();
        for n in 0..2 * CLIENTS_MAX as u64 {
            all.came(ClientId(n), (1, None), Millis(1));
        }
        assert_eq!(all.lock().len(), CLIENTS_MAX);
    }
}
