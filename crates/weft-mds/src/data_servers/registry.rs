//! Which directory each data server has, and in which state: the uuid it was first met with, its
//! last run and the age of our volume that it held, kept in the volume. An empty directory in its
//! place would read as zeros, another one as other files, and an older copy as older ones (ADR 9).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use tokio::sync::watch;
use weft_control::codec::*;
use weft_layout::{HandleKey, HandleKeys};
use weft_server::{
    clock::random,
    identity::{ClusterSecrets, ControlKey, hex},
};
use weft_store::{
    types::{DataServerId, Lsn, Run, StoreError},
    volume::{Identity, Volume, VolumeRun},
};

use super::{
    admission::{self, StoreRefusal},
    record::{self, Record, Uuid},
};
use crate::control_link::{Admission, Later, Met};

/// The data servers' directories, the keys that follow from them, and this run of the volume.
pub struct DataServerRegistry {
    volume: Volume,
    keys: watch::Sender<Keys>,
    /// Runs of the volume; this one is the last.
    runs: Vec<VolumeRun>,
    /// This run may be named when this is durable.
    begun: Lsn,
    known: Mutex<Known>,
    /// What follows for the volume.
    superseded: AtomicBool,
    /// Records are written one after another, so that no two data servers get one directory.
    recording: tokio::sync::Mutex<()>,
}

/// What follows from the cluster's secret.
struct Keys {
    handles: HandleKeys,
    control: ControlKey,
}

impl Keys {
    fn of(secrets: &ClusterSecrets) -> Keys {
        Keys { handles: secrets.handle_keys(), control: secrets.control_key() }
    }
}

/// What is known of the data servers.
#[derive(Debug, Default)]
struct Known {
    /// Uuids that the configuration says are the right ones now.
    configured: BTreeMap<DataServerId, Uuid>,
    /// What the volume has, durably.
    recorded: BTreeMap<DataServerId, Record>,
    /// Ages that data servers hold by now.
    held: BTreeMap<DataServerId, u64>,
    /// Those that were bound in this run, and not refused since: no other may be used.
    bound: BTreeSet<DataServerId>,
    /// Those that have seen a state of the volume that is not ours.
    saw_another_state: BTreeSet<DataServerId>,
}

impl std::fmt::Debug for DataServerRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataServerRegistry").field("known", &self.known).finish_non_exhaustive()
    }
}

impl DataServerRegistry {
    /// What the volume knows; and begins a run of it.
    ///
    /// # Errors
    /// The volume cannot be read, or a record is none.
    pub fn open(
        volume: Volume,
        secrets: &ClusterSecrets,
    ) -> Result<DataServerRegistry, StoreError> {
        let mut recorded = BTreeMap::new();
        for (id, record) in volume.data_servers().unconfirmed()? {
            recorded.insert(id, record::decode(&record).ok_or(StoreError::Corrupt("data server"))?);
        }
        let begun = volume.begin_run(random());
        let lsn = begun.lsn;
        begun.unconfirmed()?;
        let runs = volume.runs().unconfirmed()?;
        Ok(DataServerRegistry {
            volume,
            keys: watch::Sender::new(Keys::of(secrets)),
            runs,
            begun: lsn,
            known: Mutex::new(Known { recorded, ..Known::default() }),
            superseded: AtomicBool::new(false),
            recording: tokio::sync::Mutex::default(),
        })
    }

    /// The directory that a data server is to come with, if the configuration says so: it takes the
    /// place of the known one as soon as the data server comes with it.
    pub(super) fn expect(&self, id: DataServerId, uuid: Option<Uuid>) {
        if let Some(uuid) = uuid {
            self.known().configured.insert(id, uuid);
        }
    }

    /// From now on these are the cluster's secrets.
    pub(super) fn use_secrets(&self, secrets: &ClusterSecrets) {
        self.keys.send_replace(Keys::of(secrets));
    }

    fn keys(&self) -> watch::Ref<'_, Keys> {
        self.keys.borrow()
    }

    /// The key of a data server that was bound in this run.
    pub(super) fn key(&self, id: DataServerId) -> Option<HandleKey> {
        let known = self.known();
        let record = known.recorded.get(&id).filter(|_| known.bound.contains(&id))?;
        Some(self.keys().handles.of(id.0, record.uuid))
    }

    /// Records what the data servers hold by now: only what the volume does not have yet.
    pub(super) async fn record_ages(&self) {
        let ids: Vec<_> = self.known().held.keys().copied().collect();
        for id in ids {
            self.record_age(id).await;
        }
    }

    async fn record_age(&self, id: DataServerId) {
        let newer = {
            let known = self.known();
            let held = known.held.get(&id).copied().unwrap_or(0);
            let record = known.recorded.get(&id).filter(|r| r.held < held);
            record.map(|r| Record { held, ..*r })
        };
        if let Some(record) = newer
            && let Err(error) = self.record(id, record, 0).await
        {
            tracing::warn!(id = id.0, error, "the age of a data server is not recorded");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a directory is the right one.
    fn check(&self, id: DataServerId, uuid: Uuid) -> Result<(), String> {
        let known = self.known();
        let recorded = &known.recorded;
        let former = recorded.get(&id).map(|r| r.uuid);
        let right = known.configured.get(&id).copied().or(former).unwrap_or(uuid);
        let came = hex(&uuid);
        if right != uuid {
            return Err(format!(
                "its directory is {came}, but data server {} has {}: put that one back, or see \
                 data_server.uuid in docs/configuration.md",
                id.0,
                hex(&right)
            ));
        }
        let other = recorded.iter().find(|(other, r)| **other != id && r.uuid == uuid);
        if let Some((other, _)) = other {
            return Err(format!("its directory, {came}, is that of data server {}", other.0));
        }
        Ok(())
    }

    /// What the volume has of a data server with this directory.
    fn recorded(&self, id: DataServerId, uuid: Uuid) -> Option<Record> {
        self.known().recorded.get(&id).filter(|r| r.uuid == uuid).copied()
    }

    /// Keeps a record, durably; numbers below `unused_from` are given to no new file.
    async fn record(
        &self,
        id: DataServerId,
        record: Record,
        unused_from: u64,
    ) -> Result<(), String> {
        let _one_at_a_time = self.recording.lock().await;
        self.check(id, record.uuid)?;
        let put = self.volume.data_server_put(id, &record::encode(&record), unused_from);
        self.volume.confirm(put).await.map_err(|e| format!("it is not recorded: {e}"))?;
        let former = self.known().recorded.insert(id, record);
        if let Some(former) = former.filter(|f| f.uuid != record.uuid) {
            let (former, now) = (hex(&former.uuid), hex(&record.uuid));
            tracing::warn!(id = id.0, former, now, "another directory of a data server accepted");
        }
        Ok(())
    }

    fn this_run(&self) -> Option<Run> {
        self.runs.last().map(|r| r.run)
    }

    async fn bind_args(
        &self,
        id: DataServerId,
        record: Option<Record>,
        known: &VolumeOk,
    ) -> Result<BindArgs, String> {
        let uuid = self.volume.identity().uuid;
        admission::judge_store(record.as_ref(), known).map_err(|why| {
            if why == StoreRefusal::Fork {
                self.saw_another_state(id);
            }
            why.words(&uuid)
        })?;
        let begun = self.volume.durable(self.begun).await;
        begun.map_err(|e| format!("the start of the metadata server is not recorded: {e}"))?;
        let run = self.this_run().ok_or("the volume has no run")?;
        let restored = self.volume.restored().unconfirmed().map_err(|e| e.to_string())?;
        let common = admission::newest_common(&self.runs, &known.runs);
        Ok(BindArgs {
            number: self.volume.identity().number,
            uuid,
            run: name(run),
            common: common.map_or(NO_RUN, |c| name(c.run)),
            common_end_lsn: common.map_or(0, |c| c.end_lsn),
            common_end_next: common.map_or(0, |c| c.end_next),
            lsn: self.lsn(),
            restored: restored.as_ref().map_or([0; 16], |r| r.id),
            restored_from: restored.map_or([0; 16], |r| r.previous),
        })
    }

    /// Goes on above what a data server has seen of a later state of the volume, durably, before
    /// it is used.
    async fn go_on_above(&self, id: DataServerId, bound: &BindOk) -> Result<(), String> {
        let restored = self.volume.restored().unconfirmed().map_err(|e| e.to_string())?;
        let owed = restored.is_some_and(|r| !r.reconciled.contains(&id));
        if !owed && !bound.adopted {
            return Ok(());
        }
        let above = self.volume.reconcile(id, bound.mark, bound.epoch);
        let done = self.volume.confirm(above).await;
        done.map_err(|e| format!("what it has seen of the volume is not recorded: {e}"))
    }

    async fn record_bound(&self, id: DataServerId, met: &Met, bound: BindOk) -> Result<(), String> {
        self.go_on_above(id, &bound).await?;
        let run = Run { number: met.known.run.number, id: met.known.run.id };
        let record = Record { uuid: met.uuid, run, held: bound.age };
        // Numbers that this run gave are no other file's.
        let again =
            met.known.runs.0.last().is_some_and(|last| Some(*last) == self.this_run().map(name));
        let unused_from = if again { 0 } else { bound.mark };
        if self.recorded(id, met.uuid) != Some(record) {
            self.record(id, record, unused_from).await?;
        }
        if bound.adopted {
            tracing::warn!(id = id.0, "a data server has accepted an older state of the volume");
        }
        let mut known = self.known();
        known.held.insert(id, bound.age);
        known.bound.insert(id);
        known.saw_another_state.remove(&id);
        self.note_superseded(&known);
        Ok(())
    }

    /// A data server has seen a state of our volume that is not ours.
    fn saw_another_state(&self, id: DataServerId) {
        let mut known = self.known();
        known.saw_another_state.insert(id);
        self.note_superseded(&known);
    }

    fn note_superseded(&self, known: &Known) {
        let is_superseded = known.bound.is_empty() && !known.saw_another_state.is_empty();
        if !self.superseded.swap(is_superseded, Relaxed) && is_superseded {
            tracing::error!(
                "our volume is not the one that its data servers have seen last: nothing is \
                 changed until it is accepted (`weft status` says how)"
            );
        }
    }

    /// Whether our volume is a copy: some data server has seen a later or another state of it, and
    /// none is of ours. What is changed in it would be lost when the right one is put back, and
    /// numbers given in it are the other's.
    pub(super) fn is_superseded(&self) -> bool {
        self.superseded.load(Relaxed)
    }
}

impl Admission for DataServerRegistry {
    fn credentials(&self) -> (Uuid, ControlKey) {
        (self.volume.identity().uuid, self.keys().control.clone())
    }

    fn credentials_changed(&self) -> Later<'_, ()> {
        let mut keys = self.keys.subscribe();
        Box::pin(async move {
            // The sender is kept by `self`.
            let _ = keys.changed().await;
        })
    }

    fn meet(&self, id: DataServerId, uuid: Uuid) -> Result<VolumeArgs, String> {
        self.check(id, uuid)?;
        let Identity { number, uuid: volume, .. } = self.volume.identity();
        let met = self.recorded(id, uuid).map_or(0, |r| r.run.number);
        Ok(VolumeArgs { number, uuid: volume, met })
    }

    fn judge(
        &self,
        id: DataServerId,
        uuid: Uuid,
        known: &VolumeOk,
    ) -> Later<'_, Result<BindArgs, String>> {
        let mut record = self.recorded(id, uuid);
        if let Some(record) = &mut record {
            let held = self.known().held.get(&id).copied();
            record.held = record.held.max(held.unwrap_or(0));
        }
        let known = known.clone();
        Box::pin(async move { self.bind_args(id, record, &known).await })
    }

    fn refused(&self, id: DataServerId, status: ControlStatus) -> String {
        let superseded =
            [ControlStatus::OLDER, ControlStatus::FORK, ControlStatus::DEPOSED].contains(&status);
        if superseded {
            self.saw_another_state(id);
        }
        admission::refusal(status, &self.volume.identity().uuid)
    }

    fn bound<'a>(
        &'a self,
        id: DataServerId,
        met: &'a Met,
        bound: BindOk,
    ) -> Later<'a, Result<(), String>> {
        Box::pin(self.record_bound(id, met, bound))
    }

    fn expelled(&self, id: DataServerId) {
        let mut known = self.known();
        known.bound.remove(&id);
        self.note_superseded(&known);
    }

    fn lost(&self, id: DataServerId) -> Later<'_, ()> {
        Box::pin(self.record_age(id))
    }

    fn lsn(&self) -> u64 {
        self.volume.durable_lsn().0
    }

    fn holds(&self, id: DataServerId, lsn: u64) {
        self.known().held.insert(id, lsn);
    }
}

const NO_RUN: RunName = RunName { number: 0, id: [0; 16] };

fn name(run: Run) -> RunName {
    RunName { number: run.number, id: run.id }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
