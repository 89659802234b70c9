//! One connection against a peer that this test plays.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::mpsc};
use weft_io::{RecordReader, RecordSender};
use weft_xdr::{
    Decode, Reader, Segment, Writer,
    rpc::{CallHeader, Message, OpaqueAuth, Reply, auth_stat},
};

use super::*;

const PROGRAM: u32 = 400_000;

struct Peer {
    records: RecordReader<tokio::net::tcp::OwnedReadHalf>,
    sender: RecordSender<tokio::net::tcp::OwnedWriteHalf>,
}

impl Peer {
    async fn call(&mut self) -> (u32, CallHeader, Bytes) {
        let mut r = Reader::new(self.records.next().await.unwrap().unwrap());
        let Message::Call(xid, header) = Message::decode(&mut r).unwrap() else { panic!() };
        (xid, header, r.rest())
    }

    async fn answer(&mut self, xid: u32, reply: &Reply, results: &[u8]) {
        let mut w = Writer::new();
        weft_xdr::rpc::reply(&mut w, xid, reply);
        w.raw(results);
        self.sender.send(w.into_segments()).await.unwrap();
    }
}

async fn pair(options: ConnectOptions) -> (Connection, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connecting = Connection::connect_with(listener.local_addr().unwrap(), options);
    let (connection, accepted) = tokio::join!(connecting, listener.accept());
    let (read, write) = accepted.unwrap().0.into_split();
    let peer = Peer { records: RecordReader::new(read, 1 << 20), sender: RecordSender::new(write) };
    (connection.unwrap(), peer)
}

async fn call(c: &Connection, args: &'static [u8]) -> Result<Bytes, RpcError> {
    let args = vec![Segment::Bytes(Bytes::from_static(args))];
    c.call(PROGRAM, 1, 2, &Credential::sys("m", 5, 6, &[7]), args).await.map(|mut r| r.rest())
}

/// Replies find their calls in whatever order they come, and each call carries its credential.
#[tokio::test]
async fn replies_out_of_order() {
    let (c, mut peer) = pair(ConnectOptions::default()).await;
    let serve = async {
        let first = peer.call().await;
        let second = peer.call().await;
        assert_eq!((first.1.program, first.1.version, first.1.procedure), (PROGRAM, 1, 2));
        assert_eq!(first.1.credential, Credential::sys("m", 5, 6, &[7]).to_wire());
        peer.answer(second.0, &Reply::Success, &second.2).await;
        peer.answer(4_000_000_000, &Reply::Success, b"nobody's").await;
        peer.answer(first.0, &Reply::Success, &first.2).await;
    };
    let (a, b, ()) = tokio::join!(call(&c, b"aaaa"), call(&c, b"bbbb"), serve);
    assert_eq!((a.unwrap(), b.unwrap()), (Bytes::from("aaaa"), Bytes::from("bbbb")));
}

const IMPATIENT: Watch =
    Watch { silence: Duration::from_millis(20), answer: Duration::from_millis(200) };

/// A slow answer is waited for while the peer answers anything at all.
#[tokio::test]
async fn a_slow_peer_is_waited_for() {
    let (c, mut peer) = pair(ConnectOptions::default()).await;
    let serve = async {
        let (slow, ..) = peer.call().await;
        for _ in 0..3 {
            let (ping, header, _) = peer.call().await;
            assert_eq!((header.program, header.procedure), (PROGRAM, 0));
            peer.answer(ping, &Reply::Success, &[]).await;
        }
        peer.answer(slow, &Reply::Success, b"late").await;
    };
    let nobody = Credential::NONE;
    let call = c.call_watched((PROGRAM, 1, 2), &nobody, Vec::new(), None, IMPATIENT);
    let (answer, ()) = tokio::join!(call, serve);
    assert_eq!(answer.unwrap().results.rest(), Bytes::from("late"));
}

/// A peer that answers nothing, while its machine keeps the connection, is given up: the calls
/// in flight learn that they are lost.
#[tokio::test]
async fn a_hanging_peer_is_given_up() {
    let (c, mut peer) = pair(ConnectOptions::default()).await;
    let nobody = Credential::NONE;
    let call = c.call_watched((PROGRAM, 1, 2), &nobody, Vec::new(), None, IMPATIENT);
    let (answer, _) = tokio::join!(call, peer.call());
    assert!(matches!(answer, Err(RpcError::Lost(_))), "{answer:?}");
    assert!(c.is_closed());
}

/// Calls of a peer that reads nothing for a while wait, small ones and large ones, and each arrives
/// whole.
#[tokio::test]
async fn calls_wait_for_a_slow_reader() {
    let (c, mut peer) = pair(ConnectOptions::default()).await;
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..100_usize {
        let (c, args) = (c.clone(), vec![n as u8; if n % 3 == 0 { 100_000 } else { 60_000 }]);
        callers.spawn(async move {
            let sent = vec![Segment::Bytes(args.clone().into())];
            let answer = c.call(PROGRAM, 1, 2, &Credential::NONE, sent).await.unwrap().rest();
            assert!(answer == args);
        });
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    for _ in 0..100 {
        let (xid, _, args) = peer.call().await;
        peer.answer(xid, &Reply::Success, &args).await;
    }
    while let Some(answered) = callers.join_next().await {
        answered.unwrap();
    }
}

/// Refusals of the RPC layer reach their call, and the connection goes on.
#[tokio::test]
async fn refusals_reach_the_caller() {
    let (c, mut peer) = pair(ConnectOptions::default()).await;
    for refusal in [Reply::ProcUnavail, Reply::GarbageArgs, Reply::AuthError(auth_stat::TOOWEAK)] {
        let serve = async {
            let (xid, ..) = peer.call().await;
            peer.answer(xid, &refusal, &[]).await;
        };
        let (refused, ()) = tokio::join!(call(&c, b"aaaa"), serve);
        assert!(matches!(refused, Err(RpcError::Refused(r)) if r == refusal));
    }
}

/// When the connection ends, or the peer sends what is no message, every call in flight and
/// every later one fails as lost.
#[tokio::test]
async fn a_lost_connection_fails_all_calls() {
    for garbage in [false, true] {
        let (c, mut peer) = pair(ConnectOptions::default()).await;
        let end = async {
            peer.call().await;
            peer.call().await;
            if garbage {
                peer.sender.send(vec![Segment::Bytes(Bytes::from_static(b"xxxx"))]).await.unwrap();
                assert!(peer.records.next().await.is_ok_and(|r| r.is_none()), "it hangs up");
            } else {
                drop(peer);
            }
        };
        let (a, b, ()) = tokio::join!(call(&c, b"aaaa"), call(&c, b"bbbb"), end);
        assert!(matches!((a, b), (Err(RpcError::Lost(_)), Err(RpcError::Lost(_)))));
        assert!(c.is_closed());
        assert!(matches!(call(&c, b"cccc").await, Err(RpcError::Lost(_))));
    }
}

/// A caller that stops waiting is forgotten; the reply that comes all the same harms nobody.
#[tokio::test]
async fn forgotten_calls() {
    let (c, mut peer) = pair(ConnectOptions::default()).await;
    let abandoned = tokio::time::timeout(Duration::from_millis(20), call(&c, b"aaaa")).await;
    assert!(abandoned.is_err());
    let (xid, ..) = peer.call().await;
    peer.answer(xid, &Reply::Success, b"late").await;
    let serve = async {
        let (xid, _, args) = peer.call().await;
        peer.answer(xid, &Reply::Success, &args).await;
    };
    let (answered, ()) = tokio::join!(call(&c, b"bbbb"), serve);
    assert_eq!(answered.unwrap(), "bbbb");
}

/// Calls from the peer reach the handler and are answered on the same connection; without a
/// handler, or with its queue full, they are refused.
#[tokio::test]
async fn calls_from_the_peer() {
    let header = CallHeader {
        program: PROGRAM,
        version: 1,
        procedure: 9,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    };
    let message = |xid| {
        let mut w = Writer::new();
        weft_xdr::rpc::call(&mut w, xid, &header);
        w.raw(b"args");
        w.into_segments()
    };
    let (to, mut calls) = mpsc::channel(1);
    let options = ConnectOptions { incoming: Some(to), ..ConnectOptions::default() };
    let (_c, mut peer) = pair(options).await;
    peer.sender.send(message(1)).await.unwrap();
    peer.sender.send(message(2)).await.unwrap();
    let refused = from_record(peer.records.next().await.unwrap().unwrap());
    assert_eq!(refused, Message::Reply(2, Reply::SystemErr));
    let mut call = calls.recv().await.unwrap();
    assert_eq!((call.header.procedure, call.args.rest()), (9, Bytes::from("args")));
    call.reply(Reply::Success, Vec::new()).await;
    let answered = from_record(peer.records.next().await.unwrap().unwrap());
    assert_eq!(answered, Message::Reply(1, Reply::Success));

    let (_c, mut peer) = pair(ConnectOptions::default()).await;
    peer.sender.send(message(3)).await.unwrap();
    let refused = from_record(peer.records.next().await.unwrap().unwrap());
    assert_eq!(refused, Message::Reply(3, Reply::ProgUnavail));
}

fn from_record(record: Bytes) -> Message {
    weft_xdr::from_bytes(record).unwrap()
}

/// Results of the placement tests: the payload, as opaque data, is all there is.
fn find_opaque(r: &mut Reader) -> Option<usize> {
    r.length(1 << 20).ok()
}

fn placement(len_max: usize) -> (Arc<std::fs::File>, DirectPlacement) {
    let file = Arc::new(tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap());
    let destination = Arc::new(weft_io::Destination::new(file.clone()));
    (file, DirectPlacement { destination, offset: 1000, len_max, find: find_opaque })
}

fn opaque(len: usize) -> Vec<u8> {
    let mut w = Writer::new();
    w.opaque(&(0..len).map(|i| (i / 3) as u8).collect::<Vec<u8>>());
    w.into_bytes().to_vec()
}

async fn call_with_placement(
    c: &Connection,
    placement: DirectPlacement,
) -> Result<Answer, RpcError> {
    let nobody = Credential::NONE;
    c.call_watched((PROGRAM, 1, 2), &nobody, Vec::new(), Some(placement), IMPATIENT).await
}

/// A large payload lands in the file, and the reply comes without it; a small one, one longer than
/// allowed, or one that something follows, comes with its reply, and so does that of a call that
/// has no placement.
#[tokio::test]
async fn payloads_land() {
    let (c, mut peer) = pair(ConnectOptions::default()).await;
    let large = 100_001;
    let trailing = |mut results: Vec<u8>| {
        results.extend([0; 4]);
        results
    };
    let replies = [
        (opaque(large), true),
        (opaque(1000), false),
        (opaque(large + 1), false),
        (trailing(opaque(large)), false),
        (opaque(large), true),
    ];
    for (results, lands) in replies {
        let (file, placement) = placement(large);
        let serve = async {
            let (xid, ..) = peer.call().await;
            peer.answer(xid, &Reply::Success, &results).await;
        };
        let (answer, ()) = tokio::join!(call_with_placement(&c, placement), serve);
        let mut answer = answer.unwrap();
        if lands {
            assert_eq!(answer.placed.unwrap().unwrap(), large);
            assert_eq!(answer.results.rest(), [0; 4][..], "an empty payload");
            let mut landed = vec![0; large];
            std::os::unix::fs::FileExt::read_exact_at(&*file, &mut landed, 1000).unwrap();
            assert_eq!(landed, results[4..4 + large]);
        } else {
            assert!(answer.placed.is_none());
            assert_eq!(answer.results.rest(), results);
            assert_eq!(file.metadata().unwrap().len(), 0);
        }
    }
    let serve = async {
        let (xid, ..) = peer.call().await;
        peer.answer(xid, &Reply::Success, &opaque(large)).await;
    };
    let (plain, ()) = tokio::join!(call(&c, b"aaaa"), serve);
    assert_eq!(plain.unwrap(), opaque(large));
}

/// A local file that takes nothing is told with the reply, and the connection goes on.
#[tokio::test]
async fn a_full_disk_is_told() {
    let (c, mut peer) = pair(ConnectOptions::default()).await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let destination = Arc::new(weft_io::Destination::new(Arc::new(full)));
    let full = DirectPlacement { destination, offset: 0, len_max: 1 << 20, find: find_opaque };
    let serve = async {
        for _ in 0..2 {
            let (xid, ..) = peer.call().await;
            peer.answer(xid, &Reply::Success, &opaque(1 << 19)).await;
        }
    };
    let calls = async {
        let told = call_with_placement(&c, full).await.unwrap().placed.unwrap().unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::StorageFull);
        assert_eq!(call(&c, b"aaaa").await.unwrap().len(), (1 << 19) + 4);
    };
    tokio::join!(calls, serve);
}

/// A call given up while its payload lands, by its caller or because the peer hangs, has nothing
/// more written for it, whatever comes later.
#[tokio::test]
async fn nothing_lands_after_the_call() {
    for hang in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = Connection::connect(listener.local_addr().unwrap());
        let (c, accepted) = tokio::join!(connecting, listener.accept());
        let (c, (read, mut peer)) = (c.unwrap(), accepted.unwrap().0.into_split());
        let mut records = RecordReader::new(read, 1 << 20);
        let (file, placement) = placement(1 << 20);
        let wire = reply_on_wire(1, &opaque(1 << 20));
        let half = wire.len() / 2;
        let call_with_placement = call_with_placement(&c, placement);
        let begun = async {
            peer.write_all(&wire[..half]).await.unwrap();
            while file.metadata().unwrap().len() < 1000 + half as u64 - 100 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        if hang {
            let (lost, ()) = tokio::join!(call_with_placement, begun);
            assert!(matches!(lost, Err(RpcError::Lost(_))), "{lost:?}");
        } else {
            tokio::select! {
                _ = call_with_placement => panic!("half a reply is none"),
                () = begun => {}
            }
        }
        let landed = file.metadata().unwrap().len();
        peer.write_all(&wire[half..]).await.unwrap();
        if !hang {
            let serve = async {
                loop {
                    let mut r = Reader::new(records.next().await.unwrap().unwrap());
                    let Message::Call(xid, _) = Message::decode(&mut r).unwrap() else { panic!() };
                    if r.rest() == "aaaa" {
                        return peer.write_all(&reply_on_wire(xid, b"next")).await.unwrap();
                    }
                }
            };
            let (next, ()) = tokio::join!(call(&c, b"aaaa"), serve);
            assert_eq!(next.unwrap(), "next", "the stream is in step");
        }
        assert_eq!(file.metadata().unwrap().len(), landed);
    }
}

fn reply_on_wire(xid: u32, results: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    weft_xdr::rpc::reply(&mut w, xid, &Reply::Success);
    w.raw(results);
    let message = w.into_bytes();
    [&weft_xdr::record::header(message.len())[..], &message].concat()
}
