//! Whether clients can work, and what an administrator should look at.

use weft_server::report::{FallbackStatus, Health, ServerStatus, SpaceStatus, UnreachedStatus};
use weft_store::types::{DataServerId, Inode};

use super::{client_names::client_name, report::Admin, unreached::Reporter};

impl Admin {
    /// What `/health` answers.
    pub(super) async fn health_now(&self) -> Health {
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        if let Err(e) = self.files.volume().stats().unconfirmed() {
            problems.push(format!("volume: {e}"));
        }
        if !self.files.volume().has_room() {
            problems.push("the disk of the volume is (nearly) full: nothing may grow".to_owned());
        }
        let data_servers = self.data_server_statuses().await;
        if data_servers.is_empty() {
            warnings
                .push("no data server is configured: there is room for small files only".into());
        }
        let unreached = self.unreached_statuses();
        for server in data_servers {
            warnings.extend(unreached.iter().filter_map(|u| unreached_by(u, &server)));
            problems.extend(problem_of(&server));
            warnings.extend(little_room_of(&server));
            warnings.extend(owed_by(&server));
        }
        let grace = self.grace_status();
        if grace.is_some() {
            problems.push("in grace: nothing can be opened or locked anew".into());
        }
        let fallbacks = self.fallback_statuses();
        warnings.extend(fallbacks.iter().map(|f| {
            let FallbackStatus { name, address, requests, why, .. } = f;
            format!(
                "{name} ({address}) sends {requests} requests through the metadata server: {why}"
            )
        }));
        Health { healthy: problems.is_empty(), problems, warnings, grace }
    }

    /// The data servers, with what waits for each.
    pub(super) async fn data_server_statuses(&self) -> Vec<ServerStatus> {
        let owed = self.files.owed();
        let mut servers = self.files.data_servers().status().await;
        for server in &mut servers {
            let id = weft_store::types::DataServerId(server.id.unwrap_or(0));
            server.owed = owed.get(&id).copied().unwrap_or(0);
        }
        servers
    }

    /// A READ or WRITE, by offset and length, has come here. Of one that a data server should have
    /// had note is taken.
    pub(crate) fn note_io(
        &self,
        client: Option<weft_nfs::ClientId>,
        inode: &Inode,
        (offset, bytes): (u64, u64),
    ) {
        let by_right = inode.stuffed
            || inode.placement.is_none()
            || inode.is_privileged()
            || bytes <= self.threshold.status().now;
        if let (false, Some(client)) = (by_right, client)
            && !self.protocol.grace().is_on()
        {
            let should = self.files.striped(inode).and_then(|file| file.asked_at(offset));
            self.fallbacks.came(client, (bytes, should), self.core.clock.now());
        }
    }

    /// Data servers that clients have not reached lately, as they say.
    pub(super) fn unreached_statuses(&self) -> Vec<UnreachedStatus> {
        let recent = self.unreached.recent(self.core.clock.now()).into_iter();
        let status = recent.map(|((Reporter { name, address }, id), reports)| UnreachedStatus {
            name,
            address: address.to_string(),
            data_server: id.0,
            reports,
        });
        status.collect()
    }

    /// A client reports that it could not reach a data server, which is there. The client may be a
    /// command that ends with that: its name is kept, not its state.
    pub(crate) fn note_unreached(&self, client: weft_nfs::ClientId, id: DataServerId) {
        let reporter = self.core.sessions().client(client).map(|client| Reporter {
            name: client_name(&client.owner().ownerid.0),
            address: client.address(),
        });
        if let Some(reporter) = reporter {
            self.unreached.told((reporter, id), self.core.clock.now());
        }
    }

    /// Clients that go through here at the moment, and why.
    pub(super) fn fallback_statuses(&self) -> Vec<FallbackStatus> {
        let sessions = self.core.sessions();
        let is_known = |client| sessions.client(client).is_some();
        let found = self.fallbacks.now(self.core.clock.now(), is_known).into_iter();
        let status = found.filter_map(|f| {
            let client = sessions.client(f.client)?;
            Some(FallbackStatus {
                name: client_name(&client.owner().ownerid.0),
                address: client.address().to_string(),
                requests: f.requests,
                bytes: f.bytes,
                why: f.why(),
            })
        });
        status.collect()
    }
}

fn problem_of(server: &ServerStatus) -> Option<String> {
    let id = server.id.unwrap_or(0);
    if !server.reachable {
        // The error names the data server.
        let silent = || format!("data server {id} cannot be reached");
        return Some(server.error.clone().unwrap_or_else(silent));
    }
    let SpaceStatus { total, available, .. } = server.space.filter(SpaceStatus::is_nearly_full)?;
    if available == 0 {
        return Some(format!(
            "data server {id} takes no data: its disk is full, or has become read-only (its log \
             says so)"
        ));
    }
    Some(format!("data server {id} is (nearly) full: {available} of {total} bytes are free"))
}

/// Warning about a disk that is filling up, or that new files pass over.
fn little_room_of(server: &ServerStatus) -> Option<String> {
    let id = server.id.unwrap_or(0);
    let space = server.space.filter(|s| server.reachable && !s.is_nearly_full())?;
    let SpaceStatus { total, available, .. } = space;
    let consequence = match (server.passed_over, space.is_getting_full()) {
        (true, _) => "; new files go to other data servers while there are any",
        (false, true) => "",
        (false, false) => return None,
    };
    Some(format!(
        "data server {id} has little room left: {available} of {total} bytes are free{consequence}"
    ))
}

/// A client that cannot reach a data server which is there: one that is away is named anyway.
fn unreached_by(unreached: &UnreachedStatus, server: &ServerStatus) -> Option<String> {
    let UnreachedStatus { name, address, data_server, reports } = unreached;
    (server.id == Some(*data_server) && server.reachable).then(|| {
        format!(
            "{name} ({address}) does not reach data server {data_server} ({reports} reports in the \
             last minute), and the metadata server does: look for a closed port between them, and \
             at the addresses that clients are told"
        )
    })
}

fn owed_by(server: &ServerStatus) -> Option<String> {
    let (id, owed) = (server.id.unwrap_or(0), server.owed);
    (owed > 0).then(|| format!("data server {id}: {owed} removals or truncations wait for it"))
}

#[cfg(test)]
mod tests {
    use weft_server::report::Activity;

    use super::*;

    fn server(available: u64, owed: u64) -> ServerStatus {
        ServerStatus {
            role: "ds".into(),
            id: Some(3),
            address: String::new(),
            reachable: true,
            error: None,
            activity: Activity::default(),
            control_messages: Default::default(),
            files_ahead: None,
            space: Some(SpaceStatus { total: 1000, free: available, available }),
            passed_over: false,
            owed,
            state_memory: None,
        }
    }

    /// A client that does not reach a data server is named with it, while the data server is there.
    #[test]
    fn who_does_not_reach_whom_is_named() {
        let unreached = |data_server| UnreachedStatus {
            name: "kc12".into(),
            address: "192.0.2.7".into(),
            data_server,
            reports: 2,
        };
        let words = unreached_by(&unreached(3), &server(500, 0)).expect("a warning");
        assert!(words.starts_with("kc12 (192.0.2.7) does not reach data server 3 (2 "), "{words}");
        assert_eq!(unreached_by(&unreached(4), &server(500, 0)), None);
        let away = ServerStatus { reachable: false, ..server(500, 0) };
        assert_eq!(unreached_by(&unreached(3), &away), None);
    }

    /// A disk that fills is a warning before it is a problem, and so is one that is passed over.
    #[test]
    fn little_room_is_a_warning() {
        let told = |server| (problem_of(&server).is_some(), little_room_of(&server));
        assert_eq!(told(server(50, 0)), (false, None));
        let words = "data server 3 has little room left: 49 of 1000 bytes are free";
        assert_eq!(told(server(49, 0)), (false, Some(words.to_owned())));
        assert_eq!(told(server(20, 0)).1, Some(words.replace("49", "20")));
        assert_eq!(told(server(19, 0)), (true, None));
        let over = ServerStatus { passed_over: true, ..server(75, 0) };
        let words = "data server 3 has little room left: 75 of 1000 bytes are free; \
                     new files go to other data servers while there are any";
        assert_eq!(told(over.clone()), (false, Some(words.to_owned())));
        assert_eq!(told(ServerStatus { reachable: false, ..over }).1, None);
    }

    /// A full data server, one that is away and one that is owed something are named.
    #[test]
    fn data_servers_are_named() {
        assert_eq!((problem_of(&server(20, 0)), owed_by(&server(20, 0))), (None, None));
        let full = "data server 3 is (nearly) full: 9 of 1000 bytes are free";
        assert_eq!(problem_of(&server(9, 0)).as_deref(), Some(full));
        let gone = "data server 3 cannot be reached: gone";
        let away = ServerStatus { reachable: false, error: Some(gone.into()), ..server(10, 0) };
        assert_eq!(problem_of(&away).as_deref(), Some(gone));
        let owed = "data server 3: 5 removals or truncations wait for it";
        assert_eq!(owed_by(&server(10, 5)).as_deref(), Some(owed));
    }
}
