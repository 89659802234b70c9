//! Who may do what with the export: client rules, flavors, ports, groups. RFC 8881 §2.6.3,
//! §15.1.6, §18.29, §18.45.

use std::{net::SocketAddr, os::unix::fs::fchown};

use tokio::net::TcpSocket;
use weft_mds::{Access, ClientRule, Export, Naming, Reconfiguration, Striping};
use weft_nfs::{AttrNo, IoMode, NfsStat, OpArgs, OpOk, Stateid, access as bit, ops::*, share};
use weft_server::rpc::NOBODY;
use weft_xdr::rpc::OpaqueAuth;

use crate::support::*;

fn rule(network: &str, access: Access) -> ClientRule {
    let networks = vec![network.parse().unwrap()];
    ClientRule { networks, access, root_squash: None, all_squash: None, privileged_ports: None }
}

async fn cluster(export: Export) -> Cluster {
    Cluster::with(Options { export, ..Options::default() }).await
}

/// Goes on with another export, as after a change of the configuration.
fn reconfigure(cluster: &Cluster, export: Export) {
    let threshold_bytes = cluster.mds().threshold_status().configured;
    let striping = Striping { unit_bytes: 1 << 20, width: 1 };
    let data_servers = Vec::new();
    let new = Reconfiguration { export, threshold_bytes, striping, data_servers };
    cluster.mds().reconfigure(new).unwrap();
}

/// A client that no rule fits any more has the session it had and nothing else.
#[tokio::test]
async fn clients_that_are_not_served() {
    let strangers =
        Export { rules: vec![rule("192.0.2.0/24", Access::ReadWrite)], ..open_export() };
    let refused = Export { rules: vec![rule("127.0.0.1", Access::None)], ..open_export() };
    for export in [strangers, refused] {
        let cluster = cluster(open_export()).await;
        let mut c = Client::mount(&cluster, "a").await;
        reconfigure(&cluster, export);
        let list = OpArgs::Readdir(readdir(0, 4096, &[]));
        let named = OpArgs::Secinfo(SecinfoArgs { name: "x".into() });
        let flavors = OpArgs::SecinfoNoName(SecinfoNoNameArgs { style: 0 });
        let look = [getattr(&[AttrNo::TYPE]), list, access(bit::READ), lookup("x"), named, flavors];
        for op in look.into_iter().chain([mkdir("d")]) {
            c.compound().putrootfh().op(op).expect(NfsStat::ACCESS).await;
        }
        let open = OpArgs::Open(open_create("o", "f"));
        c.compound().putrootfh().op(open).expect(NfsStat::ACCESS).await;
        c.renew().await;
    }
}

/// A host that is not served comes by no session, and ends none of a client that is served,
/// whoever it says it is.
#[tokio::test]
async fn hosts_that_are_not_served_are_no_clients() {
    let rules = vec![rule("127.0.0.1", Access::None), rule("127.0.0.2", Access::ReadWrite)];
    let cluster = cluster(Export { rules, ..open_export() }).await;
    let from = [127, 0, 0, 2];
    let served = ClientOptions { from, ..ClientOptions::new("a") };
    let mut victim = Client::with(cluster.address(), served).await;
    let (fh, open) = victim.file("f").await;
    let (sessionid, clientid) = (victim.sessionid, victim.clientid);
    let stranger = ClientOptions { verifier: 2, ..ClientOptions::new("a") };
    let again = create_session(clientid, weft_nfs::SequenceId(2), &stranger);
    let bind = BindConnToSessionArgs { sessionid, dir: 3, use_conn_in_rdma_mode: false };
    let attempts = [
        OpArgs::ExchangeId(exchange_id(&stranger)),
        OpArgs::ExchangeId(exchange_id(&victim.options)),
        OpArgs::CreateSession(again),
        OpArgs::BindConnToSession(bind),
        OpArgs::DestroySession(DestroySessionArgs { sessionid }),
        OpArgs::DestroyClientid(DestroyClientidArgs { clientid }),
    ];
    for op in attempts {
        let mut wire = Wire::connect(cluster.address()).await;
        let what = format!("{op:?}");
        let status = wire.compound(&user(0, 0), 2, &[op]).await.status();
        assert_eq!(status, NfsStat::ACCESS, "{what}");
    }
    victim.compound().putfh(&fh).op(close(open)).expect(NfsStat::OK).await;
}

/// A connection of a program of this user: who runs the test, or anybody if that is root.
async fn program_of(uid: u32, address: SocketAddr) -> Wire {
    let socket = TcpSocket::new_v4().unwrap();
    fchown(&socket, Some(uid), None).unwrap();
    Wire::over(socket.connect(address).await.unwrap())
}

/// Finding 6 of the audit: a program of this machine speaks for its own user, with the groups that
/// this machine knows of him, and for nobody else, root first of all.
#[tokio::test]
async fn programs_speak_for_their_user() {
    let me = rustix::process::geteuid().as_raw();
    let uid = if me == 0 { NOBODY } else { me };
    let cluster = cluster(open_export()).await;
    let mut root = Client::mount(&cluster, "root").await;
    let open = |name: &str, bits| OpenArgs {
        openhow: Some(CreateHow::Guarded(Box::new(mode(bits)))),
        ..open_create("o", name)
    };
    for (name, bits) in [("roots", 0o600), ("groups", 0o060), ("everybodys", 0o644)] {
        let made = root.compound().putrootfh().open(open(name, bits)).send().await.ok();
        root.compound().op(write(made.stateid(), 0, b"secret")).send().await;
    }
    reconfigure(&cluster, Export::default());
    let mut forging = program_of(uid, cluster.address()).await;
    let exchange = [OpArgs::ExchangeId(exchange_id(&ClientOptions::new("forging")))];
    let status = forging.compound(&user(0, 0), 2, &exchange).await.status();
    assert_eq!(status, NfsStat::ACCESS);
    let options = ClientOptions { uid, ..ClientOptions::new("own") };
    let mut own = Client::over(program_of(uid, cluster.address()).await, options).await;
    for (claimed, name, status) in [
        (user(0, 0), "roots", NfsStat::ACCESS),
        (user(uid + 1, uid), "everybodys", NfsStat::ACCESS),
        (OpaqueAuth::NONE, "everybodys", NfsStat::WRONGSEC),
        (user_with_groups(uid, 0, vec![0]), "groups", NfsStat::ACCESS),
        (user_with_groups(uid, 0, vec![0]), "roots", NfsStat::ACCESS),
        (user_with_groups(uid, 0, vec![0]), "everybodys", NfsStat::OK),
    ] {
        let what = format!("{claimed:?} {name}");
        own.credential = claimed;
        let reading = OpenArgs { share_access: share::ACCESS_READ, ..open_name("o", name) };
        let reply = own.compound().putrootfh().op(OpArgs::Open(reading)).send().await;
        assert_eq!(reply.status(), status, "{what}");
    }
}

/// The read-only client reads everything and changes nothing, whatever the operation; a file that
/// is there can be opened with a create that would create nothing.
#[tokio::test]
async fn clients_that_only_read() {
    let export = Export { rules: vec![rule("127.0.0.0/8", Access::ReadWrite)], ..open_export() };
    let mut cluster = Cluster::with(Options { export, on_disk: true, ..Options::default() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, open) = c.file("f").await;
    c.compound().putfh(&fh).op(close(open)).send().await.ok();
    let export = Export { rules: vec![rule("127.0.0.0/8", Access::ReadOnly)], ..open_export() };
    cluster.set_export(export);
    cluster.restart().await;
    let mut c = Client::mount(&cluster, "a").await;
    let any = Stateid::ANONYMOUS;
    let changes = [
        mkdir("d"),
        symlink("l", "x"),
        remove("f"),
        rename("f", "g"),
        link("g"),
        OpArgs::Open(open_name("o", "f")),
        OpArgs::Open(open_create("o", "f")),
    ];
    for op in changes {
        let what = format!("{op:?}");
        let reply = c.compound().putrootfh().savefh().op(op).send().await;
        assert_eq!(reply.status(), NfsStat::ROFS, "{what}");
    }
    let on_file = [
        setattr(any, mode(0o600)),
        write(any, 0, b"x"),
        setxattr(SetxattrOption::EITHER, "k", b"v"),
        removexattr("k"),
    ];
    for op in on_file {
        c.compound().putfh(&fh).op(op).expect(NfsStat::ROFS).await;
    }
    let reads = |name: &str, how| OpenArgs {
        share_access: share::ACCESS_READ,
        openhow: how,
        ..open_name("o", name)
    };
    let cases = [
        ("f", None, NfsStat::OK),
        ("f", Some(CreateHow::Unchecked(Box::new(mode(0o644)))), NfsStat::OK),
        ("f", Some(CreateHow::Unchecked(Box::new(size(0)))), NfsStat::ROFS),
        ("f", Some(CreateHow::Guarded(Box::new(mode(0o644)))), NfsStat::EXIST),
        ("g", None, NfsStat::NOENT),
        ("g", Some(CreateHow::Unchecked(Box::new(mode(0o644)))), NfsStat::ROFS),
        ("g", Some(CreateHow::Guarded(Box::new(mode(0o644)))), NfsStat::ROFS),
    ];
    for (name, how, status) in cases {
        let what = format!("{name} {how:?}");
        let reply = c.compound().putrootfh().open(reads(name, how)).send().await;
        assert_eq!(reply.status(), status, "{what}");
    }
    let all = bit::READ | bit::MODIFY | bit::EXTEND | bit::XAREAD | bit::XAWRITE;
    let reply = c.compound().putfh(&fh).op(access(all)).send().await.ok();
    let Ok(OpOk::Access(a)) = &reply.last().result else { panic!("{reply:?}") };
    assert_eq!((a.supported, a.access), (all, bit::READ | bit::XAREAD));
    c.compound().putfh(&fh).op(read(any, 0, 10)).expect(NfsStat::OK).await;
}

/// Who may only read from now on gets no handle that writes by the open that he has from before:
/// data servers do not know the export.
#[tokio::test]
async fn opens_of_before_lead_to_no_write_layouts() {
    let cluster = Cluster::striped(1).await;
    let mut c = Client::mount(&cluster, "a").await;
    let (fh, open) = c.file("f").await;
    let rules = vec![rule("127.0.0.1", Access::ReadOnly)];
    cluster.reload(Export { rules, ..open_export() });
    let get = |iomode| OpArgs::Layoutget(layoutget(open, iomode));
    let refused = NfsStat::LAYOUTUNAVAILABLE;
    c.compound().putfh(&fh).op(get(IoMode::RW)).expect(refused).await;
    c.compound().putfh(&fh).op(write(open, 0, b"x")).expect(NfsStat::ROFS).await;
    c.compound().putfh(&fh).op(get(IoMode::READ)).expect(NfsStat::OK).await;
}

/// A rule may say otherwise than the export about who is squashed.
#[tokio::test]
async fn squash_by_rule() {
    for (export_squash, rule_squash, status) in [
        (true, None, NfsStat::ACCESS),
        (true, Some(false), NfsStat::OK),
        (false, Some(true), NfsStat::ACCESS),
    ] {
        let everywhere = rule("0.0.0.0/0", Access::ReadWrite);
        let rule = ClientRule { root_squash: rule_squash, ..everywhere };
        let export = Export { root_squash: export_squash, rules: vec![rule], ..open_export() };
        let cluster = cluster(export).await;
        let mut c = Client::mount(&cluster, "a").await;
        c.compound().putrootfh().op(mkdir("d")).expect(status).await;
    }
}

async fn flavors(c: &mut Client) -> Vec<u32> {
    let ask = OpArgs::SecinfoNoName(SecinfoNoNameArgs { style: 0 });
    let reply = c.compound().putrootfh().op(ask).send().await.ok();
    let Ok(OpOk::SecinfoNoName(ok)) = &reply.last().result else { panic!("{reply:?}") };
    ok.flavors.0.clone()
}

/// SECINFO tells the flavors that are served, also to who came with another; everything else is
/// WRONGSEC for him, where and when §2.6.3.1.1 says.
#[tokio::test]
async fn flavors_that_are_not_served() {
    let everybody = cluster(open_export()).await;
    let mut c = Client::mount(&everybody, "a").await;
    assert_eq!(flavors(&mut c).await, [1, 0]);
    c.credential = OpaqueAuth::NONE;
    c.compound().putrootfh().getattr(&[AttrNo::TYPE]).expect(NfsStat::OK).await;

    let cluster = cluster(Export { auth_none: false, ..open_export() }).await;
    let mut c = Client::mount(&cluster, "a").await;
    c.compound().putrootfh().op(mkdir("d")).send().await.ok();
    let (fh, _) = c.file("f").await;
    c.credential = OpaqueAuth::NONE;
    assert_eq!(flavors(&mut c).await, [1]);
    let named = OpArgs::Secinfo(SecinfoArgs { name: "d".into() });
    c.compound().putrootfh().op(named).expect(NfsStat::OK).await;
    // The operation that puts the handle says so, unless the next one can say it itself.
    let at_the_put = [getattr(&[AttrNo::TYPE]), mkdir("e"), OpArgs::Getfh, access(bit::READ)];
    for op in at_the_put {
        let reply = c.compound().putrootfh().op(op.clone()).expect(NfsStat::WRONGSEC).await;
        assert_eq!(reply.len(), 2, "{op:?}");
        let reply = c.compound().putfh(&fh).op(op).expect(NfsStat::WRONGSEC).await;
        assert_eq!(reply.len(), 2);
    }
    let open = OpArgs::Open(open_name("o", "f"));
    for op in [lookup("d"), OpArgs::Lookupp, open] {
        let reply = c.compound().putrootfh().op(op.clone()).expect(NfsStat::WRONGSEC).await;
        assert_eq!(reply.len(), 3, "{op:?}");
    }
    c.compound().putrootfh().expect(NfsStat::OK).await;
    c.compound().putrootfh().savefh().expect(NfsStat::OK).await;
    c.compound().putrootfh().putfh(&fh).expect(NfsStat::OK).await;
    // No detour leads in.
    let around = c.compound().putrootfh().savefh().restorefh().getattr(&[AttrNo::TYPE]);
    around.expect(NfsStat::ACCESS).await;
    let around = c.compound().putrootfh().savefh().op(read(Stateid::ANONYMOUS, 0, 1));
    around.expect(NfsStat::ACCESS).await;
}

/// With server groups the host's list counts, not the client's; whom the host does not know keeps
/// what he says.
#[tokio::test]
async fn groups_of_the_server() {
    for (server_groups, status) in [(false, NfsStat::OK), (true, NfsStat::ACCESS)] {
        let export = Export { server_groups, ..open_export() };
        let cluster =
            Cluster::with(Options { export, naming: Naming::default(), ..Options::default() })
                .await;
        let mut c = Client::mount(&cluster, "a").await;
        let make = create(CreateType::Directory, "d", mode(0o770));
        let dir = c.compound().putrootfh().op(make).getfh().send().await.ok().fh();
        let group = |id| weft_nfs::Attrs {
            owner_group: Some(weft_nfs::attr::numeric_owner(id)),
            ..weft_nfs::Attrs::default()
        };
        c.compound().putfh(&dir).op(setattr(Stateid::ANONYMOUS, group(987_654))).send().await.ok();
        // User 1 is daemon on every machine, and in no such group; nobody knows the other.
        for (uid, wanted) in [(1, status), (3_999_999_999, NfsStat::OK)] {
            c.credential = user_with_groups(uid, 65_533, vec![987_654]);
            let list = OpArgs::Readdir(readdir(0, 4096, &[]));
            c.compound().putfh(&dir).op(list).expect(wanted).await;
            c.credential = user(0, 0);
        }
    }
}
