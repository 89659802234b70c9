//! `weft stat --client`: how the data of a path travel for a client that connects to it with a URL,
//! and what decides that.
//!
//! Meant is a program that uses the library, from Rust or Python, or a mount. The commands here
//! copy without a cache, whatever a URL says of one before.

use std::{io::Write, path::Path};

use serde::Serialize;
use weft_client::{
    fs::{ClientBuilder, ClientOptions, OpenOptions},
    io::{LayoutInfo, Thresholds},
    url::{Host, Url, UrlOptions},
};
use weft_nfs::FileType;

use super::{clusters::Clusters, connect::Remote, cp::OF_URL, quote::one_line};
use crate::outcome::{Outcome, OutputError};

/// What is in force.
#[derive(Debug, Serialize)]
struct Report {
    /// Which URL was looked at.
    url: String,
    settings: Vec<Setting>,
}

/// One thing that is decided.
#[derive(Debug, Serialize)]
struct Setting {
    name: &'static str,
    value: String,
    /// What decides it.
    from: String,
}

const DEFAULT: &str = "default";
const SERVER: &str = "the server, for this file";

/// Shows what is in force for a URL, or for a path of the usual server.
pub(super) async fn stat(clusters: &mut Clusters, given: &Path, json: bool) -> Outcome {
    let bytes = given.as_os_str().as_encoded_bytes();
    let (remote, url) = match bytes.starts_with(OF_URL) {
        true => {
            let text = given.to_str().ok_or("a URL writes other bytes as %XX")?;
            let url: Url = text.parse()?;
            (clusters.of(&url).await?, url)
        }
        false => {
            let remote = clusters.usual().await?;
            let root = Url::root(Host::Ip(remote.address.ip()), remote.address.port());
            let url = Url { path: Path::new("/").join(remote.path(given)), ..root };
            (remote, url)
        }
    };
    let attrs = remote.client.stat_followed(&url.path).await.map_err(|e| remote.failed(&e))?;
    let mut settings = of_client(&url.options);
    if attrs.file_type == Some(FileType::REG) {
        settings.extend(of_file(&remote, &url).await?);
    }
    let report = Report { url: url.to_string(), settings };
    let text = if json { serde_json::to_string_pretty(&report)? } else { report.to_string() };
    Ok(writeln!(std::io::stdout(), "{text}").map_err(OutputError::from)?)
}

/// What a client decides when it connects.
fn of_client(said: &UrlOptions) -> Vec<Setting> {
    let builder = ClientBuilder::default().url_options(said);
    let options: &ClientOptions = builder.options();
    let policy = options.policy;
    let by = |option: &str, is_said: bool| match is_said {
        true => format!("{option}= of the URL"),
        false => DEFAULT.to_owned(),
    };
    // `cache` decides several at once, unless they are said themselves.
    let of_cache = |option: &str, is_said: bool| match (is_said, said.cache) {
        (false, Some(cache)) => format!("cache={cache} of the URL"),
        _ => by(option, is_said),
    };
    let setting = |name, value: String, from| Setting { name, value, from };
    let seconds = |d: std::time::Duration| format!("{} s", d.as_secs_f64());
    let kept = match (policy.keeps, policy.gather_below) {
        (true, _) => "what was read and written is kept",
        (false, 0) => "every read and write asks the servers",
        (false, _) => "what was read is not kept",
    };
    let cache_bytes = format!("{} bytes for all files of a client", policy.cache_bytes);
    let gathered = match policy.gather_below {
        0 => "none: each write is at the servers when it returns".into(),
        u32::MAX => "all".into(),
        below => format!("those of fewer than {below} bytes"),
    };
    let ahead = match (policy.keeps, policy.read_ahead_bytes) {
        (true, bytes @ 1..) => format!("{bytes} bytes"),
        _ => "none".into(),
    };
    let here = match &options.local_sockets {
        Some(dir) => format!("by descriptor, where they have a socket in {}", dir.display()),
        None => "over TCP".into(),
    };
    let eager = if options.eager { "in one request" } else { "step by step" };
    let layouts =
        if options.layouts { "used" } else { "not used: all through the metadata server" };
    let delegations = match options.delegations {
        true => "asked for: what is kept outlives the next open",
        false => "not asked for",
    };
    let data_server =
        format!("{}, then through the metadata server", seconds(options.data_server_patience));
    vec![
        setting("protocol", format!("NFSv4.{}", options.minorversion), {
            by("minorversion", said.minorversion.is_some())
        }),
        setting("cache", kept.into(), of_cache("cache", false)),
        setting("cache budget", cache_bytes, by("cache_bytes", said.cache_bytes.is_some())),
        setting("writes gathered", gathered, of_cache("gather_below", said.gather_below.is_some())),
        setting("read-ahead", ahead, of_cache("read_ahead", said.read_ahead.is_some())),
        setting("small files", eager.into(), by("eager", said.eager.is_some())),
        setting(
            "requests at a time",
            format!("{} for each server, or as many as it grants", options.slots),
            by("slots", said.slots.is_some()),
        ),
        setting("patience", seconds(options.patience), by("patience", said.patience.is_some())),
        setting("patience with a data server", data_server, {
            by("data_server_patience", said.data_server_patience.is_some())
        }),
        setting("layouts", layouts.into(), by("layouts", said.layouts.is_some())),
        setting("delegations", delegations.into(), {
            by("delegations", said.delegations.is_some())
        }),
        setting("data servers of this machine", here, by("local", said.local.is_some())),
    ]
}

/// What the server decides about a file: it is opened for that.
async fn of_file(remote: &Remote, url: &Url) -> Outcome<Vec<Setting>> {
    let file = remote.client.open(&url.path, OpenOptions::read()).await;
    let file = file.map_err(|e| remote.failed(&e))?;
    let (read, write) = remote.client.session().io_bytes_max();
    let transfer = format!("reads of {read} bytes, writes of {write}");
    let from = "what the session with the server allows".to_owned();
    let mut settings = vec![Setting { name: "largest transfer", value: transfer, from }];
    if url.options.layouts != Some(false) {
        settings.push(threshold(file.io().thresholds(), file.size()));
        let info = file.layout_info().await;
        settings.extend(match &info {
            Ok(info) => layout(info),
            Err(e) => {
                let value = format!("none: {}", e.error);
                vec![Setting { name: "layout", value, from: SERVER.into() }]
            }
        });
    }
    file.close().await.map_err(|e| remote.failed(&e))?;
    Ok(settings)
}

/// From which size on a layout is asked for.
fn threshold(of: Thresholds, size: u64) -> Setting {
    let way = |threshold| match size >= threshold {
        true => "data servers",
        false => "metadata server",
    };
    let (read, write) = (of.read_size, of.write_size);
    let value = format!(
        "reads of files from {read} bytes on, writes from {write}: of this one by the {}, the {}",
        way(read),
        way(write)
    );
    Setting { name: "layouts for", value, from: SERVER.into() }
}

fn layout(info: &LayoutInfo) -> Vec<Setting> {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let devices: Vec<String> = info.devices.iter().map(|d| hex(&d.0)).collect();
    let servers = info.stripes.iter().map(|replicas| {
        let each = replicas
            .all()
            .map(|s| s.server.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        each.collect::<Vec<_>>().join(" and ")
    });
    let servers = servers.collect::<Vec<_>>().join(", ");
    let (count, unit) = (info.stripes.len(), info.stripe_unit_bytes);
    let setting = |name, value| Setting { name, value, from: SERVER.into() };
    vec![
        setting("layout", format!("{}, {count} stripes of {unit} bytes", info.layout_type)),
        setting("devices", devices.join(", ")),
        setting("data servers", servers),
    ]
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", one_line(&self.url))?;
        for Setting { name, value, from } in &self.settings {
            write!(f, "\n  {name:<28}  {value}  ({from})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(options: &str, name: &str) -> (String, String) {
        let settings = of_client(&options.parse().unwrap());
        let found = settings.into_iter().find(|s| s.name == name).expect(name);
        (found.value, found.from)
    }

    /// Each setting says what a client has, and which word of the URL decided it.
    #[test]
    fn each_has_its_reason() {
        for (options, name, value, from) in [
            ("", "cache", "what was read and written is kept", DEFAULT),
            ("", "cache budget", "268435456 bytes for all files of a client", DEFAULT),
            ("", "writes gathered", "all", DEFAULT),
            ("", "read-ahead", "8388608 bytes", DEFAULT),
            ("cache=false", "read-ahead", "none", "cache=false of the URL"),
            ("cache=false", "cache", "every read and write asks the servers", {
                "cache=false of the URL"
            }),
            ("cache=false&cache_bytes=4096", "cache", "every read and write asks the servers", {
                "cache=false of the URL"
            }),
            ("cache=false&gather_below=512", "cache", "what was read is not kept", {
                "cache=false of the URL"
            }),
            ("cache=false&gather_below=512", "writes gathered", "those of fewer than 512 bytes", {
                "gather_below= of the URL"
            }),
            ("cache_bytes=4096", "cache budget", "4096 bytes for all files of a client", {
                "cache_bytes= of the URL"
            }),
            ("minorversion=1", "protocol", "NFSv4.1", "minorversion= of the URL"),
            ("patience=0.5", "patience", "0.5 s", "patience= of the URL"),
            ("delegations=false", "delegations", "not asked for", "delegations= of the URL"),
            ("local=off", "data servers of this machine", "over TCP", "local= of the URL"),
        ] {
            assert_eq!(told(options, name), (value.into(), from.into()), "{options} {name}");
        }
    }
}
