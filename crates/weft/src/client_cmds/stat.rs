//! `weft stat`.

use std::{io::Write, path::Path};

use serde::Serialize;
use weft_client::{
    fs::{Client, OpenOptions},
    io::LayoutInfo,
};
use weft_nfs::{Attrs, FileType};

use super::{
    CommandError,
    list::{mode_text, owner_text, time_text},
};

/// Where the sizes of objects come from: data servers tell only the admin side.
pub trait ObjectSizes {
    /// Size in bytes of the object behind a data server's filehandle, if it can be known.
    fn object_size(&self, data_server: std::net::SocketAddr, filehandle: &[u8]) -> Option<u64>;
}

/// No source of object sizes.
#[derive(Debug, Clone, Copy)]
pub struct NoObjectSizes;

impl ObjectSizes for NoObjectSizes {
    fn object_size(&self, _: std::net::SocketAddr, _: &[u8]) -> Option<u64> {
        None
    }
}

#[derive(Debug, Serialize)]
struct Report {
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
    space_used: Option<u64>,
    mode: String,
    links: Option<u32>,
    owner: String,
    group: String,
    fileid: Option<u64>,
    change: Option<u64>,
    accessed: String,
    modified: String,
    changed: String,
    link_target: Option<String>,
    layout: Option<LayoutReport>,
}

#[derive(Debug, Serialize)]
struct LayoutReport {
    #[serde(rename = "type")]
    kind: String,
    device: String,
    stripe_unit_bytes: u64,
    stripe_count: usize,
    stripes: Vec<StripeReport>,
}

#[derive(Debug, Serialize)]
struct StripeReport {
    stripe_index: usize,
    data_server: Vec<String>,
    filehandle: String,
    object_bytes: Option<u64>,
}

/// Shows attributes and layout.
pub(super) async fn stat(
    client: &Client,
    path: &Path,
    json: bool,
    sizes: &dyn ObjectSizes,
) -> Result<(), CommandError> {
    let attrs = client.stat(path).await?;
    let mut report = report(path, &attrs);
    match attrs.file_type {
        Some(FileType::REG) => report.layout = layout(client, path, sizes).await?,
        Some(FileType::LNK) => {
            report.link_target = Some(client.readlink(path).await?.display().to_string());
        }
        _ => {}
    }
    let text = if json {
        serde_json::to_string_pretty(&report).map_err(|e| CommandError::Other(e.to_string()))?
    } else {
        report.to_string()
    };
    writeln!(std::io::stdout(), "{text}").map_err(CommandError::Output)
}

fn report(path: &Path, attrs: &Attrs) -> Report {
    Report {
        path: path.display().to_string(),
        kind: match attrs.file_type {
            Some(FileType::REG) => "file",
            Some(FileType::DIR) => "directory",
            Some(FileType::LNK) => "symlink",
            Some(FileType::BLK) => "block device",
            Some(FileType::CHR) => "character device",
            Some(FileType::SOCK) => "socket",
            Some(FileType::FIFO) => "fifo",
            _ => "unknown",
        },
        size: attrs.size.unwrap_or(0),
        space_used: attrs.space_used,
        mode: mode_text(attrs),
        links: attrs.numlinks,
        owner: owner_text(attrs.owner.as_ref()),
        group: owner_text(attrs.owner_group.as_ref()),
        fileid: attrs.fileid,
        change: attrs.change,
        accessed: time_text(attrs.time_access),
        modified: time_text(attrs.time_modify),
        changed: time_text(attrs.time_metadata),
        link_target: None,
        layout: None,
    }
}

/// The layout as a client gets it; none for files served by the metadata server, and for those
/// we may not open.
async fn layout(
    client: &Client,
    path: &Path,
    sizes: &dyn ObjectSizes,
) -> Result<Option<LayoutReport>, CommandError> {
    let Ok(file) = client.open(path, OpenOptions::read()).await else { return Ok(None) };
    let info = file.layout_info().await;
    file.close().await?;
    Ok(info.ok().map(|info| layout_report(&info, sizes)))
}

fn layout_report(info: &LayoutInfo, sizes: &dyn ObjectSizes) -> LayoutReport {
    let stripe = |(stripe_index, s): (usize, &weft_client::layout::StripeTarget)| StripeReport {
        stripe_index,
        data_server: s.server.iter().map(ToString::to_string).collect(),
        filehandle: hex(&s.fh.0),
        object_bytes: s.server.first().and_then(|ds| sizes.object_size(*ds, &s.fh.0)),
    };
    LayoutReport {
        kind: info.layout_type.to_string(),
        device: hex(&info.device.0),
        stripe_unit_bytes: info.stripe_unit_bytes,
        stripe_count: info.stripes.len(),
        stripes: info.stripes.iter().enumerate().map(stripe).collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}, {} bytes", self.path, self.kind, self.size)?;
        if let Some(target) = &self.link_target {
            writeln!(f, "  target    {target}")?;
        }
        writeln!(f, "  mode      {}  owner {}:{}", self.mode, self.owner, self.group)?;
        let or_dash = |n: Option<u64>| n.map_or_else(|| "-".into(), |n| n.to_string());
        writeln!(
            f,
            "  links     {}  fileid {}  change {}  used {}",
            or_dash(self.links.map(u64::from)),
            or_dash(self.fileid),
            or_dash(self.change),
            or_dash(self.space_used)
        )?;
        writeln!(f, "  modified  {}", self.modified)?;
        writeln!(f, "  changed   {}", self.changed)?;
        write!(f, "  accessed  {}", self.accessed)?;
        let Some(layout) = &self.layout else { return Ok(()) };
        write!(
            f,
            "\n  layout    {}, device {}, {} stripes of {} bytes",
            layout.kind, layout.device, layout.stripe_count, layout.stripe_unit_bytes
        )?;
        for s in &layout.stripes {
            let size = s.object_bytes.map_or(String::new(), |n| format!("  {n} bytes"));
            let servers = s.data_server.join(",");
            write!(f, "\n    {:>3}  {servers}  {}{size}", s.stripe_index, s.filehandle)?;
        }
        Ok(())
    }
}
