//! An open file: positions and buffering are Python's.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};
use weft_client::{
    ClientError, blocking,
    fs::{FsError, OpenOptions},
    io::MemoryRegion,
};

use crate::{
    buffer::{self, Buffer},
    errors,
    shared::Shared,
};

/// A process, and its open file; none once it is closed.
type Opened = Option<(u32, Arc<blocking::File>)>;

/// What is opened, and how.
pub(crate) struct Name {
    pub(crate) path: PathBuf,
    pub(crate) options: OpenOptions,
    /// A layout of somebody else to read it by.
    pub(crate) layout: Option<Bytes>,
}

/// An open file, which a child of `fork` opens again, if it is for reading.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct File {
    shared: Arc<Shared>,
    name: Name,
    /// Only held by who has the GIL, as that of `Shared`.
    opened: Mutex<Opened>,
}

impl File {
    pub(crate) fn open(py: Python<'_>, shared: Arc<Shared>, name: Name) -> PyResult<File> {
        let opened = open(py, &shared, &name)?;
        Ok(File { shared, name, opened: Mutex::new(Some(opened)) })
    }

    fn set(&self, to: Opened) -> Opened {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *opened, to)
    }

    /// The file as this process has it open.
    fn file(&self, py: Python<'_>) -> PyResult<Arc<blocking::File>> {
        let now = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match now {
            Some((of, file)) if of == std::process::id() => Ok(file),
            Some((of, _)) if self.name.options.write => {
                let error = ClientError::Forked(of);
                Err(errors::of_file(py, &FsError { path: self.name.path.clone(), error }))
            }
            Some(_) => {
                let opened = open(py, &self.shared, &self.name)?;
                self.set(Some(opened.clone()));
                Ok(opened.1)
            }
            None => Err(PyValueError::new_err("I/O operation on closed file")),
        }
    }

    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&blocking::File) -> Result<T, FsError> + Send,
    ) -> PyResult<T> {
        let file = self.file(py)?;
        let done = py.detach(|| work(&file));
        done.map_err(|e| errors::of_file(py, &e))
    }
}

fn open(
    py: Python<'_>,
    shared: &Shared,
    Name { path, options, layout }: &Name,
) -> PyResult<(u32, Arc<blocking::File>)> {
    let file = shared.run(py, |c| match layout {
        Some(layout) => c.open_with_layout(path, *options, layout),
        None => c.open(path, *options),
    })?;
    Ok((std::process::id(), Arc::new(file)))
}

#[pymethods]
impl File {
    /// Fills a buffer from an offset on; returns how many bytes it got.
    fn read_at(&self, py: Python<'_>, offset: u64, into: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut buffers = [Buffer::writable(into)?];
        let memories = buffer::memories(&mut buffers)?;
        self.run(py, |f| memories.into_iter().map(|memory| f.read_at(offset, memory)).sum())
    }

    /// Fills buffers from offsets on, side by side; returns how many bytes each got.
    fn read_many(
        &self,
        py: Python<'_>,
        items: Vec<(u64, Bound<'_, PyAny>)>,
    ) -> PyResult<Vec<usize>> {
        let file = self.file(py)?;
        let buffers: PyResult<Vec<_>> = items.iter().map(|i| Buffer::writable(&i.1)).collect();
        let mut buffers = buffers?;
        let offsets: Vec<u64> = items.iter().map(|i| i.0).collect();
        let memories = buffer::memories(&mut buffers)?;
        let read = py.detach(|| {
            MemoryRegion::lend(memories, |lent| {
                file.read_many(offsets.into_iter().zip(lent.iter().cloned()).collect())
            })
        });
        errors::all(py, read)
    }

    /// Writes all of a buffer; returns its length.
    fn write_at(&self, py: Python<'_>, offset: u64, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let data = buffer::copied(py, data)?;
        let len = data.len();
        self.run(py, |f| f.write_at(offset, data)).map(|()| len)
    }

    /// Makes what was written durable.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, blocking::File::commit)
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.run(py, |f| f.truncate(size))
    }

    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, blocking::File::size)
    }

    /// The layout to read the file by, for other clients.
    fn export_layout(&self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let layout = self.run(py, blocking::File::export_layout)?;
        Ok(PyBytes::new(py, &layout).unbind())
    }

    /// Makes what was written durable and closes, the first time. One that came along with a fork
    /// is the parent's to close.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some((of, file)) = self.set(None) else { return Ok(()) };
        if of != std::process::id() {
            return Ok(());
        }
        let closed = py.detach(|| match Arc::try_unwrap(file) {
            Ok(file) => file.close(),
            // Another thread is reading or writing: who is last closes it.
            Err(shared) => shared.commit(),
        });
        closed.map_err(|e| errors::of_file(py, &e))
    }
}
