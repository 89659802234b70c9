//! The microbenchmark of P3: nine phases, each client in a directory of its own.

use bytes::Bytes;
use weft_client::fs::{Client, File, FsError, OpenOptions};

use super::listing;
use crate::workers;

/// What the clients do between two barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Mkdir,
    Create,
    /// Of empty files.
    ReaddirStatEmpty,
    Write,
    Read,
    /// Of files with data.
    ReaddirStatPopulated,
    Close,
    Remove,
    Rmdir,
}

use Phase::*;

/// A phase in its place in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) phase: Phase,
    /// Its name in tables and JSON; without one it is carried out and not measured.
    pub(crate) name: Option<&'static str>,
}

/// A phase that is measured under a name.
pub(crate) const fn measured(phase: Phase, name: &'static str) -> Step {
    Step { phase, name: Some(name) }
}

/// A phase that is only carried out, since others need it.
pub(crate) const fn unmeasured(phase: Phase) -> Step {
    Step { phase, name: None }
}

/// All phases in their order.
pub(crate) const STEPS: [Step; 9] = [
    measured(Mkdir, "mkdir"),
    measured(Create, "create"),
    measured(ReaddirStatEmpty, "readdir+stat empty"),
    measured(Write, "write"),
    measured(Read, "read"),
    measured(ReaddirStatPopulated, "readdir+stat populated"),
    measured(Close, "close"),
    measured(Remove, "remove"),
    measured(Rmdir, "rmdir"),
];

/// Files that are made, written and removed, and nothing else; their names tell the phases apart
/// from those of [`STEPS`].
pub(crate) const WRITTEN_FILES: [Step; 6] = [
    unmeasured(Mkdir),
    measured(Create, "flat create"),
    measured(Write, "flat write"),
    measured(Close, "flat close"),
    measured(Remove, "flat remove"),
    unmeasured(Rmdir),
];

impl Phase {
    /// Operations of one client that has this many files.
    pub(crate) fn operations(self, files: usize) -> usize {
        match self {
            Mkdir | Rmdir => 1,
            Create | ReaddirStatEmpty | Write | Read | ReaddirStatPopulated | Close | Remove => {
                files
            }
        }
    }
}

/// One application process of the paper: a client with a session of its own, its directory and
/// its open files.
pub(crate) struct Worker {
    client: Client,
    dir: String,
    one_pass: bool,
    data: Bytes,
    count: usize,
    files: Vec<File>,
}

impl Worker {
    /// The `number`th worker, which will have `count` files with this content each.
    pub(crate) fn new(client: Client, number: usize, count: usize, data: Bytes) -> Worker {
        let dir = format!("/process-{number:03}");
        Worker { client, dir, one_pass: true, data, count, files: Vec::new() }
    }

    /// The same worker, listing its directory in one pass or one by one.
    pub(crate) fn listing(self, one_pass: bool) -> Worker {
        Worker { one_pass, ..self }
    }

    /// Does its part of a phase, one operation after the other.
    ///
    /// # Errors
    /// The first failure; content or a size that is not what was written is one.
    pub(crate) async fn run(mut self, phase: Phase) -> Result<Worker, FsError> {
        match phase {
            Mkdir => self.client.mkdir(&self.dir, 0o755).await?,
            Create => self.create().await?,
            ReaddirStatEmpty => self.list(0).await?,
            Write => {
                for file in &self.files {
                    file.write_at(0, self.data.clone()).await?;
                }
            }
            Read => self.read().await?,
            ReaddirStatPopulated => self.list(self.data.len() as u64).await?,
            Close => {
                for file in std::mem::take(&mut self.files) {
                    file.close().await?;
                }
            }
            Remove => {
                for index in 0..self.count {
                    self.client.remove(self.path(index)).await?;
                }
            }
            Rmdir => self.client.remove(&self.dir).await?,
        }
        Ok(self)
    }

    fn path(&self, index: usize) -> String {
        format!("{}/file-{index:06}", self.dir)
    }

    async fn create(&mut self) -> Result<(), FsError> {
        let options = OpenOptions {
            read: true,
            write: true,
            create: Some(0o644),
            exclusive: true,
            ..OpenOptions::default()
        };
        for index in 0..self.count {
            let file = self.client.open(self.path(index), options).await?;
            self.files.push(file);
        }
        Ok(())
    }

    async fn read(&self) -> Result<(), FsError> {
        for (index, file) in self.files.iter().enumerate() {
            if file.read_at(0, self.data.len()).await? != self.data {
                return Err(workers::wrong(self.path(index), "it does not hold what was written"));
            }
        }
        Ok(())
    }

    async fn list(&self, size: u64) -> Result<(), FsError> {
        let found = listing::list(&self.client, &self.dir, self.one_pass, size).await?;
        listing::expect(&self.dir, found, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The phases are the paper's nine, each once, with names that tell them apart.
    #[test]
    fn nine_phases() {
        let names: std::collections::HashSet<_> = STEPS.iter().map(|s| s.name).collect();
        assert_eq!(names.len(), 9);
        let counts = STEPS.map(|step| step.phase.operations(12_000));
        assert_eq!(counts, [1, 12_000, 12_000, 12_000, 12_000, 12_000, 12_000, 12_000, 1]);
        let phases = STEPS.map(|step| step.phase);
        assert!(WRITTEN_FILES.iter().all(|step| phases.contains(&step.phase)));
    }
}
