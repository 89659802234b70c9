//! `tidy.toml`: who may use whom, and what may break a rule.

use std::{collections::BTreeSet, path::Path};

use serde::Deserialize;

/// The whole of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What may break a rule, by rule and name.
    pub exceptions: BTreeSet<String>,
    /// Every crate.
    #[serde(rename = "crate")]
    pub crates: Vec<Crate>,
    /// Folders and files inside crates.
    #[serde(default, rename = "room")]
    pub rooms: Vec<Room>,
    /// Circles that stand for now.
    #[serde(default, rename = "circle")]
    pub circles: Vec<Circle>,
}

/// Which crates of ours one uses: exactly these.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crate {
    /// Its name, which is its folder's.
    pub name: String,
    /// What its code uses.
    #[serde(default)]
    pub uses: BTreeSet<String>,
    /// What its tests use beside that.
    #[serde(default)]
    pub tests_use: BTreeSet<String>,
}

/// A folder or a file inside a crate, with what is below it and is no room of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Room {
    /// From the root of the repository, without `.rs`.
    pub path: String,
    /// The rooms of the same crate that it may name, from `src` on.
    pub may_use: BTreeSet<String>,
    /// Words that its code must not contain.
    #[serde(default)]
    pub never: BTreeSet<String>,
}

/// Files that use each other in a circle.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circle {
    /// Where all files of the circle are.
    pub within: Vec<String>,
    /// Why it stands.
    #[serde(rename = "because")]
    _because: String,
}

impl Table {
    /// The table of this repository.
    pub fn read(root: &Path) -> Table {
        let text = std::fs::read_to_string(root.join("tidy.toml")).expect("tidy.toml is there");
        Table::parse(&text)
    }

    /// A table as text.
    pub fn parse(text: &str) -> Table {
        toml::from_str(text).expect("tidy.toml is as expected")
    }
}
