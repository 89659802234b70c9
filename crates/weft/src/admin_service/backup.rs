//! `GET /backup`: the volume, small files and all.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use futures_core::Stream;
use weft_server::report::ByteStream;

use super::handler::{Source, refusal};

/// Where a backup is.
pub(super) const PATH: &str = "/backup";

pub(super) async fn backup(State(source): Source) -> Response {
    match source.backup().await {
        Ok(stream) => {
            let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
            (kind, Body::from_stream(Pieces(stream))).into_response()
        }
        Err(e) => refusal(&e),
    }
}

/// What comes, as HTTP wants it.
struct Pieces(ByteStream);

impl Stream for Pieces {
    type Item = std::io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}
