//! The admin service of a metadata server: where it is, and asking it over HTTP.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use serde::de::DeserializeOwned;

use crate::{endpoints::Endpoints, outcome::Outcome};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Where the metadata server listens for administrators unless told otherwise.
const ADMIN_DEFAULT: &str = "127.0.0.1:8049";

/// Options that say which cluster is asked.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// Admin address of the metadata server [default: that of ./.weft, else 127.0.0.1:8049].
    #[arg(long, value_name = "ADDR:PORT", env = "WEFT_ADMIN")]
    admin: Option<SocketAddr>,
    /// Directory of a `weft up`, instead of an address.
    #[arg(long, value_name = "DIR", conflicts_with = "admin")]
    dir: Option<PathBuf>,
}

impl AdminArgs {
    /// Those of the cluster whose admin service is at an address.
    pub fn at(admin: SocketAddr) -> AdminArgs {
        AdminArgs { admin: Some(admin), dir: None }
    }

    /// The address of the admin service.
    ///
    /// # Errors
    /// The directory has never been used by `weft up`.
    fn address(&self) -> Outcome<SocketAddr> {
        if let Some(address) = self.admin {
            return Ok(address);
        }
        let dir = self.dir.clone().unwrap_or_else(|| PathBuf::from(".weft"));
        match (Endpoints::load(&dir)?, &self.dir) {
            (Some(endpoints), _) => Ok(endpoints.admin),
            (None, Some(dir)) => {
                Err(format!("{}: not a directory of `weft up`", dir.display()).into())
            }
            (None, None) => Ok(ADMIN_DEFAULT.parse()?),
        }
    }

    /// Asks the admin service.
    ///
    /// # Errors
    /// Nobody answers there, or with an error.
    pub fn ask<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        let address = self.address()?;
        let agent: ureq::Agent =
            ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().into();
        let mut answer = agent
            .get(format!("http://{address}{path}"))
            .call()
            .map_err(|e| format!("no answer from the admin service at {address}: {e}"))?;
        Ok(serde_json::from_slice(&answer.body_mut().read_to_vec()?)?)
    }

    /// Posts a change to the admin service.
    ///
    /// # Errors
    /// Nobody answers there, or why it refuses.
    pub fn tell<T: DeserializeOwned>(&self, path: &str, what: &serde_json::Value) -> Outcome<T> {
        let address = self.address()?;
        let agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT));
        let agent: ureq::Agent = agent.http_status_as_error(false).build().into();
        let mut answer = agent
            .post(format!("http://{address}{path}"))
            .header("Content-Type", "application/json")
            .send(what.to_string().as_bytes())
            .map_err(|e| format!("no answer from the admin service at {address}: {e}"))?;
        let body = answer.body_mut().read_to_vec()?;
        if !answer.status().is_success() {
            let refusal: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let why = refusal["error"].as_str().map_or(answer.status().to_string(), str::to_owned);
            return Err(why.into());
        }
        Ok(serde_json::from_slice(&body)?)
    }
}
