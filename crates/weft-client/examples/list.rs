//! Lists a directory with the attributes of its entries, in one pass.
//!
//! ```text
//! cargo run -p weft-client --example list -- 127.0.0.1:2049 /examples
//! ```

use std::{error::Error, net::SocketAddr};

use weft_client::fs::{Client, ClientOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let server = args.next().ok_or("which server? ADDRESS:PORT")?;
    let dir = args.next().unwrap_or_else(|| "/".into());
    for line in run(server.parse()?, &dir).await? {
        println!("{line}");
    }
    Ok(())
}

/// Returns a line for each entry: mode, size and name.
pub async fn run(server: SocketAddr, dir: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let client = Client::connect(server, ClientOptions::default()).await?;
    let mut entries = client.read_dir(dir).await?;
    let mut lines = Vec::new();
    // Entries come in pages, each with its attributes: no request for each of them.
    while let Some(entry) = entries.next().await? {
        let mode = entry.attrs.mode.unwrap_or(0);
        let size = entry.attrs.size.unwrap_or(0);
        let name = String::from_utf8_lossy(&entry.name.0);
        lines.push(format!("{mode:04o} {size:>10} {name}"));
    }
    client.close().await;
    Ok(lines)
}
