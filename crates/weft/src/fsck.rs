//! `weft fsck`: every record of a volume against every other, and the objects of data servers
//! against the volume. It repairs nothing: crashes leave nothing to repair.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use weft_store::{
    engine,
    objects::{ObjectStore, ObjectStoreOptions},
    types::InodeNo,
    volume::{Checked, Volume, VolumeConfig},
};

use crate::outcome::Outcome;

/// Objects compared with the volume at a time.
const OBJECTS_AT_ONCE: usize = 4096;

/// Options of `weft fsck`.
#[derive(Debug, Args)]
pub struct FsckArgs {
    /// Directory of a `weft up`: its metadata server and all its data servers.
    #[arg(long, value_name = "DIR", default_value = ".weft", conflicts_with = "mds")]
    dir: PathBuf,
    /// Data directory of a `weft mds`, instead of --dir.
    #[arg(long, value_name = "DIR")]
    mds: Option<PathBuf>,
    /// Data directories of `weft ds`, beside --mds.
    #[arg(long, value_name = "DIR", requires = "mds")]
    ds: Vec<PathBuf>,
}

/// Checks, and says what is wrong; an error if anything is. A cluster that runs cannot be checked:
/// its directories are in use.
pub fn run(args: &FsckArgs) -> Outcome {
    let mds = args.mds.clone().unwrap_or_else(|| args.dir.join("mds"));
    let volume = open(&mds.join("volume"))?;
    let data_servers = match &args.mds {
        Some(_) => args.ds.clone(),
        None => data_servers_of(&args.dir)?,
    };
    let checked = volume.fsck()?;
    report(&checked);
    let mut wrong = checked.findings_count;
    for dir in &data_servers {
        wrong += unaccounted(&volume, dir)?;
    }
    match wrong {
        0 => {
            println!("clean");
            Ok(())
        }
        n => Err(format!("{n} findings").into()),
    }
}

/// The directories `ds-1`, `ds-2`, … of a `weft up`.
fn data_servers_of(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("ds-")) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Opens a volume that exists: checking makes none.
fn open(dir: &Path) -> Outcome<Volume> {
    let none = || {
        let dir = dir.display();
        format!(
            "{dir}: there is no volume here (--dir names the directory of a `weft up`, --mds and \
             --ds those of its servers)"
        )
    };
    let engine = engine::kind_of(dir).ok_or_else(none)?;
    Ok(Volume::open(dir, &VolumeConfig { engine, ..VolumeConfig::default() })?)
}

fn report(checked: &Checked) {
    for finding in &checked.findings {
        println!("{finding}");
    }
    let Checked { inodes, entries, orphans, intents, xattrs, blocks, reserved, .. } = checked;
    println!(
        "volume: {inodes} inodes, {entries} names, {orphans} orphans, {intents} intents, \
         {xattrs} extended attributes, {blocks} blocks of small files, \
         {reserved} reserved numbers"
    );
}

/// How many objects of a data server belong to no file and to no removal that is still owed.
fn unaccounted(volume: &Volume, dir: &Path) -> Outcome<u64> {
    if !dir.join("identity").exists() {
        return Err(format!("{}: there is no data server here", dir.display()).into());
    }
    let objects = ObjectStore::open(dir, &ObjectStoreOptions::default())?.objects()?;
    let mut leaked = 0;
    for part in objects.chunks(OBJECTS_AT_ONCE) {
        let inodes: Vec<_> = part.iter().map(|o| InodeNo(o.object)).collect();
        let known = volume.accounts_for(&inodes)?;
        for object in inodes.iter().zip(known).filter(|(_, known)| !known).map(|(ino, _)| ino) {
            println!("{}: object {} belongs to no file", dir.display(), object.0);
            leaked += 1;
        }
    }
    println!("{}: {} objects", dir.display(), objects.len());
    Ok(leaked)
}
