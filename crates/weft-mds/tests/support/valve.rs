//! A way to a server that can be shut: what is sent stays on the way until it is opened.

use std::net::SocketAddr;

use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
    sync::watch,
    task::JoinHandle,
};

/// One server's.
pub struct Valve {
    /// Where to connect instead.
    pub address: SocketAddr,
    is_open: watch::Sender<bool>,
    server: watch::Sender<SocketAddr>,
    accept: JoinHandle<()>,
}

impl Valve {
    pub async fn before(server: SocketAddr) -> Valve {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_open, gate) = watch::channel(true);
        let (server, to) = watch::channel(server);
        let accept = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let at = *to.borrow();
                let Ok(server) = TcpStream::connect(at).await else { continue };
                let ((from_client, mut to_client), (mut from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(pass(from_client, to_server, gate.clone()));
                tokio::spawn(async move {
                    let _ended = io::copy(&mut from_server, &mut to_client).await;
                });
            }
        });
        Valve { address, is_open, server, accept }
    }

    /// From here on nothing gets to the server.
    pub fn shut(&self) {
        self.is_open.send_replace(false);
    }

    /// From here on new connections lead to another server.
    pub fn lead_to(&self, server: SocketAddr) {
        self.server.send_replace(server);
    }

    /// What was held back goes on.
    pub fn open(&self) {
        self.is_open.send_replace(true);
    }
}

impl Drop for Valve {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

async fn pass(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    mut gate: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let Ok(_) = gate.wait_for(|is_open| *is_open).await else { return };
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
