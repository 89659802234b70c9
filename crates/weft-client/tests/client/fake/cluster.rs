//! A metadata server, two data servers, and a client of theirs.

use std::time::Duration;

use bytes::Bytes;
use weft_client::{
    fs::{Client, ClientOptions, File, OpenOptions},
    io::IoPolicy,
};
use weft_nfs::OpNum;

use super::Fake;

/// A metadata server, two data servers, and a client.
pub struct Cluster {
    pub mds: Fake,
    pub ds: Vec<Fake>,
    pub client: Client,
}

impl Cluster {
    /// Started, with a client of this policy.
    pub async fn start(policy: IoPolicy) -> Cluster {
        let ds = vec![Fake::data_server().await, Fake::data_server().await];
        let mds = Fake::start(ds.clone()).await;
        let client = connect(&mds, policy).await;
        Cluster { mds, ds, client }
    }

    /// Another client of the same servers.
    pub async fn another(&self) -> Client {
        connect(&self.mds, IoPolicy::default()).await
    }

    /// Makes or empties the one file, and opens it for both.
    pub async fn open(&self) -> File {
        let options = OpenOptions { read: true, ..OpenOptions::replace(0o644) };
        self.client.open("/f", options).await.unwrap()
    }

    /// What another open sees.
    pub async fn content(&self) -> Bytes {
        let file = self.client.open("/f", OpenOptions::read()).await.unwrap();
        let data = file.read_at(0, 8 << 20).await.unwrap();
        file.close().await.unwrap();
        data
    }

    /// Operations of a kind that arrived anywhere.
    pub fn count(&self, op: OpNum) -> usize {
        self.mds.count(op) + self.count_data(op)
    }

    /// Those that arrived at data servers.
    pub fn count_data(&self, op: OpNum) -> usize {
        self.ds.iter().map(|ds| ds.count(op)).sum()
    }

    /// WRITEs that arrived: at the metadata server, at all data servers.
    pub fn writes(&self) -> (usize, usize) {
        (self.mds.count(OpNum::WRITE), self.count_data(OpNum::WRITE))
    }
}

async fn connect(mds: &Fake, policy: IoPolicy) -> Client {
    let options = ClientOptions {
        patience: Duration::from_secs(10),
        data_server_patience: Duration::from_millis(500),
        policy,
        ..ClientOptions::default()
    };
    Client::connect(mds.addr, options).await.unwrap()
}
