//! The admin service: HTTP/JSON on its own port (design D11), for `weft status`, `weft stat`,
//! monitoring and health checks. The write threshold can be set, all else is only read. It asks
//! nobody for a password: it belongs on loopback or a management network. What sets something
//! takes JSON alone, and calls by address, which a web page cannot make from a browser.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    net::{Ipv4Addr, Ipv6Addr},
    pin::Pin,
    sync::Arc,
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Query, Request, State, rejection::JsonRejection},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::config::small_size;

/// Longest path asked about, bytes.
const PATH_BYTES_MAX: usize = 4096;

/// Longest body of a request, bytes.
const BODY_BYTES_MAX: usize = 1024;

/// What one server has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Operations executed, by name.
    pub operations: BTreeMap<String, u64>,
    /// Payload bytes of WRITE.
    pub bytes_in: u64,
    /// Payload bytes of READ.
    pub bytes_out: u64,
    /// Memory of its process, bytes.
    pub rss_bytes: u64,
    /// NFS clients known.
    pub clients: u64,
    /// Connections open.
    pub connections: u64,
    /// Seconds since it started.
    pub uptime_s: u64,
}

/// One server of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// "mds" or "ds".
    pub role: String,
    /// Number of a data server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<u32>,
    /// Where it serves NFS.
    pub address: String,
    /// Whether it answers.
    pub reachable: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// What it has done; zeroes while it does not answer.
    #[serde(flatten)]
    pub activity: Activity,
    /// Requests of a metadata server to the control programs of its data servers, by procedure.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub control_messages: BTreeMap<String, u64>,
    /// Files to come whose objects a metadata server has made; absent unless it makes any ahead.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub files_ahead: Option<usize>,
    /// Disk space, where it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub space: Option<SpaceStatus>,
}

/// Disk space of a server, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceStatus {
    /// All of it.
    pub total: u64,
    /// Not in use.
    pub free: u64,
    /// Not in use and not reserved.
    pub available: u64,
}

/// `GET /status`, and what `weft status --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Version of the software.
    pub version: String,
    /// Seconds since the metadata server started.
    pub uptime_s: u64,
    /// The metadata server, then the data servers by number.
    pub servers: Vec<ServerStatus>,
    /// Writes to data servers through the metadata server.
    #[serde(default)]
    pub indirect: IndirectStatus,
    /// The write threshold of the export.
    #[serde(default)]
    pub threshold: ThresholdStatus,
    /// Devices that clients have reported on.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub devices: Vec<DeviceStatus>,
}

/// Writes to data servers through the metadata server, since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndirectStatus {
    /// Writes that came.
    pub writes: u64,
    /// Messages that left for data servers: fewer if small writes were gathered, more if writes
    /// went over the borders of stripe units.
    pub messages: u64,
    /// Parts of writes that wait at the moment, to leave with others or after them.
    pub waiting: u64,
}

/// The write threshold: clients send I/O on files below it to the metadata server. Bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdStatus {
    /// What the configuration says, and what holds after the next start.
    pub configured: u64,
    /// What was set since, or the same.
    pub set: u64,
    /// What clients are told now of files on data servers; less than `set` under load.
    pub now: u64,
    /// Requests under way for each thread, smoothed over a second: the load.
    pub requests_per_thread: u64,
}

/// What `POST /threshold` is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetThreshold {
    /// The threshold until the next start: bytes as a number, or `"32KiB"`.
    #[serde(deserialize_with = "small_size")]
    pub write_threshold: u64,
}

/// What clients say of a device (LAYOUTERROR, LAYOUTSTATS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Device id, hexadecimal.
    pub device: String,
    /// Errors that clients met there, by status.
    pub errors: BTreeMap<String, u64>,
    /// Statistics received.
    pub statistics: u64,
    /// READs of the last ones: sums of one client for one file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_read: Option<IoStatus>,
    /// WRITEs of the last ones.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_write: Option<IoStatus>,
}

/// Operations and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoStatus {
    /// How many.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
}

/// `GET /health`: whether clients can work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Whether everything works.
    pub healthy: bool,
    /// What does not, in words.
    pub problems: Vec<String>,
}

/// `GET /file?path=`: where a file's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// The path asked about.
    pub path: String,
    /// Inode number.
    pub fileid: u64,
    /// Bytes of the file.
    pub size: u64,
    /// The bytes are with the metadata server, since they are few. With a layout too, they are
    /// being moved to the data servers.
    #[serde(default)]
    pub stuffed: bool,
    /// Absent while the file is on no data server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub layout: Option<FileLayoutReport>,
}

/// How a file is striped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLayoutReport {
    /// Device id, hexadecimal.
    pub device: String,
    /// Bytes of a stripe unit.
    pub stripe_unit_bytes: u32,
    /// Data servers of the file.
    pub stripe_count: u16,
    /// Index of the one with the first unit.
    pub first_stripe_index: u16,
    /// Older handles are refused.
    pub fence_epoch: u32,
    /// The objects in stripe order.
    pub objects: Vec<ObjectReport>,
}

/// One object of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectReport {
    /// Number of its data server.
    pub data_server: u32,
    /// Where that serves NFS.
    pub address: String,
    /// Local size in bytes; absent if the data server does not answer.
    pub size: Option<u64>,
    /// Bytes of disk in use.
    pub space_used: Option<u64>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// Why a question about a file has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The question makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// There is no such file.
    #[error("{0}: no such file or directory")]
    NotFound(String),
    /// The server cannot tell at the moment.
    #[error("{0}")]
    Failed(String),
}

/// The answer to a question, later.
pub type AdminFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where the admin service gets its answers.
pub trait AdminSource: Send + Sync + 'static {
    /// Every server of the cluster; one that does not answer is in it as such.
    fn status(&self) -> AdminFuture<'_, ClusterStatus>;

    /// Whether clients can work.
    fn health(&self) -> AdminFuture<'_, Health>;

    /// Where the bytes of the file at this path of the export are.
    fn file(&self, path: String) -> AdminFuture<'_, Result<FileReport, AdminError>>;

    /// Sets the write threshold until the next start, bytes.
    ///
    /// # Errors
    /// It is out of range.
    fn set_threshold(&self, bytes: u64) -> Result<ThresholdStatus, AdminError>;
}

/// Serves until the listener fails.
///
/// # Errors
/// What the listener says.
pub async fn serve(listener: TcpListener, source: Arc<dyn AdminSource>) -> io::Result<()> {
    axum::serve(listener, router(source)).await
}

/// Resident memory of this process, bytes; 0 where the system does not tell. Reads `/proc`,
/// which never waits for a disk.
pub fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next());
    kib.and_then(|k| k.parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024)
}

type Source = State<Arc<dyn AdminSource>>;

fn router(source: Arc<dyn AdminSource>) -> Router {
    Router::new()
        .route("/file", get(file))
        .route("/threshold", post(threshold))
        // What shows names of files, or changes something.
        .route_layer(middleware::from_fn(no_strange_names))
        .route("/status", get(status))
        .route("/health", get(health))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(source)
}

/// Refuses who calls this server by a name. The owner of a name decides which address it has, so
/// that a web page could come under its own name, and a browser would let it read the answer.
async fn no_strange_names(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(is_own_name) {
        next.run(request).await
    } else {
        AdminError::BadRequest("Host: an IP address or localhost, please".into()).into_response()
    }
}

/// Whether a Host header has an address, or `localhost`.
fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let bracketed = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    match bracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name == "localhost" || name.parse::<Ipv4Addr>().is_ok(),
    }
}

async fn status(State(source): Source) -> Json<ClusterStatus> {
    Json(source.status().await)
}

/// 200 when healthy, 503 when not: what load balancers and Kubernetes look at.
async fn health(State(source): Source) -> Response {
    let health = source.health().await;
    let code = if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(health)).into_response()
}

#[derive(Deserialize)]
struct FileQuery {
    path: String,
}

async fn file(State(source): Source, Query(query): Query<FileQuery>) -> Response {
    let report = if query.path.len() > PATH_BYTES_MAX || !query.path.starts_with('/') {
        Err(AdminError::BadRequest("path: begins with / and has at most 4096 bytes".into()))
    } else {
        source.file(query.path).await
    };
    match report {
        Ok(report) => Json(report).into_response(),
        Err(e) => e.into_response(),
    }
}

async fn threshold(
    State(source): Source,
    body: Result<Json<SetThreshold>, JsonRejection>,
) -> Response {
    let set = match body {
        Ok(Json(wanted)) => source.set_threshold(wanted.write_threshold),
        Err(e) => Err(AdminError::BadRequest(e.body_text())),
    };
    match set {
        Ok(status) => Json(status).into_response(),
        Err(e) => e.into_response(),
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let code = match &self {
            AdminError::BadRequest(_) => StatusCode::BAD_REQUEST,
            AdminError::NotFound(_) => StatusCode::NOT_FOUND,
            AdminError::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        (code, Json(serde_json::json!({ "error": self.to_string() }))).into_response()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    struct Fixed;

    const THRESHOLD: ThresholdStatus = ThresholdStatus {
        configured: 64 << 10,
        set: 32 << 10,
        now: 8 << 10,
        requests_per_thread: 300,
    };

    fn mds() -> ServerStatus {
        let operations = BTreeMap::from([("READ".to_owned(), 3)]);
        ServerStatus {
            role: "mds".into(),
            id: None,
            address: "10.0.0.1:2049".into(),
            reachable: true,
            error: None,
            activity: Activity { operations, bytes_in: 1, bytes_out: 2, ..Activity::default() },
            control_messages: BTreeMap::from([("CREATE".to_owned(), 4)]),
            files_ahead: Some(3),
            space: None,
        }
    }

    impl AdminSource for Fixed {
        fn status(&self) -> AdminFuture<'_, ClusterStatus> {
            let ds = ServerStatus {
                role: "ds".into(),
                id: Some(7),
                address: "10.0.0.7:2050".into(),
                reachable: false,
                error: Some("gone".into()),
                activity: Activity::default(),
                control_messages: BTreeMap::new(),
                files_ahead: None,
                space: None,
            };
            let status = ClusterStatus {
                version: "1".into(),
                uptime_s: 5,
                servers: vec![mds(), ds],
                indirect: IndirectStatus { writes: 64, messages: 2, waiting: 0 },
                threshold: THRESHOLD,
                devices: Vec::new(),
            };
            Box::pin(async { status })
        }

        fn health(&self) -> AdminFuture<'_, Health> {
            Box::pin(async { Health { healthy: false, problems: vec!["ds 7".into()] } })
        }

        fn file(&self, path: String) -> AdminFuture<'_, Result<FileReport, AdminError>> {
            Box::pin(async move {
                match path.as_str() {
                    "/a b" => {
                        Ok(FileReport { path, fileid: 9, size: 3, stuffed: true, layout: None })
                    }
                    "/down" => Err(AdminError::Failed("ds 7 is down".into())),
                    _ => Err(AdminError::NotFound(path)),
                }
            })
        }

        fn set_threshold(&self, bytes: u64) -> Result<ThresholdStatus, AdminError> {
            Ok(ThresholdStatus { set: bytes, ..THRESHOLD })
        }
    }

    async fn get(target: &str) -> (u16, serde_json::Value) {
        ask(&format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n"))
            .await
    }

    async fn set(content_type: &str, body: &str) -> (u16, serde_json::Value) {
        let length = body.len();
        let head = format!(
            "POST /threshold HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\
             Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        ask(&(head + body)).await
    }

    /// Status line and body of one request over a real socket.
    async fn ask(request: &str) -> (u16, serde_json::Value) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(Fixed)));
        let mut stream = tokio::net::TcpStream::connect(addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        server.abort();
        let code = reply.split(' ').nth(1).unwrap().parse().unwrap();
        let body = reply.split("\r\n\r\n").nth(1).unwrap();
        (code, serde_json::from_str(body).unwrap_or(serde_json::Value::Null))
    }

    /// The status has the fields that scripts and the end-to-end tests rely on.
    #[tokio::test]
    async fn status_keeps_its_form() {
        let (code, body) = get("/status").await;
        assert_eq!(code, 200);
        assert_eq!(
            body,
            serde_json::json!({"version": "1", "uptime_s": 5, "servers": [
                {"role": "mds", "address": "10.0.0.1:2049", "reachable": true,
                 "operations": {"READ": 3}, "bytes_in": 1, "bytes_out": 2, "rss_bytes": 0,
                 "clients": 0, "connections": 0, "uptime_s": 0,
                 "control_messages": {"CREATE": 4}, "files_ahead": 3},
                {"role": "ds", "id": 7, "address": "10.0.0.7:2050", "reachable": false,
                 "error": "gone", "operations": {}, "bytes_in": 0, "bytes_out": 0,
                 "rss_bytes": 0, "clients": 0, "connections": 0, "uptime_s": 0},
            ], "indirect": {"writes": 64, "messages": 2, "waiting": 0}, "threshold":
                {"configured": 65536, "set": 32768, "now": 8192, "requests_per_thread": 300}})
        );
        let back: ClusterStatus = serde_json::from_value(body).unwrap();
        assert_eq!(back.servers[0], mds());
    }

    /// The threshold is set by a size as configuration has it; anything else is refused, and why is
    /// said. A form of a web page is no way.
    #[tokio::test]
    async fn the_threshold_is_set() {
        for (text, bytes) in [("0", 0), ("\"1MiB\"", 1 << 20), ("\"4096\"", 4096), ("1", 1)] {
            let (code, body) =
                set("application/json", &format!(r#"{{"write_threshold":{text}}}"#)).await;
            assert_eq!((code, body["set"].as_u64()), (200, Some(bytes)), "{text}: {body}");
        }
        let long = format!(r#"{{"write_threshold":"{}"}}"#, "1".repeat(BODY_BYTES_MAX));
        for (body, why) in [
            (r#"{"write_threshold":1048577}"#, "not a size from 0 to 1MiB"),
            (r#"{"write_threshold":"32 kilos"}"#, "not a size from 0 to 1MiB"),
            (r#"{"write_threshold":-1}"#, "a size: a number of bytes"),
            (r#"{"write_threshold":1,"other":2}"#, "unknown field"),
            ("{}", "missing field"),
            ("32768", "struct SetThreshold"),
            ("{", "EOF"),
            (long.as_str(), "length limit exceeded"),
        ] {
            let (code, told) = set("application/json", body).await;
            let told = told["error"].as_str().unwrap_or_default().to_owned();
            assert!(code == 400 && told.contains(why), "{body}: {code} {told}");
        }
        for form in ["text/plain", "application/x-www-form-urlencoded"] {
            assert_eq!(set(form, r#"{"write_threshold":1}"#).await.0, 400);
        }
        assert_eq!(get("/threshold").await.0, 405);
    }

    /// A running test has some memory, and not all of it.
    #[test]
    fn memory_is_measured() {
        let rss = rss_bytes();
        assert!((1 << 20..1 << 40).contains(&rss), "{rss}");
    }

    /// An unhealthy cluster is told by the status code too.
    #[tokio::test]
    async fn health_is_a_status_code() {
        let (code, body) = get("/health").await;
        assert_eq!((code, body["problems"][0].as_str()), (503, Some("ds 7")));
    }

    /// Files are asked for by path; every kind of failure has its code and says why.
    #[tokio::test]
    async fn files_are_found_by_path() {
        let (code, body) = get("/file?path=/a%20b").await;
        assert_eq!((code, body["fileid"].as_u64()), (200, Some(9)));
        for (target, expected) in [
            ("/file?path=/missing", 404),
            ("/file?path=/down", 503),
            ("/file?path=relative", 400),
            ("/file", 400),
            ("/nothing", 404),
        ] {
            assert_eq!(get(target).await.0, expected, "{target}");
        }
        let long = format!("/file?path=/{}", "x".repeat(PATH_BYTES_MAX));
        assert_eq!(get(&long).await.0, 400);
        assert_eq!(get("/file?path=/down").await.1["error"].as_str(), Some("ds 7 is down"));
    }

    /// A page that comes under a name of its own and has this server's address is told nothing.
    #[tokio::test]
    async fn names_of_others_are_refused() {
        for (host, own) in [
            ("127.0.0.1:8049", true),
            ("[::1]:8049", true),
            ("10.0.0.1", true),
            ("localhost:8049", true),
            ("evil.example:8049", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_own_name(host), own, "{host}");
        }
        let by_name = |target: &str| {
            format!("GET {target} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        };
        assert_eq!(ask(&by_name("/file?path=/a")).await.0, 400);
        assert_ne!(ask(&by_name("/health")).await.0, 400, "monitors may call by name");
    }
}
