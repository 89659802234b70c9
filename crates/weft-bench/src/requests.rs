//! Lists of write requests as applications issue them, and carrying them out.

use bytes::Bytes;
use weft_client::{
    fs::{Client, ClientOptions, File, FsError, OpenOptions},
    io::IoPolicy,
};

use crate::{outcome::Outcome, servers::Servers, workers};

/// One write of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

/// Largest request of any list.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Requests that are read back.
const CHECKS: usize = 100;

/// Storage nodes of the paper (P0 §6.1).
pub(crate) const DATA_SERVERS: u32 = 6;

/// Every file on data servers, none kept by the metadata server: the ways are compared, not the
/// places.
pub(crate) const SETTINGS: &str =
    "[small_files]\nstuffing_limit = \"0KiB\"\nwrite_threshold = \"0KiB\"\n";

/// How writes reach the data servers (P0.1, P0.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Each request straight to its data servers, one at a time as the application issues it.
    Direct,
    /// Through the metadata server, without layouts; the client gathers what is below a MiB.
    Indirect,
    /// The client gathers what is below this many bytes; the rest as [`Way::Direct`].
    Threshold(u32),
    /// As a client does that is told nothing: everything through its cache.
    Cached,
}

impl Way {
    /// Its name in tables.
    pub(crate) fn name(self) -> String {
        match self {
            Way::Direct => "direct".to_owned(),
            Way::Indirect => "indirect".to_owned(),
            Way::Threshold(bytes) => format!("threshold {} KiB", bytes >> 10),
            Way::Cached => "cached".to_owned(),
        }
    }

    /// How a client goes it.
    pub(crate) fn options(self) -> ClientOptions {
        let (layouts, below) = match self {
            Way::Direct => (true, 0),
            Way::Indirect => (false, REQUEST_BYTES_MAX),
            Way::Threshold(bytes) => (true, bytes),
            Way::Cached => return ClientOptions::default(),
        };
        ClientOptions { layouts, policy: IoPolicy::gathering(below), ..ClientOptions::default() }
    }
}

/// An application with a client of its own and the file it writes.
pub(crate) struct Writer {
    client: Client,
    file: File,
    path: String,
    requests: Vec<Request>,
    data: Bytes,
}

impl Writer {
    /// One that has opened the file and met all data servers, which is no part of what is measured.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) async fn new(
        servers: &Servers,
        way: Way,
        path: &str,
        requests: Vec<Request>,
    ) -> Outcome<Writer> {
        let client = servers.client_with(way.options()).await?;
        let data = workers::content(REQUEST_BYTES_MAX as usize);
        // Whole stripe units: what is smaller may be gathered, and go another way.
        workers::meet(&client, DATA_SERVERS, 0, data.clone()).await?;
        let options = OpenOptions { write: true, create: Some(0o644), ..OpenOptions::default() };
        let file = client.open(path, options).await?;
        Ok(Writer { client, file, path: path.to_owned(), requests, data })
    }

    /// Writes all of it, one request after the other, and makes it durable.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) async fn run(self) -> Result<Writer, FsError> {
        for request in &self.requests {
            let data = self.data.slice(..request.bytes as usize);
            self.file.write_at(request.offset, data).await?;
        }
        self.file.commit().await?;
        Ok(self)
    }

    /// Closes the file and sees whether it holds what was written, at a hundred places or so.
    /// Requests of a list that overlap must be the same.
    ///
    /// # Errors
    /// It does not.
    pub(crate) async fn finish(self) -> Result<Client, FsError> {
        self.file.close().await?;
        let file = self.client.open(&self.path, OpenOptions::read()).await?;
        for request in self.requests.iter().step_by(self.requests.len().div_ceil(CHECKS).max(1)) {
            let bytes = request.bytes as usize;
            if file.read_at(request.offset, bytes).await? != self.data.slice(..bytes) {
                return Err(workers::wrong(self.path, "it does not hold what was written"));
            }
        }
        file.close().await?;
        Ok(self.client)
    }
}
