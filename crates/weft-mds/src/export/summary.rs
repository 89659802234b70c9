//! The export in words, for the administrator who starts a server.

use std::net::{IpAddr, Ipv4Addr};

use super::rules::{Access, ClientRule, Export};

impl Export {
    /// Who may do what, a line for each sort of client; of programs of this machine only if others
    /// do not get here.
    pub fn summary(&self, others_get_here: bool) -> Vec<String> {
        let rule = |rule: &ClientRule| {
            let networks: Vec<_> = rule.networks.iter().map(ToString::to_string).collect();
            format!("{}: {}", networks.join(", "), self.what(rule.access, Some(rule)))
        };
        let mut lines: Vec<String> = self.rules.iter().map(rule).collect();
        if others_get_here {
            lines.push(match self.rules.is_empty() {
                true => format!("other machines: {}", self.what(Access::ReadWrite, None)),
                false => "other machines: nothing".to_owned(),
            });
        }
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        if !self.rules.iter().any(|r| r.networks.iter().any(|n| n.contains(loopback))) {
            lines.push(self.this_machine());
        }
        if self.auth_none {
            lines.push(format!("callers without a credential: as user {}", self.anonymous_uid));
        }
        lines
    }

    fn this_machine(&self) -> String {
        let root = match self.all_squash {
            true => format!("everybody as user {}", self.anonymous_uid),
            false => "root everything".to_owned(),
        };
        let users = match (self.rules.is_empty(), self.privileged_ports) {
            (false, _) => "other users nothing",
            (true, true) => "other users as themselves",
            (true, false) => "other users as whom they say they are",
        };
        match self.all_squash && self.rules.is_empty() {
            true => format!("this machine: {root}"),
            false => format!("this machine: {root}, {users}"),
        }
    }

    fn what(&self, access: Access, rule: Option<&ClientRule>) -> String {
        let may = match access {
            Access::ReadWrite => "read and write",
            Access::ReadOnly => "read",
            Access::None => return "nothing".to_owned(),
        };
        let of = |own: fn(&ClientRule) -> Option<bool>, all| rule.and_then(own).unwrap_or(all);
        let ports = match of(|r| r.privileged_ports, self.privileged_ports) {
            true => "privileged ports",
            false => "any port, as whom they say they are",
        };
        let anonymous = self.anonymous_uid;
        let squashed = match of(|r| r.all_squash, self.all_squash) {
            true => format!("everybody is user {anonymous}"),
            false if of(|r| r.root_squash, self.root_squash) => {
                format!("their root is user {anonymous}")
            }
            false => "their root is root here".to_owned(),
        };
        format!("{may}, from {ports}; {squashed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(network: &str, access: Access) -> ClientRule {
        ClientRule {
            networks: vec![network.parse().unwrap()],
            access,
            root_squash: None,
            all_squash: None,
            privileged_ports: None,
        }
    }

    /// As it is without a word of configuration, and as far from that as it goes.
    #[test]
    fn in_words() {
        let plain = Export::default();
        let here = "this machine: root everything, other users as themselves";
        assert_eq!(plain.summary(false), [here]);
        let others =
            "other machines: read and write, from privileged ports; their root is user 65534";
        assert_eq!(plain.summary(true), [others, here]);
        let rules = vec![
            ClientRule {
                root_squash: Some(false),
                privileged_ports: Some(false),
                ..rule("10.0.0.0/24", Access::ReadWrite)
            },
            ClientRule { all_squash: Some(true), ..rule("10.0.0.0/8", Access::ReadOnly) },
            rule("192.0.2.1", Access::None),
        ];
        let export = Export { rules, auth_none: true, ..Export::default() };
        let lines = [
            "10.0.0.0/24: read and write, from any port, as whom they say they are; their root is \
             root here",
            "10.0.0.0/8: read, from privileged ports; everybody is user 65534",
            "192.0.2.1/32: nothing",
            "other machines: nothing",
            "this machine: root everything, other users nothing",
            "callers without a credential: as user 65534",
        ];
        assert_eq!(export.summary(true), lines);
        let named = Export { rules: vec![rule("127.0.0.0/8", Access::ReadOnly)], ..plain.clone() };
        let line = "127.0.0.0/8: read, from privileged ports; their root is user 65534";
        assert_eq!(named.summary(false), [line]);
        let nobody = Export { all_squash: true, ..plain };
        assert_eq!(nobody.summary(false), ["this machine: everybody as user 65534"]);
    }
}
