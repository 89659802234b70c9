//! Appends small records with a policy that gathers them: a few requests leave, not one a record.
//!
//! ```text
//! cargo run -p weft-client --example gathered_writes -- 127.0.0.1:2049
//! ```

use std::{error::Error, net::SocketAddr};

use weft_client::{
    fs::{Client, ClientOptions, OpenOptions},
    io::IoPolicy,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).ok_or("which server? ADDRESS:PORT")?;
    println!("{}", run(server.parse()?, 10_000).await?);
    Ok(())
}

/// Returns the last record, as another open of the file sees it.
pub async fn run(server: SocketAddr, records: u64) -> Result<String, Box<dyn Error>> {
    // Writes below 64 KiB are copied into a buffer of the file, and leave with others.
    let policy = IoPolicy::gathering(64 << 10);
    let options = ClientOptions { policy, ..ClientOptions::default() };
    let client = Client::connect(server, options).await?;
    client.mkdir_all("/examples", 0o755).await?;

    let log = client.open("/examples/log", OpenOptions::replace(0o644)).await?;
    let mut end = 0;
    for number in 0..records {
        let record = format!("record {number}\n");
        let len = record.len() as u64;
        log.write_at(end, record.into()).await?;
        end += len;
    }
    // Whatever has not left leaves now, and is on disks when this returns.
    log.commit().await?;

    let reader = client.open("/examples/log", OpenOptions::read()).await?;
    let text = reader.read_at(0, usize::try_from(end)?).await?;
    reader.close().await?;
    log.close().await?;
    client.close().await;
    let text = String::from_utf8(text.to_vec())?;
    Ok(text.lines().last().unwrap_or_default().into())
}
