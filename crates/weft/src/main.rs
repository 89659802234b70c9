//! `weft`: the servers and the client commands that need no mount, in one program.
//!
//! Exit status: 0 all done; 1 it failed, and standard error says why; 2 the command line is wrong;
//! 129, 130 and 143 for a client command that the end of its terminal, Ctrl-C or SIGTERM has ended.

mod accept_loss;
mod admin;
mod backup;
mod check;
mod client_cmds;
mod client_setup;
mod clients;
mod demo;
mod endpoints;
mod fsck;
mod init;
mod mount;
mod outcome;
mod restore;
mod serve;
mod status;
mod threshold;
mod up;
mod utc;

use std::{ffi::OsString, io::IsTerminal, process::ExitCode};

use clap::{Parser, Subcommand};

use outcome::{NotChecked, OutputError};

/// Exit status of a check that could not be made; one that found something is a failure.
const NOT_CHECKED: u8 = 2;

/// A parallel file system that every NFS client speaks.
#[derive(Debug, Parser)]
#[command(name = "weft", version, about, max_term_width = 100, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What `weft --help` ends with.
const EXIT_STATUS: &str = "Exit status: 0 all done; 1 failed, as standard error says; \
     2 wrong command line, or it could not be checked; \
     129, 130 and 143 ended with its terminal, by Ctrl-C or by SIGTERM.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a metadata server and data servers in one process, for one machine or a first try.
    Up(up::UpArgs),
    /// Make a new, empty file system for a metadata server.
    Init(init::InitArgs),
    /// Run a metadata server.
    Mds(serve::ServeArgs),
    /// Run a data server.
    Ds(serve::DsArgs),
    /// Show what each server has done.
    Status(status::StatusArgs),
    /// Show who is connected and what each holds, or end a client that will not come back.
    Clients(clients::ClientsArgs),
    /// Show the write threshold, or set it until the next start.
    Threshold(threshold::ThresholdArgs),
    /// Write a backup of a volume, while it serves or while it is stopped.
    Backup(backup::BackupArgs),
    /// Make the directory of a metadata server from a backup.
    Restore(restore::RestoreArgs),
    /// Check the data of a stopped cluster.
    Fsck(fsck::FsckArgs),
    /// Check the data of a running cluster.
    Check(check::CheckArgs),
    /// List what is lost with a data server, and accept another directory in its place.
    AcceptLoss(accept_loss::AcceptLossArgs),
    /// Set up a machine that mounts with its own kernel: how far it reads ahead.
    ClientSetup(client_setup::ClientSetupArgs),
    /// Mount the cluster on a directory of this machine, through FUSE: no root where fusermount3 is
    /// there. umount or fusermount3 -u takes it away.
    Mount(mount::MountArgs),
    #[command(flatten)]
    Client(client_cmds::ClientCommand),
}

/// The command line; `find` may have its options with one dash, as people are used to.
fn words() -> Vec<OsString> {
    let mut words = mount::from_mount(std::env::args_os().collect(), Command::has_subcommand);
    if words.get(1).is_some_and(|command| command == "find") {
        for word in &mut words[2..] {
            if client_cmds::ONE_DASH.iter().any(|known| word == known) {
                let mut long = OsString::from("-");
                long.push(&*word);
                *word = long;
            }
        }
    }
    words
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("WEFT_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Colours are for people, not for files.
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let outcome = match Cli::parse_from(words()).command {
        Command::Up(a) => up::run(a),
        Command::Init(a) => init::run(&a),
        Command::Mds(a) => serve::mds(&a),
        Command::Ds(a) => serve::ds(&a),
        Command::Status(a) => status::run(&a),
        Command::Clients(a) => clients::run(&a),
        Command::Threshold(a) => threshold::run(&a),
        Command::Backup(a) => backup::run(&a),
        Command::Restore(a) => restore::run(&a),
        Command::Fsck(a) => fsck::run(&a),
        Command::Check(a) => check::run(&a),
        Command::AcceptLoss(a) => accept_loss::run(&a),
        Command::ClientSetup(a) => client_setup::run(&a),
        Command::Mount(a) => mount::run(&a),
        Command::Client(a) => client_cmds::run(a),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.downcast_ref().is_some_and(OutputError::is_reader_gone) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weft: {}", client_cmds::printable(&e.to_string()));
            match e.downcast_ref::<client_cmds::Interrupted>() {
                Some(interrupted) => ExitCode::from(interrupted.exit_status()),
                None if e.is::<NotChecked>() => ExitCode::from(NOT_CHECKED),
                None => ExitCode::FAILURE,
            }
        }
    }
}
