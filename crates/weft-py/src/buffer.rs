//! Memory of Python's objects: bytearrays, memoryviews, arrays of NumPy.

use bytes::Bytes;
use pyo3::{
    buffer::PyBuffer,
    exceptions::{PyBufferError, PyValueError},
    prelude::*,
};

/// The bytes of an object, copied: a write may have to be repeated after the object has changed.
pub(crate) fn copied(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let buffer = Buffer::get(object)?;
    let mut bytes = vec![0; buffer.0.len_bytes()];
    buffer.0.copy_to_slice(py, &mut bytes)?;
    Ok(bytes.into())
}

/// An object whose memory stays where it is, and as long as it is, while this lives.
#[derive(Debug)]
pub(crate) struct Buffer(PyBuffer<u8>);

impl Buffer {
    fn get(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        // Whatever its items are, their bytes are meant.
        let bytes = object.py().import("builtins")?.getattr("memoryview")?.call1((object,))?;
        let bytes = if bytes.getattr("format")?.extract::<String>()? == "B"
            && bytes.getattr("ndim")?.extract::<usize>()? == 1
        {
            bytes
        } else if bytes.getattr("c_contiguous")?.extract()? {
            bytes.call_method1("cast", ("B",))?
        } else {
            return Err(PyBufferError::new_err("the buffer's bytes do not lie side by side"));
        };
        let buffer = PyBuffer::<u8>::get(&bytes)?;
        if buffer.is_c_contiguous() {
            Ok(Buffer(buffer))
        } else {
            Err(PyBufferError::new_err("the buffer's bytes do not lie side by side"))
        }
    }

    /// An object that may be written to.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        let buffer = Buffer::get(object)?;
        if buffer.0.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        }
        Ok(buffer)
    }

    fn start(&self) -> usize {
        self.0.buf_ptr().addr()
    }
}

/// The memory of several buffers that may be written to; none of them overlap.
pub(crate) fn memories(buffers: &mut [Buffer]) -> PyResult<Vec<&mut [u8]>> {
    let mut ranges: Vec<_> = buffers.iter().map(|b| (b.start(), b.0.len_bytes())).collect();
    ranges.sort_unstable();
    let overlap = |pair: &[(usize, usize)]| match pair {
        [(start, len), (next, next_len)] => *len > 0 && *next_len > 0 && start + len > *next,
        _ => false,
    };
    ranges.retain(|(_, len)| *len > 0);
    if ranges.windows(2).any(overlap) {
        return Err(PyValueError::new_err("two of the buffers overlap"));
    }
    Ok(buffers.iter_mut().map(memory).collect())
}

/// The memory of a buffer.
fn memory(buffer: &mut Buffer) -> &mut [u8] {
    let (start, len) = (buffer.0.buf_ptr().cast::<u8>(), buffer.0.len_bytes());
    if len == 0 {
        return &mut [];
    }
    // SAFETY: the buffer is writable, its bytes lie side by side and are initialized, as all memory
    // of Python's objects is, and they stay there while the `PyBuffer` lives, longer than this
    // borrow: an exported buffer is neither moved nor shortened. No other slice of ours is made of
    // it
    // (`memories` refuses overlaps, and borrows the buffers). Programs that touch the object from
    // another thread while a call reads into it race with it, as with `readinto` of any file: what
    // they see is undefined, as the package says.
    #[allow(unsafe_code, reason = "Python's buffers are pointers")]
    unsafe {
        std::slice::from_raw_parts_mut(start, len)
    }
}
