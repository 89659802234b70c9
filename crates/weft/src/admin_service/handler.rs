//! What the handlers of requests have in common.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use weft_server::report::{AdminError, AdminSource};

/// What they ask.
pub(super) type Source = State<Arc<dyn AdminSource>>;

/// The answer to what cannot be done.
pub(super) fn refusal(why: &AdminError) -> Response {
    let code = match why {
        AdminError::BadRequest(_) => StatusCode::BAD_REQUEST,
        AdminError::NotFound(_) | AdminError::NoClient(_) => StatusCode::NOT_FOUND,
        AdminError::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, Json(serde_json::json!({ "error": why.to_string() }))).into_response()
}
