//! What is done to files by chance, at the server and in the model.

use bytes::Bytes;
use weft_client::fs::{Client, OpenOptions};
use weft_dev::SeededRng;
use weft_nfs::ops::{AllocateArgs, CopyArgs, DeallocateArgs, LinkArgs, LookupArgs, Netlocs};
use weft_nfs::{Component, OpArgs, Stateid};

use super::PATIENCE;
use super::model::{FileNo, Model};
use super::support::pattern;

const DIRS: [&str; 2] = ["/x", "/y"];
const FILES: [&str; 12] =
    ["/a", "/b", "/c", "/d", "/x/a", "/x/b", "/x/c", "/x/d", "/y/a", "/y/b", "/y/c", "/y/d"];
/// Sizes where something changes: what a metadata server keeps, stripe units.
const EDGES: [u64; 6] = [0, 64 << 10, 1 << 20, 2 << 20, 3 << 20, 4 << 20];
/// Bytes of the largest file, about.
const LARGEST: u64 = 5 << 20;

pub struct Work<'a> {
    /// One that goes to the data servers, and one that sends everything to the metadata server.
    pub clients: &'a [Client; 2],
    pub model: &'a mut Model,
    pub random: &'a mut SeededRng,
    pub told: &'a mut Vec<String>,
}

impl<'a> Work<'a> {
    pub async fn step(&mut self) {
        let there: Vec<String> = self.model.names.keys().cloned().collect();
        let other = self.random.choose(&FILES).expect("names").to_owned();
        let (true, Some(name)) = (there.len() > 5, self.random.choose(&there)) else {
            return self.put(&other).await;
        };
        match self.random.below(16) {
            0..=2 => self.put(&other).await,
            3..=7 => self.write(&name).await,
            8 | 9 => self.cut(&name).await,
            10 | 11 => self.punch(&name).await,
            12 => self.allocate(&name).await,
            13 => self.copy(&name, &other).await,
            14 => self.link_or_rename(&name, &other).await,
            _ => self.remove(&name).await,
        }
    }

    fn client(&mut self) -> &'a Client {
        &self.clients[self.random.index(self.clients.len())]
    }

    /// Every file settles: its size is asked for until nothing of it is only at data servers.
    pub async fn settle(&mut self) {
        for name in self.model.names.keys() {
            let size = self.clients[0].stat(name).await.expect("stat").size;
            assert_eq!(size, Some(self.model.files[self.model.names[name]].len() as u64), "{name}");
        }
    }

    /// Bytes none of which is zero, so that they are told from holes.
    fn data(&mut self, len: u64) -> Vec<u8> {
        let mut data = pattern(self.random.draw(), len as usize);
        data.iter_mut().for_each(|byte| *byte |= 1);
        data
    }

    /// Near a size that matters, or anywhere.
    fn place(&mut self) -> u64 {
        match self.random.one_in(2) {
            true => {
                let edge = self.random.choose(&EDGES).expect("edges") + self.random.below(3000);
                edge.saturating_sub(self.random.below(3000))
            }
            false => self.random.below(LARGEST),
        }
    }

    fn length(&mut self) -> u64 {
        let most = self.random.choose(&[300, 80 << 10, 3 << 20]).expect("lengths");
        1 + self.random.below(most)
    }

    fn size_of(&self, file: FileNo) -> u64 {
        self.model.files[file].len() as u64
    }

    async fn put(&mut self, name: &str) {
        self.directories().await;
        let len = self.place();
        self.told.push(format!("put {name}, {len} bytes"));
        let data = self.data(len);
        let bytes = Bytes::from(data.clone());
        self.client().write_file(name, 0o644, bytes).await.expect("put");
        let file = self.model.find_or_make(name);
        self.model.cut(file, 0);
        self.model.write(file, 0, &data);
    }

    async fn directories(&mut self) {
        if self.model.names.is_empty() {
            for dir in DIRS {
                self.client().mkdir_all(dir, 0o755).await.expect("mkdir");
            }
        }
    }

    /// An open file is written at up to three places, and may be cut between.
    async fn write(&mut self, name: &str) {
        let file = self.model.names[name];
        let options = OpenOptions { read: true, write: true, ..OpenOptions::default() };
        let opened = self.client().open(name, options).await.expect("open");
        for _ in 0..=self.random.below(3) {
            if self.random.one_in(5) {
                let size = self.place();
                self.told.push(format!("cut open {name} to {size}"));
                opened.truncate(size).await.expect("truncate");
                self.model.cut(file, size);
            }
            let (at, len) = (self.place(), self.length());
            self.told.push(format!("write {name} at {at}, {len} bytes"));
            let data = self.data(len);
            opened.write_at(at, Bytes::from(data.clone())).await.expect("write");
            self.model.write(file, at, &data);
        }
        opened.close().await.expect("close");
    }

    async fn cut(&mut self, name: &str) {
        let file = self.model.names[name];
        let size = match self.random.one_in(2) {
            true => self.place(),
            false => self.random.below(self.size_of(file) + 1),
        };
        self.told.push(format!("cut {name} to {size}"));
        self.client().truncate(name, size).await.expect("truncate");
        self.model.cut(file, size);
    }

    async fn punch(&mut self, name: &str) {
        let (file, at, length) = (self.model.names[name], self.place(), self.length());
        self.told.push(format!("hole in {name} at {at}, {length} bytes"));
        let hole = DeallocateArgs { stateid: Stateid::ANONYMOUS, offset: at, length };
        self.on(name, OpArgs::Deallocate(hole)).await;
        self.model.punch(file, at, length);
    }

    async fn allocate(&mut self, name: &str) {
        let (file, at, length) = (self.model.names[name], self.place(), self.length());
        self.told.push(format!("allocate {name} at {at}, {length} bytes"));
        let space = AllocateArgs { stateid: Stateid::ANONYMOUS, offset: at, length };
        self.on(name, OpArgs::Allocate(space)).await;
        let size = self.size_of(file).max(at + length);
        self.model.cut(file, size);
    }

    /// Copies what is in a part of a file to another, at another place or the same.
    async fn copy(&mut self, name: &str, other: &str) {
        let (Some(to), from) = (self.model.names.get(other).copied(), self.model.names[name])
        else {
            return;
        };
        if to == from || self.size_of(from) == 0 {
            return;
        }
        let src_offset = self.random.below(self.size_of(from));
        let dst_offset = if self.random.one_in(2) { src_offset } else { self.place() };
        let count = self.length().min(self.size_of(from) - src_offset);
        self.told.push(format!("copy {name} {src_offset} to {other} {dst_offset}, {count} bytes"));
        let copy = CopyArgs {
            src_stateid: Stateid::ANONYMOUS,
            dst_stateid: Stateid::ANONYMOUS,
            src_offset,
            dst_offset,
            count,
            consecutive: true,
            synchronous: true,
            source_server: Netlocs::default(),
        };
        let mut ops = path(name);
        ops.push(OpArgs::Savefh);
        ops.extend(path(other));
        ops.push(OpArgs::Copy(copy));
        self.send(ops).await;
        let at = src_offset as usize;
        let data = self.model.files[from][at..at + count as usize].to_vec();
        self.model.write(to, dst_offset, &data);
    }

    async fn link_or_rename(&mut self, name: &str, other: &str) {
        if self.random.one_in(2) {
            self.told.push(format!("rename {name} to {other}"));
            self.client().rename(name, other).await.expect("rename");
            return self.model.rename(name, other);
        }
        if self.model.names.contains_key(other) {
            return;
        }
        self.told.push(format!("link {other} to {name}"));
        let (dir, last) = other.rsplit_once('/').expect("a path");
        let mut ops = path(name);
        ops.push(OpArgs::Savefh);
        ops.extend(path(dir));
        ops.push(OpArgs::Link(LinkArgs { newname: component(last) }));
        self.send(ops).await;
        let file = self.model.names[name];
        self.model.names.insert(other.to_owned(), file);
    }

    async fn remove(&mut self, name: &str) {
        self.told.push(format!("remove {name}"));
        self.client().remove(name).await.expect("remove");
        self.model.names.remove(name);
    }

    async fn on(&self, name: &str, op: OpArgs) {
        let mut ops = path(name);
        ops.push(op);
        self.send(ops).await;
    }

    async fn send(&self, ops: Vec<OpArgs>) {
        let sent = tokio::time::timeout(PATIENCE, self.clients[0].session().compound(ops)).await;
        sent.expect("an answer in time").expect("a change");
    }
}

/// To a path.
fn path(path: &str) -> Vec<OpArgs> {
    let names = path.split('/').filter(|name| !name.is_empty());
    let lookups = names.map(|name| OpArgs::Lookup(LookupArgs { name: component(name) }));
    [OpArgs::Putrootfh].into_iter().chain(lookups).collect()
}

fn component(name: &str) -> Component {
    Component(name.as_bytes().to_vec().into())
}
