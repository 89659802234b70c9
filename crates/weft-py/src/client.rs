//! Clients: what is asked by path.

use std::{path::PathBuf, sync::Arc};

use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};
use weft_client::{
    fs::{Attrs, OpenOptions, Reading, SetTime, Writing},
    io::MemoryRegion,
    url::Url,
};

use crate::{
    buffer::{self, Buffer},
    errors,
    file::{File, Name},
    shared::Shared,
    stat::{self, Stat},
};

/// A client of a cluster, which connects again by itself in a child of `fork`.
#[pyclass(frozen, module = "weft._weft")]
pub(crate) struct Client(Arc<Shared>);

/// A name and its attributes; none where the server could not tell them: who asks for them, one by
/// one, hears why.
type Entry = (Py<PyBytes>, Option<Stat>);

#[pymethods]
impl Client {
    /// Connects; options are those of URLs, and take their place.
    #[new]
    fn new(py: Python<'_>, url: &str, options: Vec<(String, String)>) -> PyResult<Client> {
        let wrong = |e: weft_client::url::UrlError| PyValueError::new_err(e.to_string());
        let mut url: Url = url.parse().map_err(wrong)?;
        for (name, value) in options {
            url.options.replace(&name, &value).map_err(wrong)?;
        }
        Ok(Client(Arc::new(Shared::connect(py, url)?)))
    }

    /// Its URL, with all options.
    #[getter]
    fn url(&self) -> String {
        self.0.url().to_string()
    }

    /// The path of its URL.
    #[getter]
    fn root(&self) -> PathBuf {
        self.0.url().path.clone()
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Says goodbye to the servers, if nobody else uses the connection now.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }

    /// Opens a file: to read, to write; the mode of a new one, if one may be made; whether it must
    /// be new, or is emptied.
    fn open(
        &self,
        py: Python<'_>,
        path: &[u8],
        access: (bool, bool),
        create: Option<u32>,
        how: (bool, bool),
    ) -> PyResult<File> {
        let ((read, write), (exclusive, truncate)) = (access, how);
        let options =
            OpenOptions { read, write, create, exclusive, truncate, ..OpenOptions::default() };
        let what = Name { path: errors::path(path).to_path_buf(), options, layout: None };
        File::open(py, self.0.clone(), what)
    }

    /// Opens a file for reading by a layout that was exported.
    fn open_with_layout(
        &self,
        py: Python<'_>,
        path: &[u8],
        layout: &Bound<'_, PyAny>,
    ) -> PyResult<File> {
        let layout = Some(buffer::copied(py, layout)?);
        let path = errors::path(path).to_path_buf();
        File::open(py, self.0.clone(), Name { path, options: OpenOptions::read(), layout })
    }

    fn stat(&self, py: Python<'_>, path: &[u8], follow: bool) -> PyResult<Stat> {
        let path = errors::path(path);
        let attrs = self.0.run(py, |c| match follow {
            true => c.stat_followed(path),
            false => c.stat(path),
        });
        attrs.map(|a| Stat::of(&a))
    }

    /// A directory's names with their attributes, all of them.
    fn list(&self, py: Python<'_>, path: &[u8]) -> PyResult<Vec<Entry>> {
        let path = errors::path(path);
        let entries = self.0.run(py, |c| c.read_dir(path)?.collect::<Result<Vec<_>, _>>())?;
        let entry = |e: &weft_client::fs::DirEntry| {
            let stat = e.attrs.rdattr_error.is_none().then(|| Stat::of(&e.attrs));
            (PyBytes::new(py, &e.name.0).unbind(), stat)
        };
        Ok(entries.iter().map(entry).collect())
    }

    fn mkdir(&self, py: Python<'_>, path: &[u8], mode: u32) -> PyResult<()> {
        self.0.run(py, |c| c.mkdir(errors::path(path), mode))
    }

    fn mkdir_all(&self, py: Python<'_>, path: &[u8], mode: u32) -> PyResult<()> {
        self.0.run(py, |c| c.mkdir_all(errors::path(path), mode))
    }

    fn remove(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.0.run(py, |c| c.remove(errors::path(path)))
    }

    fn rename(&self, py: Python<'_>, from: &[u8], to: &[u8]) -> PyResult<()> {
        self.0.run(py, |c| c.rename(errors::path(from), errors::path(to)))
    }

    fn symlink(&self, py: Python<'_>, target: &[u8], path: &[u8]) -> PyResult<()> {
        self.0.run(py, |c| c.symlink(errors::path(target), errors::path(path)))
    }

    fn readlink(&self, py: Python<'_>, path: &[u8]) -> PyResult<PathBuf> {
        self.0.run(py, |c| c.readlink(errors::path(path)))
    }

    fn truncate(&self, py: Python<'_>, path: &[u8], size: u64) -> PyResult<()> {
        let attrs = Attrs { size: Some(size), ..Attrs::default() };
        self.0.run(py, |c| c.set_attrs(errors::path(path), attrs))
    }

    fn chmod(&self, py: Python<'_>, path: &[u8], mode: u32) -> PyResult<()> {
        let attrs = Attrs { mode: Some(mode), ..Attrs::default() };
        self.0.run(py, |c| c.set_attrs(errors::path(path), attrs))
    }

    /// Access and modification, in nanoseconds; without them the server's clock.
    fn utime(&self, py: Python<'_>, path: &[u8], times: Option<(i64, i64)>) -> PyResult<()> {
        let set = |ns: i64| Some(SetTime::ToClient(stat::time(ns)));
        let (time_access_set, time_modify_set) = match times {
            Some((access, modify)) => (set(access), set(modify)),
            None => (Some(SetTime::ToServer), Some(SetTime::ToServer)),
        };
        let attrs = Attrs { time_access_set, time_modify_set, ..Attrs::default() };
        self.0.run(py, |c| c.set_attrs(errors::path(path), attrs))
    }

    /// A whole file.
    fn read_bytes(&self, py: Python<'_>, path: &[u8]) -> PyResult<Py<PyBytes>> {
        let read = self.0.run(py, |c| c.read_file(errors::path(path), usize::MAX))?;
        Ok(PyBytes::new(py, &read).unbind())
    }

    /// Makes or replaces a file.
    fn write_bytes(
        &self,
        py: Python<'_>,
        path: &[u8],
        mode: u32,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let data = buffer::copied(py, data)?;
        self.0.run(py, |c| c.write_file(errors::path(path), mode, data))
    }

    /// Fills buffers from paths and offsets; returns how many bytes each got.
    fn read_many(
        &self,
        py: Python<'_>,
        items: Vec<(Vec<u8>, u64, Bound<'_, PyAny>)>,
    ) -> PyResult<Vec<usize>> {
        let client = self.0.client(py)?;
        let buffers: PyResult<Vec<_>> = items.iter().map(|i| Buffer::writable(&i.2)).collect();
        let (mut buffers, places) = (buffers?, places(items));
        let memories = buffer::memories(&mut buffers)?;
        let read = py.detach(|| {
            MemoryRegion::lend(memories, |lent| {
                let reading = |((path, offset), memory): ((PathBuf, u64), &Arc<MemoryRegion>)| {
                    Reading { path, offset, memory: memory.clone() }
                };
                let readings = places.into_iter().zip(lent).map(reading).collect();
                client.wait(|c| c.read_many(readings))
            })
        });
        errors::all(py, read)
    }

    /// Writes buffers to paths and offsets, durably.
    fn write_many(
        &self,
        py: Python<'_>,
        items: Vec<(Vec<u8>, u64, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let client = self.0.client(py)?;
        let data: PyResult<Vec<_>> = items.iter().map(|i| buffer::copied(py, &i.2)).collect();
        let writing = |((path, offset), data)| Writing { path, offset, data };
        let writings = places(items).into_iter().zip(data?).map(writing).collect();
        let written = py.detach(|| client.wait(|c| c.write_many(writings)));
        errors::all(py, written).map(drop)
    }
}

/// Paths and offsets of items.
fn places(items: Vec<(Vec<u8>, u64, Bound<'_, PyAny>)>) -> Vec<(PathBuf, u64)> {
    items.into_iter().map(|(path, offset, _)| (errors::path(&path).into(), offset)).collect()
}
