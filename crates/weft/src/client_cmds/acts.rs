//! `weft chmod`, `weft chown`, `weft touch`, `weft ln`, `weft sync`: what changes files without
//! their bytes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use nix::unistd::{Group, User};
use weft_client::fs::{FsError, OpenOptions, Step};
use weft_nfs::{
    Attrs, Component, FileHandle, FileType, NfsStat, OpArgs, Opaque, Stateid,
    attr::SetTime,
    ops::{CommitArgs, PutfhArgs},
};

use super::{
    clusters::Clusters,
    connect::{Remote, ServerArg, remote_path},
    glob,
    mode::ModeChange,
    tree::{Limits, Trees},
    troubles::Troubles,
    umask::file_mode,
};
use crate::outcome::Outcome;

/// Options of `weft chmod`.
#[derive(Debug, Clone, Args)]
pub struct ChmodArgs {
    /// 644, 0755, or u+x,go-w,a=r and so on.
    #[arg(value_name = "MODE")]
    mode: ModeChange,
    #[command(flatten)]
    pub(super) on: Targets,
}

/// Options of `weft chown`.
#[derive(Debug, Clone, Args)]
pub struct ChownArgs {
    /// USER, USER:GROUP or :GROUP: names as this machine knows them, or numbers.
    #[arg(value_name = "OWNER")]
    owner: String,
    #[command(flatten)]
    pub(super) on: Targets,
}

/// What has its attributes changed.
#[derive(Debug, Clone, Args)]
pub(super) struct Targets {
    /// Remote paths; patterns in quotes.
    #[arg(required = true)]
    #[arg(value_parser = remote_path())]
    paths: Vec<PathBuf>,
    /// With everything below. No link there is followed: chmod leaves links as they are, chown
    /// changes themselves, also one that is named (but with a slash at its end).
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// Options of `weft touch`.
#[derive(Debug, Clone, Args)]
pub struct TouchArgs {
    /// Remote paths; patterns in quotes.
    #[arg(required = true)]
    #[arg(value_parser = remote_path())]
    paths: Vec<PathBuf>,
    /// Make no file that is not there.
    #[arg(short = 'c', long)]
    no_create: bool,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// Options of `weft ln`.
#[derive(Debug, Clone, Args)]
pub struct LnArgs {
    /// What the new name leads to: a remote file, or with -s any text.
    target: PathBuf,
    /// The new name, or a directory for a name as the target's.
    #[arg(value_parser = remote_path())]
    name: PathBuf,
    /// Make a symbolic link.
    #[arg(short, long)]
    symbolic: bool,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// Options of `weft sync`.
#[derive(Debug, Clone, Args)]
pub struct SyncArgs {
    /// Remote files and directories; patterns in quotes.
    #[arg(default_value = "/")]
    #[arg(value_parser = remote_path())]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// `weft chmod`.
pub(super) async fn chmod(clusters: &mut Clusters, args: ChmodArgs) -> Outcome {
    let remote = clusters.usual().await?;
    let change = |attrs: &Attrs| {
        let (mode, kind) = (attrs.mode.unwrap_or(0), attrs.file_type);
        let mode = Some(args.mode.of(mode, kind == Some(FileType::DIR)));
        // No mode of a link means anything.
        (kind != Some(FileType::LNK)).then(|| Attrs { mode, ..Attrs::default() })
    };
    set_all(remote, &args.on, true, change).await
}

/// `weft chown`.
pub(super) async fn chown(clusters: &mut Clusters, args: ChownArgs) -> Outcome {
    let attrs = owner_of(&args.owner)?;
    let remote = clusters.usual().await?;
    set_all(remote, &args.on, !args.on.recursive, |_| Some(attrs.clone())).await
}

/// Sets attributes of what paths lead to, and of what is below, each by its handle: whoever owns
/// the tree cannot give a name to something else meanwhile and have that changed.
async fn set_all(
    remote: Arc<Remote>,
    on: &Targets,
    follows: bool,
    change: impl Fn(&Attrs) -> Option<Attrs>,
) -> Outcome {
    let how = Limits { depth_max: if on.recursive { usize::MAX } else { 0 }, follows };
    let mut troubles = Troubles::default();
    let mut trees = Trees::of(remote.clone(), &on.paths, how, &mut troubles).await;
    while let Some(step) = trees.next(&mut troubles).await {
        let Step::Entry { path, node, .. } = step else { continue };
        if let Some(attrs) = change(&node.attrs) {
            let set = remote.client.nodes().setattr(&node.fh, Stateid::ANONYMOUS, attrs).await;
            troubles.hear(set.map_err(|error| remote.failed(&FsError { path, error })));
        }
    }
    troubles.outcome()
}

/// USER, USER:GROUP or :GROUP.
fn owner_of(text: &str) -> Result<Attrs, String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    if user.is_empty() && group.is_empty() {
        return Err(format!("{text:?}: write USER, USER:GROUP or :GROUP"));
    }
    if text.ends_with(':') {
        return Err(format!("{text:?}: name the group behind the colon, or leave that out"));
    }
    let uid = |name: &str| User::from_name(name).ok().flatten().map(|u| u.uid.as_raw());
    let gid = |name: &str| Group::from_name(name).ok().flatten().map(|g| g.gid.as_raw());
    let owner = id_of("user", user, uid)?;
    Ok(Attrs { owner, owner_group: id_of("group", group, gid)?, ..Attrs::default() })
}

/// A number, or that of a name that this machine knows.
fn id_of(
    kind: &str,
    name: &str,
    known: impl Fn(&str) -> Option<u32>,
) -> Result<Option<Opaque>, String> {
    if name.is_empty() {
        return Ok(None);
    }
    let id = name.parse::<u32>().ok().or_else(|| known(name));
    let id = id.ok_or_else(|| {
        format!("{name}: this machine knows no such {kind} (a number is taken as it is)")
    })?;
    if id == u32::MAX {
        return Err(format!("{name}: is no {kind}: to systems it says that nothing is changed"));
    }
    Ok(Some(Opaque(id.to_string().into_bytes().into())))
}

/// `weft touch`: times are those of the server's clock. A name that is no pattern may be new.
pub(super) async fn touch(clusters: &mut Clusters, args: TouchArgs) -> Outcome {
    let remote = clusters.usual().await?;
    let now = Attrs {
        time_access_set: Some(SetTime::ToServer),
        time_modify_set: Some(SetTime::ToServer),
        ..Attrs::default()
    };
    let mut troubles = Troubles::default();
    for path in glob::expand_each(&remote, &args.paths, &mut troubles).await {
        let touched = match remote.client.set_attrs(&path, now.clone()).await {
            Err(e) if e.error.status() == Some(NfsStat::NOENT) && args.no_create => Ok(()),
            Err(e) if e.error.status() == Some(NfsStat::NOENT) => make(&remote, &path).await,
            done => done.map_err(|e| remote.failed(&e)),
        };
        troubles.hear(touched);
    }
    troubles.outcome()
}

async fn make(remote: &Remote, path: &Path) -> Result<(), String> {
    let options = OpenOptions { write: true, create: Some(file_mode()), ..OpenOptions::default() };
    let file = remote.client.open(path, options).await.map_err(|e| remote.failed(&e))?;
    file.close().await.map_err(|e| remote.failed(&e))
}

/// `weft ln`.
pub(super) async fn ln(clusters: &mut Clusters, args: LnArgs) -> Outcome {
    let remote = clusters.usual().await?;
    let client = &remote.client;
    let mut name = remote.path(&args.name);
    let is_dir = client.stat_followed(&name).await;
    if is_dir.is_ok_and(|attrs| attrs.file_type == Some(FileType::DIR)) {
        let last = args.target.file_name().ok_or("the target has no name: give one")?;
        name.push(last);
    }
    if args.symbolic {
        return Ok(client.symlink(&args.target, &name).await.map_err(|e| remote.failed(&e))?);
    }
    let target = remote.path(&args.target);
    let file = client.node(&target).await.map_err(|e| remote.failed(&e))?;
    if file.attrs.file_type == Some(FileType::DIR) {
        let path = remote.show(&target);
        return Err(
            format!("{path}: is a directory, which has one name (ln -s links to it)").into()
        );
    }
    let (Some(above), Some(last)) = (name.parent(), name.file_name()) else {
        return Err(format!("{}: is there already", remote.show(&name)).into());
    };
    let dir = client.node(above).await.map_err(|e| remote.failed(&e))?;
    let last = Component(last.as_encoded_bytes().to_vec().into());
    let linked = client.nodes().link(&file.fh, &dir.fh, last).await;
    Ok(linked.map(drop).map_err(|e| format!("{}: {e}", remote.show(&name)))?)
}

/// `weft sync`: what other clients have written to these files, and is at the servers, is durable.
pub(super) async fn sync(clusters: &mut Clusters, args: SyncArgs) -> Outcome {
    let remote = clusters.usual().await?;
    let mut troubles = Troubles::default();
    let mut trees = Trees::of(remote.clone(), &args.paths, Limits::NONE, &mut troubles).await;
    while let Some(step) = trees.next(&mut troubles).await {
        if let Step::Entry { path, node, .. } = step
            && node.attrs.file_type == Some(FileType::REG)
        {
            troubles.hear(commit(&remote, path, node.fh).await);
        }
    }
    troubles.outcome()
}

/// COMMIT of a whole file (RFC 8881 §18.3).
async fn commit(remote: &Remote, path: PathBuf, object: FileHandle) -> Result<(), String> {
    let done = remote.client.session().compound(vec![
        OpArgs::Putfh(PutfhArgs { object }),
        OpArgs::Commit(CommitArgs { offset: 0, count: 0 }),
    ]);
    let done = done.await;
    done.map(drop).map_err(|error| remote.failed(&FsError { path, error }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that everybody knows, numbers, and what is neither.
    #[test]
    fn owners() {
        let ids = |text: &str| {
            let told = |id: Option<Opaque>| id.map(|id| String::from_utf8(id.0.to_vec()).unwrap());
            owner_of(text).map(|attrs| (told(attrs.owner), told(attrs.owner_group)))
        };
        let id = |text: &str| Some(text.to_owned());
        assert_eq!(ids("root"), Ok((id("0"), None)));
        assert_eq!(ids("12:34"), Ok((id("12"), id("34"))));
        assert_eq!(ids(":root"), Ok((None, id("0"))));
        assert!(ids(":").is_err() && ids("root:").is_err());
        assert!(ids("4294967295").is_err() && ids("0:4294967295").is_err());
        assert_eq!(ids("4294967294"), Ok((id("4294967294"), None)));
        assert!(ids("no-such-user-here").unwrap_err().contains("knows no such user"));
    }
}
