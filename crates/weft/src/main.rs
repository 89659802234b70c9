//! `weft`: the servers and the client commands that need no mount, in one program.

mod admin;
mod client_cmds;
mod demo;
mod endpoints;
mod fsck;
mod init;
mod outcome;
mod serve;
mod status;
mod threshold;
mod up;

use std::{io::IsTerminal, process::ExitCode};

use clap::{Parser, Subcommand};

use outcome::OutputError;

/// A parallel file system that every NFS client speaks.
#[derive(Debug, Parser)]
#[command(name = "weft", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

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
    /// Show the write threshold, or set it until the next start.
    Threshold(threshold::ThresholdArgs),
    /// Check the data of a stopped cluster.
    Fsck(fsck::FsckArgs),
    #[command(flatten)]
    Client(client_cmds::ClientCommand),
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
    let outcome = match Cli::parse().command {
        Command::Up(a) => up::run(a),
        Command::Init(a) => init::run(&a),
        Command::Mds(a) => serve::mds(&a),
        Command::Ds(a) => serve::ds(&a),
        Command::Status(a) => status::run(&a),
        Command::Threshold(a) => threshold::run(&a),
        Command::Fsck(a) => fsck::run(&a),
        Command::Client(a) => client_cmds::run(a),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.downcast_ref().is_some_and(OutputError::is_reader_gone) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weft: {e}");
            ExitCode::FAILURE
        }
    }
}
