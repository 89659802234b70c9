//! The modules of a crate: which file each is, and in which file lies what a path leads to.

use std::collections::{BTreeMap, BTreeSet};

use crate::{paths::Paths, source::Source};

/// How often a name may be passed on from `use` to `use`.
const HOPS_MAX: u32 = 8;

/// A module's path below its crate; the crate itself is empty.
type Module = Vec<String>;

/// One crate.
pub struct Modules {
    files: BTreeMap<Module, File>,
}

/// The file of a module.
struct File {
    path: String,
    names: Paths,
}

impl Modules {
    /// The modules of every crate among the sources, by the crate's folder.
    pub fn by_crate(sources: &[Source]) -> BTreeMap<String, Modules> {
        let mut crates = BTreeMap::new();
        for source in sources {
            let Some((folder, below)) = source.path.split_once("/src/") else { continue };
            let modules =
                crates.entry(folder.to_string()).or_insert(Modules { files: BTreeMap::new() });
            let file = File { path: source.path.clone(), names: Paths::of(source) };
            modules.files.insert(module(below), file);
        }
        crates
    }

    /// Which file uses which. A file that only passes a name on (`pub use`) does not use it;
    /// whoever names it through that file uses the one that defines it.
    pub fn arrows(&self) -> BTreeSet<(String, String)> {
        let mut arrows = BTreeSet::new();
        for (module, file) in &self.files {
            let imports = file.names.imports.iter();
            let used = imports.filter(|i| !i.public || file.names.words.contains(&i.name));
            for path in used.map(|i| &i.path).chain(&file.names.inline) {
                if let Some(to) = self.file_of(module, path, 0).filter(|to| *to != file.path) {
                    arrows.insert((file.path.clone(), to.to_string()));
                }
            }
        }
        arrows
    }

    /// The file of this crate that defines what a path names; none for a module, which is
    /// a name to begin other paths with, and for what other crates define.
    fn file_of(&self, from: &Module, path: &[String], hops: u32) -> Option<&str> {
        let (module, rest) = self.descend(from, path, hops)?;
        let item = rest.first()?;
        let file = &self.files[&module];
        if item == "*" || hops == HOPS_MAX {
            return Some(&file.path);
        }
        if let Some(import) = file.names.imports.iter().find(|i| i.name == *item) {
            return self.file_of(&module, &import.path, hops + 1);
        }
        let of_all = file.names.imports.iter().filter(|i| i.name == "*");
        let mut passed_on = of_all.filter_map(|i| self.descend(&module, &i.path, hops + 1));
        let definer = passed_on.find_map(|(other, _)| {
            let other = &self.files[&other];
            other.names.defined.contains(item).then_some(other.path.as_str())
        });
        definer.or(Some(&file.path))
    }

    /// Follows a path through modules: the last one, and what is left of the path.
    fn descend<'p>(
        &self,
        from: &Module,
        path: &'p [String],
        hops: u32,
    ) -> Option<(Module, &'p [String])> {
        let (mut module, mut rest) = self.begin(from, path, hops)?;
        while let Some((segment, more)) = rest.split_first() {
            let below = [module.as_slice(), std::slice::from_ref(segment)].concat();
            if !self.files.contains_key(&below) {
                break;
            }
            (module, rest) = (below, more);
        }
        self.files.contains_key(&module).then_some((module, rest))
    }

    /// The module that the beginning of a path stands for.
    fn begin<'p>(
        &self,
        from: &Module,
        path: &'p [String],
        hops: u32,
    ) -> Option<(Module, &'p [String])> {
        let (head, rest) = path.split_first()?;
        match head.as_str() {
            "crate" => Some((Module::new(), rest)),
            "self" => Some((from.clone(), rest)),
            "super" => {
                let ups = path.iter().take_while(|segment| *segment == "super").count();
                Some((from[..from.len().checked_sub(ups)?].to_vec(), &path[ups..]))
            }
            child if self.files.contains_key(&[from.as_slice(), &[child.into()]].concat()) => {
                Some((from.clone(), path))
            }
            imported if hops < HOPS_MAX => {
                let import = self.files[from].names.imports.iter().find(|i| i.name == imported)?;
                let (module, left) = self.descend(from, &import.path, hops + 1)?;
                left.is_empty().then_some((module, rest))
            }
            _ => None,
        }
    }
}

/// The module that a file below `src` is.
fn module(below: &str) -> Module {
    let stem = below.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if ["lib", "main"].contains(&stem) {
        return Module::new();
    }
    stem.split('/').map(String::from).collect()
}
