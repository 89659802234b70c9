//! One sequence of acts: who acts from where, how requests are sent and callbacks answered, and
//! the judging of what comes back.

use std::time::Duration;

use weft_dev::SeededRng;
use weft_mds::{Access, ClientRule, Export};
use weft_nfs::{
    IoMode, NfsStat, OpArgs, OpOk, Stateid,
    callback::{CbOp, LayoutRecall},
    ops::DelegreturnArgs,
};
use weft_xdr::rpc::OpaqueAuth;

use super::{
    held::{Held, HostId, Other},
    world::{NodeId, Verdict, Who, World, markers},
};
use crate::support::*;

/// Whom everybody becomes that is squashed.
const ANONYMOUS: u32 = 65_534;
/// Times that an act is tried again that the server puts off.
const TRIES: usize = 20;
/// How long a reply is waited for before callbacks are looked at.
const GLANCE: Duration = Duration::from_millis(2);
/// Slot of what callbacks ask for: that of acts may be waiting for it.
const CALLBACK_SLOT: u32 = 1;

/// A fault of the server.
#[derive(Debug)]
pub struct Fault(pub String);

pub fn fault<T>(text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault(text.into()))
}

/// How the export treats a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Open,
    RootSquash,
    AllSquash,
    ReadOnly,
    Nothing,
}

/// Every policy.
pub const POLICIES: [Policy; 5] =
    [Policy::Open, Policy::RootSquash, Policy::AllSquash, Policy::ReadOnly, Policy::Nothing];

/// One that sends requests: from an address, with clients of its own.
pub struct Host {
    pub address: [u8; 4],
    pub policy: Policy,
    /// At the metadata server.
    pub client: Option<Client>,
    /// At the data servers.
    pub storage: Vec<Option<Client>>,
    /// Incarnations of its client so far.
    pub verifier: u64,
    /// How often it had to take another name.
    pub renamed: u32,
    /// Whether its client has ever held something: for a while it is known as one that does.
    pub has_held: bool,
    /// Whether it had when the server was last killed.
    pub may_reclaim: bool,
}

/// A user: number, group and further groups; or none.
pub type User = Option<(u32, u32, &'static [u32])>;

/// Who acts. They share groups as main and as further ones; the last has no credential.
pub const USERS: [User; 5] = [
    Some((0, 0, &[])),
    Some((1000, 100, &[])),
    Some((1001, 101, &[100])),
    Some((1002, 102, &[101, 0])),
    None,
];

/// A user on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actor {
    pub host: HostId,
    pub user: usize,
}

/// Who sees everything: root where nobody is squashed.
pub const AUDITOR: Actor = Actor { host: 0, user: 0 };

/// What was done.
#[derive(Debug, Default, Clone, Copy)]
pub struct Figures {
    pub sequences: usize,
    pub acts: usize,
    pub done: usize,
    pub refused: usize,
    pub otherwise: usize,
    pub markers: usize,
    pub compared: usize,
    pub restarts: usize,
    /// Lists set, inherited, and changed by a mode.
    pub lists: usize,
}

impl Figures {
    pub fn add(&mut self, more: &Figures) {
        self.sequences += more.sequences;
        self.acts += more.acts;
        self.done += more.done;
        self.refused += more.refused;
        self.otherwise += more.otherwise;
        self.markers += more.markers;
        self.compared += more.compared;
        self.restarts += more.restarts;
        self.lists += more.lists;
    }
}

pub struct Run {
    pub cluster: Cluster,
    pub hosts: Vec<Host>,
    pub world: World,
    pub held: Held,
    pub random: SeededRng,
    pub log: Vec<String>,
    pub figures: Figures,
    pub in_grace: bool,
    /// Whether what was asked last had to be asked again.
    pub put_off: bool,
    /// Whether who has no credential is served.
    pub auth_none: bool,
}

fn options(auth_none: bool, seed: u64, hosts: &[Host]) -> Options {
    let small_files =
        if seed.is_multiple_of(2) { weft_mds::SmallFiles::OFF } else { Default::default() };
    Options {
        data_servers: 2,
        on_disk: restarts(seed),
        export: export(auth_none, hosts),
        small_files,
        ..Options::default()
    }
}

/// Whether servers are killed in the sequence of this seed: then they keep all on a disk.
pub fn restarts(seed: u64) -> bool {
    seed.is_multiple_of(3)
}

fn export(auth_none: bool, hosts: &[Host]) -> Export {
    let rule = |host: &Host| ClientRule {
        networks: vec![std::net::Ipv4Addr::from(host.address).to_string().parse().unwrap()],
        access: match host.policy {
            Policy::Open | Policy::RootSquash | Policy::AllSquash => Access::ReadWrite,
            Policy::ReadOnly => Access::ReadOnly,
            Policy::Nothing => Access::None,
        },
        root_squash: Some(host.policy == Policy::RootSquash),
        all_squash: Some(host.policy == Policy::AllSquash),
        privileged_ports: Some(false),
    };
    Export {
        anonymous_uid: ANONYMOUS,
        anonymous_gid: ANONYMOUS,
        auth_none,
        rules: hosts.iter().map(rule).collect(),
        ..Export::default()
    }
}

impl Run {
    pub async fn new(seed: u64) -> Run {
        let policies = POLICIES.into_iter().chain([Policy::Open]);
        let host = |(n, policy)| Host {
            address: [127, 0, 0, 2 + n as u8],
            policy,
            client: None,
            storage: vec![None, None],
            verifier: 1,
            renamed: 0,
            has_held: false,
            may_reclaim: false,
        };
        let hosts: Vec<_> = policies.enumerate().map(host).collect();
        let auth_none = !seed.is_multiple_of(5);
        Run {
            cluster: Cluster::with(options(auth_none, seed, &hosts)).await,
            hosts,
            world: World::default(),
            held: Held::default(),
            random: SeededRng::new(seed),
            log: Vec::new(),
            figures: Figures { sequences: 1, ..Figures::default() },
            in_grace: false,
            put_off: false,
            auth_none,
        }
    }

    /// The user as the export lets him appear.
    pub fn who(&self, a: Actor) -> Who {
        let policy = self.hosts[a.host].policy;
        match USERS[a.user] {
            Some((uid, gid, gids)) if policy != Policy::AllSquash => match (uid, policy) {
                (0, Policy::RootSquash) => Who::anonymous(),
                (_, Policy::RootSquash) => {
                    let squashed = |gid| if gid == 0 { ANONYMOUS } else { gid };
                    let gids = gids.iter().map(|gid| squashed(*gid)).collect();
                    Who { uid, gid: squashed(gid), gids }
                }
                _ => Who { uid, gid, gids: gids.to_vec() },
            },
            _ => Who::anonymous(),
        }
    }

    /// Whether the export serves the user at all.
    pub fn gate(&self, a: Actor) -> Verdict {
        let served = self.hosts[a.host].policy != Policy::Nothing;
        Verdict::of(served && (self.auth_none || USERS[a.user].is_some()))
    }

    /// Whether the export lets the user change something.
    pub fn gate_to_change(&self, a: Actor) -> Verdict {
        self.gate(a).and(Verdict::of(self.hosts[a.host].policy != Policy::ReadOnly))
    }

    /// Changes how a host is treated, while the server runs.
    pub fn treat(&mut self, host: HostId, policy: Policy) {
        self.hosts[host].policy = policy;
        let export = export(self.auth_none, &self.hosts);
        self.cluster.reload(export.clone());
        self.cluster.set_export(export);
    }

    /// Its client, if there is one or it may come.
    async fn ready(&mut self, host: HostId) -> Result<bool, Fault> {
        if self.hosts[host].client.is_none() {
            return self.come(host).await;
        }
        Ok(true)
    }

    /// The host's client comes; whether it is served.
    pub async fn come(&mut self, host: HostId) -> Result<bool, Fault> {
        for _ in 0..10 {
            let h = &self.hosts[host];
            let owner = h.owner(host);
            let options = ClientOptions { verifier: h.verifier, from: h.address, ..owner };
            let wire = Wire::connect_from(h.address, self.cluster.address()).await;
            let (status, client) = arrive(wire, options, user(0, 0)).await;
            let served = h.policy != Policy::Nothing;
            self.log.push(format!("host {host} comes: {status:?}"));
            match (status, client) {
                (NfsStat::OK, Some(_)) if !served => {
                    return fault(format!("host {host} is not served and is a client"));
                }
                (NfsStat::OK, Some(mut client)) => {
                    if !self.in_grace {
                        // One that came back has said so before.
                        client.compound().op(reclaim_complete()).send().await;
                    }
                    self.hosts[host].client = Some(client);
                    return Ok(true);
                }
                (NfsStat::ACCESS, _) if !served => return Ok(false),
                // Somebody else came first with that name.
                (NfsStat::CLID_INUSE, _) => self.hosts[host].renamed += 1,
                (NfsStat::DELAY, _) => tokio::time::sleep(GLANCE).await,
                (status, _) => return fault(format!("host {host} cannot come: {status:?}")),
            }
        }
        fault(format!("host {host} never comes"))
    }

    /// Sends a request; nothing if the host has no session.
    pub async fn ask(&mut self, a: Actor, ops: &[OpArgs]) -> Result<Option<Reply>, Fault> {
        if !self.ready(a.host).await? {
            self.figures.refused += 1;
            return Ok(None);
        }
        let mut tries = 0;
        loop {
            let reply = self.once(a, ops).await?;
            self.put_off = tries > 0;
            tries += 1;
            if reply.status() != NfsStat::DELAY || tries == TRIES {
                if self.put_off {
                    self.log.push(format!("{a:?} is put off {} times", tries - 1));
                }
                self.look_for_markers(a, &reply)?;
                return Ok(Some(reply));
            }
            self.answer_callbacks().await;
            tokio::time::sleep(GLANCE).await;
        }
    }

    async fn once(&mut self, a: Actor, ops: &[OpArgs]) -> Result<Reply, Fault> {
        let client = self.hosts[a.host].client.as_mut().expect("it is ready");
        let mut all = vec![client.next_sequence(0, false)];
        all.extend_from_slice(ops);
        let args = compound_args("", 2, &all);
        let xid = client.wire.send_compound(&credential(a.user), &args).await;
        let reply = loop {
            let client = self.hosts[a.host].client.as_mut().expect("it is ready");
            match client.wire.reply_within(xid, GLANCE).await {
                Some(reply) => break reply,
                None => self.answer_callbacks().await,
            }
        };
        match reply.compound.results.first().map(|first| first.status()) {
            Some(NfsStat::OK) => Ok(reply),
            // Nobody here ends a session that is in use, but for its own host.
            status => fault(format!("the session of host {} is gone: {status:?}", a.host)),
        }
    }

    pub async fn answer_callbacks(&mut self) {
        for host in 0..self.hosts.len() {
            let Some(client) = &mut self.hosts[host].client else { continue };
            client.wire.poll();
            for callback in client.wire.callbacks_here() {
                self.answer(host, &callback).await;
            }
        }
    }

    /// Gives back what is asked for.
    async fn answer(&mut self, host: HostId, callback: &Callback) {
        let Some(client) = &mut self.hosts[host].client else { return };
        match callback.ops.get(1) {
            Some(CbOp::Recall(r)) => {
                client.wire.answer(callback, NfsStat::OK).await;
                let back = OpArgs::Delegreturn(DelegreturnArgs { deleg_stateid: r.stateid });
                let back = client.compound().slot(CALLBACK_SLOT).putfh(&r.fh).op(back);
                let status = back.send().await.status();
                self.log.push(format!("host {host} gives a delegation back: {status:?}"));
                self.held.delegations.retain(|d| d.stateid.other != r.stateid.other);
            }
            Some(CbOp::Layoutrecall(r)) => {
                let LayoutRecall::File { fh, stateid, .. } = &r.recall else {
                    unreachable!("files are recalled one by one")
                };
                let recalled = |l: &&Other| l.stateid.other == stateid.other;
                let node = self.held.layouts.iter().find(recalled).map(|l| l.node);
                if node.is_some_and(|node| node % 4 > 0) {
                    client.wire.answer(callback, NfsStat::OK).await;
                    let back = OpArgs::Layoutreturn(layoutreturn(*stateid, IoMode::ANY));
                    let back = client.compound().slot(CALLBACK_SLOT).putfh(fh).op(back);
                    let status = back.send().await.status();
                    self.log.push(format!("host {host} gives a layout back: {status:?}"));
                } else {
                    client.wire.answer(callback, NfsStat::NOMATCHING_LAYOUT).await;
                    self.log.push(format!("host {host} has no layout to give back"));
                    node.into_iter().for_each(|node| self.held.end_in_background(host, node));
                }
                node.into_iter().for_each(|node| self.held.layout_gone(host, node));
            }
            _ => client.wire.answer(callback, NfsStat::OK).await,
        }
    }

    /// Every marker in a reply of the metadata server must be one that he may see.
    fn look_for_markers(&mut self, a: Actor, reply: &Reply) -> Result<(), Fault> {
        let who = self.who(a);
        for marker in markers(&reply.raw) {
            self.figures.markers += 1;
            let reads = |id: NodeId| self.held.reads(a.host, id);
            if self.gate(a) == Verdict::Forbidden || !self.world.may_see(marker, &who, reads) {
                let status = reply.status();
                return fault(format!("{a:?} gets marker {marker}, not his to see ({status:?})"));
            }
        }
        Ok(())
    }

    /// Compares what became of an act with what the rules say; whether it was done.
    pub fn judge(
        &mut self,
        a: Actor,
        what: &str,
        verdict: Verdict,
        reply: Option<&Reply>,
    ) -> Result<bool, Fault> {
        let Some(reply) = reply else {
            self.log.push(format!("{a:?} {what}: no session"));
            return Ok(false);
        };
        let status = reply.status();
        self.log.push(format!("{a:?} {what}: {status:?} ({verdict:?})"));
        let for_permission = [NfsStat::ACCESS, NfsStat::PERM, NfsStat::ROFS, NfsStat::WRONGSEC];
        let (done, refused) = (status == NfsStat::OK, for_permission.contains(&status));
        match () {
            () if done => self.figures.done += 1,
            () if refused => self.figures.refused += 1,
            () => self.figures.otherwise += 1,
        }
        match verdict {
            Verdict::Forbidden if done => fault(format!("{a:?} may not, and does: {what}")),
            Verdict::Allowed if refused => {
                fault(format!("{a:?} may, and does not: {what}: {status:?}"))
            }
            _ => Ok(done),
        }
    }

    /// [`Run::ask`] and [`Run::judge`]: the reply if it was done.
    pub async fn act(
        &mut self,
        a: Actor,
        what: &str,
        verdict: Verdict,
        ops: &[OpArgs],
    ) -> Result<Option<Reply>, Fault> {
        let reply = match self.ask(a, ops).await {
            Ok(reply) => reply,
            Err(fault) => {
                self.log.push(format!("{a:?} {what}: ({verdict:?})"));
                return Err(fault);
            }
        };
        let done = self.judge(a, what, verdict, reply.as_ref())?;
        Ok(reply.filter(|_| done))
    }

    // Choosing.

    pub fn one_in(&mut self, n: u64) -> bool {
        self.random.one_in(n)
    }

    /// Something with a name, or without one but open; of this sort.
    pub fn any(&mut self, fits: impl Fn(&super::world::Node) -> bool) -> Option<NodeId> {
        let nodes = self.world.nodes.iter().enumerate();
        let is_there = |id: NodeId| {
            id == World::ROOT || self.world.nodes[id].links > 0 || self.held.is_open(id)
        };
        let all: Vec<_> =
            nodes.filter(|(id, n)| is_there(*id) && fits(n)).map(|(id, _)| id).collect();
        self.random.choose(&all)
    }

    pub fn any_directory(&mut self) -> NodeId {
        self.any(|n| n.is_directory()).expect("the root is one")
    }

    /// An entry of a directory.
    pub fn entry_of(&mut self, dir: NodeId) -> Option<(String, NodeId)> {
        let entries: Vec<_> = self.world.nodes[dir].entries().clone().into_iter().collect();
        self.random.choose(&entries)
    }

    /// A directory and something in it.
    pub fn any_entry(&mut self) -> Option<(NodeId, String, NodeId)> {
        let dir = self.any(|n| !n.entries().is_empty())?;
        let (name, id) = self.entry_of(dir)?;
        Some((dir, name, id))
    }
}

impl Who {
    fn anonymous() -> Who {
        Who { uid: ANONYMOUS, gid: ANONYMOUS, gids: Vec::new() }
    }
}

impl Host {
    /// What its client says it is.
    pub fn owner(&self, id: HostId) -> ClientOptions {
        let name = format!("host {id} {}", self.renamed);
        ClientOptions { fore: channel(4, 1 << 16), ..ClientOptions::new(&name) }
    }
}

pub fn credential(who: usize) -> OpaqueAuth {
    match USERS[who] {
        Some((uid, gid, gids)) => user_with_groups(uid, gid, gids.to_vec()),
        None => OpaqueAuth::NONE,
    }
}

/// EXCHANGE_ID and CREATE_SESSION, as far as they go.
pub async fn arrive(
    mut wire: Wire,
    options: ClientOptions,
    credential: OpaqueAuth,
) -> (NfsStat, Option<Client>) {
    let ask = [OpArgs::ExchangeId(exchange_id(&options))];
    let reply = wire.compound(&credential, 2, &ask).await;
    let Ok(OpOk::ExchangeId(known)) = &reply.last().result else { return (reply.status(), None) };
    let create = create_session(known.clientid, known.sequenceid, &options);
    let reply = wire.compound(&credential, 2, &[OpArgs::CreateSession(create)]).await;
    let Ok(OpOk::CreateSession(made)) = &reply.last().result else {
        return (reply.status(), None);
    };
    (NfsStat::OK, Some(Client::of(wire, options, credential, known.clientid, made)))
}

/// The newest of a state, whatever its number.
pub fn newest(stateid: Stateid) -> Stateid {
    Stateid { seqid: weft_nfs::Seqid(0), ..stateid }
}
