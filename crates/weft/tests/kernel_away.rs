//! One data server of three is killed, filled, taken out of the configuration, lost and replaced,
//! or restored from an old copy, under an unmodified Linux client: other files and new files never
//! wait, and no file has wrong bytes.

mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use support::guest::{Guest, Kernel};
use support::servers::{Plan, Servers, ds};

/// The data server that is away.
const VICTIM: u32 = 1;
/// Size of its disk, MiB.
const DISK_MIB: u32 = 256;
/// Old files of the guest script.
const OLD: u32 = 6;
/// It takes the metadata server at most so long to notice that a data server has gone, or is there.
const NOTICED: Duration = Duration::from_secs(5);
/// In this order: what `copy` keeps is what `oldest` brings back; `replace` brings an empty
/// directory, which is refused until the loss is accepted.
const ACTS: [&str; 10] =
    ["kill", "start", "fill", "free", "remove", "copy", "oldest", "newest", "replace", "accept"];

/// New files are striped over all that are there; each old one waits while one is away.
#[test]
fn one_of_three_is_away_and_files_are_on_all() {
    away(3);
}

/// Each file is on one data server.
#[test]
fn one_of_three_is_away_and_files_are_on_one() {
    away(1);
}

fn away(stripe_width: u32) {
    let Some(guest) = Guest::new(Kernel::Uml, "away.sh") else { return };
    let plan =
        Plan { data_servers: 3, stripe_width, ds_disk_mib: Some(DISK_MIB), ..Plan::default() };
    let servers = Servers::start(plan);
    let mut guest = guest.seconds(600).argument(servers.port());
    for act in ACTS {
        guest = guest.argument(act);
    }
    let mut away = Away { servers, filler: PathBuf::new() };
    let report = guest.run(&mut away, |away, words| {
        away.act(words);
        Ok(())
    });
    for act in ACTS {
        // The script fails above its limit; here it is only shown.
        eprintln!("width {stripe_width}, {act}: {} ms at most", 10 * report.number("4.2", act));
    }
}

struct Away {
    servers: Servers,
    filler: PathBuf,
}

impl Away {
    fn act(&mut self, act: &str) {
        if let Some(act) = act.strip_prefix("noticed ") {
            return self.until_noticed(act);
        }
        let (servers, victim) = (&mut self.servers, ds(VICTIM));
        match act {
            "elsewhere" => self.tell_elsewhere(),
            "end" => {}
            "kill" => servers.kill9(&victim),
            "start" => servers.start_ds(VICTIM),
            "fill" => self.filler = servers.fill(&victim, 0),
            "free" => std::fs::remove_file(&self.filler).expect("the filler"),
            "remove" => {
                servers.kill9("mds");
                let refused = servers.mds_without(VICTIM);
                let words = support::words(&refused);
                assert!(!refused.status.success() && words.contains("data server 1"), "{words}");
                servers.start_mds();
            }
            "copy" => {
                servers.kill9(&victim);
                copy(&servers.data_dir(&victim), &servers.path("old-copy"));
                servers.start_ds(VICTIM);
            }
            "oldest" => {
                servers.kill9(&victim);
                swap(servers, "newest-copy", "old-copy");
                servers.start_ds(VICTIM);
            }
            "newest" => {
                servers.kill9(&victim);
                swap(servers, "rejected-copy", "newest-copy");
                servers.start_ds(VICTIM);
            }
            "accept" => {
                servers.kill9("mds");
                let (mds, number) = (servers.data_dir("mds"), VICTIM.to_string());
                let mds = mds.to_str().expect("plain");
                let accept = ["accept-loss", "--mds", mds, "--data-server", &number];
                let listed = servers.weft_ok(&accept);
                assert!(listed.contains("old-"), "{listed}");
                servers.weft_ok(&[&accept[..], &["--yes"]].concat());
                servers.start_mds();
                servers.until_reachable(3);
            }
            "replace" => {
                servers.kill9(&victim);
                swap(servers, "lost-copy", "nothing");
                servers.start_ds(VICTIM);
            }
            _ => panic!("no act {act}"),
        }
    }

    /// Until the metadata server says of the victim what is so since the act.
    fn until_noticed(&self, act: &str) {
        let away = ["kill", "oldest", "replace"].contains(&act);
        support::until(act, NOTICED, || {
            let (is_used, _) = self.servers.status()[&u64::from(VICTIM)].clone();
            (is_used != away).then_some(())
        });
    }

    /// Writes the names of the old files that have nothing on the victim into `/.elsewhere`.
    fn tell_elsewhere(&self) {
        let servers = &self.servers;
        let is_elsewhere = |name: &String| {
            let stat = servers.stat(&format!("/{name}"));
            let stripes = stat["layout"]["stripes"].as_array().cloned().unwrap_or_default();
            assert!(!stripes.is_empty(), "{name}: {stat}");
            stripes.iter().all(|s| s["data_server_id"] != VICTIM)
        };
        let names = (1..=OLD).map(|n| format!("old-{n}")).filter(is_elsewhere);
        let elsewhere: String = names.map(|name| name + "\n").collect();
        let list = servers.path("elsewhere");
        std::fs::write(&list, elsewhere).expect("a list");
        servers.weft_ok(&["put", list.to_str().expect("plain"), "/.elsewhere"]);
    }
}

/// Keeps the victim's data as `keep` and puts those kept as `take` in their place, if there are
/// any.
fn swap(servers: &Servers, keep: &str, take: &str) {
    let (data, take) = (servers.data_dir(&ds(VICTIM)), servers.path(take));
    copy(&data, &servers.path(keep));
    for entry in std::fs::read_dir(&data).expect("data").flatten() {
        let path = entry.path();
        let removed = match entry.file_type().expect("a type").is_dir() {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
        removed.expect("removed");
    }
    if take.exists() {
        copy(&take, &data);
    }
}

/// A copy with everything that `cp -a` keeps; the disk itself stays where it is.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    let from = format!("{}/.", from.display());
    let copied = support::run("cp", &["-a", &from, to.to_str().expect("plain")]);
    assert!(copied.status.success(), "cp: {}", support::words(&copied));
}
