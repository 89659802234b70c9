//! Python's way to the client: what `import weft` is built on.
//!
//! Classes and methods only: paths are bytes, times nanoseconds, buffers anything with Python's
//! buffer protocol. What makes files of Python out of them is Python (`python/weft`). While a call
//! waits for a server, other threads of Python run.
//!
//! **Invariants of absence.** No protocol and no policy: those are `weft-client`'s.

mod buffer;
mod client;
mod errors;
mod file;
mod shared;
mod stat;

use pyo3::prelude::*;

/// Runs handlers of signals that have come; whether one of them has raised something, as that of
/// Ctrl-C does. It is raised from the call that is given up for it.
fn is_interrupted() -> bool {
    let raised = Python::try_attach(|py| py.check_signals().map_err(|e| e.restore(py)).is_err());
    raised.unwrap_or(false)
}

/// The module `weft._weft`.
#[pymodule]
fn _weft(module: &Bound<'_, PyModule>) -> PyResult<()> {
    weft_client::blocking::give_up_when(is_interrupted);
    module.add("Error", module.py().get_type::<errors::Error>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<client::Client>()?;
    module.add_class::<file::File>()
}
