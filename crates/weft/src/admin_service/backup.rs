//! `POST /backup`: the volume, small files and all, for those who prove that they know the
//! cluster's secret. What the proof is for changes with every start of the server.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    Extension, Json,
    body::{Body, Bytes},
    extract::{State, rejection::JsonRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use weft_server::{
    clock::random,
    identity::{AdminKey, hex},
    report::{AdminError, ByteStream},
};

use super::handler::{Source, refusal};

/// Who may have a backup.
#[derive(Debug)]
pub struct BackupGate {
    key: AdminKey,
    challenge: String,
}

/// What `GET /backup` answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct BackupChallenge {
    /// What is to be proved, until the server ends.
    pub challenge: String,
}

/// What `POST /backup` is given.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupProof {
    /// Of the challenge: [`AdminKey::backup_proof`].
    pub proof: String,
}

impl BackupGate {
    /// For this start of the server.
    pub fn new(key: AdminKey) -> Self {
        BackupGate { key, challenge: hex(&random::<16>()) }
    }

    pub(super) fn accepts(&self, proof: &str) -> bool {
        self.key.accepts_backup(&self.challenge, proof)
    }
}

#[cfg(test)]
impl BackupGate {
    pub(super) fn key(&self) -> &AdminKey {
        &self.key
    }

    pub(super) fn challenge(&self) -> &str {
        &self.challenge
    }
}

pub(super) async fn challenge(gate: Extension<Arc<BackupGate>>) -> Json<BackupChallenge> {
    Json(BackupChallenge { challenge: gate.challenge.clone() })
}

pub(super) async fn backup(
    State(source): Source,
    gate: Extension<Arc<BackupGate>>,
    body: Result<Json<BackupProof>, JsonRejection>,
) -> Response {
    let proof = match body {
        Ok(Json(given)) => given.proof,
        Err(e) => return refusal(&AdminError::BadRequest(e.body_text())),
    };
    if !gate.accepts(&proof) {
        let why = "a backup has every small file: the cluster's secret is wanted, and this is \
                   not its";
        return (StatusCode::FORBIDDEN, Json(serde_json::json!({ "error": why }))).into_response();
    }
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
