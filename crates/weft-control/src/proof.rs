//! Proofs of knowing the cluster secret: keyed BLAKE3 of both nonces, one label for each side.

use weft_server::identity::ControlKey;

/// What both sides have said in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transcript {
    /// Who calls.
    pub caller: [u8; 16],
    /// The caller's nonce.
    pub caller_nonce: [u8; 32],
    /// The data server's nonce.
    pub server_nonce: [u8; 32],
}

/// Whose proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The metadata server.
    Caller,
    /// The data server.
    Server,
}

impl Transcript {
    /// The proof of one side.
    pub fn proof(&self, key: &ControlKey, side: Side) -> [u8; 32] {
        *self.hash(key, side).as_bytes()
    }

    /// Whether a proof is right, in constant time.
    pub fn is_proof(&self, key: &ControlKey, side: Side, proof: [u8; 32]) -> bool {
        self.hash(key, side) == blake3::Hash::from_bytes(proof)
    }

    fn hash(&self, key: &ControlKey, side: Side) -> blake3::Hash {
        // Of equal length, and all that follows has a fixed one: no two transcripts run together.
        let label = match side {
            Side::Caller => b"weft control caller v1",
            Side::Server => b"weft control server v1",
        };
        let mut hash = blake3::Hasher::new_keyed(key.bytes());
        hash.update(label);
        hash.update(&self.caller).update(&self.caller_nonce).update(&self.server_nonce);
        hash.finalize()
    }
}

#[cfg(test)]
mod tests {
    use weft_server::identity::ClusterSecret;

    use super::*;

    fn key_of(name: &str) -> ControlKey {
        let secret = format!("a secret of {name} cluster, only for tests");
        ClusterSecret::from_text(&secret).unwrap().control_key()
    }

    /// A proof holds for its own side, key and transcript, and for nothing else.
    #[test]
    fn proofs_are_bound() {
        let (key, other) = (key_of("a"), key_of("another"));
        let said = Transcript { caller: [3; 16], caller_nonce: [4; 32], server_nonce: [5; 32] };
        let proof = said.proof(&key, Side::Caller);
        assert!(said.is_proof(&key, Side::Caller, proof));
        assert!(!said.is_proof(&key, Side::Server, proof), "no reflection");
        assert!(!said.is_proof(&other, Side::Caller, proof));
        for changed in [
            Transcript { caller: [9; 16], ..said },
            Transcript { caller_nonce: [9; 32], ..said },
            Transcript { server_nonce: [9; 32], ..said },
        ] {
            assert!(!changed.is_proof(&key, Side::Caller, proof));
        }
    }
}
