//! Who may do what with the export: by client address, port and security flavor. Users are mapped
//! (squashed) here too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weft_nfs::{Failure, NfsStat, OpArgs, share};
use weft_server::{
    op_table::{Effect, ExportUse, Row},
    rpc::{Caller, NOBODY},
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
}

/// The export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// User 0 becomes the anonymous user.
    pub root_squash: bool,
    /// Everybody becomes the anonymous user.
    pub all_squash: bool,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The anonymous group.
    pub anonymous_gid: u32,
    /// Callers without a credential (AUTH_NONE) are served, as the anonymous user.
    pub auth_none: bool,
    /// Only clients that connect from a privileged port are served.
    pub secure_ports: bool,
    /// A user's groups are those the server's host knows, not the 16 that AUTH_SYS carries.
    pub server_groups: bool,
    /// The first rule whose networks have the client decides. Without rules everybody reads and
    /// writes; with rules whom none fits does nothing.
    pub rules: Vec<ClientRule>,
}

impl Default for Export {
    fn default() -> Self {
        Export {
            root_squash: false,
            all_squash: false,
            anonymous_uid: NOBODY,
            anonymous_gid: NOBODY,
            auth_none: true,
            secure_ports: false,
            server_groups: false,
            rules: Vec::new(),
        }
    }
}

/// The export as one client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    access: Access,
    root_squash: bool,
    all_squash: bool,
}

impl Export {
    /// The export as the client at this address sees it.
    pub(crate) fn view(&self, client: SocketAddr) -> View {
        // An IPv4 client of a dual-stack listener appears as ::ffff:a.b.c.d.
        let address: IpAddr = client.ip().to_canonical();
        let fits = |rule: &&ClientRule| rule.networks.iter().any(|n| n.contains(address));
        let rule = self.rules.iter().find(fits);
        let otherwise = if self.rules.is_empty() { Access::ReadWrite } else { Access::None };
        let insecure = self.secure_ports && client.port() >= PRIVILEGED_PORTS;
        View {
            access: match rule {
                _ if insecure => Access::None,
                Some(rule) => rule.access,
                None => otherwise,
            },
            root_squash: rule.and_then(|r| r.root_squash).unwrap_or(self.root_squash),
            all_squash: rule.and_then(|r| r.all_squash).unwrap_or(self.all_squash),
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
                let client = SocketAddr::new(address, port);
                self.view(client).is_less_than(before.view(client))
            })
        };
        users(self) != users(before) || before.auth_none && !self.auth_none || addresses.any(lesser)
    }

    /// Another for other rules.
    pub(crate) fn digest(&self) -> [u8; 32] {
        blake3::derive_key("weft 2026-11 export rules v1", format!("{self:?}").as_bytes())
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
        Credential { uid: caller.uid, gid: caller.gid, gids: caller.gids.clone() }
    }
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
    /// The export as this caller's connection sees it.
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

    fn rule(networks: &str, access: Access, root_squash: Option<bool>) -> ClientRule {
        let networks = networks.split(' ').map(|n| n.parse().unwrap()).collect();
        ClientRule { networks, access, root_squash, all_squash: None }
    }

    fn client(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    /// The first rule that fits decides; whom none fits is not served; what a rule leaves open is
    /// as for everybody.
    #[test]
    fn rules_go_by_order() {
        let export = Export {
            root_squash: true,
            rules: vec![
                rule("10.0.0.7", Access::None, None),
                rule("10.0.0.0/24 2001:db8::/32", Access::ReadWrite, Some(false)),
                rule("10.0.0.0/8", Access::ReadOnly, None),
            ],
            ..Export::default()
        };
        let rows = [
            ("10.0.0.7:700", Access::None, true),
            ("10.0.0.8:700", Access::ReadWrite, false),
            ("[::ffff:10.0.0.8]:700", Access::ReadWrite, false),
            ("[2001:db8::1]:700", Access::ReadWrite, false),
            ("10.1.0.8:700", Access::ReadOnly, true),
            ("192.0.2.1:700", Access::None, true),
        ];
        for (address, access, root_squash) in rows {
            let view = export.view(client(address));
            assert_eq!((view.access, view.root_squash), (access, root_squash), "{address}");
            let root = Caller { uid: 0, gid: 0, gids: vec![5], known: true };
            let uid = if root_squash { NOBODY } else { 0 };
            assert_eq!(export.credential(&root, view).uid, uid, "{address}");
        }
        let open = Export::default();
        assert_eq!(open.view(client("192.0.2.1:9")).access, Access::ReadWrite);
    }

    /// New rules restrict if any client may do less than before, wherever its network begins and
    /// ends in either, and not if none does.
    #[test]
    fn some_rules_restrict() {
        let of = |rules: &[ClientRule]| Export { rules: rules.to_vec(), ..Export::default() };
        let (all, some) = ("0.0.0.0/0 ::/0", "10.0.0.0/24");
        let writes = |networks| rule(networks, Access::ReadWrite, None);
        let reads = |networks| rule(networks, Access::ReadOnly, None);
        let squashed = |networks| rule(networks, Access::ReadWrite, Some(true));
        let secure = Export { secure_ports: true, ..Export::default() };
        let rows = [
            (of(&[]), of(&[]), false),
            (of(&[]), of(&[writes(all)]), false),
            (of(&[]), of(&[writes("0.0.0.0/0")]), true),
            (of(&[]), of(&[writes(some)]), true),
            (of(&[writes(some)]), of(&[]), false),
            (of(&[writes(some)]), of(&[writes(some), reads("10.0.1.0/24")]), false),
            (of(&[writes(some)]), of(&[reads("10.0.0.255"), writes(some)]), true),
            (of(&[writes("10.0.0.0/25 10.0.0.128/25")]), of(&[writes(some)]), false),
            (of(&[writes(some)]), of(&[writes("10.0.0.0/25")]), true),
            (of(&[writes(some)]), of(&[squashed(some)]), true),
            (of(&[squashed(some)]), of(&[writes(some)]), false),
            (of(&[]), secure.clone(), true),
            (secure, of(&[]), false),
            (of(&[]), Export { auth_none: false, ..of(&[]) }, true),
            (of(&[]), Export { anonymous_uid: 7, ..of(&[]) }, true),
        ];
        for (before, after, restricts) in rows {
            assert_eq!(after.restricts(&before), restricts, "{before:?} {after:?}");
        }
    }

    /// Privileged ports end at 1023.
    #[test]
    fn ports_have_an_edge() {
        let export = Export { secure_ports: true, ..Export::default() };
        assert_eq!(export.view(client("10.0.0.1:1023")).access, Access::ReadWrite);
        assert_eq!(export.view(client("10.0.0.1:1024")).access, Access::None);
    }
}
