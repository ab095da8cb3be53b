//! What a client may ask beside its rows, whatever protocol it asks by.

use serde::Deserialize;
use serde_json::json;

use super::shell::Endpoint;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::end::monotonic_ns;
use venturi_base::net::route::Route;
use venturi_base::os::machine::Place;

/// Asks the server to sample itself.
#[derive(Debug, Deserialize)]
struct WatchRequest {
    trial: String,
    interval_ns: u64,
}

impl Endpoint {
    /// Who this is: software, handicap, machine and process.
    pub fn hello(&self) -> Vec<u8> {
        json!({
            "software": concat!("venturi ", env!("CARGO_PKG_VERSION")),
            "handicap": self.handicap.text(),
            "place": Place::current(),
        })
        .to_string()
        .into_bytes()
    }

    /// `route`: by which connection it is asked. `None`: there is no such question. Kind `Unsupported`: nothing is
    /// known of what is asked for.
    pub async fn answer(
        &self,
        name: &str,
        payload: &str,
        route: Option<Route>,
    ) -> Result<Option<Vec<u8>>> {
        let unknown = |text| Error::new(Kind::Unsupported, text);
        let internal = |error: serde_json::Error| Error::new(Kind::Internal, error.to_string());
        Ok(Some(match name {
            "account" => {
                let account = self.accounts.settle(payload).await.ok_or_else(|| {
                    unknown(format!(
                        "no trial {payload:?}, or its account was handed over already"
                    ))
                })?;
                serde_json::to_vec(&account).map_err(internal)?
            }
            "watch" => {
                let asked: WatchRequest = serde_json::from_str(payload)
                    .map_err(|error| Error::usage(format!("watch: {error}")))?;
                let watch = &self.accounts.watch;
                let watched = watch.open(&asked.trial, asked.interval_ns, route);
                watched.to_string().into_bytes()
            }
            "samples" => {
                let series =
                    self.accounts.watch.take(payload).await.ok_or_else(|| {
                        unknown(format!("nothing was sampled for trial {payload:?}"))
                    })?;
                serde_json::to_vec(&series.pack()).map_err(internal)?
            }
            "clock" => monotonic_ns().to_string().into_bytes(),
            "environment" => self.environment.to_string().into_bytes(),
            "stop" => {
                self.accounts.stop(payload);
                vec![]
            }
            "tcp" => self.tcp.contact()?.into_bytes(),
            _ => return Ok(None),
        }))
    }
}
