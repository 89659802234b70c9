//! The clusters that a command has to do with: each is connected to once, when it is first named.

use std::sync::Arc;

use weft_client::url::{Url, UrlOptions};

use super::connect::{Remote, ServerArg};
use crate::outcome::Outcome;

/// Those connected to so far.
pub(super) struct Clusters {
    server: ServerArg,
    usual: Option<Arc<Remote>>,
    others: Vec<(String, UrlOptions, Arc<Remote>)>,
}

impl Clusters {
    /// None yet; `server` is the usual one.
    pub(super) fn new(server: ServerArg) -> Clusters {
        Clusters { server, usual: None, others: Vec::new() }
    }

    /// The one that `--server` names.
    ///
    /// # Errors
    /// What the user should read.
    pub(super) async fn usual(&mut self) -> Outcome<Arc<Remote>> {
        if let Some(remote) = &self.usual {
            return Ok(remote.clone());
        }
        let remote = Arc::new(Remote::connect(&self.server).await?);
        self.usual = Some(remote.clone());
        Ok(remote)
    }

    /// The one of a URL.
    ///
    /// # Errors
    /// What the user should read.
    pub(super) async fn of(&mut self, url: &Url) -> Outcome<Arc<Remote>> {
        let server = format!("{}:{}", url.host, url.port);
        let known = |(name, options, _): &&(String, UrlOptions, Arc<Remote>)| {
            *name == server && *options == url.options
        };
        if let Some((.., remote)) = self.others.iter().find(known) {
            return Ok(remote.clone());
        }
        let remote = Arc::new(Remote::open(url, self.server.one_by_one).await?);
        self.others.push((server, url.options.clone(), remote.clone()));
        Ok(remote)
    }

    /// Says goodbye to all of them.
    pub(super) async fn close(self) {
        let others = self.others.into_iter().map(|(.., remote)| remote);
        let mut closing = tokio::task::JoinSet::new();
        for remote in self.usual.into_iter().chain(others) {
            closing.spawn(remote.client.clone().close());
        }
        while closing.join_next().await.is_some() {}
    }
}
