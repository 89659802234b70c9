//! Asks how a file is striped, and writes one stripe unit after another, all data servers at work.
//!
//! ```text
//! cargo run -p weft-client --example striped_write -- 127.0.0.1:2049
//! ```

use std::{error::Error, net::SocketAddr};

use tokio::task::JoinSet;
use weft_client::{
    fs::{Client, ClientOptions, OpenOptions},
    io::Source,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).ok_or("which server? ADDRESS:PORT")?;
    let (servers, bytes) = run(server.parse()?).await?;
    println!("{bytes} bytes over {servers} data servers");
    Ok(())
}

/// Returns the number of data servers, and of bytes written.
pub async fn run(server: SocketAddr) -> Result<(usize, u64), Box<dyn Error>> {
    let client = Client::connect(server, ClientOptions::default()).await?;
    client.mkdir_all("/examples", 0o755).await?;
    let file = client.open("/examples/striped", OpenOptions::replace(0o644)).await?;

    let layout = file.layout_info().await?;
    let unit = layout.stripe_unit_bytes;
    let units = 2 * layout.stripes.len() as u64;

    // One request a stripe unit: each goes whole to one data server. Without such care it works
    // too: `write_at` cuts what it is given at the same places.
    let mut writes = JoinSet::new();
    for index in 0..units {
        let io = file.io().clone();
        let data = vec![u8::try_from(index % 251)?; usize::try_from(unit)?];
        writes
            .spawn(async move { io.write(index * unit, unit, &Source::bytes(data.into())).await });
    }
    while let Some(written) = writes.join_next().await {
        written??;
    }
    file.close().await?;

    let size = client.stat("/examples/striped").await?.size.unwrap_or(0);
    client.close().await;
    Ok((layout.stripes.len(), size))
}
