//! How many messages of the control program were sent.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::codec::Procedure;

/// Procedures of the control program with numbers below this are counted.
const PROCEDURES: usize = 32;

/// Requests that a metadata server sent to the control program of one data server.
#[derive(Debug)]
pub struct ControlMessages([AtomicU64; PROCEDURES]);

impl Default for ControlMessages {
    fn default() -> Self {
        ControlMessages([const { AtomicU64::new(0) }; PROCEDURES])
    }
}

impl ControlMessages {
    /// Counts one request.
    pub fn sent(&self, procedure: Procedure) {
        if let Some(c) = self.0.get(procedure.0 as usize) {
            c.fetch_add(1, Relaxed);
        }
    }

    /// Requests so far, by procedure.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let counted = self.0.iter().enumerate().filter_map(|(i, c)| {
            let n = c.load(Relaxed);
            let procedure = Procedure(u32::try_from(i).ok()?);
            (n > 0).then(|| (procedure.to_string(), n))
        });
        counted.collect()
    }
}
