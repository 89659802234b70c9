//! Writes a file and reads it back.
//!
//! ```text
//! cargo run -p weft-client --example put_and_get -- 127.0.0.1:2049
//! ```

use std::{error::Error, net::SocketAddr};

use weft_client::fs::{Client, ClientOptions, OpenOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).ok_or("which server? ADDRESS:PORT")?;
    println!("{}", run(server.parse()?).await?);
    Ok(())
}

/// Returns what it has read.
pub async fn run(server: SocketAddr) -> Result<String, Box<dyn Error>> {
    let client = Client::connect(server, ClientOptions::default()).await?;
    client.mkdir_all("/examples", 0o755).await?;

    let file = client.open("/examples/greeting", OpenOptions::replace(0o644)).await?;
    file.write_at(0, "Hello, ".into()).await?;
    file.write_at(7, "world.".into()).await?;
    // Only now are the data on disks, and visible to other clients.
    file.close().await?;

    let text = client.read_file("/examples/greeting", 1 << 20).await?;
    client.close().await;
    Ok(String::from_utf8(text.to_vec())?)
}
