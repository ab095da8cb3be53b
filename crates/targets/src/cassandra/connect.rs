//! The driver's session: one a stream, with one connection to each node.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::WebPkiServerVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::PoolSize;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::FallthroughRetryPolicy;

use super::errors;
use super::options::Options;
use crate::upsert::{Host, Login, Place};
use venturi_base::error::{Error, Result};
use venturi_base::net::dial;
use venturi_base::net::tls::{provider, roots};

/// Whether the nodes agree on a new table is asked this often.
const AGREEMENT: Duration = Duration::from_millis(20);
/// The cluster is not asked for its state again within a trial; it tells of changes by itself.
const REFRESH: Duration = Duration::from_secs(24 * 3600);

/// The driver's own default policies decide where a batch goes (token aware, shard aware); what
/// would hide a failure or send a batch twice is off.
pub fn builder(
    place: &Place,
    options: &Options,
    tls: Option<&Arc<ClientConfig>>,
    timeout: Duration,
) -> Result<SessionBuilder> {
    let policy = DefaultPolicy::builder()
        .token_aware(options.token_aware)
        .build();
    let profile = ExecutionProfile::builder()
        .consistency(options.consistency())
        .serial_consistency(None)
        .request_timeout(Some(timeout))
        .load_balancing_policy(policy)
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(None)
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(place.hosts.iter().map(Host::authority))
        .default_execution_profile_handle(profile.into_handle())
        .pool_size(PoolSize::PerHost(NonZeroUsize::MIN))
        .tcp_nodelay(true)
        .connection_timeout(timeout)
        .compression(options.compression()?)
        .keyspaces_to_fetch([&place.space])
        .fetch_full_schema_metadata(false)
        .schema_agreement_interval(AGREEMENT)
        .schema_agreement_timeout(timeout)
        .cluster_metadata_refresh_interval(REFRESH);
    if let Some((user, password)) = options.login(place)? {
        builder = builder.user(user, password);
    }
    Ok(builder.tls_context(tls.cloned()))
}

pub async fn connect(builder: &SessionBuilder, place: &str) -> Result<Session> {
    let built = builder.build().await;
    built.map_err(|error| errors::of_session(place, &error))
}

/// TLS as the options want it; `None`: without.
pub fn tls(place: &Place, login: &Login) -> Result<Option<Arc<ClientConfig>>> {
    let Some(mut config) = login.tls(place)? else {
        return Ok(None);
    };
    if let (Some(name), false) = (&login.tls_server_name, login.tls_insecure) {
        let name = dial::server_name(name)?;
        let roots = roots(login.tls_ca.as_deref())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| Error::usage(format!("TLS: {error}")))?;
        config
            .dangerous()
            .set_certificate_verifier(Arc::new(Named { verifier, name }));
    }
    Ok(Some(Arc::new(config)))
}

/// Verifies as always, but for the name that was given: the driver asks for a node's address,
/// which few certificates hold.
#[derive(Debug)]
struct Named {
    verifier: Arc<WebPkiServerVerifier>,
    name: ServerName<'static>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let name = &self.name;
        self.verifier
            .verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
