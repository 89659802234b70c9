//! The admin service: HTTP/JSON (design D11), for `weft status`, `weft stat`, `weft backup`,
//! monitoring and health checks. The write threshold can be set and a client be ended, all else is
//! only read. It listens on a Unix socket, and on TCP if that is configured; who may ask, and how
//! much, is in `accept.rs`. What sets something takes JSON alone, and calls by address, which a web
//! page cannot make from a browser.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
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
use tokio::net::{TcpListener, UnixListener};
use weft_server::report::{AdminError, AdminSource, ClientsReport, ClusterStatus};

pub use crate::unix_socket::SocketError;
use crate::{
    admin_token::AdminToken,
    size::small_size,
    unix_socket::{self, Guests},
};

mod accept;
mod backup;
mod handler;
mod seats;

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

/// The listening ends of the admin service.
#[derive(Debug)]
pub struct AdminDoors {
    socket: UnixListener,
    path: PathBuf,
    /// Whether the socket was given to a group: the kernel lets nobody but its members connect.
    has_group: bool,
    tcp: Option<(TcpListener, AdminToken)>,
}

impl AdminDoors {
    /// Listens on a Unix socket for this user, root and the members of a group, and on TCP for who
    /// has the token.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn listen(
        path: &Path,
        group: Option<u32>,
        tcp: Option<(TcpListener, AdminToken)>,
    ) -> Result<Self, SocketError> {
        let socket = unix_socket::listen(path, group.map_or(Guests::Nobody, Guests::Group))?;
        Ok(AdminDoors { socket, path: path.to_owned(), has_group: group.is_some(), tcp })
    }

    /// The Unix socket.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The TCP address, if there is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|(listener, _)| listener.local_addr().ok())
    }

    /// Serves from here on, on tasks of its own.
    pub fn serve(self, source: Arc<dyn AdminSource>) {
        if let Some((listener, token)) = self.tcp {
            let router = router(source.clone(), true);
            tokio::spawn(accept::serve_tcp(listener, token, router));
        }
        tokio::spawn(accept::serve_socket(self.socket, self.has_group, router(source, false)));
    }
}

/// `guarded`: a browser could be at the other end.
fn router(source: Arc<dyn AdminSource>, guarded: bool) -> Router {
    let mut names_and_changes = Router::new()
        .route("/file", get(file))
        .route("/threshold", post(threshold))
        .route("/check/files", post(check_files))
        .route("/check/objects", post(check_objects))
        .route(backup::PATH, get(backup::backup))
        .route("/clients", get(clients))
        .route("/clients/evict", post(evict));
    if guarded {
        names_and_changes = names_and_changes.route_layer(middleware::from_fn(no_strange_names));
    }
    names_and_changes
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
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

    use std::collections::BTreeMap;
    use tokio::net::{TcpStream, UnixStream};
    use weft_server::report::{
        Activity, AdminFuture, AwaitedClient, ByteStream, CheckedFiles, CheckedObjects, Evicted,
        FileReport, GraceStatus, Health, IndirectStatus, ServerStatus, ThresholdStatus,
    };

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
            passed_over: false,
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
                passed_over: false,
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
                unreached: Vec::new(),
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
        ask(&format!("GET {target} HTTP/1.1\r\nHost: weft\r\n\r\n")).await
    }

    async fn set(content_type: &str, body: &str) -> (u16, serde_json::Value) {
        post("/threshold", content_type, body).await
    }

    async fn post(path: &str, content_type: &str, body: &str) -> (u16, serde_json::Value) {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: weft\r\nContent-Type: {content_type}\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        ask(&(head + body)).await
    }

    /// A service on sockets of its own.
    struct Served {
        dir: tempfile::TempDir,
        tcp: SocketAddr,
        token: AdminToken,
    }

    impl Served {
        async fn start() -> Served {
            let dir = tempfile::tempdir().unwrap();
            let token = AdminToken::load_or_create(&dir.path().join("token")).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let tcp = Some((listener, token.clone()));
            let doors = AdminDoors::listen(&dir.path().join("sock"), None, tcp).unwrap();
            let tcp = doors.tcp().unwrap();
            doors.serve(Arc::new(Fixed));
            Served { dir, tcp, token }
        }

        async fn socket(&self) -> UnixStream {
            UnixStream::connect(self.dir.path().join("sock")).await.unwrap()
        }

        async fn tcp(&self) -> TcpStream {
            TcpStream::connect(self.tcp).await.unwrap()
        }

        /// All that is answered over TCP to a request with these headers.
        async fn over_tcp(&self, target: &str, headers: &str) -> String {
            let head = format!("GET {target} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.tcp);
            all(self.tcp().await, &head).await
        }
    }

    async fn all<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, request: &str) -> String {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        reply
    }

    /// Status and body of one request over a Unix socket.
    async fn ask(request: &str) -> (u16, serde_json::Value) {
        let served = Served::start().await;
        parts(&all(served.socket().await, request).await)
    }

    fn parts(reply: &str) -> (u16, serde_json::Value) {
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

    /// Over TCP, who does not show the token is told nothing, whatever is asked; who does is
    /// answered as over the socket.
    #[tokio::test]
    async fn strangers_are_told_nothing() {
        let served = Served::start().await;
        let own = format!("Authorization: {}\r\n", served.token.header());
        let wrong = format!("{}x\r\n", own.trim_end());
        for target in ["/status", "/health", "/file?path=/a%20b", "/clients", "/backup", "/none"] {
            for headers in ["", &wrong, "Authorization: Bearer\r\n"] {
                let told = served.over_tcp(target, headers).await;
                let (head, body) = told.split_once("\r\n\r\n").unwrap();
                assert!(head.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{target}: {told}");
                assert_eq!(body, "", "{target}");
            }
        }
        let (code, body) = parts(&served.over_tcp("/file?path=/a%20b", &own).await);
        assert_eq!((code, body["fileid"].as_u64()), (200, Some(9)));
        assert_eq!(parts(&served.over_tcp("/status", &own).await).0, 200);
        assert_eq!(parts(&served.over_tcp("/backup", &own).await).0, 200);
    }

    /// Connections that say nothing, or little, end; meanwhile who asks is answered, at both doors.
    #[tokio::test]
    async fn silence_keeps_nobody_out() {
        let served = Served::start().await;
        let (mut sockets, mut streams) = (Vec::new(), Vec::new());
        for _ in 0..2 * seats::SILENT_MAX {
            let mut stream = served.tcp().await;
            stream.write_all(b"GET /status HTTP/1.1\r\nHost: 127").await.unwrap();
            streams.push(stream);
            sockets.push(served.socket().await);
        }
        let request = "GET /file?path=/a%20b HTTP/1.1\r\nHost: weft\r\n\r\n";
        assert_eq!(parts(&all(served.socket().await, request).await).0, 200);
        let own = format!("Authorization: {}\r\n", served.token.header());
        assert_eq!(parts(&served.over_tcp("/status", &own).await).0, 200);
        // Who came first made room, who came last has not yet.
        assert_eq!(sockets[0].read(&mut [0; 1]).await.unwrap(), 0);
        assert_eq!(streams[0].read(&mut [0; 1]).await.unwrap_or(0), 0);
        let last = sockets.last_mut().unwrap();
        last.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(last.read(&mut [0; 1]).await.unwrap(), 1);
    }

    /// Who comes with many others, has asked and is not accepted yet, is answered all the same.
    #[tokio::test]
    async fn a_crowd_keeps_nobody_out() {
        use std::{io::Write, net, os::unix};
        let served = Served::start().await;
        let token = served.token.header();
        let request = format!(
            "GET /file?path=/a%20b HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n"
        );
        // Nothing else runs on this thread until the first answer is waited for.
        let mut over_tcp = net::TcpStream::connect(served.tcp).unwrap();
        over_tcp.write_all(request.as_bytes()).unwrap();
        let path = served.dir.path().join("sock");
        let mut over_socket = unix::net::UnixStream::connect(&path).unwrap();
        over_socket.write_all(request.as_bytes()).unwrap();
        let crowd = |_| {
            let stream = net::TcpStream::connect(served.tcp).unwrap();
            (stream, unix::net::UnixStream::connect(&path).unwrap())
        };
        let _crowd: Vec<_> = (0..3 * seats::SILENT_MAX).map(crowd).collect();
        over_tcp.set_nonblocking(true).unwrap();
        over_socket.set_nonblocking(true).unwrap();
        let told = all(TcpStream::from_std(over_tcp).unwrap(), "").await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{told:?}");
        let told = all(UnixStream::from_std(over_socket).unwrap(), "").await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{told:?}");
    }

    /// One request a connection.
    #[tokio::test]
    async fn a_connection_is_for_one_request() {
        let served = Served::start().await;
        let twice = "GET /clients HTTP/1.1\r\nHost: weft\r\n\r\n".repeat(2);
        let told = all(served.socket().await, &twice).await;
        assert_eq!(told.matches("HTTP/1.1 200").count(), 1, "{told}");
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
        let served = Served::start().await;
        let by_name = |target: &str| {
            let token = served.token.header();
            let host = "Host: evil.example";
            format!("GET {target} HTTP/1.1\r\n{host}\r\nAuthorization: {token}\r\n\r\n")
        };
        let told = async |target| parts(&all(served.tcp().await, &by_name(target)).await).0;
        assert_eq!(told("/file?path=/a").await, 400);
        assert_ne!(told("/health").await, 400, "monitors may call by name");
    }
}
