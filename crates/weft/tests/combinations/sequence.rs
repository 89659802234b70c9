//! One sequence of steps by two clients with the same switches, held against the model.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use bytes::Bytes;
use weft_client::fs::{Client, File, FsError, OpenOptions};
use weft_nfs::ops::{LinkArgs, LookupArgs};
use weft_nfs::{Attrs, Component, FileType, NfsStat, OpArgs};

use super::model::{FileNo, Model, parent};
use super::steps::{self, Action, CLIENTS, Data, Step};
use super::switches::ClientSwitches;
use weft_dev::SeededRng;

/// More than any file has.
const ALL: usize = 64 << 20;

/// The change attribute of a file when it was looked at, and how often it had changed.
#[derive(Clone, Copy, Debug)]
struct Looked {
    change: u64,
    changes: u64,
}

pub struct Sequence {
    title: String,
    switches: ClientSwitches,
    dir: String,
    clients: Vec<Client>,
    model: Model,
    /// Beside the opens of the model.
    files: Vec<File>,
    looked: BTreeMap<FileNo, Looked>,
    random: SeededRng,
    steps: Vec<Step>,
}

impl Drop for Sequence {
    /// Says what led to the failure.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (title, last) = (&self.title, self.steps.len());
            eprintln!("FAILED: {title}, step {last} of its directory {}:", self.dir);
            for (n, Step { who, action }) in (1..).zip(&self.steps) {
                eprintln!("{n:5} client {who}: {action:?}");
            }
        }
    }
}

impl Sequence {
    /// Connects, and makes the directory of its own.
    pub async fn start(
        server: SocketAddr,
        switches: ClientSwitches,
        title: String,
        (number, seed): (u64, u64),
    ) -> Self {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(Client::connect(server, switches.options()).await.expect("connect"));
        }
        let dir = format!("/{number}");
        clients[0].mkdir(&dir, 0o755).await.expect("mkdir");
        Self {
            title,
            switches,
            dir,
            clients,
            model: Model::default(),
            files: Vec::new(),
            looked: BTreeMap::new(),
            random: SeededRng::new(seed),
            steps: Vec::new(),
        }
    }

    pub async fn run(mut self, steps: u64) -> Self {
        for _ in 0..steps {
            let step = steps::next(&self.model, &mut self.random);
            self.steps.push(step.clone());
            self.perform(step).await;
        }
        self
    }

    /// The server is about to be killed. A file without a name goes with the opens of it, and our
    /// client does not reclaim those: it opens again by handle what it has open and uses.
    pub async fn before_restart(mut self) -> Self {
        while let Some(open) = self.model.opens.iter().position(|o| !self.model.is_named(o.file)) {
            self.close(open).await;
        }
        self.model.opens.iter_mut().for_each(|open| open.from_before = true);
        self
    }

    /// A name is about to go: if it is the last of a file, opens from before the restart go first,
    /// for the same reason.
    async fn before_removal(&mut self, name: &str) {
        let Ok(file) = self.model.find(name) else { return };
        while self.model.links(file) == 1
            && let Some(open) =
                self.model.opens.iter().position(|o| o.file == file && o.from_before)
        {
            self.close(open).await;
        }
    }

    /// Everything that was committed is there.
    pub async fn after_restart(mut self) -> Self {
        self.verify(0).await;
        self
    }

    /// Closes everything, holds it against the model, and removes it.
    pub async fn finish(mut self, server: SocketAddr) {
        while !self.model.opens.is_empty() {
            self.close(0).await;
        }
        for client in self.clients.drain(..) {
            client.close().await;
        }
        self.clients.push(Client::connect(server, self.switches.options()).await.expect("connect"));
        self.verify(0).await;
        let names = std::mem::take(&mut self.model.names);
        let dirs = std::mem::take(&mut self.model.dirs);
        for name in names.into_keys().chain(dirs).chain([String::new()]) {
            let path = self.path(&name);
            self.clients[0].remove(&path).await.unwrap_or_else(|e| panic!("remove: {e}"));
        }
        for client in self.clients.drain(..) {
            client.close().await;
        }
    }

    /// Every name, and every file that is committed.
    async fn verify(&mut self, who: usize) {
        let dirs: Vec<String> = self.model.dirs.iter().cloned().chain([String::new()]).collect();
        for dir in dirs {
            self.list(who, &dir).await;
        }
        for (name, file) in self.model.names.clone() {
            if !self.model.is_dirty(file) {
                self.get(who, &name).await;
            }
        }
    }

    async fn perform(&mut self, Step { who, action }: Step) {
        match action {
            Action::Put { name, data } => self.put(who, &name, data).await,
            Action::Get { name } => self.get(who, &name).await,
            Action::Open { name, truncate } => self.open(who, &name, truncate).await,
            Action::Write { open, at, data } => self.write(open, at, data).await,
            Action::Read { open, at, len } => self.read(open, at, len).await,
            Action::Truncate { open, size } => self.truncate(open, size).await,
            Action::Commit { open } => self.commit(open).await,
            Action::Close { open } => self.close(open).await,
            Action::Cut { name, size } => self.cut(who, &name, size).await,
            Action::Remove { name } => {
                self.before_removal(&name).await;
                let done = self.clients[who].remove(self.path(&name)).await;
                same(done, self.model.remove(&name));
            }
            Action::Rename { from, to } => {
                self.before_removal(&to).await;
                let done = self.clients[who].rename(self.path(&from), self.path(&to)).await;
                same(done, self.model.rename(&from, &to));
            }
            Action::Link { from, to } => self.link(who, &from, &to).await,
            Action::Mkdir { name } => {
                let done = self.clients[who].mkdir(self.path(&name), 0o755).await;
                same(done, self.model.mkdir(&name));
            }
            Action::Stat { name } => self.stat(who, &name).await,
            Action::List { dir } => self.list(who, &dir).await,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("{}/{name}", self.dir).into()
    }

    /// What others wrote and did not commit they commit before anybody else uses the file.
    async fn settled(&mut self, file: FileNo, by: Option<usize>) {
        loop {
            let other = |who| by.is_none_or(|open: usize| self.model.opens[open].who != who);
            let mut opens = self.model.opens.iter();
            let dirty = opens.position(|o| o.file == file && o.dirty && other(o.who));
            let Some(open) = dirty else { return };
            self.commit(open).await;
        }
    }

    /// The same for the file of a name, if it has one.
    async fn settled_name(&mut self, name: &str) {
        if let Ok(file) = self.model.find(name) {
            self.settled(file, None).await;
        }
    }

    async fn put(&mut self, who: usize, name: &str, data: Data) {
        self.settled_name(name).await;
        let bytes = Bytes::from(data.bytes());
        let done = self.clients[who].write_file(self.path(name), 0o644, bytes.clone()).await;
        let file = self.model.find_or_make(name);
        same(done, file.map(drop));
        if let Ok(file) = file {
            self.model.cut(file, 0);
            self.model.write(file, 0, &bytes);
        }
    }

    async fn get(&mut self, who: usize, name: &str) {
        self.settled_name(name).await;
        let got = self.clients[who].read_file(self.path(name), ALL).await;
        match (got, self.model.find(name)) {
            (Ok(got), Ok(file)) => is_same(name, &got, &self.model.files[file].bytes),
            (got, file) => same(got.map(drop), file.map(drop)),
        }
    }

    async fn open(&mut self, who: usize, name: &str, truncate: bool) {
        if truncate {
            self.settled_name(name).await;
        }
        let options = OpenOptions { read: true, truncate, ..OpenOptions::replace(0o644) };
        let opened = self.clients[who].open(self.path(name), options).await;
        match (opened, self.model.find_or_make(name)) {
            (Ok(opened), Ok(file)) => {
                if truncate {
                    self.model.cut(file, 0);
                }
                self.model.open(who, file);
                self.files.push(opened);
            }
            (opened, file) => same(opened.map(drop), file.map(drop)),
        }
    }

    async fn write(&mut self, open: usize, at: u64, data: Data) {
        self.settled(self.model.opens[open].file, Some(open)).await;
        let bytes = data.bytes();
        let done = self.files[open].write_at(at, Bytes::copy_from_slice(&bytes)).await;
        same(done, Ok(()));
        self.model.write_open(open, at, &bytes);
    }

    async fn read(&mut self, open: usize, at: u64, len: u64) {
        let file = self.model.opens[open].file;
        self.settled(file, Some(open)).await;
        let got = self.files[open].read_at(at, len as usize).await;
        let got = got.unwrap_or_else(|e| panic!("read: {e}"));
        let bytes = &self.model.files[file].bytes;
        let place = |offset: u64| usize::try_from(offset).expect("small").min(bytes.len());
        is_same("what was read", &got, &bytes[place(at)..place(at + len)]);
    }

    async fn truncate(&mut self, open: usize, size: u64) {
        self.settled(self.model.opens[open].file, Some(open)).await;
        same(self.files[open].truncate(size).await, Ok(()));
        self.model.committed(open);
        self.model.cut_open(open, size);
    }

    async fn commit(&mut self, open: usize) {
        same(self.files[open].commit().await, Ok(()));
        self.model.committed(open);
    }

    async fn close(&mut self, open: usize) {
        let file = self.files.remove(open);
        same(file.close().await, Ok(()));
        self.model.committed(open);
        self.model.opens.remove(open);
    }

    async fn cut(&mut self, who: usize, name: &str, size: u64) {
        self.settled_name(name).await;
        let done = self.clients[who].truncate(self.path(name), size).await;
        let file = self.model.find(name);
        same(done, file.map(drop));
        if let Ok(file) = file {
            self.model.cut(file, size);
        }
    }

    async fn link(&mut self, who: usize, from: &str, to: &str) {
        let lookups = |path: PathBuf| {
            let names: Vec<String> =
                path.to_str().expect("text").split('/').map(str::to_owned).collect();
            let names = names.into_iter().filter(|name| !name.is_empty());
            let lookups = names.map(|name| OpArgs::Lookup(LookupArgs { name: component(&name) }));
            [OpArgs::Putrootfh].into_iter().chain(lookups)
        };
        let mut ops: Vec<OpArgs> = lookups(self.path(from)).collect();
        ops.push(OpArgs::Savefh);
        ops.extend(lookups(self.path(parent(to))));
        let last = to.rsplit('/').next().expect("a part");
        ops.push(OpArgs::Link(LinkArgs { newname: component(last) }));
        let done = self.clients[who].session().compound(ops).await.map(drop);
        let done = done.map_err(|error| FsError { path: self.path(to), error });
        same(done, self.model.link(from, to));
    }

    async fn stat(&mut self, who: usize, name: &str) {
        let got = self.clients[who].stat(self.path(name)).await;
        match (got, self.model.find(name)) {
            (Ok(attrs), Ok(file)) => self.look(name, file, &attrs),
            (got, file) => same(got.map(drop), file.map(drop)),
        }
    }

    async fn list(&mut self, who: usize, dir: &str) {
        let listed = self.listed(who, dir).await;
        let (listed, wanted) = match (listed, self.model.entries(dir)) {
            (Ok(listed), Ok(wanted)) => (listed, wanted),
            (listed, wanted) => return same(listed.map(drop), wanted.map(drop)),
        };
        let names: Vec<&String> = listed.keys().collect();
        assert_eq!(names, wanted.keys().collect::<Vec<_>>(), "names in {dir:?}");
        for (name, file) in wanted {
            let attrs = &listed[&name];
            match file {
                Some(file) => self.look(&name, file, attrs),
                None => assert_eq!(attrs.file_type, Some(FileType::DIR), "{name}"),
            }
        }
    }

    async fn listed(&self, who: usize, dir: &str) -> Result<BTreeMap<String, Attrs>, FsError> {
        let (client, path) = (&self.clients[who], self.path(dir));
        let mut entries = match self.switches.one_pass {
            true => client.read_dir(&path).await?,
            false => client.read_names(&path).await?,
        };
        let mut listed = BTreeMap::new();
        while let Some(entry) = entries.next().await? {
            let name = String::from_utf8(entry.name.0.to_vec()).expect("text");
            let attrs = match self.switches.one_pass {
                true => entry.attrs,
                false => client.stat(path.join(&name)).await?,
            };
            assert!(listed.insert(name.clone(), attrs).is_none(), "{name} is there twice");
        }
        Ok(listed)
    }

    /// Holds the attributes of a file against the model. What is gathered by a client nobody else
    /// can know of.
    fn look(&mut self, name: &str, file: FileNo, attrs: &Attrs) {
        assert_eq!(attrs.file_type, Some(FileType::REG), "{name}");
        assert_eq!(attrs.numlinks, Some(self.model.links(file) as u32), "links of {name}");
        if self.switches.gathering && self.model.is_dirty(file) {
            return;
        }
        let content = &self.model.files[file];
        assert_eq!(attrs.size, Some(content.bytes.len() as u64), "size of {name}");
        let changes = content.changes;
        let change = attrs.change.expect("asked for");
        if let Some(before) = self.looked.insert(file, Looked { change, changes }) {
            let advanced = change > before.change || before.changes == changes;
            assert!(change >= before.change && advanced, "{name}: {before:?}, now {change}");
        }
    }
}

fn component(name: &str) -> Component {
    Component(name.as_bytes().to_vec().into())
}

/// Expects the outcome that the model has.
fn same(done: Result<(), FsError>, wanted: Result<(), NfsStat>) {
    match (done, wanted) {
        (Ok(()), Ok(())) => {}
        (Err(e), Err(wanted)) if e.error.status() == Some(wanted) => {}
        (done, wanted) => panic!("{done:?}, and should be {wanted:?}"),
    }
}

fn is_same(what: &str, got: &[u8], wanted: &[u8]) {
    assert_eq!(got.len(), wanted.len(), "length of {what}");
    let differs = got.iter().zip(wanted).position(|(a, b)| a != b);
    let differs = differs.map(|at| (at, got[at], wanted[at]));
    assert_eq!(differs, None, "{what}: where, what is there, what should be");
}
