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

/// Where the items of a client are, and how large its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    name: &'static str,
    shared: bool,
    bytes: usize,
}

/// The usual two: empty files in directories of their own (`-u`), and files of 3901 bytes (`-w`,
/// `-e`) in one directory.
const VARIANTS: [Variant; 2] = [
    Variant { name: "unique", shared: false, bytes: 0 },
    Variant { name: "shared", shared: true, bytes: 3901 },
];

/// What a client does with each of its items between two barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    MakeDirectory,
    StatDirectory,
    RemoveDirectory,
    WriteFile,
    StatFile,
    ReadFile,
    RemoveFile,
}

/// A phase: work with a name in tables and JSON.
#[derive(Debug, Clone, Copy)]
struct Phase {
    work: Work,
    name: &'static str,
    /// How many times the baseline's rate the paper reached with a directory for each process.
    goal: Option<f64>,
}

const fn phase(work: Work, name: &'static str, goal: Option<f64>) -> Phase {
    Phase { work, name, goal }
}

/// The phases in their order.
const PHASES: [Phase; 7] = [
    phase(Work::MakeDirectory, "directory creation", Some(3.35)),
    phase(Work::StatDirectory, "directory stat", Some(1.2)),
    phase(Work::RemoveDirectory, "directory removal", Some(1.67)),
    phase(Work::WriteFile, "file creation", Some(10.05)),
    phase(Work::StatFile, "file stat", Some(12.06)),
    phase(Work::ReadFile, "file read", None),
    phase(Work::RemoveFile, "file removal", Some(8.27)),
];

impl Phase {
    /// Its goal in a variant; the paper has none for a shared directory.
    fn goal_of(self, variant: Variant) -> Option<f64> {
        self.goal.filter(|_| !variant.shared)
    }
}

/// Measures both variants with everything off and with everything on.
pub(crate) fn bench(context: &Context) -> Outcome<(Vec<Row>, Vec<Figures>)> {
    let (runtime, data_servers) = (workers::runtime()?, context.data_servers());
    let mut all = VARIANTS.map(|variant| Figures::of(variant.name));
    for repeat in 0..context.ablation_repeats() {
        for i in alternating(repeat, 2) {
            let setup = [ALL_OFF, ALL_ON][i];
            let dir = context.disk.join("cluster");
            let settings = setup.settings(data_servers);
            let servers = Servers::start_with(&context.weft, &dir, data_servers, &settings)?;
            for (variant, figures) in VARIANTS.iter().zip(&mut all) {
                measure(&runtime, &servers, (setup, *variant), context, figures)?;
            }
        }
    }
    let mut rows = Vec::new();
    for (variant, figures) in VARIANTS.iter().zip(&all) {
        println!("{}", figures.table(data_servers));
        for phase in PHASES {
            let off = Key { phase: phase.name, config: ALL_OFF.name, data_servers };
            rows.extend(figures.compared(off, &[(ALL_ON.name, phase.goal_of(*variant))]));
        }
    }
    Ok((rows, all.into()))
}

fn measure(
    runtime: &Runtime,
    servers: &Servers,
    (setup, variant): (Setup, Variant),
    context: &Context,
    figures: &mut Figures,
) -> Outcome {
    let data_servers = context.data_servers();
    runtime.block_on(async {
        let clients = workers::clients(servers, setup, data_servers, context.clients()).await?;
        let first = clients.first().ok_or("no clients")?.clone();
        first.mkdir(variant.root(), 0o755).await?;
        let items = context.files_of_each();
        let mut ranks = Vec::new();
        for (number, client) in clients.into_iter().enumerate() {
            let rank = Rank::new(client, number, items, variant);
            if !variant.shared {
                first.mkdir(&rank.dir, 0o755).await?;
            }
            ranks.push(rank);
        }
        for phase in PHASES {
            let operations = items * ranks.len();
            let run = |rank: Rank| rank.run(phase.work);
            let (back, sample) = workers::phase(servers, ranks, operations, run).await?;
            ranks = back;
            let config = setup.name;
            figures.add(Key { phase: phase.name, config, data_servers }, sample);
        }
        Ok(())
    })
}

impl Variant {
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
    fn new(client: Client, number: usize, items: usize, variant: Variant) -> Rank {
        let dir = match variant.shared {
            true => variant.root(),
            false => format!("{}/{number:03}", variant.root()),
        };
        let data = workers::content(variant.bytes);
        Rank { client, number, dir, items, data }
    }

    fn path(&self, kind: &str, index: usize) -> String {
        format!("{}/{kind}.{:03}.{index:06}", self.dir, self.number)
    }

    /// Does its part of a phase, one item after the other.
    ///
    /// # Errors
    /// The first failure; content or attributes that are not what they must be are one.
    async fn run(self, work: Work) -> Result<Rank, FsError> {
        for index in 0..self.items {
            let (dir, file) = (self.path("dir", index), self.path("file", index));
            match work {
                Work::MakeDirectory => self.client.mkdir(&dir, 0o755).await?,
                Work::StatDirectory => self.stat(dir, FileType::DIR).await?,
                Work::RemoveDirectory => self.client.remove(&dir).await?,
                Work::WriteFile => self.client.write_file(&file, 0o644, self.data.clone()).await?,
                Work::StatFile => self.stat(file, FileType::REG).await?,
                Work::ReadFile => self.read(file).await?,
                Work::RemoveFile => self.client.remove(&file).await?,
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
        let names: std::collections::HashSet<_> = PHASES.iter().map(|p| p.name).collect();
        assert_eq!(names.len(), 7);
        let goals = |variant| PHASES.iter().filter(|p| p.goal_of(variant).is_some()).count();
        assert_eq!(VARIANTS.map(goals), [6, 0]);
    }
}
