//! The kernel is told of what others change: it forgets the attributes and bytes that it has of a
//! file when this client does not vouch for them any more.
//!
//! Names are not told: nothing of ours hears of them (that takes delegations of directories), so
//! the kernel believes them for a moment only.

use std::{future::Future, pin::Pin, sync::Arc};

use fuser::{INodeNo, Notifier};
use rustix::io::Errno;
use tokio::task::JoinSet;
use weft_client::node::{Change, Watcher, What};

use crate::{
    notices::{ALL_BYTES, NO_BYTES, Notices, Telling, Whom},
    tree::Tree,
};

/// Files whose bytes the kernel lets go of at a time: it may have to wait for a page of one, which
/// keeps others from their turn only if there are that many.
const AT_A_TIME: usize = 8;

impl Watcher for Tree {
    fn changing(&self, changes: &[Change]) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (mut all, mut changing) = (Vec::new(), Vec::new());
        for Change { file, what } in changes {
            // What the kernel does not remember it cannot have kept.
            let Some(ino) = self.inodes.number_of_handle(file) else { continue };
            self.recent.forget(ino);
            all.push(ino);
            if *what == What::Changing {
                self.inodes.opens(ino).iter().for_each(|io| io.forget_kept());
                changing.push(ino);
            }
        }
        let Telling { attributes, bytes } = &self.telling;
        let attributes = (!all.is_empty()).then(|| attributes.when_told(attributes.push(all)));
        let bytes = (!changing.is_empty()).then(|| bytes.when_told(bytes.push(changing)));
        Box::pin(async move {
            if let Some(attributes) = attributes {
                attributes.await;
            }
            if let Some(bytes) = bytes {
                bytes.await;
            }
        })
    }
}

impl Tree {
    /// The server has forgotten us: of nothing it is known whether it has changed.
    pub fn all_changing(&self) {
        self.recent.forget_all();
        for ino in self.inodes.numbers() {
            self.inodes.opens(ino).iter().for_each(|io| io.forget_kept());
        }
        self.telling.attributes.push_all();
        self.telling.bytes.push_all();
    }

    /// Tells the kernel, for as long as this is awaited. Attributes never wait for bytes.
    pub async fn tell(self: Arc<Self>, notifier: Notifier) {
        let Telling { attributes, bytes } = &self.telling;
        tokio::join!(
            self.tell_from(attributes, NO_BYTES, usize::MAX, &notifier),
            self.tell_from(bytes, ALL_BYTES, 1, &notifier)
        );
    }

    /// Tells of so many files one after another, and of others beside them.
    async fn tell_from(
        &self,
        notices: &Notices,
        offset: i64,
        in_a_row: usize,
        notifier: &Notifier,
    ) {
        loop {
            let (batch, whom) = notices.next().await;
            let inodes: Vec<u64> = match whom {
                Whom::Inodes(some) => some.into_iter().collect(),
                Whom::All => self.inodes.numbers(),
            };
            let mut telling = JoinSet::new();
            for some in inodes.chunks(in_a_row) {
                if telling.len() >= AT_A_TIME {
                    telling.join_next().await;
                }
                let (notifier, some) = (notifier.clone(), some.to_vec());
                // On a thread that answers no request: what the kernel waits for, others answer.
                telling.spawn_blocking(move || {
                    some.into_iter().all(|ino| forget(&notifier, ino, offset));
                });
            }
            while telling.join_next().await.is_some() {}
            notices.told(batch);
        }
    }
}

/// Whether there is a kernel to be told of more.
fn forget(notifier: &Notifier, ino: u64, offset: i64) -> bool {
    let Err(e) = notifier.inval_inode(INodeNo(ino), offset, 0) else { return true };
    let is_over = matches!(Errno::from_io_error(&e), Some(Errno::NODEV | Errno::NOTCONN));
    if !is_over {
        tracing::warn!(ino, "the kernel may have outdated attributes or bytes: {e}");
    }
    !is_over
}
