//! Who a server is: the cluster's secrets and the keys derived from them, the server's own uuid,
//! and what it tells clients about itself (design D4, D5; RFC 8881 §2.10.4, §18.35).

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use weft_io::durable;
use weft_nfs::{
    NfsTime, Opaque, exchgid,
    ops::{ImplId, ServerOwner},
};
use weft_state::Identity;

use crate::clock::random;

pub use weft_layout::{HandleKey, HandleKeys};

/// Fewest characters of a cluster secret: 32 hexadecimal digits are 128 bits.
const SECRET_CHARS_MIN: usize = 32;
/// Longest identity or secret file read; anything longer is not one of ours.
const FILE_BYTES_MAX: u64 = 4096;
/// Only the owner reads these files.
const PRIVATE_MODE: u32 = 0o600;
/// Name of the file with a server's uuid in its data directory.
const UUID_FILE: &str = "server-id";

/// Why a server does not know who it is.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read or made.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read the cluster secret.
    #[error(
        "{}: others may read the cluster secret (mode {mode:03o}): chmod 600 it",
        path.display()
    )]
    NotSecret {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file's contents cannot be what they should be.
    #[error("{}: {why}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
}

/// One secret that all servers of a cluster share, and nobody else knows. All keys are derived
/// from it; who a server is, is not.
#[derive(Clone, PartialEq, Eq)]
struct ClusterSecret([u8; 32]);

impl ClusterSecret {
    /// The secret in these words: any text that nobody can guess.
    fn from_text(text: &str) -> Result<Self, &'static str> {
        if text.len() < SECRET_CHARS_MIN {
            return Err("a cluster secret has at least 32 characters (openssl rand -hex 32)");
        }
        Ok(ClusterSecret(blake3::derive_key("weft cluster secret v1", text.as_bytes())))
    }

    fn handle_keys(&self) -> HandleKeys {
        HandleKeys::derive(&self.0)
    }

    fn control_key(&self) -> ControlKey {
        ControlKey(blake3::derive_key("weft control program v1", &self.0))
    }
}

/// The secrets of a cluster, as its file has them, one a line: the first is used, and the second,
/// if there is one, is accepted too. So a cluster that goes on working gets another one: it is
/// added as the second line everywhere, then made the first everywhere, then the old one is taken
/// out.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecrets {
    used: ClusterSecret,
    accepted: Option<ClusterSecret>,
}

impl std::fmt::Debug for ClusterSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterSecrets(..)")
    }
}

impl ClusterSecrets {
    /// The secrets in these lines. White space around them, empty lines and those that begin with
    /// `#` are ignored.
    ///
    /// # Errors
    /// None, more than two, twice the same, or one of fewer than 32 characters.
    pub fn from_text(text: &str) -> Result<Self, &'static str> {
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        let secrets: Vec<_> = lines.map(ClusterSecret::from_text).collect::<Result<_, _>>()?;
        match secrets.as_slice() {
            [] => Err("a cluster secret has at least 32 characters (openssl rand -hex 32)"),
            [used] => Ok(ClusterSecrets { used: used.clone(), accepted: None }),
            [used, accepted] if used == accepted => Err("both lines are the same secret"),
            [used, accepted] => {
                Ok(ClusterSecrets { used: used.clone(), accepted: Some(accepted.clone()) })
            }
            _ => Err("at most two secrets: the one that is used, and one that is accepted too"),
        }
    }

    /// Reads the secrets' file.
    ///
    /// # Errors
    /// [`IdentityError`]: unreadable, readable by group or world, or as [`Self::from_text`].
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        let mut file = File::open(path).map_err(at(path))?;
        let mode = file.metadata().map_err(at(path))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(IdentityError::NotSecret { path: path.into(), mode });
        }
        let text = text_of(&mut file, path)?;
        Self::from_text(&text).map_err(malformed(path))
    }

    /// Reads the secrets' file, or makes one that only the owner can read.
    ///
    /// # Errors
    /// As [`Self::load`], and what the disk says to a new file.
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        create_if_missing(path, &hex(&random::<32>()))?;
        Self::load(path)
    }

    fn all(&self) -> impl Iterator<Item = &ClusterSecret> {
        [&self.used].into_iter().chain(&self.accepted)
    }

    /// The keys that seal data-server filehandles (design D5).
    pub fn handle_keys(&self) -> HandleKeys {
        self.used.handle_keys()
    }

    /// The keys of all that are accepted, [`Self::handle_keys`] first.
    pub fn accepted_handle_keys(&self) -> Vec<HandleKeys> {
        self.all().map(ClusterSecret::handle_keys).collect()
    }

    /// The key of the control program's channels, for who calls.
    pub fn control_key(&self) -> ControlKey {
        self.used.control_key()
    }

    /// The keys of all that are accepted, [`Self::control_key`] first.
    pub fn accepted_control_keys(&self) -> Vec<ControlKey> {
        self.all().map(ClusterSecret::control_key).collect()
    }
}

/// Pre-shared key of the control program's channels.
#[derive(Clone, PartialEq, Eq)]
pub struct ControlKey([u8; 32]);

impl ControlKey {
    /// The key itself.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for ControlKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControlKey(..)")
    }
}

/// A server's own name: made once for its data directory, the same for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerUuid(pub [u8; 16]);

impl ServerUuid {
    /// Reads the uuid kept in a data directory, or makes one.
    ///
    /// # Errors
    /// [`IdentityError`]: the file cannot be read or made, or holds something else.
    pub fn load_or_create(dir: &Path) -> Result<Self, IdentityError> {
        let path = dir.join(UUID_FILE);
        create_if_missing(&path, &hex(&random::<16>()))?;
        let text = text_of(&mut File::open(&path).map_err(at(&path))?, &path)?;
        let damaged = "not 32 hexadecimal digits: put a copy of the file back, or remove it to be \
                       given a new one, which ends what clients have open";
        let uuid = unhex(text.trim()).ok_or(damaged);
        uuid.map(ServerUuid).map_err(malformed(&path))
    }
}

impl std::fmt::Display for ServerUuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// What a server process does, as far as its clients are concerned. One process may do several
/// things; each has a port, an identity and a client table of its own (design D4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerRole {
    /// Metadata server.
    Mds,
    /// Data server.
    Ds,
}

/// The identity announced to clients.
///
/// The major id differs for every client table, and the high half of client ids for every
/// process start: Linux merges servers that have both in common (`nfs41_walk_client_list`).
pub fn identity(role: ServerRole, server: ServerUuid) -> Identity {
    let (name, roles) = match role {
        ServerRole::Mds => ("mds", exchgid::USE_PNFS_MDS),
        ServerRole::Ds => ("ds", exchgid::USE_PNFS_DS),
    };
    Identity {
        server_owner: ServerOwner {
            minor_id: 0,
            major_id: opaque(format!("weft:{name}:{server}")),
        },
        scope: opaque(format!("weft:{server}")),
        roles,
        clientid_high: u32::from_be_bytes(random()),
        impl_id: Some(ImplId {
            domain: opaque("weft-fs.org".into()),
            name: opaque(format!("weft {}", env!("CARGO_PKG_VERSION"))),
            date: NfsTime { seconds: 0, nseconds: 0 },
        }),
    }
}

fn opaque(text: String) -> Opaque {
    Opaque(Bytes::from(text))
}

/// Makes a file that only the owner can read, with all its contents or not at all; one that is
/// there already stays. Durable either way.
fn create_if_missing(path: &Path, contents: &str) -> Result<(), IdentityError> {
    let line = format!("{contents}\n");
    durable::create_file(path, PRIVATE_MODE, line.as_bytes()).map_err(at(path))
}

fn text_of(file: &mut File, path: &Path) -> Result<String, IdentityError> {
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(at(path))?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(malformed(path)("too long"));
    }
    String::from_utf8(bytes).map_err(|_| malformed(path)("not a text: is it the right file?"))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> IdentityError {
    |source| IdentityError::File { path: path.into(), source }
}

fn malformed(path: &Path) -> impl FnOnce(&'static str) -> IdentityError {
    |why| IdentityError::Malformed { path: path.into(), why }
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
        write!(out, "{b:02x}").expect("a string takes everything");
        out
    })
}

/// The bytes of exactly so many hexadecimal digits.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = [0; N];
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A missing secret is made once, mode 0600, without leftovers, and read back the same.
    #[test]
    fn a_secret_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.secret");
        let made = ClusterSecrets::load_or_create(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ClusterSecrets::load_or_create(&path).unwrap(), made);
        assert_eq!(ClusterSecrets::load(&path).unwrap(), made);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }

    /// A secret that group or world may read is refused, as is one that is too short or missing.
    #[test]
    fn a_bad_secret_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert!(matches!(ClusterSecrets::load(&path), Err(IdentityError::File { .. })));
        std::fs::write(&path, format!("{}\n", "x".repeat(SECRET_CHARS_MIN))).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o666] {
            chmod(&path, mode);
            let e = ClusterSecrets::load(&path).unwrap_err();
            assert!(e.to_string().contains(&format!("mode {mode:03o}): chmod 600")), "{e}");
        }
        chmod(&path, 0o400);
        ClusterSecrets::load(&path).unwrap();
        chmod(&path, 0o600);
        let [a, b, c] = ["a", "b", "c"].map(|x| x.repeat(SECRET_CHARS_MIN));
        for text in [
            &a[1..],
            "",
            "# none\n\n",
            &"x".repeat(5000),
            &format!("{a}\n{a}"),
            &format!("{a}\n{b}\n{c}"),
            &format!("{a}\nshort"),
        ] {
            std::fs::write(&path, text).unwrap();
            let e = ClusterSecrets::load(&path).unwrap_err();
            assert!(matches!(e, IdentityError::Malformed { .. }), "{e}");
        }
    }

    /// Keys are stable for a secret, differ by purpose and by secret, and are never printed. Of
    /// two secrets the first is used and both are accepted.
    #[test]
    fn keys_are_derived() {
        let [a, b] = ["a", "b"].map(|x| x.repeat(SECRET_CHARS_MIN));
        let secrets = |text: &str| ClusterSecrets::from_text(text).unwrap();
        let (one, again, other) = (secrets(&a), secrets(&format!(" {a}\n")), secrets(&b));
        assert_eq!(one.control_key(), again.control_key());
        assert_ne!(one.control_key(), other.control_key());
        assert_ne!(one.control_key().0, one.used.0);
        let both = secrets(&format!("# since Monday\n{b}\n\n{a}\n"));
        assert_eq!(both.control_key(), other.control_key());
        assert_eq!(both.accepted_control_keys(), [other.control_key(), one.control_key()]);
        assert_eq!(both.accepted_handle_keys().len(), 2);
        let printed = format!("{both:?} {:?} {:?}", both.control_key(), both.handle_keys());
        assert!(!printed.chars().any(|c| c.is_ascii_digit()), "{printed}");
    }

    /// Each role and each server has a major id of its own, each server a scope, and the client
    /// ids of two starts differ.
    #[test]
    fn identities_are_distinct() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [a, b] = dirs.each_ref().map(|d| ServerUuid::load_or_create(d.path()).unwrap());
        assert_eq!(ServerUuid::load_or_create(dirs[0].path()).unwrap(), a);
        assert_ne!(a, b);
        let all = [
            identity(ServerRole::Mds, a),
            identity(ServerRole::Ds, a),
            identity(ServerRole::Ds, b),
            identity(ServerRole::Mds, a),
        ];
        let major = |i: usize| &all[i].server_owner.major_id;
        assert!(major(0) != major(1) && major(1) != major(2) && major(0) == major(3));
        assert!(all[0].scope == all[3].scope && all[1].scope != all[2].scope);
        assert_ne!(all[0].clientid_high, all[3].clientid_high);
        assert_eq!([all[0].roles, all[1].roles], [exchgid::USE_PNFS_MDS, exchgid::USE_PNFS_DS]);
    }

    /// A damaged uuid file is an error, never silently another identity.
    #[test]
    fn a_damaged_uuid_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "00", &"0".repeat(31), &"g".repeat(32), &"+1".repeat(16)] {
            std::fs::write(dir.path().join(UUID_FILE), text).unwrap();
            let e = ServerUuid::load_or_create(dir.path()).unwrap_err();
            assert!(matches!(e, IdentityError::Malformed { .. }), "{text:?}: {e}");
        }
    }
}
