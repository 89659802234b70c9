//! The token of the admin service's TCP port: who has it may do all.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use weft_io::durable;
use weft_server::{clock::random, identity::hex};

/// Fewest characters of a token: 32 hexadecimal digits are 128 bits.
const TOKEN_CHARS_MIN: usize = 32;
/// Longest token file that is read; anything longer is none.
const FILE_BYTES_MAX: u64 = 4096;
/// Only the owner reads the file.
const PRIVATE_MODE: u32 = 0o600;
/// How the token is sent (RFC 6750 §2.1).
const SCHEME: &str = "Bearer ";

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or made.
    #[error(
        "{}: {source} (a token is made by: (umask 077; openssl rand -hex 32 > FILE))",
        path.display()
    )]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read it.
    #[error("{}: others may read the token (mode {mode:03o}): chmod 600 it", path.display())]
    NotSecret {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It holds no token.
    #[error(
        "{}: no token: one line of at least 32 letters and digits (openssl rand -hex 32)",
        path.display()
    )]
    Malformed {
        /// Which file.
        path: PathBuf,
    },
}

/// What callers over TCP send with each request.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(String);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(..)")
    }
}

impl AdminToken {
    /// Reads the file, white space around the token ignored.
    ///
    /// # Errors
    /// [`TokenError`]: unreadable, readable by group or world, or no token.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let at = |source| TokenError::File { path: path.into(), source };
        let file = File::open(path).map_err(at)?;
        let mode = file.metadata().map_err(at)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenError::NotSecret { path: path.into(), mode });
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(at)?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        Self::from_text(&text).ok_or(TokenError::Malformed { path: path.into() })
    }

    /// Reads the file, or makes one that only the owner can read.
    ///
    /// # Errors
    /// As [`Self::load`], and what the disk says to a new file.
    pub fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        let line = format!("{}\n", hex(&random::<32>()));
        durable::create_file(path, PRIVATE_MODE, line.as_bytes())
            .map_err(|source| TokenError::File { path: path.into(), source })?;
        Self::load(path)
    }

    fn from_text(text: &str) -> Option<Self> {
        let token = text.trim();
        let plain = token.bytes().all(|b| b.is_ascii_graphic());
        (plain && token.len() >= TOKEN_CHARS_MIN).then(|| AdminToken(token.to_owned()))
    }

    /// The `Authorization` header that shows it.
    pub fn header(&self) -> String {
        format!("{SCHEME}{}", self.0)
    }

    /// Whether an `Authorization` header shows it; takes the same time for every wrong one.
    pub fn accepts(&self, header: &[u8]) -> bool {
        let (scheme, given) = header.split_at(header.len().min(SCHEME.len()));
        scheme.eq_ignore_ascii_case(SCHEME.as_bytes())
            && blake3::hash(given) == blake3::hash(self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that are no tokens, or no secret ones, say so.
    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let why = || AdminToken::load(&path).unwrap_err().to_string();
        assert!(why().contains("openssl rand -hex 32 > FILE"), "{}", why());
        let made = AdminToken::load_or_create(&path).unwrap();
        assert_eq!(AdminToken::load_or_create(&path).unwrap(), made);
        assert_eq!(format!("{made:?}"), "AdminToken(..)");
        for text in ["", "0123456789abcdef0123456789abcde", &"x y".repeat(40), &"é".repeat(40)] {
            std::fs::write(&path, text).unwrap();
            assert!(why().contains("no token"), "{}", why());
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(why().ends_with("others may read the token (mode 640): chmod 600 it"), "{}", why());
    }

    /// One header is right; the scheme's case does not matter (RFC 9110 §11.1).
    #[test]
    fn headers() {
        let token = AdminToken::from_text(" 0123456789abcdef0123456789abcdef\n").unwrap();
        assert!(token.accepts(token.header().as_bytes()));
        for (header, right) in [
            ("bearer 0123456789abcdef0123456789abcdef", true),
            ("Bearer 0123456789abcdef0123456789abcdeF", false),
            ("Bearer 0123456789abcdef0123456789abcdef ", false),
            ("Basic 0123456789abcdef0123456789abcdef", false),
            ("0123456789abcdef0123456789abcdef", false),
            ("Bearer ", false),
            ("Bear", false),
            ("", false),
        ] {
            assert_eq!(token.accepts(header.as_bytes()), right, "{header}");
        }
    }
}
