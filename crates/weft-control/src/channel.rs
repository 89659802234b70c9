//! The secure channel that the control program runs over: Noise (revision 34), pattern NNpsk0 with
//! the cluster's secret as its pre-shared key (design D20).
//!
//! The caller, a metadata server, sends a *greeting* as the first record of a connection, the data
//! server answers with one record, and every record after that is sealed:
//!
//! | record | bytes |
//! | --- | --- |
//! | greeting | magic (8), version (4), number of the data server (4), Noise message 1 |
//! | answer | magic (8), version (4), number (4), outcome (4), Noise message 2 if that is OK |
//! | later | Noise messages of 65,535 bytes, the last one shorter |
//!
//! A later message is a byte that says whether it is its record's last, and its part of the record.
//!
//! What comes before the Noise message is its prologue, so that a handshake meant for one data
//! server is garbage to every other. Message 1 names who calls and for which volume, message 2 the
//! data server's directory. Both roles have their own place in the pattern: nothing that one has
//! said can be said again to it. All numbers are big-endian.
//!
//! What is guaranteed to both sides, once the first sealed record was opened: the other knows a
//! secret of the cluster, is who it says, and sent each record, once, in this order, to us.

use std::{io, sync::Arc};

use bytes::Bytes;
use snow::{Builder, HandshakeState, StatelessTransportState};
use weft_io::{Ciphers, OpenRecords, SealRecords, Segment};
use weft_server::identity::ControlKey;

use crate::codec::CONTROL_VERSION;

/// The handshake: its curve, cipher and hash.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// How a greeting begins. Its second half is no type of an RPC message.
const MAGIC: [u8; 8] = *b"WEFTctrl";
/// Magic, version and number.
const HEAD_BYTES: usize = 16;
/// Both messages of the pattern, without their payloads: a curve point and a tag.
const HANDSHAKE_BYTES: usize = 48;
/// Message 1's payload: [`Caller`].
const CALLER_BYTES: usize = 32;
/// Message 2's payload: the uuid of a directory.
const DIRECTORY_BYTES: usize = 16;
/// Longest Noise message.
const MESSAGE_BYTES_MAX: usize = 65_535;
/// A cipher's tag.
const TAG_BYTES: usize = 16;
/// Bytes of a record in one message, behind the byte that says whether it is the last.
const PART_BYTES_MAX: usize = MESSAGE_BYTES_MAX - TAG_BYTES - 1;
/// The byte before a record's last part, and before every other.
const LAST: u8 = 1;
const MORE: u8 = 0;

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Uuid of the metadata server.
    pub server: [u8; 16],
    /// Uuid of the volume that it wants to bind.
    pub volume: [u8; 16],
}

impl Caller {
    fn to_bytes(self) -> [u8; CALLER_BYTES] {
        let mut bytes = [0; CALLER_BYTES];
        let (server, volume) = bytes.split_at_mut(16);
        server.copy_from_slice(&self.server);
        volume.copy_from_slice(&self.volume);
        bytes
    }

    /// What [`greeted`] said of a connection's peer.
    pub fn from_bytes(bytes: &[u8]) -> Option<Caller> {
        let (server, volume) = bytes.split_at_checked(16)?;
        Some(Caller { server: server.try_into().ok()?, volume: volume.try_into().ok()? })
    }
}

/// What an answer says in the clear. Nobody has proven it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ok = 0,
    OtherVersion = 1,
    OtherNumber = 2,
    Stranger = 3,
}

/// Why there is no channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The peer speaks another version.
    #[error(
        "it speaks version {0} of the control protocol, this server version {CONTROL_VERSION}: \
         they must be of the same version of weft"
    )]
    OtherVersion(u32),
    /// Another data server was greeted.
    #[error("it is data server {0}")]
    OtherNumber(u32),
    /// One side knows none of the other's secrets.
    #[error("it does not know our cluster secret")]
    Stranger,
    /// It says something else.
    #[error("it does not speak the control protocol")]
    Malformed,
}

impl From<snow::Error> for ChannelError {
    fn from(_: snow::Error) -> Self {
        ChannelError::Stranger
    }
}

fn head(version: u32, number: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let (magic, rest) = head.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    rest[..4].copy_from_slice(&version.to_be_bytes());
    rest[4..].copy_from_slice(&number.to_be_bytes());
    head
}

/// Version and number of a head, and what follows it.
fn split_head(record: &[u8]) -> Option<(u32, u32, &[u8])> {
    let (version, rest) = record.strip_prefix(&MAGIC)?.split_first_chunk::<4>()?;
    let (number, rest) = rest.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*version), u32::from_be_bytes(*number), rest))
}

fn builder<'a>(key: &'a ControlKey, prologue: &'a [u8]) -> Result<Builder<'a>, snow::Error> {
    Builder::new(PATTERN.parse()?).prologue(prologue)?.psk(0, key.bytes())
}

/// The caller's side, between its greeting and the answer.
#[derive(Debug)]
pub struct Greeting {
    number: u32,
    state: HandshakeState,
}

impl Greeting {
    /// Greets data server `number`; with the record to send.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(
        key: &ControlKey,
        number: u32,
        caller: Caller,
    ) -> Result<(Greeting, Bytes), ChannelError> {
        let head = head(CONTROL_VERSION, number);
        let mut state = builder(key, &head)?.build_initiator()?;
        let mut record = vec![0; HEAD_BYTES + HANDSHAKE_BYTES + CALLER_BYTES];
        record[..HEAD_BYTES].copy_from_slice(&head);
        let len = state.write_message(&caller.to_bytes(), &mut record[HEAD_BYTES..])?;
        record.truncate(HEAD_BYTES + len);
        Ok((Greeting { number, state }, record.into()))
    }

    /// Takes the answer: the channel, and the uuid of the data server's directory.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn answered(mut self, answer: &[u8]) -> Result<(Ciphers, [u8; 16]), ChannelError> {
        let (version, number, rest) = split_head(answer).ok_or(ChannelError::Malformed)?;
        let (outcome, message) = rest.split_first_chunk::<4>().ok_or(ChannelError::Malformed)?;
        match u32::from_be_bytes(*outcome) {
            o if o == Outcome::OtherVersion as u32 => {
                return Err(ChannelError::OtherVersion(version));
            }
            o if o == Outcome::OtherNumber as u32 => return Err(ChannelError::OtherNumber(number)),
            o if o == Outcome::Stranger as u32 => return Err(ChannelError::Stranger),
            o if o == Outcome::Ok as u32 && (version, number) == (CONTROL_VERSION, self.number) => {
            }
            _ => return Err(ChannelError::Malformed),
        }
        let mut directory = [0; HANDSHAKE_BYTES + DIRECTORY_BYTES];
        let len = self.state.read_message(message, &mut directory)?;
        let directory = directory.get(..len).and_then(|d| d.try_into().ok());
        Ok((ciphers(self.state)?, directory.ok_or(ChannelError::Malformed)?))
    }
}

/// What is made of a greeting.
#[derive(Debug)]
pub struct Greeted {
    /// The record to send back.
    pub answer: Bytes,
    /// The channel and who calls, by [`Caller::from_bytes`]; or why there is none.
    pub outcome: Result<(Ciphers, Bytes), ChannelError>,
}

/// Whether the first record of a connection is a greeting.
pub fn is_greeting(record: &[u8]) -> bool {
    record.starts_with(&MAGIC)
}

/// Answers a greeting, as data server `number` in the directory with this uuid. Any of `keys` is
/// good.
pub fn greeted(keys: &[ControlKey], number: u32, directory: [u8; 16], record: &[u8]) -> Greeted {
    let answered = |outcome: Outcome, message: &[u8]| {
        let head = head(CONTROL_VERSION, number);
        Bytes::from([&head[..], &(outcome as u32).to_be_bytes(), message].concat())
    };
    let refused = |outcome, why| Greeted { answer: answered(outcome, &[]), outcome: Err(why) };
    let Some((version, wanted, message)) = split_head(record) else {
        return refused(Outcome::Stranger, ChannelError::Malformed);
    };
    if version != CONTROL_VERSION {
        return refused(Outcome::OtherVersion, ChannelError::OtherVersion(version));
    }
    if wanted != number {
        return refused(Outcome::OtherNumber, ChannelError::OtherNumber(wanted));
    }
    let prologue = head(version, number);
    match keys.iter().find_map(|key| respond(key, &prologue, directory, message).ok()) {
        Some((reply, ciphers, caller)) => {
            Greeted { answer: answered(Outcome::Ok, &reply), outcome: Ok((ciphers, caller)) }
        }
        None => refused(Outcome::Stranger, ChannelError::Stranger),
    }
}

/// Message 2, the channel and message 1's payload.
fn respond(
    key: &ControlKey,
    prologue: &[u8],
    directory: [u8; 16],
    message: &[u8],
) -> Result<(Vec<u8>, Ciphers, Bytes), ChannelError> {
    let mut state = builder(key, prologue)?.build_responder()?;
    let mut caller = [0; HANDSHAKE_BYTES + CALLER_BYTES];
    let len = state.read_message(message, &mut caller)?;
    let caller = caller.get(..len).filter(|c| c.len() == CALLER_BYTES);
    let caller = Bytes::copy_from_slice(caller.ok_or(ChannelError::Malformed)?);
    let mut reply = vec![0; HANDSHAKE_BYTES + DIRECTORY_BYTES];
    let len = state.write_message(&directory, &mut reply)?;
    reply.truncate(len);
    Ok((reply, ciphers(state)?, caller))
}

fn ciphers(state: HandshakeState) -> Result<Ciphers, snow::Error> {
    let keys = Arc::new(Keys(state.into_stateless_transport_mode()?));
    let sealer = Sealer { keys: keys.clone(), next: 0 };
    Ok(Ciphers { seal: Box::new(sealer), open: Box::new(Opener { keys, next: 0 }) })
}

/// The keys of both directions.
struct Keys(StatelessTransportState);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// Seals: each message has a number, the next.
#[derive(Debug)]
struct Sealer {
    keys: Arc<Keys>,
    next: u64,
}

impl SealRecords for Sealer {
    fn seal(&mut self, record: Vec<Segment>) -> io::Result<Bytes> {
        let mut plain = Vec::with_capacity(record.iter().map(Segment::len).sum());
        for segment in record {
            match segment {
                Segment::Bytes(bytes) => plain.extend_from_slice(&bytes),
                Segment::File(_) => return Err(io::ErrorKind::Unsupported.into()),
            }
        }
        let parts = plain.len().div_ceil(PART_BYTES_MAX).max(1);
        let mut sealed = vec![0; plain.len() + parts * (TAG_BYTES + 1)];
        let (mut at, mut part) = (0, Vec::with_capacity(plain.len().min(PART_BYTES_MAX) + 1));
        for i in 0..parts {
            let from = i * PART_BYTES_MAX;
            part.clear();
            part.push(if i + 1 == parts { LAST } else { MORE });
            part.extend_from_slice(&plain[from..plain.len().min(from + PART_BYTES_MAX)]);
            let written = self.keys.0.write_message(self.next, &part, &mut sealed[at..]);
            at += written.map_err(|e| io::Error::other(e.to_string()))?;
            self.next += 1;
        }
        Ok(sealed.into())
    }
}

/// Opens: only the next message is one.
#[derive(Debug)]
struct Opener {
    keys: Arc<Keys>,
    next: u64,
}

impl OpenRecords for Opener {
    fn open(&mut self, record: Bytes) -> io::Result<Bytes> {
        let forged = || io::Error::new(io::ErrorKind::InvalidData, "a record was tampered with");
        let mut plain = Vec::with_capacity(record.len());
        let mut part = vec![0; record.len().min(MESSAGE_BYTES_MAX)];
        let mut messages = record.chunks(MESSAGE_BYTES_MAX).peekable();
        if messages.peek().is_none() {
            return Err(forged());
        }
        while let Some(message) = messages.next() {
            let len = self.keys.0.read_message(self.next, message, &mut part);
            self.next += 1;
            let wanted = if messages.peek().is_none() { LAST } else { MORE };
            match part.get(..len.map_err(|_| forged())?).and_then(<[u8]>::split_first) {
                Some((mark, bytes)) if *mark == wanted => plain.extend_from_slice(bytes),
                _ => return Err(forged()),
            }
        }
        Ok(plain.into())
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
