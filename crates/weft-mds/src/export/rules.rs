//! Who may do what with the export: by client address, port and security flavor, and by what the
//! kernel says of programs of this machine. Users are mapped (squashed) here too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weft_nfs::{Failure, NfsStat, OpArgs, share};
use weft_server::{
    op_table::{Effect, ExportUse, Row},
    rpc::{Caller, Conn, NOBODY},
};
use weft_store::types::Credential;
use weft_xdr::rpc::AuthFlavor;

use crate::network::Network;

/// Ports that only privileged programs of a client can use are below this.
const PRIVILEGED_PORTS: u16 = 1024;

/// What a client may do with the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// Nothing that changes it.
    ReadOnly,
    /// Nothing.
    None,
}

/// What holds for some clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRule {
    /// Which clients.
    pub networks: Vec<Network>,
    /// What they may do.
    pub access: Access,
    /// User 0 becomes the anonymous user; as for everybody if absent.
    pub root_squash: Option<bool>,
    /// Everybody becomes the anonymous user; as for everybody if absent.
    pub all_squash: Option<bool>,
    /// They must connect from a privileged port; as for everybody if absent.
    pub privileged_ports: Option<bool>,
}

/// The export. The default is a safe one, as knfsd's is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// User 0 becomes the anonymous user, and group 0 the anonymous group, of whoever is not root
    /// of this machine.
    pub root_squash: bool,
    /// Everybody becomes the anonymous user.
    pub all_squash: bool,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The anonymous group.
    pub anonymous_gid: u32,
    /// Callers without a credential (AUTH_NONE) are served, as the anonymous user.
    pub auth_none: bool,
    /// Clients must connect from a privileged port, or be a program of this machine, which then
    /// speaks for its user only.
    pub privileged_ports: bool,
    /// A user's groups are those the server's host knows, not the 16 that AUTH_SYS carries.
    pub server_groups: bool,
    /// Callers that may read a file and not write it may deny it to others (share reservations).
    pub readers_deny: bool,
    /// What clients are delegated; no matter of rights.
    pub delegated: Delegated,
    /// The first rule whose networks have the client decides. Without rules everybody reads and
    /// writes; with rules whom none fits does nothing, but for root of this machine.
    pub rules: Vec<ClientRule>,
}

/// Which delegations clients are given beside those to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delegated {
    /// Of directories (ADR 19).
    pub directories: bool,
    /// To write (ADR 20).
    pub writes: bool,
}

impl Default for Export {
    fn default() -> Self {
        Export {
            root_squash: true,
            all_squash: false,
            anonymous_uid: NOBODY,
            anonymous_gid: NOBODY,
            auth_none: false,
            privileged_ports: true,
            server_groups: false,
            readers_deny: false,
            delegated: Delegated::default(),
            rules: Vec::new(),
        }
    }
}

/// Whom those behind a connection can speak for, by what their port or the kernel says of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// For everybody: root of this machine, who took a privileged port.
    OwnRoot,
    /// For everybody: a client from a privileged port.
    Host,
    /// For himself: a user of this machine.
    OwnUser(u32),
    /// For nobody.
    Unknown,
}

impl Standing {
    fn of(peer: SocketAddr, owner: Option<u32>) -> Standing {
        match owner {
            // A program of root that forwards what others send takes any port.
            Some(0) if peer.port() < PRIVILEGED_PORTS => Standing::OwnRoot,
            Some(uid) => Standing::OwnUser(uid),
            None if peer.port() < PRIVILEGED_PORTS => Standing::Host,
            None => Standing::Unknown,
        }
    }

    fn speaks_for(self, caller: &Caller) -> bool {
        match self {
            Standing::OwnRoot | Standing::Host => true,
            Standing::OwnUser(uid) => !caller.known || caller.uid == uid,
            Standing::Unknown => false,
        }
    }
}

/// Whose word counts for a caller's groups; the later, the fewer they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupsBy {
    /// The client's.
    Client,
    /// This machine's, of those it knows.
    HostIfKnown,
    /// This machine's only.
    Host,
}

/// The export as one caller behind one connection sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    access: Access,
    root_squash: bool,
    all_squash: bool,
    groups: GroupsBy,
}

impl Export {
    /// The export as this caller behind this connection sees it.
    pub(crate) fn view(&self, conn: &Conn, caller: &Caller) -> View {
        self.view_of(conn.peer, conn.owner, caller)
    }

    fn view_of(&self, peer: SocketAddr, owner: Option<u32>, caller: &Caller) -> View {
        // An IPv4 client of a dual-stack listener appears as ::ffff:a.b.c.d.
        let address: IpAddr = peer.ip().to_canonical();
        let fits = |rule: &&ClientRule| rule.networks.iter().any(|n| n.contains(address));
        let rule = self.rules.iter().find(fits);
        let standing = Standing::of(peer, owner);
        let own_root = standing == Standing::OwnRoot;
        let otherwise = match self.rules.is_empty() || own_root {
            true => Access::ReadWrite,
            false => Access::None,
        };
        let any_port = !rule.and_then(|r| r.privileged_ports).unwrap_or(self.privileged_ports);
        let believed = any_port || standing.speaks_for(caller);
        let root_squash = rule.and_then(|r| r.root_squash);
        View {
            access: match rule {
                _ if !believed => Access::None,
                Some(rule) => rule.access,
                None => otherwise,
            },
            root_squash: root_squash.unwrap_or(self.root_squash && !own_root),
            all_squash: rule.and_then(|r| r.all_squash).unwrap_or(self.all_squash),
            groups: match standing {
                Standing::OwnUser(_) if !any_port => GroupsBy::Host,
                _ if self.server_groups => GroupsBy::HostIfKnown,
                _ => GroupsBy::Client,
            },
        }
    }

    /// Whether anybody may do less than by the rules of `before`, or does it as another user.
    pub(crate) fn restricts(&self, before: &Export) -> bool {
        let users = |e: &Export| (e.anonymous_uid, e.anonymous_gid, e.server_groups);
        let networks = [self, before].into_iter().flat_map(|e| &e.rules).flat_map(|r| &r.networks);
        let least: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        // Between two of these neither has a rule that begins or ends.
        let mut addresses = networks.flat_map(Network::edges).chain(least);
        let lesser = |address| {
            let ports = [PRIVILEGED_PORTS - 1, PRIVILEGED_PORTS];
            ports.into_iter().any(|port| {
                let peer = SocketAddr::new(address, port);
                everybody().any(|(owner, caller)| {
                    let view = |export: &Export| export.view_of(peer, owner, &caller);
                    view(self).is_less_than(view(before))
                })
            })
        };
        users(self) != users(before) || before.auth_none && !self.auth_none || addresses.any(lesser)
    }

    /// Another for other rules of who may do what.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let rights = Export { delegated: Delegated::default(), ..self.clone() };
        blake3::derive_key("weft 2026-11 export rules v3", format!("{rights:?}").as_bytes())
    }

    /// Flavors that are served, preferred first.
    pub(crate) fn flavors(&self) -> Vec<u32> {
        let none = self.auth_none.then_some(AuthFlavor::NONE.0);
        [AuthFlavor::SYS.0].into_iter().chain(none).collect()
    }

    /// The caller as the export sees it.
    pub(crate) fn credential(&self, caller: &Caller, view: View) -> Credential {
        if !caller.known || view.all_squash || (view.root_squash && caller.uid == 0) {
            let (uid, gid) = (self.anonymous_uid, self.anonymous_gid);
            return Credential { uid, gid, gids: Vec::new() };
        }
        let squashed = |gid| match view.root_squash && gid == 0 {
            true => self.anonymous_gid,
            false => gid,
        };
        let gids = caller.gids.iter().map(|gid| squashed(*gid)).collect();
        Credential { uid: caller.uid, gid: squashed(caller.gid), gids }
    }
}

/// One of each kind of callers behind each kind of connections.
fn everybody() -> impl Iterator<Item = (Option<u32>, Caller)> {
    const SOMEBODY: u32 = 1;
    let known = |uid| Caller { uid, gid: uid, gids: Vec::new(), known: true };
    [None, Some(0), Some(SOMEBODY)].into_iter().flat_map(move |owner| {
        [known(0), known(SOMEBODY), Caller::nobody()].map(|caller| (owner, caller))
    })
}

/// Whether the operation changes something, or opens for that.
fn writes(row: &Row, args: &OpArgs) -> bool {
    match (row.effect, args) {
        (Effect::Changes | Effect::Grows, _) => true,
        (_, OpArgs::Open(a)) => a.share_access & share::ACCESS_WRITE != 0,
        _ => false,
    }
}

/// What the export looks at of one operation.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// Who calls, before any squashing.
    pub(crate) caller: &'a Caller,
    /// The export as this caller sees it.
    pub(crate) view: View,
    /// The operation after this one.
    pub(crate) next: Option<&'static Row>,
}

impl Export {
    /// Refuses what this client may not do with the export.
    ///
    /// # Errors
    /// WRONGSEC for a flavor that is not served, where the RFC allows it, else ACCESS; ACCESS for
    /// clients that are not served; ROFS for changes by those that only read.
    pub(crate) fn admit(&self, asked: &Asked<'_>, row: &Row, args: &OpArgs) -> Result<(), NfsStat> {
        let wrong_flavor = !asked.caller.known && !self.auth_none;
        let may_tell = match row.export {
            ExportUse::Nothing | ExportUse::ComesOrGoes | ExportUse::MovesHandle => return Ok(()),
            // Of any flavor, but not from anywhere: names are told.
            ExportUse::Security => return asked.view.served(),
            ExportUse::PutsHandle if wrong_flavor => {
                let deferred = asked.next.is_none_or(|next| next.export.defers_flavor());
                return if deferred { Ok(()) } else { Err(NfsStat::WRONGSEC) };
            }
            ExportUse::PutsHandle => return Ok(()),
            ExportUse::Walks => true,
            ExportUse::Uses => false,
        };
        match asked.view.access {
            _ if wrong_flavor && may_tell => Err(NfsStat::WRONGSEC),
            _ if wrong_flavor => Err(NfsStat::ACCESS),
            Access::None => Err(NfsStat::ACCESS),
            Access::ReadOnly if writes(row, args) => Err(NfsStat::ROFS),
            Access::ReadOnly | Access::ReadWrite => Ok(()),
        }
    }
}

impl View {
    /// Whose word counts for the caller's groups.
    pub(crate) fn groups(self) -> GroupsBy {
        self.groups
    }

    /// The same for who may not change anything.
    pub(crate) fn read_only(self) -> View {
        let access = match self.access {
            Access::ReadWrite | Access::ReadOnly => Access::ReadOnly,
            Access::None => Access::None,
        };
        View { access, ..self }
    }

    fn is_less_than(self, before: View) -> bool {
        let allowed = |view: View| match view.access {
            Access::None => 0,
            Access::ReadOnly => 1,
            Access::ReadWrite => 2,
        };
        allowed(self) < allowed(before)
            || self.root_squash && !before.root_squash
            || self.all_squash && !before.all_squash
            || self.groups > before.groups
    }

    /// Whether this client may do anything at all.
    ///
    /// # Errors
    /// ACCESS.
    pub(crate) fn served(self) -> Result<(), NfsStat> {
        match self.access {
            Access::ReadWrite | Access::ReadOnly => Ok(()),
            Access::None => Err(NfsStat::ACCESS),
        }
    }

    /// Whether this client may change anything.
    ///
    /// # Errors
    /// ROFS.
    pub(crate) fn writable(self) -> Result<(), Failure> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly | Access::None => Err(NfsStat::ROFS.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(networks: &str, access: Access) -> ClientRule {
        let networks = networks.split(' ').map(|n| n.parse().unwrap()).collect();
        let (root_squash, all_squash, privileged_ports) = (None, None, None);
        ClientRule { networks, access, root_squash, all_squash, privileged_ports }
    }

    fn client(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    fn user(uid: u32) -> Caller {
        Caller { uid, gid: uid, gids: vec![0, 5], known: true }
    }

    /// Other rules of who may do what are told from the same ones; what takes no right away from
    /// anybody is not among them, since all handles end with the rules.
    #[test]
    fn digests_are_of_rights() {
        let before = Export::default().digest();
        assert_ne!(Export { root_squash: false, ..Export::default() }.digest(), before);
        assert_ne!(Export { server_groups: true, ..Export::default() }.digest(), before);
        for (directories, writes) in [(true, true), (false, false)] {
            let delegated = Delegated { directories, writes };
            assert_eq!(Export { delegated, ..Export::default() }.digest(), before);
        }
    }

    /// The first rule that fits decides; whom none fits is not served; what a rule leaves open is
    /// as for everybody.
    #[test]
    fn rules_go_by_order() {
        let export = Export {
            rules: vec![
                rule("10.0.0.7", Access::None),
                ClientRule {
                    root_squash: Some(false),
                    ..rule("10.0.0.0/24 2001:db8::/32", Access::ReadWrite)
                },
                rule("10.0.0.0/8", Access::ReadOnly),
                ClientRule {
                    privileged_ports: Some(false),
                    ..rule("192.0.2.0/24", Access::ReadWrite)
                },
            ],
            ..Export::default()
        };
        let rows = [
            ("10.0.0.7:700", Access::None, true),
            ("10.0.0.8:700", Access::ReadWrite, false),
            ("10.0.0.8:1024", Access::None, false),
            ("[::ffff:10.0.0.8]:700", Access::ReadWrite, false),
            ("[2001:db8::1]:700", Access::ReadWrite, false),
            ("10.1.0.8:700", Access::ReadOnly, true),
            ("192.0.2.1:700", Access::ReadWrite, true),
            ("192.0.2.1:1024", Access::ReadWrite, true),
            ("192.0.3.1:700", Access::None, true),
        ];
        for (address, access, root_squash) in rows {
            let view = export.view_of(client(address), None, &user(0));
            assert_eq!((view.access, view.root_squash), (access, root_squash), "{address}");
            let uid = if root_squash { NOBODY } else { 0 };
            assert_eq!(export.credential(&user(0), view).uid, uid, "{address}");
        }
        let open = Export::default();
        assert_eq!(open.view_of(client("192.0.2.1:9"), None, &user(1)).access, Access::ReadWrite);
    }

    /// New rules restrict if any client may do less than before, wherever its network begins and
    /// ends in either, and not if none does.
    #[test]
    fn some_rules_restrict() {
        let of = |rules: &[ClientRule]| Export { rules: rules.to_vec(), ..Export::default() };
        let (all, some) = ("0.0.0.0/0 ::/0", "10.0.0.0/24");
        let writes = |networks| rule(networks, Access::ReadWrite);
        let reads = |networks| rule(networks, Access::ReadOnly);
        let root = |networks| ClientRule { root_squash: Some(false), ..writes(networks) };
        let any_port = Export { privileged_ports: false, ..Export::default() };
        let rows = [
            (of(&[]), of(&[]), false),
            (of(&[]), of(&[writes(all)]), false),
            (of(&[]), of(&[writes("0.0.0.0/0")]), true),
            (of(&[]), of(&[writes(some)]), true),
            (of(&[writes(some)]), of(&[]), false),
            // For root of this machine at such an address.
            (of(&[writes(some)]), of(&[writes(some), reads("10.0.1.0/24")]), true),
            (of(&[reads(some)]), of(&[writes(some)]), false),
            (of(&[writes(some)]), of(&[reads("10.0.0.255"), writes(some)]), true),
            (of(&[writes("10.0.0.0/25 10.0.0.128/25")]), of(&[writes(some)]), false),
            (of(&[writes(some)]), of(&[writes("10.0.0.0/25")]), true),
            (of(&[root(some)]), of(&[writes(some)]), true),
            (of(&[writes(some)]), of(&[root(some)]), false),
            (any_port.clone(), of(&[]), true),
            (of(&[]), any_port, false),
            (Export { auth_none: true, ..of(&[]) }, of(&[]), true),
            (of(&[]), Export { anonymous_uid: 7, ..of(&[]) }, true),
        ];
        for (before, after, restricts) in rows {
            assert_eq!(after.restricts(&before), restricts, "{before:?} {after:?}");
        }
    }

    /// Privileged ports end at 1023.
    #[test]
    fn ports_have_an_edge() {
        let access = |export: &Export, address| {
            let view = export.view_of(client(address), None, &user(1));
            view.access
        };
        let export = Export::default();
        assert_eq!(access(&export, "10.0.0.1:1023"), Access::ReadWrite);
        assert_eq!(access(&export, "10.0.0.1:1024"), Access::None);
        let export = Export { privileged_ports: false, ..export };
        assert_eq!(access(&export, "10.0.0.1:1024"), Access::ReadWrite);
    }

    /// A program of this machine speaks for its user only, whatever its port, with the groups this
    /// machine knows; root from a privileged port for everybody, and is not squashed. A rule that
    /// names the address may say otherwise.
    #[test]
    fn programs_of_this_machine() {
        use Access::{None as No, ReadOnly as Ro, ReadWrite as Rw};
        use GroupsBy::{Client, Host};
        let plain = Export::default();
        let elsewhere = Export { rules: vec![rule("10.0.0.0/8", Rw)], ..Export::default() };
        let here = ClientRule {
            root_squash: Some(true),
            privileged_ports: Some(false),
            ..rule("127.0.0.0/8", Ro)
        };
        let here = Export { rules: vec![here], ..Export::default() };
        for (export, port, owner, uid, access, root_squash, groups) in [
            (&plain, 700, 0, 0, Rw, false, Client),
            (&plain, 700, 0, 1000, Rw, false, Client),
            (&plain, 1024, 0, 0, Rw, true, Host),
            (&plain, 1024, 0, 1000, No, true, Host),
            (&plain, 1024, 1000, 1000, Rw, true, Host),
            (&plain, 1024, 1000, 0, No, true, Host),
            (&plain, 1024, 1000, 1001, No, true, Host),
            (&plain, 700, 1000, 0, No, true, Host),
            (&elsewhere, 700, 0, 0, Rw, false, Client),
            (&elsewhere, 1024, 1000, 1000, No, true, Host),
            (&here, 700, 0, 0, Ro, true, Client),
            (&here, 1024, 1000, 0, Ro, true, Client),
        ] {
            let peer = ([127, 0, 0, 1], port).into();
            let view = export.view_of(peer, Some(owner), &user(uid));
            let told = (view.access, view.root_squash, view.groups);
            assert_eq!(told, (access, root_squash, groups), "{port} {owner} {uid} {export:?}");
        }
    }

    /// Where root is squashed, so is the group of root, of everybody.
    #[test]
    fn the_group_of_root_is_squashed() {
        let export = Export::default();
        let caller = Caller { gid: 0, ..user(7) };
        let view = export.view_of(([10, 0, 0, 1], 700).into(), None, &caller);
        let squashed = Credential { uid: 7, gid: NOBODY, gids: vec![NOBODY, 5] };
        assert_eq!(export.credential(&caller, view), squashed);
        let view = export.view_of(([127, 0, 0, 1], 700).into(), Some(0), &caller);
        assert_eq!(export.credential(&caller, view).gid, 0);
    }
}
