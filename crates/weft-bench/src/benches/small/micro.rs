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

/// The phases in their order.
pub(crate) const PHASES: [Phase; 9] =
    [Mkdir, Create, ReaddirStatEmpty, Write, Read, ReaddirStatPopulated, Close, Remove, Rmdir];

/// Those in which no data is moved.
pub(crate) const NAMES_ONLY: [Phase; 5] = [Mkdir, Create, Close, Remove, Rmdir];

impl Phase {
    /// Its name in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mkdir => "mkdir",
            Create => "create",
            ReaddirStatEmpty => "readdir+stat empty",
            Write => "write",
            Read => "read",
            ReaddirStatPopulated => "readdir+stat populated",
            Close => "close",
            Remove => "remove",
            Rmdir => "rmdir",
        }
    }

    /// Its name where it is measured over more and more data servers, without data; none for what
    /// is not.
    pub(crate) fn flat_name(self) -> Option<&'static str> {
        match self {
            Create => Some("create empty"),
            Remove => Some("remove empty"),
            Mkdir | ReaddirStatEmpty | Write | Read | ReaddirStatPopulated | Close | Rmdir => None,
        }
    }

    /// What one client of so many files does in it.
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
pub(crate) struct Process {
    client: Client,
    dir: String,
    one_pass: bool,
    data: Bytes,
    count: usize,
    files: Vec<File>,
}

impl Process {
    /// The `number`th process, which will have `count` files with this content each.
    pub(crate) fn new(client: Client, number: usize, count: usize, data: Bytes) -> Process {
        let dir = format!("/process-{number:03}");
        Process { client, dir, one_pass: true, data, count, files: Vec::new() }
    }

    /// How it lists its directory.
    pub(crate) fn listing(self, one_pass: bool) -> Process {
        Process { one_pass, ..self }
    }

    /// Does its part of a phase, one operation after the other.
    ///
    /// # Errors
    /// The first failure; content or a size that is not what was written is one.
    pub(crate) async fn run(mut self, phase: Phase) -> Result<Process, FsError> {
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
            truncate: false,
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
        let names: std::collections::HashSet<_> = PHASES.iter().map(|p| p.name()).collect();
        assert_eq!(names.len(), 9);
        let counts = PHASES.map(|p| p.operations(12_000));
        assert_eq!(counts, [1, 12_000, 12_000, 12_000, 12_000, 12_000, 12_000, 12_000, 1]);
        assert!(NAMES_ONLY.iter().all(|p| PHASES.contains(p)));
    }
}
