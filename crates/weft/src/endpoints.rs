//! Where the servers of a `weft up` directory are: kept in the directory, so that a restart uses
//! the same ports (clients remember them) and other commands find them.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// File in the directory.
const FILE: &str = "endpoints.json";

/// Addresses of a `weft up` that runs, or of its last run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// Where clients mount.
    pub mds: SocketAddr,
    /// HTTP for administrators.
    pub admin: SocketAddr,
    /// Data servers in order.
    pub data_servers: Vec<SocketAddr>,
    /// Path to mount.
    pub export: String,
    /// The directory that holds all data and this file.
    pub dir: PathBuf,
}

impl Endpoints {
    /// Reads the file of a directory; `None` if it has never been used.
    ///
    /// # Errors
    /// The file cannot be read, or is not ours.
    pub fn load(dir: &Path) -> io::Result<Option<Endpoints>> {
        match fs::read(dir.join(FILE)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn store(&self) -> io::Result<()> {
        let new = self.dir.join(format!("{FILE}.new"));
        fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        fs::rename(new, self.dir.join(FILE))
    }
}
