//! Where the servers of a `weft up` directory are: kept in the directory, so that a restart uses
//! the same ports (clients remember them) and other commands find them.

use std::{
    fs,
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use weft_io::durable;

/// File in the directory.
const FILE: &str = "endpoints.json";
/// Its permission bits: commands of other users read it.
const MODE: u32 = 0o644;
/// What the directory of a data server begins with; its number follows.
const DATA_SERVER: &str = "ds-";
/// A file that a data server's directory has from its first start on.
const DATA_SERVER_FILE: &str = "identity";

/// Why the endpoints of a directory are not known.
#[derive(Debug, thiserror::Error)]
pub enum EndpointsError {
    /// The file or the directory cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is damaged.
    #[error(
        "{}: not what `weft up` writes ({source}). It only remembers ports: remove it, and \
         `weft up` makes it anew (data servers get other ports; no file is touched)",
        path.display()
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// Addresses of a `weft up` that runs, or of its last run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// Where clients mount.
    pub mds: SocketAddr,
    /// HTTP for administrators: a Unix socket.
    pub admin: PathBuf,
    /// And a TCP address, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_tcp: Option<SocketAddr>,
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
    /// [`EndpointsError`].
    pub fn load(dir: &Path) -> Result<Option<Endpoints>, EndpointsError> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(endpoints) => Ok(Some(endpoints)),
                Err(source) => Err(EndpointsError::Damaged { path, source }),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(EndpointsError::Unreadable { path, source }),
        }
    }

    /// Writes the file, whole or not at all, and durably.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn store(&self) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        durable::replace_file(&self.dir.join(FILE), MODE, |file| file.write_all(&text)).map(drop)
    }
}

/// Directory of a data server of a `weft up`.
pub fn data_server_dir(dir: &Path, id: u32) -> PathBuf {
    dir.join(format!("{DATA_SERVER}{id}"))
}

/// How many data servers a directory has, by the directories of those that have ever started.
///
/// # Errors
/// The directory cannot be read.
pub fn data_servers_in(dir: &Path) -> Result<u32, EndpointsError> {
    let failed = |source| EndpointsError::Unreadable { path: dir.to_owned(), source };
    let mut highest = 0;
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(DATA_SERVER)?.parse().ok());
        if let Some(id) = number
            && data_server_dir(dir, id).join(DATA_SERVER_FILE).exists()
        {
            highest = highest.max(id);
        }
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file cut anywhere is an error that names it and says what to do; it is never taken for
    /// other endpoints.
    #[test]
    fn a_damaged_file_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Endpoints::load(dir.path()).unwrap(), None);
        let endpoints = Endpoints {
            mds: ([0, 0, 0, 0], 2049).into(),
            admin: "/srv/weft/admin.sock".into(),
            admin_tcp: Some(([127, 0, 0, 1], 4000).into()),
            data_servers: vec![([0, 0, 0, 0], 4001).into()],
            export: "/".into(),
            dir: dir.path().to_owned(),
        };
        endpoints.store().unwrap();
        assert_eq!(Endpoints::load(dir.path()).unwrap(), Some(endpoints));
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let said = Endpoints::load(dir.path()).unwrap_err().to_string();
            assert!(said.starts_with(path.to_str().unwrap()), "{said}");
            assert!(said.contains("remove it, and `weft up` makes it anew"), "{said}");
        }
    }

    /// Data servers are counted by directories that have an identity: the highest number, whatever
    /// else is there.
    #[test]
    fn data_servers_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(data_servers_in(dir.path()).unwrap(), 0);
        for id in [1, 2, 11] {
            let of = data_server_dir(dir.path(), id);
            fs::create_dir(&of).unwrap();
            fs::write(of.join(DATA_SERVER_FILE), b"").unwrap();
        }
        fs::create_dir(data_server_dir(dir.path(), 12)).unwrap();
        fs::create_dir(dir.path().join("ds-x")).unwrap();
        assert_eq!(data_servers_in(dir.path()).unwrap(), 11);
    }
}
