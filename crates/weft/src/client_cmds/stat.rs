//! `weft stat`: a file's attributes, its layout, and the sizes of its objects.

use std::{io::Write, path::Path};

use serde::Serialize;
use weft_client::{
    fs::{Client, OpenOptions},
    io::LayoutInfo,
    layout::StripeTarget,
};
use weft_nfs::{Attrs, FileType};
use weft_server::report::{FileLayoutReport, FileReport, ObjectReport};

use super::{
    connect::Remote,
    layout::words_of,
    list::{mode_text, owner_text, time_text},
    quote::one_line,
};
use crate::{
    admin::AdminArgs,
    outcome::{Outcome, OutputError},
};

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
    /// The bytes are with the metadata server; absent: not known.
    stuffed: Option<bool>,
    layout: Option<LayoutReport>,
    /// Of a directory what it chose for its files, of a file how it is spread, in the words of
    /// `weft layout`.
    distribution: Option<String>,
}

#[derive(Debug, Serialize)]
struct LayoutReport {
    #[serde(rename = "type")]
    kind: String,
    /// Of a replicated file, as the metadata server has it: whether its copies have the same bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies_alike: Option<bool>,
    device: String,
    stripe_unit_bytes: u64,
    stripe_count: usize,
    stripes: Vec<StripeReport>,
    /// Why no object has a size: clients cannot ask for it, only administrators can.
    #[serde(skip_serializing_if = "Option::is_none")]
    object_sizes_unknown: Option<String>,
}

#[derive(Debug, Serialize)]
struct StripeReport {
    stripe_index: usize,
    data_server: Vec<String>,
    /// What a client has for it; absent: the admin service told, no client was given any.
    #[serde(skip_serializing_if = "Option::is_none")]
    filehandle: Option<String>,
    /// Number of the data server.
    data_server_id: Option<u32>,
    /// Its length, which begins with holes where other stripes are.
    object_bytes: Option<u64>,
    /// Bytes of disk that it holds.
    object_space_used: Option<u64>,
    /// Why this one has no size.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Shows attributes, layout, and the sizes of the objects, as the admin service tells, if it is
/// known where that is: the file is not opened for that, which would take it back from who has it
/// delegated, and wait for a data server that is away. Otherwise the layout is a client's.
pub(super) async fn stat(remote: &Remote, path: &Path, json: bool, admin: &AdminArgs) -> Outcome {
    let (client, path) = (&remote.client, &remote.path(path));
    let attrs = client.stat(path).await?;
    let mut report = report(path, &attrs);
    match attrs.file_type {
        Some(FileType::REG) => {
            let told = match admin.is_known() {
                true => Some(ask_admin(admin.clone(), path, &attrs).await),
                false => None,
            };
            match told {
                Some(Ok(told)) => report.learn(told),
                Some(Err(why)) => report.take(layout(client, path).await?, Some(why)),
                None => report.take(layout(client, path).await?, None),
            }
        }
        Some(FileType::LNK) => {
            report.link_target = Some(client.readlink(path).await?.display().to_string());
        }
        _ => {}
    }
    if matches!(attrs.file_type, Some(FileType::REG | FileType::DIR)) {
        // Other servers have no such thing, and not everybody may read it.
        report.distribution = words_of(client, path).await.ok().flatten();
    }
    let text = if json { serde_json::to_string_pretty(&report)? } else { report.to_string() };
    Ok(writeln!(std::io::stdout(), "{text}").map_err(OutputError::from)?)
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
        stuffed: None,
        layout: None,
        distribution: None,
    }
}

/// The layout as a client gets it; none if the metadata server has the bytes, we may not open the
/// file, or a data server is away.
async fn layout(client: &Client, path: &Path) -> Outcome<Option<LayoutReport>> {
    let Ok(file) = client.open(path, OpenOptions::read()).await else { return Ok(None) };
    let info = file.layout_info().await;
    file.close().await?;
    Ok(info.ok().map(|info| layout_report(&info)))
}

fn layout_report(info: &LayoutInfo) -> LayoutReport {
    let replica = |stripe_index, s: &StripeTarget| StripeReport {
        stripe_index,
        data_server: s.server.iter().map(ToString::to_string).collect(),
        filehandle: Some(hex(&s.fh.0)),
        data_server_id: None,
        object_bytes: None,
        object_space_used: None,
        error: None,
    };
    let stripes = info.stripes.iter().enumerate();
    let stripes = stripes.flat_map(|(index, r)| r.all().map(move |s| replica(index, s)));
    let devices: Vec<String> = info.devices.iter().map(|d| hex(&d.0)).collect();
    LayoutReport {
        kind: info.layout_type.to_string(),
        copies_alike: None,
        device: devices.join(", "),
        stripe_unit_bytes: info.stripe_unit_bytes,
        stripe_count: info.stripes.len(),
        stripes: stripes.collect(),
        object_sizes_unknown: None,
    }
}

/// What the admin service says of the file that has these attributes.
async fn ask_admin(admin: AdminArgs, path: &Path, attrs: &Attrs) -> Result<FileReport, String> {
    let question = format!("/file?path={}", percent_encoded(&absolute(path)));
    let asked = tokio::task::spawn_blocking(move || {
        admin.ask::<FileReport>(&question).map_err(|e| e.to_string())
    });
    of_this_file(asked.await.unwrap_or_else(|e| Err(e.to_string()))?, attrs)
}

/// The admin service's paths begin at the root, as ours do with or without the slash.
fn absolute(path: &Path) -> Vec<u8> {
    Path::new("/").join(path).into_os_string().into_encoded_bytes()
}

fn percent_encoded(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for b in bytes {
        match b {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                out.push(char::from(*b));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The answer of the admin service, if it is about this very file.
fn of_this_file(told: FileReport, attrs: &Attrs) -> Result<FileReport, String> {
    if attrs.fileid != Some(told.fileid) {
        return Err("the admin service that answers is of another cluster".into());
    }
    Ok(told)
}

impl Report {
    /// Takes over what the admin service knows of the file.
    fn learn(&mut self, told: FileReport) {
        self.stuffed = Some(told.stuffed);
        self.layout = told.layout.map(LayoutReport::from);
    }

    /// Takes over what a client gets, and why the admin service told nothing, if it was asked.
    fn take(&mut self, layout: Option<LayoutReport>, unknown: Option<String>) {
        self.layout = layout.map(|l| LayoutReport { object_sizes_unknown: unknown, ..l });
    }
}

impl From<FileLayoutReport> for LayoutReport {
    /// As the metadata server has it.
    fn from(told: FileLayoutReport) -> Self {
        let stripe = |(stripe_index, object): (usize, ObjectReport)| StripeReport {
            stripe_index,
            data_server: vec![object.address.clone()],
            filehandle: None,
            data_server_id: Some(object.data_server),
            object_bytes: object.size,
            object_space_used: object.space_used,
            error: object.error,
        };
        LayoutReport {
            kind: "files".into(),
            copies_alike: told.copies_alike,
            device: told.device,
            stripe_unit_bytes: told.stripe_unit_bytes.into(),
            stripe_count: told.stripe_count.into(),
            stripes: told.objects.into_iter().enumerate().map(stripe).collect(),
            object_sizes_unknown: None,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}, {} bytes", one_line(&self.path), self.kind, self.size)?;
        if let Some(target) = &self.link_target {
            writeln!(f, "  target    {}", one_line(target))?;
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
        if self.stuffed == Some(true) {
            write!(f, "\n  bytes     with the metadata server (a small file)")?;
        }
        if let Some(words) = &self.distribution {
            write!(f, "\n  spread    {}", one_line(words))?;
        }
        let Some(layout) = &self.layout else { return Ok(()) };
        write!(
            f,
            "\n  layout    {}, device {}, {} stripes of {} bytes",
            layout.kind, layout.device, layout.stripe_count, layout.stripe_unit_bytes
        )?;
        match layout.copies_alike {
            Some(true) => write!(f, "\n  copies    alike")?,
            Some(false) => write!(f, "\n  copies    may differ: one of them is read")?,
            None => {}
        }
        for s in &layout.stripes {
            let size = match (s.object_space_used, &s.error) {
                (Some(n), _) => format!("  holds {n} bytes"),
                (None, Some(why)) => format!("  {why}"),
                (None, None) => String::new(),
            };
            let servers = s.data_server.join(",");
            let handle = s.filehandle.as_deref().unwrap_or("-");
            write!(f, "\n    {:>3}  {servers}  {handle}{size}", s.stripe_index)?;
        }
        if let Some(why) = &layout.object_sizes_unknown {
            write!(f, "\n  object sizes need the admin address (--admin or --dir): {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(stripes: usize) -> LayoutReport {
        let stripe = |stripe_index| StripeReport {
            stripe_index,
            data_server: vec!["10.0.0.1:2050".into()],
            filehandle: Some("00".into()),
            data_server_id: None,
            object_bytes: None,
            object_space_used: None,
            error: None,
        };
        LayoutReport {
            kind: "files".into(),
            copies_alike: None,
            device: "ab".into(),
            stripe_unit_bytes: 1 << 20,
            stripe_count: stripes,
            stripes: (0..stripes).map(stripe).collect(),
            object_sizes_unknown: None,
        }
    }

    fn told(sizes: &[Option<u64>]) -> FileReport {
        let object = |(id, size): (u32, &Option<u64>)| ObjectReport {
            data_server: id,
            address: String::new(),
            size: *size,
            space_used: size.map(|n| n / 2),
            error: size.is_none().then(|| "it is down".into()),
        };
        let layout = FileLayoutReport {
            device: "ab".into(),
            stripe_unit_bytes: 1 << 20,
            stripe_count: 2,
            first_stripe_index: 0,
            fence_epoch: 0,
            copies_alike: Some(false),
            objects: (1..).zip(sizes).map(object).collect(),
        };
        FileReport { path: "/f".into(), fileid: 7, size: 3, stuffed: false, layout: Some(layout) }
    }

    fn asked(told: Result<FileReport, String>) -> Report {
        let attrs = Attrs { fileid: Some(7), ..Attrs::default() };
        let mut report = report(Path::new("/f"), &attrs);
        match told.and_then(|told| of_this_file(told, &attrs)) {
            Ok(told) => report.learn(told),
            Err(why) => report.take(Some(layout(2)), Some(why)),
        }
        report
    }

    /// Each object shows its size, or why it has none; another cluster's answer is not believed.
    #[test]
    fn sizes_are_of_this_file_or_unknown() {
        let known = asked(Ok(told(&[Some(42), None])));
        let stripes = &known.layout.as_ref().unwrap().stripes;
        assert_eq!((stripes[0].object_bytes, stripes[1].data_server_id), (Some(42), Some(2)));
        let shown = known.to_string();
        assert!(shown.contains("  holds 21 bytes") && shown.contains("  it is down"), "{shown}");
        assert!(shown.contains("  copies    may differ"), "{shown}");
        let another = FileReport { fileid: 8, ..told(&[Some(42), None]) };
        for answer in [Ok(another), Err("no answer".into())] {
            let unknown = asked(answer);
            let stripes = &unknown.layout.as_ref().unwrap().stripes;
            assert!(stripes.iter().all(|s| s.object_bytes.is_none()));
            let shown = unknown.to_string();
            assert!(shown.contains("object sizes need the admin address"), "{shown}");
        }
    }

    /// A small file says that its bytes are with the metadata server; nobody else does.
    #[test]
    fn small_files_are_said_to_be_small() {
        let small = FileReport { stuffed: true, layout: None, ..told(&[]) };
        for (answer, stuffed) in [
            (Ok(small.clone()), Some(true)),
            (Ok(FileReport { stuffed: false, ..small.clone() }), Some(false)),
            (Ok(FileReport { fileid: 8, ..small }), None),
            (Err("no answer".into()), None),
        ] {
            let report = asked(answer);
            assert_eq!(report.stuffed, stuffed);
            let shown = report.to_string();
            assert_eq!(
                shown.contains("with the metadata server"),
                stuffed == Some(true),
                "{shown}"
            );
        }
    }

    /// Any path survives the way through a query.
    #[test]
    fn paths_are_encoded() {
        assert_eq!(percent_encoded(&absolute(Path::new("a b/ä&=?.x"))), "/a%20b/%C3%A4%26%3D%3F.x");
        assert_eq!(percent_encoded(&absolute(Path::new("/~r-_"))), "/~r-_");
    }
}
