//! The demonstration of `weft up --demo`: a real file goes in and comes out again over all data
//! servers at once, and each of them says what it moved.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
    sync::Arc,
    time::Instant,
};

use indicatif::{ProgressBar, ProgressStyle};
use weft::address::reachable;
use weft_client::{
    Identity,
    fs::{Client, ClientOptions},
};
use weft_server::report::{ClusterStatus, FileReport};

use crate::{admin::AdminArgs, endpoints::Endpoints, outcome::Outcome, status::bytes};

/// Path of the file in the export.
const REMOTE: &str = "/weft-demo";

/// Copies this very program in and out, compares, and shows where it went; `None` if it was stopped
/// in the middle. However it ends, its client takes leave: the next start has nobody to wait for.
pub async fn run(endpoints: &Endpoints, stop: impl Future) -> Outcome<Option<()>> {
    let server = reachable(endpoints.mds);
    let identity = Some(Identity::of_user(server)?);
    let options = ClientOptions { identity, ..ClientOptions::default() };
    let client = Client::connect(server, options).await?;
    let shown = tokio::select! {
        shown = show(&client, endpoints) => shown.map(Some),
        _ = stop => Ok(None),
    };
    client.close().await;
    shown
}

async fn show(client: &Client, endpoints: &Endpoints) -> Outcome {
    let source = std::env::current_exe()?;
    let copy = endpoints.dir.join("demo-copy");
    let admin = AdminArgs::at(&endpoints.admin);
    let before: ClusterStatus = ask(&admin, "/status").await?;
    let size = source.metadata()?.len();
    println!("\nCopying {} ({}) in as {REMOTE} …", source.display(), bytes(size));
    let bar = progress_bar(size);
    let started = Instant::now();
    client.put_file(&source, REMOTE, progress(&bar)).await?;
    finish(&bar, "in", size, started);
    println!("Copying it out again …");
    let bar = progress_bar(size);
    let started = Instant::now();
    client.get_file(REMOTE, &copy, progress(&bar)).await?;
    finish(&bar, "out", size, started);
    let intact = same(&source, &copy)?;
    std::fs::remove_file(&copy)?;
    let file: FileReport = ask(&admin, &format!("/file?path={REMOTE}")).await?;
    show_stripes(&file);
    let after: ClusterStatus = ask(&admin, "/status").await?;
    show_movement(&before, &after);
    if !intact {
        return Err("what came back is not what went in".into());
    }
    println!("The copy is identical to the original.");
    Ok(())
}

/// The admin client blocks, so it asks from a thread where that is allowed.
async fn ask<T>(admin: &AdminArgs, path: &str) -> Outcome<T>
where
    T: serde::de::DeserializeOwned + Send + 'static,
{
    let (admin, path) = (admin.clone(), path.to_owned());
    tokio::task::spawn_blocking(move || admin.ask(&path)).await?
}

fn progress_bar(size: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("  {bar:40} {bytes}/{total_bytes} {bytes_per_sec}");
    ProgressBar::new(size).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn progress(bar: &ProgressBar) -> weft_client::fs::Progress {
    let bar = bar.clone();
    Arc::new(move |moved| bar.set_position(moved))
}

fn finish(bar: &ProgressBar, way: &str, size: u64, started: Instant) {
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    println!("  {} {way} in {seconds:.2} s", bytes(size));
}

fn same(a: &Path, b: &Path) -> std::io::Result<bool> {
    let (a, b) = (BufReader::new(File::open(a)?), BufReader::new(File::open(b)?));
    let (mut a, mut b) = (a.bytes(), b.bytes());
    loop {
        match (a.next().transpose()?, b.next().transpose()?) {
            (None, None) => return Ok(true),
            (x, y) if x != y => return Ok(false),
            _ => {}
        }
    }
}

fn show_stripes(file: &FileReport) {
    let Some(layout) = &file.layout else { return };
    println!(
        "\n{} lies on {} data servers in stripe units of {}:",
        file.path,
        layout.stripe_count,
        bytes(layout.stripe_unit_bytes.into())
    );
    for o in &layout.objects {
        let used = o.space_used.map_or_else(|| "?".into(), bytes);
        println!("  data server {:>2} at {:<22} {used}", o.data_server, o.address);
    }
}

fn show_movement(before: &ClusterStatus, after: &ClusterStatus) {
    println!("\nWho moved what:");
    for (b, a) in before.servers.iter().zip(&after.servers) {
        let name = a.id.map_or_else(|| "metadata server".into(), |id| format!("data server {id}"));
        let moved_in = a.activity.bytes_in.saturating_sub(b.activity.bytes_in);
        let moved_out = a.activity.bytes_out.saturating_sub(b.activity.bytes_out);
        println!("  {name:<16} {:>12} in {:>12} out", bytes(moved_in), bytes(moved_out));
    }
    println!();
}
