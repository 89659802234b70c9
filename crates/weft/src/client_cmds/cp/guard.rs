//! What would never end, or destroy what it copies: a directory into itself, a file onto itself.

use std::path::Path;

use weft_client::{ClientError, fs::FsError, node::Node};
use weft_nfs::{
    Attrs, NfsStat, OpArgs, OpOk,
    ops::{GetattrArgs, PutfhArgs},
};

use super::{
    facts::{Facts, Kind, is_same},
    place::Place,
};
use crate::client_cmds::connect::Remote;

/// Deeper than any tree that can be reached by a path.
const DEPTH_MAX: usize = 4096;

/// Refuses to copy something onto itself, or into what is below it. Only one cluster can be both
/// sides; that it is the same is seen by what it says of the files, not by its address.
pub(super) async fn check(
    (from, facts): (&Place, &Facts),
    source: &Path,
    (to, copy): (&Place, &Path),
) -> Result<(), String> {
    let (Place::Cluster(there), Place::Cluster(remote)) = (from, to) else { return Ok(()) };
    // By its address, or as it says itself.
    let same = there.client.session().server() == remote.client.session().server();
    let one_address = same || there.address == remote.address;
    let Some(attrs) = &facts.there else { return Ok(()) };
    let failed = |e: FsError| remote.failed(&e);
    if facts.kind != Kind::Dir {
        let copied = match remote.client.stat_followed(copy).await {
            Err(e) if e.error.status() == Some(NfsStat::NOENT) => return Ok(()),
            copied => copied.map_err(failed)?,
        };
        return match is_same(attrs, &copied, one_address) {
            true => Err(format!("{} and {} are the same file", from.show(source), to.show(copy))),
            false => Ok(()),
        };
    }
    let mut at = copy;
    let mut node = loop {
        match remote.client.node(at).await {
            Err(e) if e.error.status() == Some(NfsStat::NOENT) => {}
            node => break node.map_err(failed)?,
        }
        let Some(above) = at.parent() else { return Ok(()) };
        at = above;
    };
    for _ in 0..DEPTH_MAX {
        if is_same(attrs, &node.attrs, one_address) {
            let (source, copy) = (from.show(source), to.show(copy));
            return Err(format!("{source}: cannot copy a directory into itself ({copy})"));
        }
        let above = parent(remote, &node).await;
        match above.map_err(|error| failed(FsError { path: copy.into(), error }))? {
            Some(above) => node = above,
            None => return Ok(()),
        }
    }
    Err(format!("{}: too deep", to.show(copy)))
}

/// The directory above; none above the root.
async fn parent(remote: &Remote, node: &Node) -> Result<Option<Node>, ClientError> {
    let ops = vec![
        OpArgs::Putfh(PutfhArgs { object: node.fh.clone() }),
        OpArgs::Lookupp,
        OpArgs::Getfh,
        OpArgs::Getattr(GetattrArgs { request: weft_client::node::NODE_ATTRS }),
    ];
    let done = match remote.client.session().compound(ops).await {
        Err(e) if e.status() == Some(NfsStat::NOENT) => return Ok(None),
        done => done?,
    };
    let mut done = done.into_iter().rev();
    match (done.next(), done.next()) {
        (Some(OpOk::Getattr(attrs)), Some(OpOk::Getfh(fh))) => {
            let attrs: Attrs = *attrs.attrs;
            Ok(Some(Node { fh: fh.object, attrs }))
        }
        _ => Err(ClientError::unexpected(weft_nfs::OpNum::LOOKUPP)),
    }
}
