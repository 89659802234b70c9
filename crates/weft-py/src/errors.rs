//! Failures as Python has them: its own for what a local file would say, ours for the rest.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use pyo3::{
    create_exception,
    exceptions::{PyKeyboardInterrupt, PyOSError},
    prelude::*,
    types::PyString,
};
use weft_client::{ClientError, fs::FsError};

create_exception!(weft, Error, PyOSError, "A failure that Python has no exception of its own for.");

/// Raises a failure of a file.
pub(crate) fn of_file(py: Python<'_>, e: &FsError) -> PyErr {
    raise(py, &e.error, Some(&e.path))
}

/// Raises a failure of a client.
pub(crate) fn of_client(py: Python<'_>, e: &ClientError) -> PyErr {
    raise(py, e, None)
}

/// The exception of Python for the `errno`, if it has one, else ours; both with the path.
fn raise(py: Python<'_>, e: &ClientError, path: Option<&Path>) -> PyErr {
    if matches!(e, ClientError::Interrupted) {
        // What a signal's handler has raised waits for us.
        return PyErr::take(py).unwrap_or_else(|| PyKeyboardInterrupt::new_err(()));
    }
    let (errno, words) = (e.errno(), e.to_string());
    let made = || -> PyResult<PyErr> {
        let path = path.map(|path| path_of(py, path)).transpose()?;
        let args = (errno, words.clone(), path);
        // OSError makes itself the class that fits the number.
        let general = py.get_type::<PyOSError>();
        let raised = general.call1(args.clone())?;
        if raised.get_type().is(&general) {
            return Ok(PyErr::from_value(py.get_type::<Error>().call1(args)?));
        }
        Ok(PyErr::from_value(raised))
    };
    made().unwrap_or_else(|e| e)
}

/// A path as Python's `os` functions have it.
pub(crate) fn path_of<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyString>> {
    path.as_os_str().into_pyobject(py).map_err(Into::into)
}

/// A path out of bytes.
pub(crate) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// All results; or the first failure, which says which item it was of.
pub(crate) fn all<T>(
    py: Python<'_>,
    results: Result<Vec<Result<T, FsError>>, ClientError>,
) -> PyResult<Vec<T>> {
    let results = results.map_err(|e| of_client(py, &e))?;
    let of_item = |(index, result): (usize, Result<T, FsError>)| {
        result.map_err(|e| {
            let raised = of_file(py, &e);
            let note = format!("item {index} of the request");
            // What cannot take a note is raised without.
            let _ = raised.value(py).call_method1("add_note", (note,));
            let _ = raised.value(py).setattr("item", index);
            raised
        })
    };
    results.into_iter().enumerate().map(of_item).collect()
}
