//! Commands on many files go on when one fails, and end with a failure then.

use super::quote::printable;
use crate::outcome::Outcome;

/// What has failed so far.
#[derive(Default)]
pub(super) struct Troubles {
    /// Told at the end if it stays the only one.
    first: Option<String>,
    count: usize,
}

impl Troubles {
    /// One more failure.
    pub(super) fn tell(&mut self, why: String) {
        self.count += 1;
        if self.count == 1 {
            self.first = Some(why);
            return;
        }
        for why in self.first.take().into_iter().chain([why]) {
            eprintln!("weft: {}", printable(&why));
        }
    }

    /// Takes note of a failure, if it is one.
    pub(super) fn hear<T>(&mut self, done: Result<T, String>) -> Option<T> {
        done.map_err(|why| self.tell(why)).ok()
    }

    /// How the command ends.
    ///
    /// # Errors
    /// Something has failed.
    pub(super) fn outcome(self) -> Outcome {
        match self.first {
            Some(only) => Err(only.into()),
            None if self.count == 0 => Ok(()),
            None => Err(format!("{} failures, as told above", self.count).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failure alone is what the command says; of several it says how many they are.
    #[test]
    fn how_it_ends() {
        let mut troubles = Troubles::default();
        assert_eq!(troubles.hear(Ok::<_, String>(7)), Some(7));
        assert!(Troubles::default().outcome().is_ok());
        troubles.tell("one".into());
        assert_eq!(troubles.hear(Err::<(), _>("two".into())), None);
        assert_eq!(troubles.outcome().unwrap_err().to_string(), "2 failures, as told above");
        let mut troubles = Troubles::default();
        troubles.tell("only".into());
        assert_eq!(troubles.outcome().unwrap_err().to_string(), "only");
    }
}
