//! The runs of a volume: each time a metadata server opened it to serve it. All are kept, so that a
//! data server and a volume can find out what they have in common (ADR 9).

use std::ops::ControlFlow;

use crate::engine::KeyRange;
use crate::types::{Lsn, Run, StoreError};
use crate::volume::codec;
use crate::volume::handle::Volume;
use crate::volume::keys;
use crate::volume::run::VolumeRun;
use crate::volume::seen::Seen;
use crate::volume::tx::Tx;

impl Volume {
    /// Begins a run of this random id. Nothing may be done in its name before it is durable.
    pub fn begin_run(&self, id: [u8; 16]) -> Seen<Result<VolumeRun, StoreError>> {
        self.run(|tx| {
            let number = all(tx)?.last().map_or(0, |last| last.run.number) + 1;
            let (found_lsn, found_next) = (Lsn(tx.lsn().0 - 1), tx.next_inode_no().0);
            let begun = VolumeRun { run: Run { number, id }, found_lsn, found_next };
            tx.put(keys::run(number), codec::encode_run(&begun));
            Ok(begun)
        })
    }

    /// Every run, by number.
    pub fn runs(&self) -> Seen<Result<Vec<VolumeRun>, StoreError>> {
        self.run(all)
    }
}

fn all(tx: &mut Tx<'_>) -> Result<Vec<VolumeRun>, StoreError> {
    let mut found = Vec::new();
    let range = KeyRange { from: keys::RUNS, until: Some(keys::RUNS_END) };
    tx.scan(range, |key, value| {
        let number = keys::run_of(key).ok_or(StoreError::Corrupt("run"))?;
        found.push(codec::decode_run(number, value)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}
