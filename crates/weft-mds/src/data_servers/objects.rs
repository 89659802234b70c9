//! What the objects of files are, and changing them: sizes, removal, fences, space.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::timeout;
use weft_control::codec::*;
use weft_server::report::{Activity, ObjectReport, ServerStatus, SpaceStatus};
use weft_store::types::DataServerId;
use weft_stripe::Distribution;

use super::{
    cluster::DataServers, each, error::DataServerError, room::Standing, server::Server,
    space::ClusterSpace,
};
use crate::striped::Striped;

/// How long a report waits for a data server: people wait for it.
const STATUS_LIMIT: Duration = Duration::from_secs(1);

/// What the data servers know of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataServerAttrs {
    /// Largest file end that its objects imply, bytes. The file may be longer (a hole at its
    /// end), never shorter.
    pub size_at_least: u64,
    /// Latest modification of an object, seconds and nanoseconds; `None` while all are empty.
    pub mtime: Option<(i64, u32)>,
    /// Bytes of disk in use.
    pub space_used: u64,
    /// Sum of the objects' write counters: with the rest equal, an equal sum means that nothing
    /// was written between (a counter starts anew when a data server closes the object).
    pub writes: u64,
}

/// What the objects of a file are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileObjects {
    /// What follows for the file.
    pub attrs: DataServerAttrs,
    /// How long each is, by stripe index.
    pub lengths: Vec<u64>,
    /// Whether a power cut may still take away some of that.
    pub unsynced: bool,
}

/// What becomes of a question when a data server is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    /// It is answered by the others.
    PassedOver,
    /// It has no answer.
    Fails,
}

/// Refuses an object that is shorter than it must be.
pub(super) fn not_short(
    file: &Striped,
    (index, id): (usize, DataServerId),
    found: u64,
) -> Result<(), DataServerError> {
    let expected = file.length_min(index);
    let lost = DataServerError::Lost { id, object: file.object, found, expected };
    if found < expected { Err(lost) } else { Ok(()) }
}

/// The object of a file at one of its stripe indices.
#[derive(Debug, Clone, Copy)]
struct Part {
    file: usize,
    stripe_index: u32,
    object: ObjectName,
}

/// What a data server says of the object at a stripe index.
type Told = (usize, DataServerId, Result<ObjectAttrs, DataServerError>);

impl DataServers {
    /// What the data servers know of each file.
    ///
    /// **Cost**: one message to each data server concerned, for up to 1024 files.
    ///
    /// # Errors
    /// For each file, the first failure of one of its data servers.
    pub async fn fetch_attrs(
        &self,
        files: &[&Striped],
    ) -> Vec<Result<FileObjects, DataServerError>> {
        let ask = |server: Arc<Server>, parts: Vec<Part>| async move {
            let objects: Vec<_> = parts.iter().map(|p| p.object).collect();
            server.stat(&objects).await
        };
        self.learn_of(files, ask).await
    }

    /// The same of one file, all of whose writers gave their layouts back: nobody writes any more
    /// with handles of its epoch, so that what is told here stays the truth.
    ///
    /// # Errors
    /// As [`Self::fetch_attrs`]; some data servers may not let them write any more.
    pub async fn seal(&self, file: &Striped) -> Result<FileObjects, DataServerError> {
        let epoch = file.fence_epoch;
        let ask = move |server: Arc<Server>, parts: Vec<Part>| async move {
            let item = |p: &Part| FenceItem { object: p.object, epoch };
            server.seal(&parts.iter().map(item).collect::<Vec<_>>()).await
        };
        let told = self.learn_of(&[file], ask).await.pop();
        told.unwrap_or_else(|| Err(self.damaged(file)))
    }

    /// What `ask` hears of the objects of each file.
    async fn learn_of<F>(
        &self,
        files: &[&Striped],
        ask: impl Fn(Arc<Server>, Vec<Part>) -> F + Copy + Send + 'static,
    ) -> Vec<Result<FileObjects, DataServerError>>
    where
        F: Future<Output = Result<Vec<ObjectAttrs>, DataServerError>> + Send,
    {
        let rules: Vec<_> = files.iter().map(|f| f.distribution().ok()).collect();
        let start = |(file, rule): (&&Striped, &Option<_>)| match rule {
            Some(_) => {
                let lengths = vec![0; file.data_servers.len()];
                Ok(FileObjects { lengths, ..FileObjects::default() })
            }
            None => Err(self.damaged(file)),
        };
        let mut truths: Vec<_> = files.iter().zip(&rules).map(start).collect();
        let mut asked = Vec::new();
        for (id, parts) in parts_by_server(files) {
            let server = self.server(id);
            asked.push(async move {
                let attrs = match server {
                    Ok(server) => ask(server, parts.clone()).await,
                    Err(e) => Err(e),
                };
                (id, parts, attrs)
            });
        }
        for (id, parts, attrs) in each::all(asked).await {
            for (at, part) in parts.into_iter().enumerate() {
                let Some(truth) = truths.get_mut(part.file) else { continue };
                let told = attrs.as_ref().map_err(Clone::clone).and_then(|all| {
                    let attrs = all.get(at).ok_or_else(|| impossible(id))?;
                    let rule = rules.get(part.file).and_then(Option::as_ref);
                    learn(truth.as_ref().ok(), id, rule, part, attrs)
                });
                if truth.is_ok() {
                    *truth = told;
                }
            }
        }
        truths
    }

    /// Whether every object of a file is as long as it must be. Those of data servers that are away
    /// are passed over, or it is not known.
    ///
    /// **Cost**: one message to each data server that has something to lose.
    ///
    /// # Errors
    /// [`DataServerError::Lost`], and what a data server says that cannot tell.
    pub async fn check_lengths(&self, file: &Striped, away: Away) -> Result<(), DataServerError> {
        let asks = |index, server: &Server| {
            file.length_min(index) > 0 && (away == Away::Fails || server.is_up())
        };
        for (index, id, told) in self.stat_each(file, asks).await? {
            match told {
                Err(DataServerError::Unreachable { .. }) if away == Away::PassedOver => {}
                told => not_short(file, (index, id), believed(id, told?)?.size)?,
            }
        }
        Ok(())
    }

    /// The smallest epoch that each object of a file accepts, as far as data servers are up.
    ///
    /// # Errors
    /// What a data server says that cannot tell.
    pub async fn epochs(
        &self,
        file: &Striped,
    ) -> Result<Vec<(DataServerId, u32)>, DataServerError> {
        let mut epochs = Vec::new();
        for (_, id, told) in self.stat_each(file, |_, server| server.is_up()).await? {
            match told {
                Err(DataServerError::Unreachable { .. }) => {}
                told => epochs.push((id, told?.epoch)),
            }
        }
        Ok(epochs)
    }

    /// What each data server of a file that is asked says of its object, with its stripe index.
    async fn stat_each(
        &self,
        file: &Striped,
        asks: impl Fn(usize, &Server) -> bool,
    ) -> Result<Vec<Told>, DataServerError> {
        let mut asked = Vec::new();
        for (index, id) in file.holders() {
            let (server, object) = (self.server(id)?, name(file));
            if asks(index, &server) {
                asked.push(async move {
                    let told = server.stat(&[object]).await;
                    let told = told.and_then(|t| t.first().copied().ok_or_else(|| impossible(id)));
                    (index, id, told)
                });
            }
        }
        Ok(each::all(asked).await)
    }

    /// How long an object of each of these files is on one data server, in order.
    ///
    /// # Errors
    /// [`DataServerError`].
    pub async fn lengths_on(
        &self,
        id: DataServerId,
        files: &[&Striped],
    ) -> Result<Vec<u64>, DataServerError> {
        let objects: Vec<_> = files.iter().map(|file| name(file)).collect();
        let told = self.server(id)?.stat(&objects).await?;
        told.into_iter().map(|attrs| Ok(believed(id, attrs)?.size)).collect()
    }

    /// The next objects of a data server behind one, volume and number; none behind the last.
    ///
    /// # Errors
    /// [`DataServerError`].
    pub async fn list(
        &self,
        id: DataServerId,
        after: Option<(u32, u64)>,
    ) -> Result<Vec<(u32, u64)>, DataServerError> {
        let (volume, object) = after.unwrap_or_default();
        let after = ObjectName { volume, object };
        let args = ListArgs { from_first: (volume, object) == (0, 0), after };
        let listed: Objects = self.server(id)?.ask(Procedure::LIST, &args).await?;
        Ok(listed.0.into_iter().map(|o| (o.volume, o.object)).collect())
    }

    /// Which of these objects have a file on a data server.
    ///
    /// # Errors
    /// [`DataServerError`].
    pub async fn exist(
        &self,
        id: DataServerId,
        objects: &[(u32, u64)],
    ) -> Result<Vec<bool>, DataServerError> {
        let names = objects.iter().map(|(volume, object)| (*volume, *object));
        let names: Vec<_> = names.map(|(volume, object)| ObjectName { volume, object }).collect();
        let told = self.server(id)?.stat(&names).await?;
        told.into_iter().map(|attrs| Ok(believed(id, attrs)?.exists)).collect()
    }

    /// Cuts every object to what a file of `size` bytes needs, durably.
    ///
    /// # Errors
    /// [`DataServerError`]; some objects may be cut already. A truncation that was given up is
    /// never carried out after another request of ours.
    pub async fn truncate(&self, file: &Striped, size: u64) -> Result<(), DataServerError> {
        let rule = file.distribution().map_err(|_| self.damaged(file))?;
        let item = |part: Part| TruncateItem {
            object: part.object,
            size: rule.object_size_for(size, part.stripe_index),
        };
        self.change(Procedure::TRUNCATE, &[file], item, TruncateArgs).await
    }

    /// Removes all objects of files, durably and for ever. Doing it again is success.
    ///
    /// # Errors
    /// For each file, the first failure of one of its data servers; everything that could be
    /// removed is.
    pub async fn remove(&self, files: &[Striped]) -> Vec<Result<(), DataServerError>> {
        self.change_each(Procedure::REMOVE, files, |part, _| part.object, Objects).await
    }

    /// Answers what a data server asked, and waits for what it asks next: which objects may be
    /// made.
    ///
    /// # Errors
    /// [`DataServerError`].
    pub(crate) async fn births(
        &self,
        id: DataServerId,
        answers: Vec<BirthAnswer>,
    ) -> Result<Vec<Birth>, DataServerError> {
        let server = self.server(id)?;
        server.ready().await?;
        Ok(server.births(answers).await?.0)
    }

    /// Makes all objects of files, empty and durably; those that are there stay as they are.
    ///
    /// **Cost**: one message to each data server concerned, for up to 1024 files.
    ///
    /// # Errors
    /// For each file, the first failure of one of its data servers, which may be another file's of
    /// the same message; some objects may be made.
    pub async fn create(&self, files: &[Striped]) -> Vec<Result<(), DataServerError>> {
        let item = |part: Part, file: &Striped| CreateItem {
            object: part.object,
            epoch: file.fence_epoch,
        };
        self.change_each(Procedure::CREATE, files, item, CreateArgs).await
    }

    /// Changes the objects of files on all their data servers at once; for each file, the first
    /// failure.
    async fn change_each<I, A>(
        &self,
        procedure: Procedure,
        files: &[Striped],
        item: impl Fn(Part, &Striped) -> I,
        args: fn(Vec<I>) -> A,
    ) -> Vec<Result<(), DataServerError>>
    where
        I: Clone + Send + Sync + 'static,
        A: weft_xdr::Encode + Send + Sync + 'static,
    {
        let mut jobs = Vec::new();
        for (id, parts) in parts_by_server(&files.iter().collect::<Vec<_>>()) {
            let server = self.server(id);
            let of_file = |part: &Part| files.get(part.file).map(|file| item(*part, file));
            let items: Vec<I> = parts.iter().filter_map(of_file).collect();
            jobs.push(async move {
                let changed = match server {
                    Ok(server) => server.change(procedure, &items, args).await,
                    Err(e) => Err(e),
                };
                (parts, changed)
            });
        }
        let mut results = vec![Ok(()); files.len()];
        for (parts, changed) in each::all(jobs).await {
            let Err(e) = changed else { continue };
            for part in parts {
                if let Some(result @ Ok(())) = results.get_mut(part.file) {
                    *result = Err(e.clone());
                }
            }
        }
        results
    }

    /// Refuses every handle with a lower epoch than the file's from now on, durably. When it
    /// returns, no write with such a handle is under way.
    ///
    /// # Errors
    /// The first failure; the fence may stand on some data servers.
    pub async fn fence(&self, file: &Striped) -> Result<(), DataServerError> {
        let epoch = file.fence_epoch;
        let item = move |part: Part| FenceItem { object: part.object, epoch };
        self.change(Procedure::FENCE, &[file], item, FenceArgs).await
    }

    /// Disk space of all data servers that answer, for files of such stripe units.
    pub async fn space(&self, unit_bytes: u32) -> ClusterSpace {
        let all = self.all();
        let spaces = all.values().cloned();
        let spaces = spaces.map(|s| async move { (s.id, space(&s).await.ok()) });
        ClusterSpace::of(each::all(spaces).await, unit_bytes)
    }

    /// What every data server has done, by number; those that do not answer say why.
    pub async fn status(&self) -> Vec<ServerStatus> {
        let all = self.all();
        let reports = all.values().cloned();
        let mut statuses = each::all(reports.map(|s| async move { report(&s).await })).await;
        for (status, candidate) in statuses.iter_mut().zip(self.candidates()) {
            status.passed_over = matches!(candidate.standing, Standing::Full | Standing::Scarce);
        }
        statuses
    }

    /// The objects of a file, in stripe order.
    pub async fn object_sizes(&self, file: &Striped) -> Vec<ObjectReport> {
        let object = name(file);
        let mut reports = Vec::with_capacity(file.data_servers.len());
        for id in file.data_servers.iter().copied() {
            let server = self.server(id);
            reports.push(async move {
                let stat = match &server {
                    Ok(server) => server.stat(&[object]).await,
                    Err(e) => Err(e.clone()),
                };
                let stat = stat.and_then(|s| s.first().copied().ok_or_else(|| impossible(id)));
                let stat = stat.and_then(|s| believed(id, s));
                ObjectReport {
                    data_server: id.0,
                    address: server.map_or_else(|_| String::new(), |s| s.control().to_string()),
                    size: stat.as_ref().ok().map(|s| s.size),
                    space_used: stat.as_ref().ok().map(|s| s.blocks_bytes),
                    error: stat.err().map(|e| e.to_string()),
                }
            });
        }
        each::all(reports).await
    }

    /// Changes the objects of files on all their data servers at once; all are tried.
    async fn change<I, A>(
        &self,
        procedure: Procedure,
        files: &[&Striped],
        item: impl Fn(Part) -> I,
        args: fn(Vec<I>) -> A,
    ) -> Result<(), DataServerError>
    where
        I: Clone + Send + Sync + 'static,
        A: weft_xdr::Encode + Send + Sync + 'static,
    {
        let mut jobs = Vec::new();
        for (id, parts) in parts_by_server(files) {
            let server = self.server(id);
            let items: Vec<I> = parts.into_iter().map(&item).collect();
            jobs.push(async move { server?.change(procedure, &items, args).await });
        }
        each::all_done(each::all(jobs).await)
    }

    pub(super) fn damaged(&self, file: &Striped) -> DataServerError {
        let id = file.data_servers.first().copied().unwrap_or(DataServerId(0));
        let why = format!("the placement of file {} makes no sense", file.object);
        DataServerError::Refused { id, why: why.into() }
    }
}

pub(super) fn name(file: &Striped) -> ObjectName {
    ObjectName { volume: file.volume, object: file.object }
}

/// The objects of files, by data server; those that cannot be left out.
fn parts_by_server(files: &[&Striped]) -> BTreeMap<DataServerId, Vec<Part>> {
    let mut by_server: BTreeMap<_, Vec<Part>> = BTreeMap::new();
    for (at, file) in files.iter().enumerate() {
        for (index, id) in file.holders() {
            let stripe_index = u32::try_from(index).unwrap_or(u32::MAX);
            let part = Part { file: at, stripe_index, object: name(file) };
            by_server.entry(id).or_default().push(part);
        }
    }
    by_server
}

/// Adds what one object tells to what is known of its file.
fn learn(
    known: Option<&FileObjects>,
    id: DataServerId,
    rule: Option<&Distribution>,
    part: Part,
    attrs: &ObjectAttrs,
) -> Result<FileObjects, DataServerError> {
    let attrs = believed(id, *attrs)?;
    let end = rule.and_then(|r| r.file_end_of_object(part.stripe_index, attrs.size));
    let end = end.ok_or_else(|| impossible(id))?;
    let FileObjects { attrs: known, mut lengths, unsynced } = known.cloned().unwrap_or_default();
    if let Some(length) = lengths.get_mut(part.stripe_index as usize) {
        *length = attrs.size;
    }
    // An empty object has never been written, only made, or has been cut by us: its time is news of
    // neither.
    let mtime = (attrs.size > 0).then_some((attrs.mtime_s, attrs.mtime_ns));
    let known = DataServerAttrs {
        size_at_least: known.size_at_least.max(end),
        mtime: known.mtime.max(mtime),
        space_used: known.space_used.saturating_add(attrs.blocks_bytes),
        writes: known.writes.wrapping_add(attrs.writes),
    };
    Ok(FileObjects { attrs: known, lengths, unsynced: unsynced || attrs.unsynced })
}

fn believed(id: DataServerId, attrs: ObjectAttrs) -> Result<ObjectAttrs, DataServerError> {
    match attrs.status {
        ControlStatus::OK => Ok(attrs),
        bad => Err(DataServerError::of_status(id, bad)),
    }
}

fn impossible(id: DataServerId) -> DataServerError {
    DataServerError::Refused { id, why: "attributes that no object can have".into() }
}

async fn space(server: &Arc<Server>) -> Result<SpaceOk, DataServerError> {
    server.ask(Procedure::SPACE, &Nothing).await
}

async fn report(server: &Arc<Server>) -> ServerStatus {
    let told = async {
        let told = timeout(STATUS_LIMIT, server.ask::<StatusOk>(Procedure::STATUS, &Nothing)).await;
        let why = || format!("no answer in {} s", STATUS_LIMIT.as_secs()).into();
        told.unwrap_or_else(|_| Err(DataServerError::Unreachable { id: server.id, why: why() }))
    };
    let space = async { timeout(STATUS_LIMIT, space(server)).await.ok()?.ok() };
    let (told, space) = tokio::join!(told, space);
    let error = told.as_ref().err().map(ToString::to_string);
    let activity = told.ok().map(|s| Activity {
        operations: s.operations.0.into_iter().map(|o| (o.name, o.count)).collect(),
        bytes_in: s.bytes_in,
        bytes_out: s.bytes_out,
        rss_bytes: s.rss_bytes,
        clients: s.clients,
        connections: s.connections,
        uptime_s: s.uptime_s,
    });
    ServerStatus {
        role: "ds".into(),
        id: Some(server.id.0),
        address: server.control().to_string(),
        reachable: activity.is_some(),
        error,
        activity: activity.unwrap_or_default(),
        control_messages: BTreeMap::new(),
        files_ahead: None,
        space: space.map(|s| SpaceStatus { total: s.total, free: s.free, available: s.available }),
        passed_over: false,
        owed: 0,
        state_memory: None,
    }
}
