//! The admin service: HTTP/JSON on its own port (design D11), for `weft status`, `weft stat`,
//! `weft backup`, monitoring and health checks. The write threshold can be set and a client be
//! ended, all else is only read. It asks nobody for a password but those who want a backup: it
//! belongs on loopback or a management network. What sets something takes JSON alone, and calls by
//! address, which a web page cannot make from a browser.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use axum::{
    Extension, Json, Router,
    extract::{DefaultBodyLimit, Query, Request, State, rejection::JsonRejection},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use weft_server::report::{AdminError, AdminSource, ClientsReport, ClusterStatus};

use crate::size::small_size;

mod backup;
mod handler;

pub use backup::{BackupChallenge, BackupGate, BackupProof};

use handler::{Source, refusal};

/// Longest path asked about, bytes.
const PATH_BYTES_MAX: usize = 4096;

/// Longest body of a request, bytes.
const BODY_BYTES_MAX: usize = 1024;

/// What `POST /threshold` is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetThreshold {
    /// The threshold until the next start: bytes as a number, or `"32KiB"`.
    #[serde(deserialize_with = "small_size")]
    pub write_threshold: u64,
}

/// What `POST /check/files` is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckFiles {
    /// The inode before the first that is looked at.
    pub after: Option<u64>,
}

/// What `POST /check/objects` is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckObjects {
    /// Whose objects.
    pub data_server: u32,
    /// The object before the first that is looked at: volume and number.
    pub after: Option<(u32, u64)>,
}

/// What `POST /clients/evict` is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvictClient {
    /// Its id, name, owner or address.
    pub client: String,
}

/// Serves until the listener fails.
///
/// # Errors
/// What the listener says.
pub async fn serve(
    listener: TcpListener,
    source: Arc<dyn AdminSource>,
    gate: BackupGate,
) -> io::Result<()> {
    axum::serve(listener, router(source, gate)).await
}

fn router(source: Arc<dyn AdminSource>, gate: BackupGate) -> Router {
    let gate = Arc::new(gate);
    Router::new()
        .route("/file", get(file))
        .route("/threshold", post(threshold))
        .route("/check/files", post(check_files))
        .route("/check/objects", post(check_objects))
        .route("/backup", get(backup::challenge).post(backup::backup).layer(Extension(gate)))
        .route("/clients", get(clients))
        .route("/clients/evict", post(evict))
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
        refusal(&AdminError::BadRequest("Host: an IP address or localhost, please".into()))
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
        Err(e) => refusal(&e),
    }
}

async fn check_files(
    State(source): Source,
    body: Result<Json<CheckFiles>, JsonRejection>,
) -> Response {
    let checked = match body {
        Ok(Json(asked)) => source.check_files(asked.after).await,
        Err(e) => Err(AdminError::BadRequest(e.body_text())),
    };
    checked.map_or_else(|e| refusal(&e), |checked| Json(checked).into_response())
}

async fn check_objects(
    State(source): Source,
    body: Result<Json<CheckObjects>, JsonRejection>,
) -> Response {
    let checked = match body {
        Ok(Json(asked)) => source.check_objects(asked.data_server, asked.after).await,
        Err(e) => Err(AdminError::BadRequest(e.body_text())),
    };
    checked.map_or_else(|e| refusal(&e), |checked| Json(checked).into_response())
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
        Err(e) => refusal(&e),
    }
}

async fn clients(State(source): Source) -> Json<ClientsReport> {
    Json(source.clients())
}

async fn evict(State(source): Source, body: Result<Json<EvictClient>, JsonRejection>) -> Response {
    let evicted = match body {
        Ok(Json(wanted)) => source.evict(wanted.client).await,
        Err(e) => Err(AdminError::BadRequest(e.body_text())),
    };
    match evicted {
        Ok(evicted) => Json(evicted).into_response(),
        Err(e) => refusal(&e),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use std::collections::BTreeMap;
    use weft_server::identity::ClusterSecrets;
    use weft_server::report::{
        Activity, AdminFuture, AwaitedClient, ByteStream, CheckedFiles, CheckedObjects, Evicted,
        FileReport, GraceStatus, Health, IndirectStatus, ServerStatus, ThresholdStatus,
    };

    use super::*;

    struct Fixed;

    fn gate() -> BackupGate {
        let secret = "0123456789abcdef0123456789abcdef";
        BackupGate::new(ClusterSecrets::from_text(secret).unwrap().admin_key())
    }

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
            owed: 0,
            state_memory: None,
        }
    }

    fn grace() -> GraceStatus {
        let awaited = AwaitedClient {
            name: "kc12".into(),
            owner: "Linux NFSv4.2 kc12".into(),
            address: Some("192.0.2.7".into()),
        };
        GraceStatus { left_s: 40, awaited: vec![awaited] }
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
                owed: 2,
                state_memory: None,
            };
            let status = ClusterStatus {
                version: "1".into(),
                uptime_s: 5,
                servers: vec![mds(), ds],
                indirect: IndirectStatus { writes: 64, messages: 2, waiting: 0 },
                threshold: THRESHOLD,
                devices: Vec::new(),
                grace: None,
                fallbacks: Vec::new(),
            };
            Box::pin(async { status })
        }

        fn health(&self) -> AdminFuture<'_, Health> {
            Box::pin(async {
                Health {
                    healthy: false,
                    problems: vec!["ds 7".into()],
                    warnings: Vec::new(),
                    grace: Some(grace()),
                }
            })
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

        fn check_files(
            &self,
            after: Option<u64>,
        ) -> AdminFuture<'_, Result<CheckedFiles, AdminError>> {
            let last = after.map_or(Some(7), |_| None);
            Box::pin(async move { Ok(CheckedFiles { files: 3, last, ..CheckedFiles::default() }) })
        }

        fn check_objects(
            &self,
            data_server: u32,
            after: Option<(u32, u64)>,
        ) -> AdminFuture<'_, Result<CheckedObjects, AdminError>> {
            Box::pin(async move {
                match (data_server, after) {
                    (7, None) => Ok(CheckedObjects {
                        objects: 1,
                        unaccounted: vec![(1, 9)],
                        elsewhere: vec![(1, 6)],
                        last: Some((1, 9)),
                    }),
                    (7, Some((1, 9))) => Ok(CheckedObjects::default()),
                    _ => Err(AdminError::Failed("ds 8 is down".into())),
                }
            })
        }

        fn clients(&self) -> ClientsReport {
            ClientsReport { clients: Vec::new(), grace: Some(grace()) }
        }

        fn evict(&self, who: String) -> AdminFuture<'_, Result<Evicted, AdminError>> {
            Box::pin(async move {
                match who.as_str() {
                    "kc12" => Ok(Evicted { client: None, was_awaited: true }),
                    _ => Err(AdminError::NoClient(who)),
                }
            })
        }

        fn set_threshold(&self, bytes: u64) -> Result<ThresholdStatus, AdminError> {
            Ok(ThresholdStatus { set: bytes, ..THRESHOLD })
        }

        fn backup(&self) -> AdminFuture<'_, Result<ByteStream, AdminError>> {
            Box::pin(async {
                let (pieces, stream) = tokio::sync::mpsc::channel(4);
                pieces.try_send(Ok("\"all \"".into())).unwrap();
                Ok(stream)
            })
        }
    }

    async fn get(target: &str) -> (u16, serde_json::Value) {
        ask(&format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n"))
            .await
    }

    async fn set(content_type: &str, body: &str) -> (u16, serde_json::Value) {
        post("/threshold", content_type, body).await
    }

    async fn post(path: &str, content_type: &str, body: &str) -> (u16, serde_json::Value) {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\
             Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        ask(&(head + body)).await
    }

    /// Status line and body of one request over a real socket.
    async fn ask(request: &str) -> (u16, serde_json::Value) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(Fixed), gate()));
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
                 "rss_bytes": 0, "clients": 0, "connections": 0, "uptime_s": 0, "owed": 2},
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

    /// A check goes on from where the last part ended; a data server that cannot be asked says so.
    #[tokio::test]
    async fn checks_go_part_by_part() {
        let json = "application/json";
        let (code, body) = post("/check/files", json, r#"{"after":null}"#).await;
        assert_eq!((code, body["files"].as_u64(), body["last"].as_u64()), (200, Some(3), Some(7)));
        let (code, body) = post("/check/files", json, r#"{"after":7}"#).await;
        assert!(code == 200 && body["last"].is_null(), "{body}");
        let first = r#"{"data_server":7,"after":null}"#;
        let (code, body) = post("/check/objects", json, first).await;
        assert_eq!((code, &body["unaccounted"]), (200, &serde_json::json!([[1, 9]])));
        let (code, body) = post("/check/objects", json, r#"{"data_server":7,"after":[1,9]}"#).await;
        assert!(code == 200 && body["last"].is_null(), "{body}");
        let down = r#"{"data_server":8,"after":null}"#;
        let (code, body) = post("/check/objects", json, down).await;
        assert_eq!((code, body["error"].as_str()), (503, Some("ds 8 is down")));
        assert_eq!(post("/check/files", json, "{").await.0, 400);
        assert_eq!(get("/check/files").await.0, 405);
    }

    /// Who cannot prove the cluster's secret gets no backup: not without a proof, with a wrong one
    /// or with one for another start of the server; neither does a form of a web page.
    #[tokio::test]
    async fn a_backup_is_for_those_who_know_the_secret() {
        let own = gate();
        let proof = own.key().backup_proof(own.challenge());
        assert!(own.accepts(&proof) && !gate().accepts(&proof), "good for one start");
        let (code, told) = get("/backup").await;
        assert_eq!(code, 200, "{told}");
        assert_eq!(told["challenge"].as_str().map(str::len), Some(32));
        for body in ["{}", "", "{\"proof\":\"\"}", &format!("{{\"proof\":\"{proof}\"}}")] {
            let (code, told) = post("/backup", "application/json", body).await;
            let why = told["error"].as_str().unwrap_or_default().to_owned();
            assert!(code == 400 || (code == 403 && why.contains("secret")), "{body}: {code} {why}");
        }
        let proof = format!("{{\"proof\":\"{proof}\"}}");
        assert_eq!(post("/backup", "text/plain", &proof).await.0, 400);
    }

    /// Who is there is told, one is ended by name; whoever is unknown is named, and a form of a web
    /// page is no way.
    #[tokio::test]
    async fn clients_are_told_and_ended() {
        let (code, body) = get("/clients").await;
        let kc12 = serde_json::json!({
            "name": "kc12", "owner": "Linux NFSv4.2 kc12", "address": "192.0.2.7"
        });
        let grace = serde_json::json!({ "left_s": 40, "awaited": [kc12] });
        assert_eq!((code, body), (200, serde_json::json!({ "clients": [], "grace": grace })));
        let evict = |body| async move { post("/clients/evict", "application/json", body).await };
        let (code, body) = evict(r#"{"client":"kc12"}"#).await;
        assert_eq!((code, &body["was_awaited"]), (200, &true.into()));
        let (code, body) = evict(r#"{"client":"kc13"}"#).await;
        let why = "kc13: no such client (`weft clients` lists them)";
        assert_eq!((code, &body["error"]), (404, &why.into()));
        assert_eq!(evict(r#"{"clients":"kc12"}"#).await.0, 400);
        let form = "application/x-www-form-urlencoded";
        assert_eq!(post("/clients/evict", form, r#"{"client":"kc12"}"#).await.0, 400);
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
