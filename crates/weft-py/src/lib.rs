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

/// The module `weft._weft`.
#[pymodule]
fn _weft(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<errors::Error>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<client::Client>()?;
    module.add_class::<file::File>()
}
