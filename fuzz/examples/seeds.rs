//! Writes a corpus to begin with: one value or more of every type, as the wire tests have them.

#[allow(dead_code, reason = "the tests use what is not used here")]
#[path = "../../crates/weft-nfs/tests/wire/samples.rs"]
mod samples;

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in ["compound", "replies", "attributes", "callbacks"] {
        let dir = corpus.join(target);
        fs::create_dir_all(&dir)?;
        for (n, sample) in samples::all().iter().enumerate() {
            fs::write(dir.join(format!("sample-{n}")), &sample.wire)?;
        }
    }
    Ok(())
}
