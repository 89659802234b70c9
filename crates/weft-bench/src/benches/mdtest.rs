//! The phases of mdtest: directories and files, made, looked at, read and removed, by clients that
//! have a directory each, or share one (table II of P3).

use bytes::Bytes;
use tokio::runtime::Runtime;
use weft_client::fs::{Client, FsError};
use weft_nfs::FileType;

use crate::{
    context::{Context, alternating},
    figures::{Figures, Key},
    outcome::Outcome,
    report::Row,
    servers::Servers,
    setup::{ALL_OFF, ALL_ON, Setup},
    workers,
};

/// As many as on the larger machine of the paper.
const DATA_SERVERS: u32 = 32;

/// Where the items of a client are, and how large its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    name: &'static str,
    shared: bool,
    bytes: usize,
}

/// The usual two: empty files in directories of their own (`-u`), and files of 3901 bytes (`-w`,
/// `-e`) in one directory.
const PLACES: [Place; 2] = [
    Place { name: "unique", shared: false, bytes: 0 },
    Place { name: "shared", shared: true, bytes: 3901 },
];

/// What the clients do between two barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    DirectoryCreation,
    DirectoryStat,
    DirectoryRemoval,
    FileCreation,
    FileStat,
    FileRead,
    FileRemoval,
}

use Phase::*;

/// The phases in their order.
const PHASES: [Phase; 7] = [
    DirectoryCreation,
    DirectoryStat,
    DirectoryRemoval,
    FileCreation,
    FileStat,
    FileRead,
    FileRemoval,
];

impl Phase {
    /// Its name in tables and JSON.
    fn name(self) -> &'static str {
        match self {
            DirectoryCreation => "directory creation",
            DirectoryStat => "directory stat",
            DirectoryRemoval => "directory removal",
            FileCreation => "file creation",
            FileStat => "file stat",
            FileRead => "file read",
            FileRemoval => "file removal",
        }
    }

    /// How many times the baseline's rate the paper reached, with a directory for each process.
    fn goal(self, place: Place) -> Option<f64> {
        let factor = match self {
            DirectoryCreation => Some(3.35),
            DirectoryStat => Some(1.2),
            DirectoryRemoval => Some(1.67),
            FileCreation => Some(10.05),
            FileStat => Some(12.06),
            FileRead => None,
            FileRemoval => Some(8.27),
        };
        factor.filter(|_| !place.shared)
    }
}

/// Measures both places with everything off and with everything on.
pub(crate) fn bench(context: &Context) -> Outcome<(Vec<Row>, Vec<Figures>)> {
    let runtime = workers::runtime()?;
    let mut all = PLACES.map(|place| Figures::of(place.name));
    for repeat in 0..context.ablation_repeats() {
        for i in alternating(repeat, 2) {
            let setup = [ALL_OFF, ALL_ON][i];
            let dir = context.disk.join("cluster");
            let servers = Servers::start_with(
                &context.weft,
                &dir,
                DATA_SERVERS,
                &setup.settings(DATA_SERVERS),
            )?;
            for (place, figures) in PLACES.iter().zip(&mut all) {
                measure(&runtime, &servers, (setup, *place), context, figures)?;
            }
        }
    }
    let mut rows = Vec::new();
    for (place, figures) in PLACES.iter().zip(&all) {
        println!("{}", figures.table(DATA_SERVERS));
        for phase in PHASES {
            let off = Key { phase: phase.name(), config: ALL_OFF.name, data_servers: DATA_SERVERS };
            rows.extend(figures.compared(off, &[(ALL_ON.name, phase.goal(*place))]));
        }
    }
    Ok((rows, all.into()))
}

fn measure(
    runtime: &Runtime,
    servers: &Servers,
    (setup, place): (Setup, Place),
    context: &Context,
    figures: &mut Figures,
) -> Outcome {
    runtime.block_on(async {
        let clients = workers::clients(servers, setup, DATA_SERVERS, context.clients()).await?;
        let first = clients.first().ok_or("no clients")?.clone();
        first.mkdir(place.root(), 0o755).await?;
        let items = context.files_of_each();
        let mut ranks = Vec::new();
        for (number, client) in clients.into_iter().enumerate() {
            let rank = Rank::new(client, number, items, place);
            if !place.shared {
                first.mkdir(&rank.dir, 0o755).await?;
            }
            ranks.push(rank);
        }
        for phase in PHASES {
            let operations = items * ranks.len();
            let run = |rank: Rank| rank.run(phase);
            let (back, sample) = workers::phase(servers, ranks, operations, run).await?;
            ranks = back;
            let config = setup.name;
            figures.add(Key { phase: phase.name(), config, data_servers: DATA_SERVERS }, sample);
        }
        Ok(())
    })
}

impl Place {
    fn root(self) -> String {
        format!("/mdtest-{}", self.name)
    }
}

/// One process of mdtest.
struct Rank {
    client: Client,
    number: usize,
    dir: String,
    items: usize,
    data: Bytes,
}

impl Rank {
    fn new(client: Client, number: usize, items: usize, place: Place) -> Rank {
        let dir = match place.shared {
            true => place.root(),
            false => format!("{}/{number:03}", place.root()),
        };
        let data = workers::content(place.bytes);
        Rank { client, number, dir, items, data }
    }

    fn path(&self, kind: &str, index: usize) -> String {
        format!("{}/{kind}.{:03}.{index:06}", self.dir, self.number)
    }

    /// Does its part of a phase, one item after the other.
    ///
    /// # Errors
    /// The first failure; content or attributes that are not what they must be are one.
    async fn run(self, phase: Phase) -> Result<Rank, FsError> {
        for index in 0..self.items {
            let (dir, file) = (self.path("dir", index), self.path("file", index));
            match phase {
                DirectoryCreation => self.client.mkdir(&dir, 0o755).await?,
                DirectoryStat => self.stat(dir, FileType::DIR).await?,
                DirectoryRemoval => self.client.remove(&dir).await?,
                FileCreation => self.client.write_file(&file, 0o644, self.data.clone()).await?,
                FileStat => self.stat(file, FileType::REG).await?,
                FileRead => self.read(file).await?,
                FileRemoval => self.client.remove(&file).await?,
            }
        }
        Ok(self)
    }

    async fn stat(&self, path: String, kind: FileType) -> Result<(), FsError> {
        let attrs = self.client.stat(&path).await?;
        let size_is_right = kind != FileType::REG || attrs.size == Some(self.data.len() as u64);
        match attrs.file_type == Some(kind) && size_is_right {
            true => Ok(()),
            false => Err(workers::wrong(path, "its type or size is wrong")),
        }
    }

    async fn read(&self, path: String) -> Result<(), FsError> {
        match self.client.read_file(&path, self.data.len()).await? == self.data {
            true => Ok(()),
            false => Err(workers::wrong(path, "it does not hold what was written")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The phases are those of the paper's table and reading, each once; only those in directories
    /// of their own have a goal.
    #[test]
    fn phases_of_the_table() {
        let names: std::collections::HashSet<_> = PHASES.iter().map(|p| p.name()).collect();
        assert_eq!(names.len(), 7);
        let goals = |place| PHASES.iter().filter(|p| p.goal(place).is_some()).count();
        assert_eq!(PLACES.map(goals), [6, 0]);
    }
}
