//! Many reads or writes at once, over any number of files.

use std::{collections::BTreeMap, future::Future, path::PathBuf, sync::Arc};

use bytes::Bytes;
use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    client::Client,
    error::{At, FsError},
    file::File,
};
use crate::{error::ClientError, io::MemoryRegion, limits::BULK_ITEMS, node::OpenOptions};

/// A read among many: a part of a file, as long as the memory, and where it goes.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The file.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// Where to.
    pub memory: Arc<MemoryRegion>,
}

/// A write among many.
#[derive(Debug, Clone)]
pub struct Writing {
    /// The file; made with mode 644 if it does not exist, and not emptied.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// What.
    pub data: Bytes,
}

/// Mode of files that writes make.
const NEW_MODE: u32 = 0o644;

impl Client {
    /// Reads all of these side by side, [`BULK_ITEMS`] at a time; each file is opened once. Returns
    /// how many bytes each got, fewer than its memory only at the end of a file, or why it failed.
    pub async fn read_many(&self, readings: Vec<Reading>) -> Vec<Result<usize, FsError>> {
        let keyed = readings.into_iter().map(|r| (r.path, (r.offset, r.memory))).collect();
        let read = |file: Arc<File>, (offset, memory)| async move {
            file.read_memory(offset, memory).await
        };
        self.many(keyed, OpenOptions::read(), read).await
    }

    /// Writes all of these side by side, [`BULK_ITEMS`] at a time; each file is opened once, and
    /// what was written to it durable when this returns. What overlaps lands in any order.
    pub async fn write_many(&self, writings: Vec<Writing>) -> Vec<Result<(), FsError>> {
        let keyed = writings.into_iter().map(|w| (w.path, (w.offset, w.data))).collect();
        let options = OpenOptions { write: true, create: Some(NEW_MODE), ..OpenOptions::default() };
        let write =
            |file: Arc<File>, (offset, data)| async move { file.write_at(offset, data).await };
        self.many(keyed, options, write).await
    }

    /// Does something with an open file for each item.
    async fn many<I, T, W, F>(
        &self,
        items: Vec<(PathBuf, I)>,
        options: OpenOptions,
        work: W,
    ) -> Vec<Result<T, FsError>>
    where
        I: Send + 'static,
        T: Send + 'static,
        W: Fn(Arc<File>, I) -> F + Clone + Send + 'static,
        F: Future<Output = Result<T, FsError>> + Send + 'static,
    {
        let mut results: Vec<Result<T, FsError>> = Vec::with_capacity(items.len());
        let mut by_path: BTreeMap<PathBuf, Vec<(usize, I)>> = BTreeMap::new();
        for (index, (path, item)) in items.into_iter().enumerate() {
            // What a task that panicked leaves behind.
            results.push(Err(FsError { path: path.clone(), error: ClientError::Closed }));
            by_path.entry(path).or_default().push((index, item));
        }
        let turns = Arc::new(Semaphore::new(BULK_ITEMS));
        let mut files = JoinSet::new();
        for (path, items) in by_path {
            while files.len() >= BULK_ITEMS {
                settle(&mut results, files.join_next().await);
            }
            let file = OneFile { client: self.clone(), turns: turns.clone(), path, options };
            files.spawn(file.run(items, work.clone()));
        }
        while let Some(done) = files.join_next().await {
            settle(&mut results, Some(done));
        }
        results
    }
}

impl File {
    /// Reads parts of the file side by side, [`BULK_ITEMS`] at a time, as [`Client::read_many`].
    pub async fn read_many(
        &self,
        readings: Vec<(u64, Arc<MemoryRegion>)>,
    ) -> Vec<Result<usize, FsError>> {
        let lost = || Err(FsError { path: self.path().into(), error: ClientError::Closed });
        let mut results: Vec<_> = readings.iter().map(|_| lost()).collect();
        let mut tasks = JoinSet::new();
        let mut settle = |done: Option<(usize, Result<u64, ClientError>)>| {
            let Some((index, read)) = done else { return };
            let read =
                read.and_then(|n| usize::try_from(n).map_err(|_| ClientError::Invalid("too long")));
            if let Some(to) = results.get_mut(index) {
                *to = read.at(self.path());
            }
        };
        for (index, (offset, memory)) in readings.into_iter().enumerate() {
            if tasks.len() >= BULK_ITEMS {
                settle(tasks.join_next().await.and_then(Result::ok));
            }
            let io = self.io().clone();
            tasks.spawn(async move { (index, io.read_memory(offset, memory).await) });
        }
        while let Some(done) = tasks.join_next().await {
            settle(done.ok());
        }
        results
    }
}

/// What became of the items of a file.
type Done<T> = Vec<(usize, Result<T, FsError>)>;

fn settle<T>(
    results: &mut [Result<T, FsError>],
    done: Option<Result<Done<T>, tokio::task::JoinError>>,
) {
    let Some(Ok(done)) = done else { return };
    for (index, result) in done {
        if let Some(to) = results.get_mut(index) {
            *to = result;
        }
    }
}

/// A file that several items are about.
struct OneFile {
    client: Client,
    turns: Arc<Semaphore>,
    path: PathBuf,
    options: OpenOptions,
}

impl OneFile {
    async fn run<I, T, W, F>(self, items: Vec<(usize, I)>, work: W) -> Done<T>
    where
        I: Send + 'static,
        T: Send + 'static,
        W: Fn(Arc<File>, I) -> F + Send + 'static,
        F: Future<Output = Result<T, FsError>> + Send + 'static,
    {
        let file = match self.client.open(&self.path, self.options).await {
            Ok(file) => Arc::new(file),
            Err(e) => return items.into_iter().map(|(index, _)| (index, Err(e.clone()))).collect(),
        };
        let mut tasks = JoinSet::new();
        let mut done = Vec::with_capacity(items.len());
        for (index, item) in items {
            let Ok(turn) = self.turns.clone().acquire_owned().await else { break };
            let working = work(file.clone(), item);
            tasks.spawn(async move {
                let result = working.await;
                drop(turn);
                (index, result)
            });
            while let Some(finished) = tasks.try_join_next() {
                done.extend(finished);
            }
        }
        while let Some(finished) = tasks.join_next().await {
            done.extend(finished);
        }
        let closed = match Arc::into_inner(file) {
            Some(file) => file.close().await,
            None => Err(ClientError::Closed).at(&self.path),
        };
        if let Err(e) = closed {
            // What could not be made durable was not written.
            done.iter_mut().for_each(|(_, result)| *result = Err(e.clone()));
        }
        done
    }
}
