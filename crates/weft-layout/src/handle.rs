//! The filehandle of a data server: proof, by itself, of what its bearer may do (design D5).

use weft_stripe::{Distribution, Form};

/// Length of a sealed filehandle: as short as a wide layout needs (design D3).
pub const HANDLE_BYTES: usize = 36;

/// The part of a handle that its MAC covers.
const SEALED_BYTES: usize = 28;

/// The form below; a handle of another form is not ours.
const VERSION: u8 = 3;

/// Bytes in a unit of the handle's stripe-unit field.
const UNIT_STEP_BYTES: u64 = 1 << 20;

/// Binds derived keys to this use. Changing it invalidates every handle.
const KEY_CONTEXT: &str = "weft 2026-11 data-server filehandle v3";

/// What the keys of all data servers of a cluster follow from.
#[derive(Clone)]
pub struct HandleKeys([u8; 32]);

impl HandleKeys {
    /// Those that follow from the cluster's secret.
    pub fn derive(cluster_secret: &[u8]) -> Self {
        HandleKeys(blake3::derive_key(KEY_CONTEXT, cluster_secret))
    }

    /// The key of one data server, by its number and the uuid of its directory.
    pub fn of(&self, data_server: u32, uuid: [u8; 16]) -> HandleKey {
        let mut whose = [0; 20];
        let (number, dir) = whose.split_at_mut(4);
        number.copy_from_slice(&data_server.to_be_bytes());
        dir.copy_from_slice(&uuid);
        HandleKey(*blake3::keyed_hash(&self.0, &whose).as_bytes())
    }
}

impl std::fmt::Debug for HandleKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandleKeys(secret)")
    }
}

/// The key that seals the handles of one data server: it has it, and the metadata servers have.
/// What is sealed for one data server, or for one directory of it, is forged to all others.
#[derive(Clone)]
pub struct HandleKey([u8; 32]);

impl HandleKey {
    fn mac(&self, sealed: &[u8; SEALED_BYTES]) -> u64 {
        let hash = blake3::keyed_hash(&self.0, sealed);
        let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandleKey(secret)")
    }
}

/// What a handle allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rights {
    /// Whether READ is allowed.
    pub read: bool,
    /// WRITE and COMMIT.
    pub write: bool,
}

impl Rights {
    /// Of a read layout.
    pub const READ: Rights = Rights { read: true, write: false };
    /// Of a read-write layout whose holder may not read.
    pub const WRITE: Rights = Rights { read: false, write: true };
    /// Of a read-write layout.
    pub const READ_WRITE: Rights = Rights { read: true, write: true };
}

/// What an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// To read.
    Read,
    /// To write.
    Write,
}

/// A filehandle that is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// Not of our form: another length or version, or parameters that describe no stripe.
    #[error("not a data-server filehandle")]
    Malformed,
    /// Of our form, but not sealed with our key: forged, or made for another data server.
    #[error("filehandle is not sealed for this data server")]
    Forged,
}

/// Why a handle does not admit an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// The handle has not the right for it.
    #[error("the filehandle does not grant this access")]
    Rights,
    /// Some byte of the range belongs to another slot: misrouted I/O, never stored silently.
    #[error("the range is not this data server's")]
    NotOurs,
}

/// Which units of the file an object holds: those whose number modulo the stripe count is one of
/// these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slots {
    /// This one.
    One(u16),
    /// Those whose bits are set: a cyclic list names the data server more than once.
    Several(u16),
}

impl Slots {
    /// The first of them; 0 if there is none.
    pub fn first(self) -> u16 {
        match self {
            Slots::One(slot) => slot,
            Slots::Several(0) => 0,
            // Below 16.
            Slots::Several(slots) => slots.trailing_zeros() as u16,
        }
    }
}

/// Makes the write verifier of a file of that of one of its data servers (ADR 43). Both are folded
/// to 32 bits: a loss on a data server is overlooked once in 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VerifierMask(u32);

impl VerifierMask {
    /// For a data server with this verifier.
    pub fn between(file: [u8; 8], data_server: [u8; 8]) -> Self {
        VerifierMask(folded(file) ^ folded(data_server))
    }

    /// The verifier of the file, as long as that of the data server is what the mask was made for.
    pub fn apply(self, data_server: [u8; 8]) -> [u8; 8] {
        file_verifier(folded(data_server) ^ self.0)
    }
}

/// A verifier of a file, which has 32 bits.
pub fn file_verifier(bits: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&bits.to_be_bytes());
    out
}

fn folded(verifier: [u8; 8]) -> u32 {
    let all = u64::from_be_bytes(verifier);
    // Its two halves, which are 32 bits each.
    (all >> 32) as u32 ^ all as u32
}

/// The data-server filehandle. On the wire exactly 36 bytes, big-endian:
///
/// | bytes | field |
/// | --- | --- |
/// | 0 | version, 3 |
/// | 1 | rights: bit 0 read, 1 write, 2 make; bit 3 ends, 4 several slots, 5 masked; others 0 |
/// | 2..4 | slot, or a bit for each slot |
/// | 4..8 | volume |
/// | 8..16 | object |
/// | 16..20 | fence epoch |
/// | 20..22 | stripe count |
/// | 22..24 | stripe unit, in MiB |
/// | 24..28 | the mask of its write verifier; 0 if it has none |
/// | 28..36 | the first 8 bytes of the keyed BLAKE3 of bytes 0..28 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataServerHandle {
    /// What the bearer may do.
    pub rights: Rights,
    /// Whether a write may make the object. Without, the data server asks the metadata server
    /// before it makes it (ADR 21).
    pub makes: bool,
    /// Whether the file ends where the object does: READ says `eof` there (ADR 31). Without, only
    /// the metadata server knows what is behind the object.
    pub ends: bool,
    /// Which units this object holds.
    pub slots: Slots,
    /// The volume's number.
    pub volume: u32,
    /// The object: the file's inode number.
    pub object: u64,
    /// Refused once the object is fenced at a later epoch.
    pub epoch: u32,
    /// Number of slots, at least 1; at most 16 if the object has several.
    pub stripe_count: u16,
    /// Stripe unit in MiB, at least 1.
    pub stripe_unit_mib: u16,
    /// Makes all data servers of a file tell one write verifier, which COMMIT at the metadata
    /// server tells too (ADR 43). Without, the data server tells its own.
    pub verifier_mask: Option<VerifierMask>,
}

impl DataServerHandle {
    /// The filehandle, sealed.
    pub fn seal(&self, key: &HandleKey) -> [u8; HANDLE_BYTES] {
        let mut out = [0; HANDLE_BYTES];
        let sealed = self.to_bytes();
        out[..SEALED_BYTES].copy_from_slice(&sealed);
        out[SEALED_BYTES..].copy_from_slice(&key.mac(&sealed).to_be_bytes());
        out
    }

    /// Opens a filehandle that a client presented.
    ///
    /// # Errors
    /// [`HandleError`]. The MAC is compared in constant time.
    pub fn open(key: &HandleKey, filehandle: &[u8]) -> Result<Self, HandleError> {
        let whole: &[u8; HANDLE_BYTES] =
            filehandle.try_into().map_err(|_| HandleError::Malformed)?;
        let (sealed, mac) =
            whole.split_first_chunk::<SEALED_BYTES>().ok_or(HandleError::Malformed)?;
        let mac = mac.try_into().map(u64::from_be_bytes).map_err(|_| HandleError::Malformed)?;
        if sealed[0] != VERSION {
            return Err(HandleError::Malformed);
        }
        // One comparison of two registers: its time tells nothing about the bytes.
        if key.mac(sealed) != mac {
            return Err(HandleError::Forged);
        }
        Self::from_bytes(sealed).ok_or(HandleError::Malformed)
    }

    /// Whether an operation on this range of the file may go on here. An empty range needs
    /// only the right (COMMIT of a whole file is asked as one).
    ///
    /// # Errors
    /// [`NotAdmitted`].
    pub fn admits(&self, offset: u64, len: u64, access: Access) -> Result<(), NotAdmitted> {
        let granted = match access {
            Access::Read => self.rights.read,
            Access::Write => self.rights.write,
        };
        if !granted {
            return Err(NotAdmitted::Rights);
        }
        let ours = self.distribution().is_some_and(|(rule, index)| rule.serves(index, offset, len));
        if ours { Ok(()) } else { Err(NotAdmitted::NotOurs) }
    }

    /// The range before a unit that a write begins and does not fill, up to the object's unit
    /// before: it is of other slots, so that the object never has bytes there. `None` for other
    /// writes.
    pub fn others_before(&self, offset: u64, len: u64) -> Option<(u64, u64)> {
        let unit = u64::from(self.stripe_unit_mib) * UNIT_STEP_BYTES;
        let begins = offset > 0 && offset.is_multiple_of(unit) && len < unit;
        let others = match self.slots {
            Slots::One(_) => u64::from(self.stripe_count).saturating_sub(1),
            Slots::Several(_) => {
                let (rule, index) = self.distribution()?;
                let is_other = |n: &u64| {
                    let before = offset.checked_sub(n * unit);
                    before.is_some_and(|at| rule.locate(at).stripe_index != index)
                };
                (1..u64::from(self.stripe_count)).take_while(is_other).count() as u64
            }
        };
        (begins && others > 0).then(|| (offset.saturating_sub(others * unit), offset))
    }

    /// The file's distribution in terms of slots, and the index of this object in it; `None` for
    /// fields that make no sense, which no opened handle has.
    pub fn distribution(&self) -> Option<(Distribution, u32)> {
        let (unit, count) = (u64::from(self.stripe_unit_mib) * UNIT_STEP_BYTES, self.stripe_count);
        match self.slots {
            Slots::One(slot) => {
                let rule = Distribution::round_robin(unit, count.into(), 0, Form::Sparse).ok()?;
                Some((rule, slot.into()))
            }
            Slots::Several(slots) => {
                let rule = Distribution::of_turns(unit, count, slots).ok()?;
                Some((rule, Distribution::OF_TURNS))
            }
        }
    }

    /// The verifier that a data server with this one tells whoever writes with the handle.
    pub fn shown_verifier(&self, own: [u8; 8]) -> [u8; 8] {
        self.verifier_mask.map_or(own, |mask| mask.apply(own))
    }

    fn to_bytes(self) -> [u8; SEALED_BYTES] {
        let mut out = [0; SEALED_BYTES];
        out[0] = VERSION;
        let Rights { read, write } = self.rights;
        out[1] = u8::from(read) | u8::from(write) << 1 | u8::from(self.makes) << 2;
        out[1] |= u8::from(self.ends) << 3;
        let (slots, several) = match self.slots {
            Slots::One(slot) => (slot, false),
            Slots::Several(slots) => (slots, true),
        };
        out[1] |= u8::from(several) << 4;
        out[2..4].copy_from_slice(&slots.to_be_bytes());
        out[4..8].copy_from_slice(&self.volume.to_be_bytes());
        out[8..16].copy_from_slice(&self.object.to_be_bytes());
        out[16..20].copy_from_slice(&self.epoch.to_be_bytes());
        out[20..22].copy_from_slice(&self.stripe_count.to_be_bytes());
        out[22..24].copy_from_slice(&self.stripe_unit_mib.to_be_bytes());
        if let Some(VerifierMask(mask)) = self.verifier_mask {
            out[1] |= 1 << 5;
            out[24..].copy_from_slice(&mask.to_be_bytes());
        }
        out
    }

    /// The fields, if they make sense.
    fn from_bytes(b: &[u8; SEALED_BYTES]) -> Option<Self> {
        let rights = b[1];
        let slots = u16::from_be_bytes(*b[2..].first_chunk()?);
        let mask = u32::from_be_bytes(*b[24..].first_chunk()?);
        let is_masked = rights & 32 != 0;
        let handle = DataServerHandle {
            rights: Rights { read: rights & 1 != 0, write: rights & 2 != 0 },
            makes: rights & 4 != 0,
            ends: rights & 8 != 0,
            slots: if rights & 16 != 0 { Slots::Several(slots) } else { Slots::One(slots) },
            volume: u32::from_be_bytes(*b[4..].first_chunk()?),
            object: u64::from_be_bytes(*b[8..].first_chunk()?),
            epoch: u32::from_be_bytes(*b[16..].first_chunk()?),
            stripe_count: u16::from_be_bytes(*b[20..].first_chunk()?),
            stripe_unit_mib: u16::from_be_bytes(*b[22..].first_chunk()?),
            verifier_mask: is_masked.then_some(VerifierMask(mask)),
        };
        // Slots there are; and nobody has several and none or one of them.
        let are_slots = match handle.slots {
            Slots::One(slot) => slot < handle.stripe_count,
            Slots::Several(slots) => slots.count_ones() > 1 && handle.distribution().is_some(),
        };
        let is_stripe = are_slots && handle.stripe_unit_mib > 0;
        let ends_alone = !handle.ends || handle.stripe_count == 1;
        let is_form = rights & !63 == 0 && (is_masked || mask == 0);
        (is_form && is_stripe && ends_alone).then_some(handle)
    }
}
