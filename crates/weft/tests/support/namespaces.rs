//! Switches with several machines on them, made of network namespaces: one address each on a
//! switch, nothing shared but the wires, and each wire can be pulled.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The switches and their machines; dropping it removes them all.
pub struct Network {
    /// Distinguishes the namespaces of this network from all others.
    prefix: String,
    machines: Vec<String>,
}

impl Network {
    /// A switch with the named machines: 10.212.0.1, 10.212.0.2, … in the order given.
    pub fn new(machines: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        super::require_root("a network of namespaces");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("weft{}n{number}", std::process::id());
        let mut network = Self { prefix, machines: Vec::new() };
        machines.iter().for_each(|machine| network.add(machine));
        network.wire(0, machines);
        network
    }

    /// One more switch, with some of the machines: 10.212.SWITCH.1, … in the order given.
    pub fn wire(&mut self, switch: u8, machines: &[&str]) {
        let (name, port) = (switch_name(switch), format!("eth{switch}"));
        self.add(&name);
        self.ip(&name, &["link", "add", "br0", "type", "bridge"]);
        self.ip(&name, &["link", "set", "br0", "up"]);
        for (number, machine) in machines.iter().enumerate() {
            let (here, there) = (self.namespace(&name), self.namespace(machine));
            let pair = ["link", "add", machine, "netns", &here, "type", "veth", "peer"];
            ip(&[&pair[..], &["name", &port, "netns", &there]].concat());
            self.ip(&name, &["link", "set", machine, "master", "br0", "up"]);
            let address = format!("10.212.{switch}.{}/24", number + 1);
            self.ip(machine, &["addr", "add", &address, "dev", &port]);
            self.ip(machine, &["link", "set", &port, "up"]);
        }
    }

    /// Pulls a machine's wire to a switch.
    pub fn cut(&self, switch: u8, machine: &str) {
        self.ip(&switch_name(switch), &["link", "set", machine, "down"]);
    }

    /// Plugs it in again.
    pub fn mend(&self, switch: u8, machine: &str) {
        self.ip(&switch_name(switch), &["link", "set", machine, "up"]);
    }

    /// Makes the machine at this place of the list a router, by which all others on the first
    /// switch reach what is behind it.
    pub fn route_through(&self, router: &str, number: usize, others: &[&str]) {
        let forward = "echo 1 >/proc/sys/net/ipv4/ip_forward";
        let set = self.command(router, std::path::Path::new("sh")).args(["-c", forward]).output();
        let set = set.expect("ip starts");
        assert!(set.status.success(), "{forward}: {}", super::words(&set));
        for machine in others {
            self.ip(machine, &["route", "add", "default", "via", &Self::address(number)]);
        }
    }

    /// The address of the machine given at this place of the list.
    pub fn address(number: usize) -> String {
        format!("10.212.0.{}", number + 1)
    }

    /// A command that runs `program` on one of the machines.
    pub fn command(&self, machine: &str, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(machine)]).arg(program);
        command
    }

    /// The name of a machine's namespace, as `ip netns exec` wants it.
    pub fn namespace(&self, machine: &str) -> String {
        format!("{}-{machine}", self.prefix)
    }

    fn add(&mut self, machine: &str) {
        ip(&["netns", "add", &self.namespace(machine)]);
        self.machines.push(machine.to_owned());
        self.ip(machine, &["link", "set", "lo", "up"]);
    }

    fn ip(&self, machine: &str, arguments: &[&str]) {
        ip(&[&["-n", &self.namespace(machine)], arguments].concat());
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in &self.machines {
            // A namespace that is left over costs nothing and has a unique name.
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(machine)]).status();
        }
    }
}

fn switch_name(switch: u8) -> String {
    format!("switch{switch}")
}

fn ip(arguments: &[&str]) {
    let output = super::run("ip", arguments);
    assert!(output.status.success(), "ip {arguments:?}: {}", super::words(&output));
}
