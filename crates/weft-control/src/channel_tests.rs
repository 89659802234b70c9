//! The channel against everybody who stands between its ends.

use weft_server::identity::ClusterSecrets;

use super::*;

const CALLER: Caller = Caller { server: [1; 16], volume: [2; 16] };
const DIRECTORY: [u8; 16] = [3; 16];

fn key(of: char) -> ControlKey {
    ClusterSecrets::from_text(&of.to_string().repeat(32)).unwrap().control_key()
}

/// A channel between a caller and data server 7: both ends.
fn channel() -> (Ciphers, Ciphers) {
    let (greeting, record) = Greeting::new(&key('a'), 7, CALLER).unwrap();
    let greeted = greeted(&[key('b'), key('a')], 7, DIRECTORY, &record);
    let (theirs, caller) = greeted.outcome.unwrap();
    assert_eq!(Caller::from_bytes(&caller), Some(CALLER));
    let (ours, directory) = greeting.answered(&greeted.answer).unwrap();
    assert_eq!(directory, DIRECTORY);
    (ours, theirs)
}

fn record(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 253) as u8).collect()
}

fn seal(ciphers: &mut Ciphers, plain: &[u8]) -> Bytes {
    let (a, b) = plain.split_at(plain.len() / 3);
    let segments = [a, b].map(|part| Segment::Bytes(Bytes::copy_from_slice(part)));
    ciphers.seal.seal(segments.into()).unwrap()
}

/// Records of every length around the borders of Noise messages arrive as they were, both ways,
/// and are not to be read on their way.
#[test]
fn records_arrive_as_they_were() {
    let (mut caller, mut server) = channel();
    let borders = [PART_BYTES_MAX, 2 * PART_BYTES_MAX, 64 * PART_BYTES_MAX];
    let near = borders.iter().flat_map(|b| [b - 1, *b, b + 1]);
    for len in [0, 1, 2, 100].into_iter().chain(near) {
        let plain = record(len);
        let sealed = seal(&mut caller, &plain);
        assert!(len < 16 || !sealed.windows(16).any(|w| w == &plain[..16]), "{len}");
        assert_eq!(server.open.open(sealed).unwrap(), plain, "{len}");
        let back = seal(&mut server, &plain);
        assert_eq!(caller.open.open(back).unwrap(), plain, "{len}");
    }
}

/// Any change of any byte is noticed, as is a record that is cut or grows.
#[test]
fn a_changed_record_is_noticed() {
    let sealed_len = seal(&mut channel().0, &record(100)).len();
    for at in 0..sealed_len {
        for bit in [0x01, 0x80] {
            let (mut caller, mut server) = channel();
            let mut changed = seal(&mut caller, &record(100)).to_vec();
            changed[at] ^= bit;
            assert!(server.open.open(changed.into()).is_err(), "byte {at}");
        }
        let (mut caller, mut server) = channel();
        let cut = seal(&mut caller, &record(100)).slice(..at);
        assert!(server.open.open(cut).is_err(), "{at} bytes");
    }
    let (mut caller, mut server) = channel();
    let longer = [&seal(&mut caller, &record(100))[..], b"x"].concat();
    assert!(server.open.open(longer.into()).is_err());
}

/// A long record's messages are its own: it cannot be cut between them, nor take others.
#[test]
fn messages_of_a_record_stay_together() {
    let plain = record(PART_BYTES_MAX + 1);
    let (mut caller, mut server) = channel();
    let whole = seal(&mut caller, &plain);
    assert!(server.open.open(whole.slice(..MESSAGE_BYTES_MAX)).is_err(), "the first message alone");
    let (mut caller, mut server) = channel();
    let first = seal(&mut caller, &record(PART_BYTES_MAX));
    let second = seal(&mut caller, b"another record");
    let joined = [&first[..], &second].concat();
    assert!(server.open.open(joined.into()).is_err(), "two records as one");
}

/// What is repeated, left out, swapped, sent back to its sender or taken from another channel is
/// noticed.
#[test]
fn only_the_next_record_is_opened() {
    let three = |caller: &mut Ciphers| [b"one", b"two", b"six"].map(|r| seal(caller, r));
    let (mut caller, mut server) = channel();
    let [one, two, six] = three(&mut caller);
    assert_eq!(server.open.open(one.clone()).unwrap(), "one");
    assert!(server.open.open(one).is_err(), "repeated");
    drop((two, six));
    let (mut caller, mut server) = channel();
    let [_, two, _] = three(&mut caller);
    assert!(server.open.open(two).is_err(), "one was left out");
    let (mut caller, mut server) = channel();
    let [one, _, six] = three(&mut caller);
    server.open.open(one).unwrap();
    assert!(server.open.open(six).is_err(), "swapped");
    let (mut caller, _) = channel();
    let [one, ..] = three(&mut caller);
    assert!(caller.open.open(one).is_err(), "sent back");
    let ((mut caller, _), (_, mut other)) = (channel(), channel());
    let [one, ..] = three(&mut caller);
    assert!(other.open.open(one).is_err(), "of another channel");
}

/// A greeting and its answer that were changed anywhere make no channel; nor do those of another
/// conversation. (The point that a message carries is masked by its curve: its highest bit has no
/// meaning, but is part of what both sides hash.)
#[test]
fn a_changed_handshake_makes_no_channel() {
    let (_, record) = Greeting::new(&key('a'), 7, CALLER).unwrap();
    for at in 0..record.len() {
        let mut changed = record.to_vec();
        changed[at] ^= 0x80;
        assert!(greeted(&[key('a')], 7, DIRECTORY, &changed).outcome.is_err(), "byte {at}");
        assert!(greeted(&[key('a')], 7, DIRECTORY, &record[..at]).outcome.is_err(), "{at} bytes");
    }
    let answer = greeted(&[key('a')], 7, DIRECTORY, &record).answer;
    for at in 0..answer.len() {
        let (greeting, record) = Greeting::new(&key('a'), 7, CALLER).unwrap();
        let mut changed = greeted(&[key('a')], 7, DIRECTORY, &record).answer.to_vec();
        changed[at] ^= 0x80;
        assert!(greeting.answered(&changed).is_err(), "byte {at}");
        let (greeting, _) = Greeting::new(&key('a'), 7, CALLER).unwrap();
        assert!(greeting.answered(&answer[..at]).is_err(), "{at} bytes");
    }
    let (greeting, _) = Greeting::new(&key('a'), 7, CALLER).unwrap();
    assert_eq!(greeting.answered(&answer).err(), Some(ChannelError::Stranger), "repeated");
}

/// Who knows no secret is told so, whichever side it is on; a greeting for another data server and
/// one of another version are told apart.
#[test]
fn refusals_are_named() {
    let refused = |key: &ControlKey, number| {
        let (greeting, record) = Greeting::new(key, number, CALLER).unwrap();
        let greeted = greeted(&[self::key('a')], 7, DIRECTORY, &record);
        (greeted.outcome.err(), greeting.answered(&greeted.answer).err())
    };
    let stranger = Some(ChannelError::Stranger);
    assert_eq!(refused(&key('x'), 7), (stranger.clone(), stranger.clone()));
    let numbers = (Some(ChannelError::OtherNumber(8)), Some(ChannelError::OtherNumber(7)));
    assert_eq!(refused(&key('a'), 8), numbers);
    let (greeting, record) = Greeting::new(&key('a'), 7, CALLER).unwrap();
    let mut newer = record.to_vec();
    newer[8..12].copy_from_slice(&9u32.to_be_bytes());
    let newer = greeted(&[key('a')], 7, DIRECTORY, &newer);
    assert_eq!(newer.outcome.err(), Some(ChannelError::OtherVersion(9)));
    let ours = Some(ChannelError::OtherVersion(CONTROL_VERSION));
    assert_eq!(greeting.answered(&newer.answer).err(), ours);
    assert!(!is_greeting(b"\0\0\0\x01\0\0\0\0") && is_greeting(&record));
    // A server that answers yes to everything, and knows nothing.
    let (greeting, _) = Greeting::new(&key('a'), 7, CALLER).unwrap();
    let yes = [&head(CONTROL_VERSION, 7)[..], &[0; 4 + HANDSHAKE_BYTES + DIRECTORY_BYTES]].concat();
    assert_eq!(greeting.answered(&yes).err(), stranger);
}

/// A part of a record that is a range of a file is refused, not read.
#[test]
fn ranges_of_files_are_refused() {
    let (mut caller, _) = channel();
    let file = std::fs::File::open("/dev/null").unwrap().into();
    let range = weft_io::FileRange { file, offset: 0, len: 1 };
    assert!(caller.seal.seal(vec![Segment::File(range)]).is_err());
}
