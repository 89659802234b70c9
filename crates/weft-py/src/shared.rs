//! The connection of a client, by process: a child of `fork` connects anew.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use weft_client::{ClientError, blocking, fs::FsError, url::Url};

use crate::errors;

/// A process, and its client; none once it is closed.
type Connected = Option<(u32, Arc<blocking::Client>)>;

/// What is connected, and where to.
///
/// The lock is only held by who has Python's own (the GIL), as who forks has: no child finds it
/// locked by a thread that it does not have.
pub(crate) struct Shared {
    url: Url,
    connected: Mutex<Connected>,
}

impl Shared {
    pub(crate) fn connect(py: Python<'_>, url: Url) -> PyResult<Shared> {
        let client = connect(py, &url)?;
        Ok(Shared { url, connected: Mutex::new(Some((std::process::id(), client))) })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Says goodbye to the servers, if nobody else uses the connection now.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some((process, client)) = self.set(None) else { return Ok(()) };
        match Arc::into_inner(client) {
            Some(client) if process == std::process::id() => {
                py.detach(|| client.close()).map_err(|e| errors::of_client(py, &e))
            }
            _ => Ok(()),
        }
    }

    fn set(&self, to: Connected) -> Connected {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *connected, to)
    }

    /// The client of this process.
    pub(crate) fn client(&self, py: Python<'_>) -> PyResult<Arc<blocking::Client>> {
        let process = std::process::id();
        let now = self.connected.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match now {
            Some((of, client)) if of == process => Ok(client),
            Some(_) => {
                let client = connect(py, &self.url)?;
                self.set(Some((process, client.clone())));
                Ok(client)
            }
            None => Err(errors::of_client(py, &ClientError::Closed)),
        }
    }

    /// Does something with the client while other threads of Python run.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&blocking::Client) -> Result<T, FsError> + Send,
    ) -> PyResult<T> {
        let client = self.client(py)?;
        let done = py.detach(|| work(&client));
        done.map_err(|e| errors::of_file(py, &e))
    }
}

fn connect(py: Python<'_>, url: &Url) -> PyResult<Arc<blocking::Client>> {
    let client = py.detach(|| blocking::Client::open_url(url));
    client.map(Arc::new).map_err(|e| errors::of_client(py, &e))
}
