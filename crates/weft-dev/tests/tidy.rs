//! Checks of our own sources, as a test: how long functions and files are, who uses whom, what is
//! cited, and what is not to be left behind. It reads the repository and nothing else. `tidy.toml`
//! says who may use whom, and what may break a rule; what breaks it no more must leave that list.

#[path = "tidy/arrows.rs"]
mod arrows;
#[path = "tidy/citations.rs"]
mod citations;
#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/paths.rs"]
mod paths;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/table.rs"]
mod table;
#[path = "tidy/tests.rs"]
mod tests;

use std::{collections::BTreeSet, path::Path};

use table::Table;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Nothing breaks a rule but what is listed, and what is listed does.
#[test]
fn sources_are_tidy() {
    let root = Path::new(ROOT);
    let table = Table::read(root);
    let sources = source::all(root);
    assert!(sources.len() > 100, "sources are found");
    let arrows = arrows::between_files(&sources);
    assert!(arrows.len() > sources.len(), "arrows are found");
    let mut found: BTreeSet<String> = sources.iter().flat_map(rules::broken).collect();
    found.extend(arrows::crates(&table, root));
    found.extend(arrows::rooms(&table.rooms, &sources, &arrows));
    found.extend(arrows::circles(&table.circles, &arrows));
    found.extend(citations::broken(root, &sources));
    let new: Vec<_> = found.difference(&table.exceptions).collect();
    let old: Vec<_> = table.exceptions.difference(&found).collect();
    assert!(new.is_empty(), "tidy: {} to be put right: {new:#?}", new.len());
    assert!(old.is_empty(), "tidy.toml: not needed any more: {old:#?}");
}
