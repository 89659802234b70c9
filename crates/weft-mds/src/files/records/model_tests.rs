//! The table against a model of clients, data servers and what is still on its way to them.

use proptest::prelude::*;
use weft_nfs::ClientId;
use weft_store::types::Inode;

use weft_store::types::fence_epoch::ROW;

use super::{tests::file, *};

const CLIENTS: u64 = 3;
const SERVERS: usize = 2;

/// What can happen. Numbers choose among what is there.
#[derive(Debug, Clone, Copy)]
enum Event {
    Grant(u64),
    /// A client gives its layout back, or seems to have nothing under way.
    Return(u64),
    /// A client gives its layout back with a write of its still under way.
    GiveUp(u64),
    Revoke(u64),
    Die(u64),
    /// A write through the metadata server, to one data server.
    IndirectWrite(u64, usize),
    /// The data server does not answer that one.
    UnansweredWrite(usize),
    Raise,
    Tell(usize),
    ToldAll,
    Truncate,
    Settle,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    use Event::*;
    let client = || 0..CLIENTS;
    let server = || 0..SERVERS;
    prop_oneof![
        3 => client().prop_map(Grant),
        1 => client().prop_map(Return),
        2 => client().prop_map(GiveUp),
        1 => client().prop_map(Revoke),
        1 => client().prop_map(Die),
        2 => (client(), server()).prop_map(|(c, s)| IndirectWrite(c, s)),
        1 => server().prop_map(UnansweredWrite),
        3 => Just(Raise),
        3 => server().prop_map(Tell),
        3 => Just(ToldAll),
        1 => Just(Truncate),
        2 => Just(Settle),
        1 => Just(Restart),
    ]
}

/// What a handle is to its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Held,
    /// Its holder says that nothing is under way, which only concerns its holder if untrue.
    Returned,
    /// A write that was given up may be under way.
    Ghost,
    /// Revoked, or its holder is dead, or it is of before a restart.
    Worthless,
}

/// A handle that was given out.
#[derive(Debug, Clone, Copy)]
struct Out {
    /// `None`: our own.
    holder: Option<u64>,
    epoch: u32,
    right: Right,
}

struct World {
    table: Table,
    inode: Inode,
    /// Epoch each data server insists on.
    servers: [u32; SERVERS],
    out: Vec<Out>,
    /// The fencing under way, and the epoch being told.
    telling: Option<(Stale, u32, [bool; SERVERS])>,
}

impl World {
    fn new() -> Self {
        let inode = file(7, false);
        World { table: table(), inode, servers: [0; SERVERS], out: Vec::new(), telling: None }
    }

    /// Handles that the data server would still obey.
    fn alive(&self, server: usize) -> impl Iterator<Item = &Out> {
        let insists = self.servers[server];
        self.out.iter().filter(move |o| o.epoch >= insists)
    }

    fn assert_all_alive(&self, what: &str, allowed: impl Fn(&Out) -> bool) {
        for server in 0..SERVERS {
            for out in self.alive(server) {
                assert!(allowed(out), "{what} while {out:?} still works on {server}");
            }
        }
    }

    fn raise(&mut self) -> Option<Stale> {
        let stale = self.table.stale(self.inode.no)?;
        if !stale.raised {
            self.inode.fence_epoch += ROW;
            self.table.raised(self.inode.no);
        }
        Some(stale)
    }

    fn holds(&self, client: u64) -> bool {
        self.out.iter().any(|o| o.holder == Some(client) && o.right == Right::Held)
    }

    fn let_go(&mut self, client: u64, right: Right) {
        let held = |o: &&mut Out| o.holder == Some(client) && o.right == Right::Held;
        self.out.iter_mut().filter(held).for_each(|o| o.right = right);
    }

    fn suspect_client(&mut self, client: u64, why: FenceCause) {
        self.table.suspect_handles_of(ClientId(client), &self.inode, why);
        self.raise();
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Grant(client) => self.grant(client),
            Event::Return(client) => self.let_go(client, Right::Returned),
            Event::GiveUp(client) if self.holds(client) => {
                self.let_go(client, Right::Ghost);
                self.suspect_client(client, FenceCause::LateWrite);
            }
            Event::Revoke(client) if self.holds(client) => {
                self.let_go(client, Right::Worthless);
                self.suspect_client(client, FenceCause::Revoked);
            }
            Event::Die(client) => {
                if self.holds(client) {
                    self.table.suspect_revoked(self.inode.no);
                }
                self.table.forget_client(ClientId(client));
                self.let_go(client, Right::Worthless);
                self.bury(|holder| holder == client);
            }
            Event::IndirectWrite(client, server) => self.indirect_write(client, server),
            Event::UnansweredWrite(server) => {
                let epoch = self.inode.fence_epoch;
                if epoch >= self.servers[server] {
                    self.out.push(Out { holder: None, epoch, right: Right::Ghost });
                    self.table.suspect_late_writes(&self.inode);
                    self.raise();
                }
            }
            Event::Raise => {
                if let Some(stale) = self.raise() {
                    self.telling = Some((stale, self.inode.fence_epoch, [false; SERVERS]));
                }
            }
            Event::Tell(server) => {
                if let Some((_, epoch, told)) = &mut self.telling {
                    told[server] = true;
                    self.servers[server] = self.servers[server].max(*epoch);
                }
            }
            Event::ToldAll => {
                if let Some((stale, epoch, [true, true])) = self.telling {
                    self.table.told(self.inode.no, stale, epoch);
                    self.telling = None;
                }
            }
            Event::Truncate => self.truncate(),
            Event::Settle => self.settle(),
            Event::Restart => self.restart(),
            Event::GiveUp(_) | Event::Revoke(_) => {}
        }
    }

    /// Our own writes end with the session they were sent on; other handles stay what they are,
    /// but nobody holds a layout any more.
    fn restart(&mut self) {
        self.table = table();
        self.telling = None;
        self.out.retain(|o| o.holder.is_some());
        let held = self.out.iter_mut().filter(|o| o.right == Right::Held);
        held.for_each(|o| o.right = Right::Worthless);
        self.bury(|_| true);
    }

    /// Whoever comes back is another client.
    fn bury(&mut self, gone: impl Fn(u64) -> bool) {
        let holders = self.out.iter_mut().filter_map(|o| o.holder.as_mut());
        holders.filter(|h| gone(**h)).for_each(|h| *h += CLIENTS);
    }

    /// Late writes are outranked; of those who lost their right nothing works.
    fn grant(&mut self, client: u64) {
        if self.table.refuses_grants(&self.inode) {
            return;
        }
        let epoch = self.inode.fence_epoch;
        self.assert_all_alive("granted", |o| match o.right {
            Right::Held | Right::Returned => true,
            Right::Ghost => o.epoch < epoch,
            Right::Worthless => false,
        });
        self.table.grant(ClientId(client), &self.inode, None);
        self.inode.unsettled = true;
        self.out.push(Out { holder: Some(client), epoch, right: Right::Held });
    }

    fn indirect_write(&mut self, client: u64, server: usize) {
        if self.table.may_write_late(ClientId(client), &self.inode) {
            self.suspect_client(client, FenceCause::LateWrite);
        }
        self.raise();
        self.servers[server] = self.servers[server].max(self.inode.fence_epoch);
        for out in self.alive(server) {
            let others = out.holder.is_some_and(|h| h != client);
            let may = matches!(out.right, Right::Held | Right::Returned) && others;
            assert!(may, "client {client} wrote while {out:?} still works on {server}");
        }
    }

    /// Layouts that are held are their holder's own care: others' are recalled first.
    fn truncate(&mut self) {
        if self.table.try_begin_truncation(&self.inode) {
            if self.table.stale(self.inode.no).is_none() {
                let may = |o: &Out| matches!(o.right, Right::Held | Right::Returned);
                self.assert_all_alive("cut", may);
            }
            self.table.end_truncation(self.inode.no);
        }
    }

    fn settle(&mut self) {
        self.table.marks(&self.inode);
        let quiet = !self.out.iter().any(|o| o.right == Right::Held);
        if quiet && self.table.stale(self.inode.no).is_none() {
            self.assert_all_alive("settled", |o| o.right == Right::Returned);
            self.inode.unsettled = false;
        }
    }
}

fn table() -> Table {
    Table::new(usize::MAX)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// In any order of events nothing is granted, written, cut or settled that a handle without a
    /// right could spoil.
    #[test]
    fn no_stranger_writes(events in proptest::collection::vec(event(), 0..60)) {
        let mut world = World::new();
        for event in events {
            world.step(event);
        }
    }
}
