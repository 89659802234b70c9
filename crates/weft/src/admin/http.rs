//! A request over a socket, and its answer: HTTP/1.1, one request a connection.

use std::{
    fmt, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    http::{Method, Request, StatusCode, header},
};
use futures_core::Stream;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    runtime::Runtime,
    time::{Instant, sleep, timeout_at},
};
use weft::admin_token::AdminToken;

/// Between two tries while too many wait at a socket.
const QUEUE_PAUSE: Duration = Duration::from_millis(20);

/// Where an admin service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket.
    Socket(PathBuf),
    /// An address of TCP.
    Tcp(SocketAddr),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Socket(path) => path.display().fmt(f),
            Place::Tcp(address) => address.fmt(f),
        }
    }
}

/// What is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// Path and query.
    pub path: &'a str,
    /// What is told; it is only asked if there is nothing.
    pub json: Option<String>,
    /// For TCP.
    pub token: Option<&'a AdminToken>,
    /// How long the beginning of the answer may take.
    pub patience: Duration,
    /// Whether all of the answer must have come by then.
    pub whole: bool,
}

/// What came, its body yet to be read; where it comes from stands still while nobody reads.
pub struct Answer {
    /// What it says of itself.
    pub status: StatusCode,
    runtime: Runtime,
    body: BodyDataStream,
    piece: Bytes,
    until: Option<Instant>,
}

/// Asks, and waits for the beginning of the answer.
///
/// # Errors
/// Nobody answers there, or not in time.
pub fn ask(place: &Place, question: &Question<'_>) -> io::Result<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let request = request(place, question).map_err(io::Error::other)?;
    let until = Instant::now() + question.patience;
    let answer = runtime.block_on(in_time(until, exchange(place, request)))?;
    let status = answer.status();
    let body = Body::new(answer.into_body()).into_data_stream();
    let until = question.whole.then_some(until);
    Ok(Answer { status, runtime, body, piece: Bytes::new(), until })
}

fn request(place: &Place, question: &Question<'_>) -> Result<Request<Body>, axum::http::Error> {
    let host = match place {
        Place::Socket(_) => "localhost".to_owned(),
        Place::Tcp(address) => address.to_string(),
    };
    let mut request = Request::builder().uri(question.path).header(header::HOST, host);
    if let Some(token) = question.token {
        request = request.header(header::AUTHORIZATION, token.header());
    }
    match &question.json {
        None => request.body(Body::empty()),
        Some(json) => {
            let request = request.method(Method::POST);
            let request = request.header(header::CONTENT_TYPE, "application/json");
            request.body(Body::from(json.clone()))
        }
    }
}

async fn exchange(place: &Place, request: Request<Body>) -> io::Result<hyper::Response<Incoming>> {
    match place {
        Place::Socket(path) => send(connect(path).await?, request).await,
        Place::Tcp(address) => send(TcpStream::connect(address).await?, request).await,
    }
}

/// Connects; where too many wait to be let in, it waits for its turn.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => sleep(QUEUE_PAUSE).await,
            connected => return connected,
        }
    }
}

async fn send<S>(stream: S, request: Request<Body>) -> io::Result<hyper::Response<Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // What it fails by, the answer or its body says too.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(io::Error::other)
}

async fn in_time<T>(until: Instant, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    timeout_at(until, work).await.map_err(late)?
}

async fn next(body: &mut BodyDataStream) -> io::Result<Option<Bytes>> {
    let piece = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_next(cx)).await;
    piece.transpose().map_err(io::Error::other)
}

impl io::Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let next = next(&mut self.body);
            let came = self.runtime.block_on(async {
                match self.until {
                    Some(until) => in_time(until, next).await,
                    None => next.await,
                }
            })?;
            let Some(piece) = came else { return Ok(0) };
            self.piece = piece;
        }
        let length = buffer.len().min(self.piece.len());
        buffer[..length].copy_from_slice(&self.piece.split_to(length));
        Ok(length)
    }
}
