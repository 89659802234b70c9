//! What client and data server of one host say to each other over a Unix socket (ADR 32): who
//! presents a filehandle has a descriptor of the object, to read it.
//!
//! The client begins with [`GREETING`]; the server answers the same, the length of its server owner
//! and the owner. Then each request is the length of a filehandle and the filehandle, each answer a
//! status, with a descriptor beside it if that is OK. Numbers have 32 bits and are big-endian.

/// What both begin with. No NFS connection does: that would be a record of 2 GB.
pub const GREETING: [u8; 8] = *b"weftloc1";

/// Longest server owner, bytes: NFS4_OPAQUE_LIMIT (RFC 8881 §3.2).
pub const OWNER_BYTES_MAX: usize = 1024;

/// Longest filehandle, bytes: NFS4_FHSIZE (RFC 8881 §3.2).
pub const FILEHANDLE_BYTES_MAX: usize = 128;

/// What the server owners of our data servers begin with.
const OF_DATA_SERVERS: &str = "weft:ds:";

/// The name of a data server's socket in the directory of sockets, by the major id of its server
/// owner; none for an owner that is none of our data servers'.
pub fn socket_name(owner: &[u8]) -> Option<String> {
    let uuid = std::str::from_utf8(owner).ok()?.strip_prefix(OF_DATA_SERVERS)?;
    let is_name = (1..=64).contains(&uuid.len())
        && uuid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_name.then(|| format!("ds-{uuid}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket is named by its data server; nothing that an owner says leads out of the directory.
    #[test]
    fn sockets_are_named_by_their_servers() {
        let name = |owner: &str| socket_name(owner.as_bytes());
        assert_eq!(name("weft:ds:00ff-1").as_deref(), Some("ds-00ff-1.sock"));
        let long = format!("weft:ds:{}", "a".repeat(65));
        for other in ["", "weft:ds:", "weft:mds:00ff", "weft:ds:../x", "weft:ds:a.b", &long] {
            assert_eq!(name(other), None, "{other}");
        }
        assert_eq!(socket_name(b"weft:ds:\xff"), None);
    }
}
