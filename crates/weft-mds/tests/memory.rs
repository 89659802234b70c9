//! What clients make a metadata server keep has a bound in bytes, whatever they ask for. A program
//! of its own, so that its memory is that of this server.

#[allow(unused_imports, reason = "a test binary uses what it needs of this")]
mod support;

use weft_mds::SmallFiles;
use weft_nfs::{
    FileHandle, IoMode, LockType, NfsStat, OpArgs, Stateid,
    ops::{OpenArgs, OpenClaim},
};
use weft_state::{SessionLimits, StateLimits};

use support::*;

/// What the server may keep: of it a quarter is for clients and sessions.
const MEMORY: usize = 32 << 20;
/// What the server takes beside that meanwhile: buffers, stacks, what the allocator keeps for each
/// thread. And the clients, which are in the same process.
const MARGIN: u64 = 16 << 20;
/// Opens in one COMPOUND.
const BATCH: usize = 24;
/// Most opens that a client tries: 27 MiB.
const OPENS_MAX: usize = 20_000;

/// Resident memory of this process, bytes: now (`VmRSS:`), or the most there was (`VmHWM:`).
fn resident(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let found = status.lines().find_map(|l| l.strip_prefix(line)).unwrap();
    found.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

async fn cluster() -> Cluster {
    let options = Options {
        data_servers: 1,
        small_files: SmallFiles::OFF,
        limits: SessionLimits::of_memory(MEMORY),
        state_limits: StateLimits::of_memory(MEMORY),
        ..Options::default()
    };
    Cluster::with(options).await
}

/// A client from an address of this machine.
async fn from(host: u8, cluster: &Cluster, options: ClientOptions) -> Client {
    let wire = Wire::connect_from([127, 0, 0, host], cluster.address()).await;
    Client::over(wire, options).await
}

/// An OPEN of the current file by an owner of 1 KiB.
fn open_by(n: usize) -> OpenArgs {
    open(&format!("{n:01024}"), OpenClaim::Fh)
}

/// Opens a file with as many owners as the client may have: how many, and what the next one was
/// answered.
async fn to_the_brim(c: &mut Client, fh: &FileHandle) -> (usize, NfsStat) {
    let mut opened = 0;
    while opened < OPENS_MAX {
        let opens = (opened..opened + BATCH).map(|n| OpArgs::Open(open_by(n)));
        let reply = opens.fold(c.compound().putfh(fh), |request, op| request.op(op)).send().await;
        if reply.status() != NfsStat::OK {
            // Beside SEQUENCE and PUTFH, and the one that was refused.
            return (opened + reply.len() - 3, reply.status());
        }
        opened += BATCH;
    }
    (opened, NfsStat::OK)
}

/// What a client with an open is answered that has its share.
async fn refusals(c: &mut Client, fh: &FileHandle, open: Stateid) {
    let lock = lock_new(open, &"l".repeat(1024), LockType::Write, 0, 1);
    c.compound().putfh(fh).op(OpArgs::Lock(lock)).expect(NfsStat::DELAY).await;
    let get = OpArgs::Layoutget(layoutget(open, IoMode::RW));
    c.compound().putfh(fh).op(get).expect(NfsStat::LAYOUTUNAVAILABLE).await;
    c.renew().await;
}

/// Clients of several hosts open all they can: each has its share, each host half of what others
/// leave, so that every newcomer finds room, and the server's memory stays in its bounds. What ends
/// makes room.
#[tokio::test]
async fn opens_to_the_brim() {
    let cluster = cluster().await;
    let (fh, _) = Client::mount(&cluster, "first").await.file("f").await;
    let before = resident("VmRSS:");
    let (mut clients, mut answers) = (Vec::new(), Vec::new());
    for (host, owner) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (2, "b2"), (3, "c")] {
        let mut c = from(host, &cluster, ClientOptions::new(owner)).await;
        answers.push(to_the_brim(&mut c, &fh).await);
        clients.push(c);
    }
    let grown = resident("VmHWM:") - before;
    let most = MEMORY as u64 + MARGIN;
    assert!(grown <= most, "{} MiB more, for {answers:?}", grown >> 20);
    assert!(answers.iter().all(|(_, status)| *status == NfsStat::DELAY), "{answers:?}");
    let opened: Vec<usize> = answers.iter().map(|(opened, _)| *opened).collect();
    let share = MEMORY * 3 / 4 / 4;
    let is_share = |n: usize| n * 1024 < share && n * 2048 > share;
    assert!([0, 1, 3].iter().all(|i| is_share(opened[*i])), "quarters: {opened:?}");
    // What "first" has open is of host 1 too.
    assert!(opened[2] <= 1, "host 1 has its half: {opened:?}");
    assert!(opened[4] <= 1 && is_share(2 * opened[5]), "half of what is left: {opened:?}");

    let a1 = &mut clients[0];
    let again = a1.compound().putfh(&fh).op(OpArgs::Open(open_by(0))).send().await.ok();
    refusals(a1, &fh, again.stateid()).await;
    let restarted = ClientOptions { verifier: 2, ..ClientOptions::new("a1") };
    from(1, &cluster, restarted).await.renew().await;
    let c = clients.last_mut().unwrap();
    let (opened, status) = to_the_brim(c, &fh).await;
    assert!(is_share(opened) && status == NfsStat::DELAY, "{opened}, {status}");
    let grown = resident("VmHWM:") - before;
    assert!(grown <= most, "{} MiB more", grown >> 20);
}

/// Clients of one host come with names of 1 KiB and sessions as long as there is room for them:
/// then they wait, and those of another host do not.
#[tokio::test]
async fn clients_to_the_brim() {
    let cluster = cluster().await;
    let mut wire = Wire::connect_from([127, 0, 0, 5], cluster.address()).await;
    let credential = user(0, 0);
    let (mut came, mut refused) = (0, NfsStat::OK);
    while refused == NfsStat::OK && came < 2000 {
        let owner = format!("{came:01024}");
        let options = ClientOptions { fore: channel(1, 1 << 20), ..ClientOptions::new(&owner) };
        let ask = [OpArgs::ExchangeId(exchange_id(&options))];
        refused = wire.compound(&credential, 2, &ask).await.status();
        if refused == NfsStat::OK {
            let known = exchange(&mut wire, &credential, &options).await;
            let create = create_session(known.clientid, known.sequenceid, &options);
            let create = [OpArgs::CreateSession(create)];
            refused = wire.compound(&credential, 2, &create).await.status();
            came += 1;
        }
    }
    assert_eq!(refused, NfsStat::DELAY, "after {came}");
    // Half of a quarter, of which each takes some 16 KiB, 4 of them for a reply.
    assert!((200..512).contains(&came), "{came}");
    from(6, &cluster, ClientOptions::new(&"o".repeat(1024))).await.file("g").await;
}
