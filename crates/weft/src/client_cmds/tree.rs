//! What commands do with everything below the paths that they are given.

use std::{path::PathBuf, sync::Arc};

use weft_client::fs::{Step, Walk};

use super::{
    connect::{Remote, means_directory},
    glob,
    troubles::Troubles,
};

/// Walks through what paths lead to, one after another, and what is below them. What cannot be seen
/// is told, and the rest goes on.
pub(super) struct Trees {
    remote: Arc<Remote>,
    paths: std::vec::IntoIter<PathBuf>,
    walk: Option<Walk>,
    how: Limits,
}

/// How far walks go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Levels below a path.
    pub(super) depth_max: usize,
    /// Whether a path that is a link means what it leads to. With a slash at its end it does.
    pub(super) follows: bool,
}

impl Limits {
    /// From what paths lead to, as deep as it gets.
    pub(super) const NONE: Limits = Limits { depth_max: usize::MAX, follows: true };
}

impl Trees {
    /// Of these paths of the user's, which may be patterns.
    pub(super) async fn of(
        remote: Arc<Remote>,
        paths: &[PathBuf],
        how: Limits,
        troubles: &mut Troubles,
    ) -> Trees {
        let paths = glob::expand_each(&remote, paths, troubles).await.into_iter();
        Trees { remote, paths, walk: None, how }
    }

    /// The next step of the walk that is under way, or the first one of the next; none at the end.
    pub(super) async fn next(&mut self, troubles: &mut Troubles) -> Option<Step> {
        loop {
            let step = match &mut self.walk {
                Some(walk) => walk.next().await,
                None => Ok(None),
            };
            match step {
                Ok(Some(step)) => return Some(step),
                Ok(None) => {
                    let path = self.paths.next()?;
                    let follow = self.how.follows || means_directory(&path);
                    let walk =
                        self.remote.client.walk_tree(&path, follow, self.how.depth_max).await;
                    self.walk = troubles.hear(walk.map_err(|e| self.remote.failed(&e)));
                }
                Err(e) => troubles.tell(self.remote.failed(&e)),
            }
        }
    }
}
