//! Who gets to the admin service, and how: over its Unix socket whom the kernel vouches for, over
//! TCP who has the token. One request a connection; strangers are told nothing.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    task::yield_now,
};

use super::{
    backup,
    seats::{Seat, Seats},
};
use crate::admin_token::AdminToken;

/// Memory for what a connection has sent and not been answered: the head of a request with the
/// longest path fits.
const BUFFER_BYTES: usize = 32 << 10;
/// Before the next try, when no connection can be accepted: a process without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the Unix socket, for ever.
pub(super) async fn serve_socket(listener: UnixListener, has_group: bool, router: Router) {
    let own = rustix::process::geteuid().as_raw();
    let seats = Seats::new();
    for id in 0.. {
        let Some((stream, _)) = or_pause(listener.accept().await).await else { continue };
        if may(&stream, own, has_group) {
            let router = router.clone();
            seats.admit(id, |seat| connection(stream, seat, None, router));
        }
        // It may have asked already: it is heard before those who come after it.
        yield_now().await;
    }
}

/// Serves the TCP port, for ever.
pub(super) async fn serve_tcp(listener: TcpListener, token: AdminToken, router: Router) {
    let (seats, token) = (Seats::new(), Arc::new(token));
    for id in 0.. {
        let Some((stream, _)) = or_pause(listener.accept().await).await else { continue };
        let (token, router) = (Some(token.clone()), router.clone());
        seats.admit(id, |seat| connection(stream, seat, token, router));
        // It may have asked already: it is heard before those who come after it.
        yield_now().await;
    }
}

/// What was accepted; an error is logged, and the next try comes later.
async fn or_pause<T>(accepted: io::Result<T>) -> Option<T> {
    if let Err(e) = &accepted {
        tracing::warn!(error = %e, "admin service: cannot accept a connection");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
    accepted.ok()
}

/// Whether the user at the other end may ask: the server's own, root, or a member of the group.
fn may(stream: &UnixStream, own: u32, has_group: bool) -> bool {
    let uid = stream.peer_cred().map(|peer| peer.uid());
    uid.is_ok_and(|uid| uid == own || uid == 0 || has_group)
}

async fn connection<S>(stream: S, seat: Arc<Seat>, token: Option<Arc<AdminToken>>, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let answer = service_fn(|request: Request<Incoming>| {
        let stranger = token.as_ref().is_some_and(|token| !shows(&request, token));
        let (seat, router) = (seat.clone(), router.clone());
        async move {
            if stranger {
                return Ok::<Response, Infallible>(refused());
            }
            if !seat.asks(request.uri().path() != backup::PATH) {
                return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
            }
            TowerToHyperService::new(router).call(request.map(Body::new)).await
        }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(BUFFER_BYTES);
    if let Err(e) = http.serve_connection(TokioIo::new(stream), answer).await {
        tracing::debug!(error = %e, "admin service: a connection failed");
    }
}

fn shows(request: &Request<Incoming>, token: &AdminToken) -> bool {
    let shown = request.headers().get(header::AUTHORIZATION);
    shown.is_some_and(|shown| token.accepts(shown.as_bytes()))
}

/// What a stranger is told: that there is a token (RFC 9110 §11.6.1 wants that).
fn refused() -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
    (StatusCode::UNAUTHORIZED, challenge).into_response()
}
