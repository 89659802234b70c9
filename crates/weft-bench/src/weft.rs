//! The program that is measured: `weft`, which serves and which copies files.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::outcome::Outcome;

/// Name of the program's file.
const NAME: &str = "weft";

/// Where the `weft` program is.
#[derive(Debug, Clone)]
pub(crate) struct Weft(PathBuf);

impl Weft {
    /// The program at `given`, otherwise the one that cargo put beside this very program.
    ///
    /// # Errors
    /// There is none; the message says how to build it.
    pub(crate) fn find(given: Option<&Path>) -> Outcome<Weft> {
        match given {
            Some(file) => Weft::at(file.to_path_buf()),
            None => Weft::at(std::env::current_exe()?.with_file_name(NAME)),
        }
    }

    fn at(file: PathBuf) -> Outcome<Weft> {
        if file.is_file() {
            return Ok(Weft(file));
        }
        let file = file.display();
        Err(format!(
            "{file}: there is no such program; build it with `cargo build --release -p weft` \
             (`./dev bench` does), or name another with --weft"
        )
        .into())
    }

    /// A process of it, to be given arguments and started.
    pub(crate) fn command(&self) -> Command {
        Command::new(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that is there is taken; of one that is not, the error says what to build.
    #[test]
    fn what_is_missing_is_to_be_built() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(NAME);
        let error = Weft::find(Some(&file)).unwrap_err().to_string();
        assert!(error.starts_with(&file.display().to_string()), "{error}");
        assert!(error.contains("cargo build --release -p weft"), "{error}");
        std::fs::write(&file, "").unwrap();
        assert_eq!(Weft::find(Some(&file)).unwrap().command().get_program(), &file);
    }
}
