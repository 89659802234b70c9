//! `weft clients`: who is there and what each holds, and the end of one that will not come back.

use std::io::Write;

use clap::{Args, Subcommand};
use weft_server::report::{ClientStatus, ClientsReport, Evicted, GraceStatus};

use crate::{
    admin::AdminArgs,
    outcome::{Outcome, OutputError},
};

/// Options of `weft clients`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ClientsArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(subcommand)]
    command: Option<ClientsCommand>,
}

#[derive(Debug, Subcommand)]
enum ClientsCommand {
    /// End a client at once: what it holds is free, as if its lease had run out, and nobody waits
    /// for it in grace. For one whose machine is dead: programs on it that live lose their locks.
    Evict(EvictArgs),
}

/// Options of `weft clients evict`.
#[derive(Debug, Args)]
struct EvictArgs {
    /// Its name, id, owner or address, as `weft clients` shows them.
    client: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Lists clients, or ends one.
pub fn run(args: &ClientsArgs) -> Outcome {
    let text = match &args.command {
        None => {
            let report: ClientsReport = args.admin.ask("/clients")?;
            if args.json { serde_json::to_string(&report)? + "\n" } else { table(&report) }
        }
        Some(ClientsCommand::Evict(evict)) => {
            let who = serde_json::json!({ "client": evict.client });
            evicted(&evict.client, &evict.admin.tell("/clients/evict", &who)?)
        }
    };
    Ok(std::io::stdout().write_all(text.as_bytes()).map_err(OutputError::from)?)
}

fn table(report: &ClientsReport) -> String {
    let mut out = format!(
        "{:<24} {:<22} {:>3} {:>5} {:>6} {:>6} {:>6} {:>7} {:<16} LEASE\n",
        "CLIENT", "ADDRESS", "NFS", "SESS", "OPENS", "LOCKS", "DELEGS", "LAYOUTS", "ID"
    );
    report.clients.iter().map(row).for_each(|row| out += &row);
    report.grace.iter().for_each(|grace| out += &grace_in_words(grace));
    out
}

fn row(c: &ClientStatus) -> String {
    let ClientStatus { name, address, sessions, opens, locks, delegations, layouts, id, .. } = c;
    let nfs = format!("4.{}", c.minor_version);
    let lease = if c.lease_valid { "seen" } else { "over: kept by courtesy, seen" };
    let silent = c.silent_s;
    format!(
        "{name:<24} {address:<22} {nfs:>3} {sessions:>5} {opens:>6} {locks:>6} {delegations:>6} \
         {layouts:>7} {id:<16} {lease} {silent} s ago\n"
    )
}

fn evicted(who: &str, evicted: &Evicted) -> String {
    let awaited = if evicted.was_awaited { "Nobody waits for it in grace any more. " } else { "" };
    match &evicted.client {
        Some(c) => format!(
            "{awaited}Evicted {} ({}): {} opens, {} locks, {} delegations and {} layouts are free.\n",
            c.name, c.address, c.opens, c.locks, c.delegations, c.layouts
        ),
        None => format!("{awaited}{who} was not connected.\n"),
    }
}

/// The grace period in a line: how long, and who is awaited.
pub fn grace_in_words(grace: &GraceStatus) -> String {
    let names = grace.awaited.iter().map(|c| match &c.address {
        Some(address) => format!("{} ({address})", c.name),
        None => c.name.clone(),
    });
    let names: Vec<_> = names.collect();
    let left = match grace.left_s {
        0 => "until what is being reclaimed is done".to_owned(),
        left => format!("{left} s left"),
    };
    let whom = if names.is_empty() { "nobody".into() } else { names.join(", ") };
    format!("in grace, {left}, waiting for: {whom}\n")
}

#[cfg(test)]
mod tests {
    use weft_server::report::AwaitedClient;

    use super::*;

    fn client() -> ClientStatus {
        ClientStatus {
            id: "00c0ffee00000001".into(),
            name: "kc12".into(),
            owner: "Linux NFSv4.2 kc12".into(),
            address: "192.0.2.7".into(),
            implementation: None,
            lease_valid: true,
            silent_s: 3,
            minor_version: 2,
            sessions: 1,
            opens: 12,
            locks: 1,
            delegations: 2,
            layouts: 4,
            waiting_for_locks: 0,
        }
    }

    /// The table, the line about grace, and what an eviction says.
    #[test]
    fn words() {
        let silent = ClientStatus { lease_valid: false, silent_s: 300, ..client() };
        let awaited = |name: &str, address: Option<&str>| AwaitedClient {
            name: name.into(),
            owner: String::new(),
            address: address.map(str::to_owned),
        };
        let grace = GraceStatus {
            left_s: 40,
            awaited: vec![awaited("kc12", Some("192.0.2.7")), awaited("b", None)],
        };
        let report = ClientsReport { clients: vec![client(), silent], grace: Some(grace) };
        let expected = "\
CLIENT                   ADDRESS                NFS  SESS  OPENS  LOCKS DELEGS LAYOUTS ID               LEASE
kc12                     192.0.2.7              4.2     1     12      1      2       4 00c0ffee00000001 seen 3 s ago
kc12                     192.0.2.7              4.2     1     12      1      2       4 00c0ffee00000001 over: kept by courtesy, seen 300 s ago
in grace, 40 s left, waiting for: kc12 (192.0.2.7), b
";
        assert_eq!(table(&report), expected);
        let told = evicted("kc12", &Evicted { client: Some(client()), was_awaited: false });
        let free = "12 opens, 1 locks, 2 delegations and 4 layouts are free.\n";
        assert_eq!(told, format!("Evicted kc12 (192.0.2.7): {free}"));
        let told = evicted("kc12", &Evicted { client: None, was_awaited: true });
        assert_eq!(told, "Nobody waits for it in grace any more. kc12 was not connected.\n");
    }
}
