//! Small files as most programs use them: made, written and closed in one go; opened, read and
//! closed in one go; listed as `ls -l` does.

use bytes::Bytes;
use weft_client::fs::{Client, FsError};

use super::listing;
use crate::workers;

/// The directory of all of them.
pub(crate) const DIRECTORY: &str = "/whole";

/// What one client does, all in the same directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Durable when it is done.
    CreateWriteClose,
    OpenReadClose,
}

impl Phase {
    /// Its name in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::CreateWriteClose => "create+write+close",
            Phase::OpenReadClose => "open+read+close",
        }
    }
}

/// The phases in their order.
pub(crate) const PHASES: [Phase; 2] = [Phase::CreateWriteClose, Phase::OpenReadClose];

/// The listing's name in tables and JSON.
pub(crate) const LISTING: &str = "ls -l";

/// A client and the files that are its own.
pub(crate) struct Worker {
    client: Client,
    number: usize,
    count: usize,
    data: Bytes,
}

impl Worker {
    /// The `number`th one, which will have `count` files with this content each.
    pub(crate) fn new(client: Client, number: usize, count: usize, data: Bytes) -> Worker {
        Worker { client, number, count, data }
    }

    /// Does its part of a phase, one file after the other.
    ///
    /// # Errors
    /// The first failure; content that is not what was written is one.
    pub(crate) async fn run(self, phase: Phase) -> Result<Worker, FsError> {
        for index in 0..self.count {
            let path = format!("{DIRECTORY}/{:03}-{index:06}", self.number);
            match phase {
                Phase::CreateWriteClose => {
                    self.client.write_file(&path, 0o644, self.data.clone()).await?;
                }
                Phase::OpenReadClose => {
                    let data = self.client.read_file(&path, self.data.len()).await?;
                    if data != self.data {
                        return Err(workers::wrong(path, "it does not hold what was written"));
                    }
                }
            }
        }
        Ok(self)
    }

    /// Lists the directory, which has this many files.
    ///
    /// # Errors
    /// The first failure, or a file that is missing.
    pub(crate) async fn list(self, one_pass: bool, files: usize) -> Result<Worker, FsError> {
        let size = self.data.len() as u64;
        let found = listing::list(&self.client, DIRECTORY, one_pass, size).await?;
        listing::expect(DIRECTORY, found, files)?;
        Ok(self)
    }
}
