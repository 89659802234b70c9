//! The techniques for small files, and the configurations that show what each brings.

use std::fmt::Write;

/// What can be switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Technique {
    /// Small files are with the metadata server (P3.2).
    Stuffing,
    /// Changes share a sync (P3.3).
    Coalescing,
    /// The first write to an object makes it (P2.2). Without: they are all made with the file, a
    /// message to each data server (P2.1).
    ImplicitObjects,
    /// Objects are made ahead of the files, many at a time (P3.1).
    PrecreatedObjects,
    /// Names and small files travel with the requests on them (P3.4).
    EagerIo,
    /// Attributes come with the names of a directory (P3.5).
    OnePassListing,
    /// What is small goes through the metadata server, wherever it is kept (P0.2), and leaves it
    /// together (P0.5).
    Threshold,
}

use Technique::*;

/// A set of techniques with its name in tables and JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    on: &'static [Technique],
}

/// Everything off: the paper's baseline.
pub(crate) const ALL_OFF: Setup = Setup { name: "all-off", on: &[] };
/// Everything on: what a server does by default.
pub(crate) const ALL_ON: Setup = Setup {
    name: "all-on",
    on: &[Stuffing, Coalescing, ImplicitObjects, EagerIo, OnePassListing, Threshold],
};

/// All configurations of the ablation, in the order of the table.
pub(crate) const SETUPS: [Setup; 9] = [
    ALL_OFF,
    Setup { name: "only-stuffing", on: &[Stuffing] },
    Setup { name: "only-coalescing", on: &[Coalescing] },
    Setup { name: "only-implicit", on: &[ImplicitObjects] },
    Setup { name: "only-precreate", on: &[PrecreatedObjects] },
    Setup { name: "only-eager-io", on: &[EagerIo] },
    Setup { name: "only-listing", on: &[OnePassListing] },
    Setup { name: "only-threshold", on: &[Threshold] },
    ALL_ON,
];

/// Their names.
pub(crate) const NAMES: [&str; SETUPS.len()] = {
    let mut names = [""; SETUPS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = SETUPS[i].name;
        i += 1;
    }
    names
};

/// Everything that is on by default except what keeps small files away from data servers: each file
/// that was written has an object.
pub(crate) const WITH_OBJECTS: Setup =
    Setup { name: "with-objects", on: &[Coalescing, ImplicitObjects, EagerIo, OnePassListing] };

/// The three moments at which objects can be made, and what a server does by default.
/// The first three keep no file with the metadata server, or there would be no objects.
pub(crate) const OBJECT_CREATION: [Setup; 4] = [
    Setup { name: "eager", on: &[Coalescing, EagerIo] },
    Setup { name: "precreate", on: &[Coalescing, PrecreatedObjects, EagerIo] },
    Setup { name: "implicit", on: &[Coalescing, ImplicitObjects, EagerIo] },
    ALL_ON,
];

impl Setup {
    /// Whether it uses a technique.
    pub(crate) fn has(self, technique: Technique) -> bool {
        self.on.contains(&technique)
    }

    /// The metadata server's configuration. Every file is striped over all data servers: the
    /// baseline's cost is that of telling all of them.
    pub(crate) fn settings(self, data_servers: u32) -> String {
        let limit = |on| if on { "64KiB" } else { "0KiB" };
        // A client that is not told to send small I/O to the metadata server asks for layouts, with
        // which small files leave it.
        let indirect = self.has(Threshold) || self.has(Stuffing);
        let objects = match (self.has(ImplicitObjects), self.has(PrecreatedObjects)) {
            (true, _) => "implicit",
            (false, true) => "precreate",
            (false, false) => "eager",
        };
        let mut toml = format!("stripe_width = {data_servers}\nobject_creation = \"{objects}\"\n");
        let _ = writeln!(toml, "[commit]\ncoalesce = {}", self.has(Coalescing));
        let _ = writeln!(toml, "[small_files]\nstuffing_limit = \"{}\"", limit(self.has(Stuffing)));
        let _ = writeln!(toml, "write_threshold = \"{}\"", limit(indirect));
        let _ = writeln!(toml, "gather = {on}\nadaptive = {on}", on = self.has(Threshold));
        for id in 1..=data_servers {
            // The servers under test take their place; without them the width is refused.
            let _ = writeln!(toml, "[[data_server]]\nid = {id}\ncontrol = \"127.0.0.1:{id}\"");
        }
        toml
    }
}

#[cfg(test)]
mod tests {
    use ::weft::config::MdsConfig;

    use super::*;

    /// The server understands each configuration, all-on is its default, and no two are the same.
    #[test]
    fn settings_are_those_of_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mds.toml");
        let mut seen = Vec::new();
        for setup in
            SETUPS.into_iter().chain([WITH_OBJECTS]).chain(OBJECT_CREATION.into_iter().take(3))
        {
            std::fs::write(&file, setup.settings(1)).unwrap();
            let config = MdsConfig::load(&file).unwrap();
            let default = MdsConfig {
                stripe_width: Some(1),
                data_servers: config.data_servers.clone(),
                ..MdsConfig::default()
            };
            assert_eq!(config == default, setup == ALL_ON, "{}", setup.name);
            let client = (setup.has(EagerIo), setup.has(OnePassListing));
            assert!(!seen.contains(&(config.clone(), client)), "{} is another one", setup.name);
            seen.push((config, client));
        }
    }
}
