//! A switch with several machines on it, made of network namespaces: one address each, nothing
//! shared but the wire.

use std::process::Command;

/// The switch and its machines; dropping it removes them all.
pub struct Network {
    /// Distinguishes the namespaces of this test process from all others.
    prefix: String,
    machines: Vec<String>,
}

impl Network {
    /// A switch with the named machines: 10.212.0.1, 10.212.0.2, … in the order given.
    pub fn new(machines: &[&str]) -> Self {
        super::require_root("a network of namespaces");
        let prefix = format!("weft{}", std::process::id());
        let mut network = Self { prefix, machines: Vec::new() };
        network.add("switch");
        network.ip("switch", &["link", "add", "br0", "type", "bridge"]);
        network.ip("switch", &["link", "set", "br0", "up"]);
        for (number, machine) in machines.iter().enumerate() {
            network.add(machine);
            let port = format!("port{number}");
            let (here, there) = (network.namespace("switch"), network.namespace(machine));
            let pair = ["link", "add", &port, "netns", &here, "type", "veth", "peer"];
            ip(&[&pair[..], &["name", "eth0", "netns", &there]].concat());
            network.ip("switch", &["link", "set", &port, "master", "br0", "up"]);
            let address = format!("{}/24", Self::address(number));
            network.ip(machine, &["addr", "add", &address, "dev", "eth0"]);
            network.ip(machine, &["link", "set", "eth0", "up"]);
        }
        network
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

    fn namespace(&self, machine: &str) -> String {
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

fn ip(arguments: &[&str]) {
    let output = super::run("ip", arguments);
    assert!(output.status.success(), "ip {arguments:?}: {}", super::words(&output));
}
