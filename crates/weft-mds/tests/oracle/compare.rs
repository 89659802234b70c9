//! The whole tree as root sees it, against what it must be.

use std::collections::{BTreeMap, BTreeSet};

use weft_nfs::{AttrNo, OpArgs, OpOk, Stateid, attr::numeric_owner};

use super::{
    run::{AUDITOR, Fault, Run, fault},
    world::{Body, NodeId, World},
};
use crate::support::*;

impl Run {
    /// Compares everything that has a name.
    pub async fn compare(&mut self) -> Result<(), Fault> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![World::ROOT]);
        while let Some(id) = next.pop() {
            if seen.insert(id) {
                self.compare_one(id).await?;
                next.extend(self.world.nodes[id].entries().values());
            }
        }
        self.figures.compared += seen.len();
        Ok(())
    }

    async fn compare_one(&mut self, id: NodeId) -> Result<(), Fault> {
        let node = &self.world.nodes[id];
        let attrs = [
            AttrNo::MODE,
            AttrNo::ACL,
            AttrNo::OWNER,
            AttrNo::OWNER_GROUP,
            AttrNo::CHANGE,
            AttrNo::SIZE,
        ];
        let mut ops = vec![putfh(&node.handle), getattr(&attrs)];
        ops.push(match &node.body {
            Body::File(_) => read(Stateid::ANONYMOUS, 0, 1 << 15),
            Body::Directory(_) => OpArgs::Readdir(readdir(0, 1 << 15, &[AttrNo::FILEID])),
            Body::Link(_) => OpArgs::Readlink,
        });
        let keys: Vec<_> = node.xattrs.keys().cloned().collect();
        ops.extend(keys.iter().map(|key| getxattr(key)));
        if !matches!(node.body, Body::Link(_)) {
            ops.push(listxattrs(0, 4096));
        }
        let Some(reply) = self.ask(AUDITOR, &ops).await? else { return fault("nobody looks") };
        if reply.status() != weft_nfs::NfsStat::OK {
            return fault(format!("root looks at {id}: {:?}", reply.status()));
        }
        let change = self.compare_attributes(id, &reply)?;
        self.compare_contents(id, &reply)?;
        let node = &mut self.world.nodes[id];
        let now = (node.bytes().to_vec(), change);
        match node.seen.replace(now.clone()) {
            Some((bytes, change)) if bytes != now.0 && change == now.1 => {
                fault(format!("{id}: other bytes, and the change attribute has not moved"))
            }
            _ => Ok(()),
        }
    }

    fn compare_attributes(&self, id: NodeId, reply: &Reply) -> Result<u64, Fault> {
        let (node, told) = (&self.world.nodes[id], reply.attrs());
        let (owner, group) = (Some(numeric_owner(node.uid)), Some(numeric_owner(node.gid)));
        let size = node.is_file().then_some(node.bytes().len() as u64);
        if (&told.owner, &told.owner_group) != (&owner, &group) {
            let told = (&told.owner, &told.owner_group);
            return fault(format!("{id}: owners {told:?}, not {owner:?} and {group:?}"));
        }
        if size.is_some() && told.size != size {
            return fault(format!("{id}: size {:?}, not {size:?}", told.size));
        }
        if !matches!(node.body, Body::Link(_)) {
            let list = told.acl.unwrap_or_default();
            self.is_list(id, told.mode.unwrap_or_default(), &list.0)?;
        }
        Ok(told.change.unwrap_or_default())
    }

    fn compare_contents(&self, id: NodeId, reply: &Reply) -> Result<(), Fault> {
        let node = &self.world.nodes[id];
        let mut values = BTreeMap::new();
        let mut keys = node.xattrs.keys();
        for ok in reply.compound.results.iter().filter_map(|r| r.result.as_ref().ok()) {
            match (ok, &node.body) {
                (OpOk::Read(_), Body::File(bytes)) if reply.data().0 != bytes[..] => {
                    return fault(format!("{id}: {:?}, not {bytes:?}", reply.data().0));
                }
                (OpOk::Readdir(list), Body::Directory(entries)) => {
                    let told: BTreeSet<_> = list.entries.iter().map(|e| &e.name.0[..]).collect();
                    let expected: BTreeSet<_> = entries.keys().map(String::as_bytes).collect();
                    if told != expected {
                        return fault(format!("{id}: names {told:?}, not {expected:?}"));
                    }
                }
                (OpOk::Readlink(link), Body::Link(target)) if link.link != target.as_bytes() => {
                    return fault(format!("{id}: leads to {:?}, not {target}", link.link));
                }
                (OpOk::Getxattr(x), _) => {
                    let value = String::from_utf8_lossy(&x.value.0).into_owned();
                    values.extend(keys.next().map(|key| (key.clone(), value)));
                }
                (OpOk::Listxattrs(list), _) if list.names.len() != node.xattrs.len() => {
                    return fault(format!("{id}: extended attributes {:?}", list.names));
                }
                _ => {}
            }
        }
        if values != node.xattrs { fault(format!("{id}: {values:?}")) } else { Ok(()) }
    }
}
