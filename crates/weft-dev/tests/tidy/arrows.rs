//! Who uses whom: between crates, between the rooms of a crate, and no circles.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    modules::Modules,
    paths::Paths,
    source::Source,
    table::{Circle, Crate, Room, Table},
};

/// Which file of a crate uses which.
pub type Arrows = BTreeSet<(String, String)>;

/// The arrows inside every crate.
pub fn between_files(sources: &[Source]) -> Arrows {
    Modules::by_crate(sources).values().flat_map(Modules::arrows).collect()
}

/// What differs between the manifests of all crates and the table.
pub fn crates(table: &Table, root: &Path) -> Vec<String> {
    let folders = std::fs::read_dir(root.join("crates")).expect("a folder");
    let mut found = Vec::new();
    for folder in folders.map(|e| e.expect("an entry").path()) {
        let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let name = folder.file_name().expect("a name").to_string_lossy();
        match table.crates.iter().find(|row| row.name == name) {
            Some(row) => found.extend(of_crate(row, &manifest)),
            None => found.push(format!("crate {name} has no row")),
        }
    }
    found
}

/// What differs between one manifest and its row.
pub fn of_crate(row: &Crate, manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().expect("a manifest");
    let ours = |section: &str| -> BTreeSet<String> {
        let names = manifest.get(section).and_then(|s| s.as_table()).into_iter().flatten();
        names.map(|(name, _)| name.clone()).filter(|n| n.starts_with("weft-")).collect()
    };
    let (code, name) = (ours("dependencies"), &row.name);
    let tests: BTreeSet<String> = ours("dev-dependencies").difference(&code).cloned().collect();
    let built = ours("build-dependencies");
    let mut found = Vec::new();
    for used in code.union(&built).filter(|used| !row.uses.contains(*used)) {
        found.push(format!("arrow {name} {used}"));
    }
    for used in tests.difference(&row.tests_use) {
        found.push(format!("arrow {name} {used} (tests)"));
    }
    for unused in row.uses.difference(&code).chain(row.tests_use.difference(&tests)) {
        found.push(format!("arrow {name} {unused} is in the table only"));
    }
    found
}

/// What a room names though it must not, and rooms that are not there.
pub fn rooms(rooms: &[Room], sources: &[Source], arrows: &Arrows) -> Vec<String> {
    let files: BTreeSet<&str> = sources.iter().map(|s| s.path.as_str()).collect();
    let mut found: BTreeSet<String> =
        rooms.iter().flat_map(|r| misnamed(r, rooms, &files)).collect();
    for (from, to) in arrows {
        let (inside, other) = (room_of(from, rooms), room_of(to, rooms));
        let row = rooms.iter().find(|room| room.path == inside);
        if row.is_some_and(|row| inside != other && !row.may_use.contains(below_src(&other))) {
            found.insert(format!("room {inside} uses {other}: {from} {to}"));
        }
    }
    for source in sources {
        let inside = room_of(&source.path, rooms);
        let Some(row) = rooms.iter().find(|r| r.path == inside && !r.never.is_empty()) else {
            continue;
        };
        let names = Paths::of(source);
        let imported = names.imports.iter().flat_map(|i| i.path.iter().chain([&i.name]));
        let words: BTreeSet<String> = names.words.iter().chain(imported).cloned().collect();
        let bad = row.never.intersection(&words);
        found.extend(bad.map(|word| format!("room {inside} says {word}: {}", source.path)));
    }
    found.into_iter().collect()
}

/// Paths of a row at which there is nothing.
fn misnamed(room: &Room, rooms: &[Room], files: &BTreeSet<&str>) -> Vec<String> {
    let src = &room.path[..room.path.len() - below_src(&room.path).len()];
    let paths = room.may_use.iter().map(|name| format!("{src}{name}")).chain([room.path.clone()]);
    let missing = paths.filter(|path| !files.iter().any(|file| room_of(file, rooms) == *path));
    missing.map(|path| format!("room {path} is nothing")).collect()
}

/// The room of a file: the deepest one of the table, or else the first folder or file below `src`.
fn room_of(file: &str, rooms: &[Room]) -> String {
    let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let is_within = |path: &str| {
        stem.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let listed = rooms.iter().map(|room| room.path.as_str()).filter(|path| is_within(path));
    if let Some(deepest) = listed.max_by_key(|path| path.len()) {
        return deepest.to_string();
    }
    let below = below_src(stem);
    let first = below.split('/').next().unwrap_or_default();
    format!("{}{first}", &stem[..stem.len() - below.len()])
}

fn below_src(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(_, below)| below)
}

/// Circles that are not listed, and listed ones that are gone.
pub fn circles(listed: &[Circle], arrows: &Arrows) -> Vec<String> {
    let within = |circle: &Circle, file: &String| {
        circle.within.iter().any(|folder| file.starts_with(folder.as_str()))
    };
    let there = groups(arrows);
    let covers = |l: &Circle, group: &BTreeSet<String>| group.iter().all(|file| within(l, file));
    let new = there.iter().filter(|group| !listed.iter().any(|l| covers(l, group)));
    let gone = listed.iter().filter(|l| !there.iter().any(|group| covers(l, group)));
    let said = |group: &BTreeSet<String>| group.iter().cloned().collect::<Vec<_>>().join(" ");
    new.map(|group| format!("circle {}", said(group)))
        .chain(gone.map(|l| format!("circle within {:?} is gone", l.within)))
        .collect()
}

/// The largest groups of files each of which reaches all others of its group.
fn groups(arrows: &Arrows) -> BTreeSet<BTreeSet<String>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows {
        next.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|from| (*from, reach(from, &next))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let in_circle = reached.keys().filter(|file| reaches(file, file));
    let group = |file: &str| {
        let others = reached[file].iter().filter(|other| reaches(other, file));
        others.map(|other| other.to_string()).collect()
    };
    in_circle.map(|file| group(file)).collect()
}

/// Where the arrows lead from a file, at any distance.
fn reach<'a>(from: &'a str, next: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![from];
    while let Some(file) = ahead.pop() {
        let unseen = next.get(file).into_iter().flatten().filter(|to| reached.insert(**to));
        ahead.extend(unseen);
    }
    reached
}
