//! Before the clock starts: which tickets, which descriptors, and a table of the user's for a
//! reference server to serve.

use futures::future::{join_all, try_join_all};
use prost::Message as _;
use serde_json::json;

use super::call::Link;
use super::connect::Server;
use super::offers::WITHOUT_END;
use super::options::{Ack, Address, Subject};
use super::put::PutSession;
use super::{drive, Flight};
use crate::hosts::{self, of_stream};
use venturi_base::codec::ipc::Compression;
use venturi_base::codec::proto::{FlightDescriptor, FlightEndpoint, FlightInfo};
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::spec::{Data, Operation};

pub(super) struct Plan {
    pub protocol: &'static str,
    /// What each stream of a get reads, in order.
    pub pieces: Vec<Vec<Piece>>,
    /// A ticket for one batch, where asking for more than the trial does no harm.
    pub warm_up: Option<Vec<u8>>,
    put_to: FlightDescriptor,
    /// The server throws a put's rows away, so one batch more does no harm.
    pub discards: bool,
    /// Rows of the whole trial, where known.
    pub rows: Option<u64>,
    /// The table that the trial brought along for the server to serve.
    pub uploaded: Option<String>,
}

impl Plan {
    /// The descriptor of a stream's put; `{stream}` in a path segment is its number.
    pub fn descriptor(&self, stream: usize) -> Vec<u8> {
        let mut descriptor = self.put_to.clone();
        for segment in &mut descriptor.path {
            *segment = segment.replace("{stream}", &stream.to_string());
        }
        descriptor.encode_to_vec()
    }
}

impl Flight {
    pub(super) async fn make_plan(&self, links: &[Link]) -> Result<Plan> {
        let compression = self.options.compression()?;
        let compressed = compression != Compression::None;
        if self.spec.operation == Operation::Get && compressed && !self.identity.reference {
            return Err(Error::usage(format!(
                "{}: only Venturi's own server can be asked to compress what it sends ({}); leave compression out, and set it up at that server",
                self.identity.address,
                compression.name()
            )));
        }
        let streams = self.spec.streams;
        let mut plan = Plan {
            protocol: "perf",
            pieces: vec![],
            warm_up: None,
            put_to: FlightDescriptor::command(vec![]),
            discards: false,
            rows: self
                .spec
                .rows_per_stream
                .map(|rows| rows.saturating_mul(streams as u64)),
            uploaded: None,
        };
        match (self.spec.operation, &self.subject) {
            (Operation::Get, Subject::Nothing) => match &self.spec.data {
                Data::File { .. } => self.plan_table(links, &mut plan).await?,
                _ => self.plan_perf(links, &mut plan).await?,
            },
            (Operation::Get, Subject::Path(path)) => {
                plan.protocol = "path";
                let descriptor = FlightDescriptor::path(path.clone());
                self.plan_by_first(links, &descriptor, &mut plan).await?;
            }
            (Operation::Get, Subject::Command(command)) => {
                plan.protocol = "command";
                let descriptor = FlightDescriptor::command(command.clone());
                self.plan_by_first(links, &descriptor, &mut plan).await?;
            }
            (Operation::Get, Subject::Ticket(ticket)) => {
                plan.protocol = "ticket";
                plan.rows = None;
                let piece = |stream| Piece {
                    address: self.server_of(stream).address.clone(),
                    ticket: ticket.clone(),
                };
                plan.pieces = (0..streams).map(|stream| vec![piece(stream)]).collect();
            }
            (Operation::Put, Subject::Path(path)) => {
                plan.protocol = "path";
                plan.put_to = FlightDescriptor::path(path.clone());
            }
            (Operation::Put, Subject::Command(command)) => {
                plan.protocol = "command";
                plan.put_to = FlightDescriptor::command(command.clone());
            }
            // The perf protocol puts to an empty command; the server counts and forgets. (C++ calls
            // the type UNKNOWN, writes CMD, and refuses UNKNOWN.)
            (Operation::Put | Operation::Upsert | Operation::Ingest, _) => plan.discards = true,
        }
        Ok(plan)
    }

    /// Gives a reference server the user's rows, once for all processes, and asks for them in the
    /// trial's shape.
    async fn plan_table(&self, links: &[Link], plan: &mut Plan) -> Result<()> {
        if !self.identity.reference {
            return Err(Error::usage(format!(
                "{} is not Venturi's own server: it gives what it holds (flight://host:port/table), or put the file",
                self.identity.address
            )));
        }
        let table = format!("venturi/{}", self.spec.trial);
        let command = json!({
            "table": table,
            "rows_per_stream": self.spec.rows_per_stream.unwrap_or(WITHOUT_END),
            "rows_per_batch": self.spec.rows_per_batch,
            "streams": self.spec.streams,
            "compression": self.options.compression()?.name(),
        });
        let descriptor = FlightDescriptor::command(command.to_string().into_bytes());
        plan.protocol = "table";
        if !self.spec.leads() {
            return self.plan_at_each(links, &descriptor, plan).await;
        }
        let given = match self.upload_to_all(links, &table).await {
            Ok(()) => self.plan_at_each(links, &descriptor, plan).await,
            Err(error) => Err(error),
        };
        if given.is_err() {
            // `clean` knows nothing of a plan that failed; what is there already is taken back.
            let _ = self.drop_table(&table).await;
        }
        plan.uploaded = Some(table);
        given
    }

    async fn upload_to_all(&self, links: &[Link], table: &str) -> Result<()> {
        let Some(source) = &self.source else {
            return Err(Error::new(Kind::Internal, "a table without data"));
        };
        // All of them to their ends: what is cut off half-way might still arrive.
        let uploads = self
            .servers
            .iter()
            .zip(links)
            .map(|(server, link)| async move {
                let upload = self.upload(link, source, table).await;
                upload.map_err(|error| self.at(&server.address, error))
            });
        join_all(uploads).await.into_iter().collect()
    }

    /// Takes the trial's table from all servers; the first error is told when all were asked.
    pub(super) async fn drop_table(&self, table: &str) -> Result<()> {
        let dropping = self.servers.iter().map(|server| async move {
            let link = self.link(server).await?;
            let dropping = link.action("venturi.drop", table.as_bytes());
            let what = "removing the trial's table";
            self.within(&server.address, what, dropping).await
        });
        join_all(dropping)
            .await
            .into_iter()
            .try_for_each(|it| it.map(drop))
    }

    async fn upload(&self, link: &Link, source: &Source, table: &str) -> Result<()> {
        let path = FlightDescriptor::path(table.split('/').map(str::to_owned).collect());
        let encoder = self.encoder(source)?;
        let cursor = source.cursor(Some(source.rows()));
        let upload = PutSession::new(
            link.clone(),
            vec![],
            path.encode_to_vec(),
            encoder,
            cursor,
            false,
            Ack::Stream,
        );
        let what = "giving the rows to the server";
        let upload = async {
            let given = drive(Box::new(upload), usize::MAX).await;
            given.map_err(|error| error.context(what))
        };
        limit::patient(what, upload).await.map(drop)
    }
}

/// What a stream reads in one call.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub address: Address,
    pub ticket: Vec<u8>,
}

/// A server's answer to what it has of a flight.
#[derive(Debug, PartialEq)]
pub(crate) struct Offer {
    endpoints: Vec<Endpoint>,
    /// Of the whole flight, where it is known.
    rows: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
struct Endpoint {
    /// `None`: at the server that answered.
    elsewhere: Option<Address>,
    ticket: Vec<u8>,
}

impl Offer {
    /// `asked`: who says so. `secrets`: the trial's headers go along to wherever the endpoints are.
    pub fn of(info: &FlightInfo, asked: &Address, secrets: bool) -> Result<Self> {
        if info.endpoint.is_empty() {
            return Err(Error::new(
                Kind::Server,
                "the server has this flight, but no endpoint to read it from",
            ));
        }
        let endpoints = info.endpoint.iter();
        let endpoints = endpoints.map(|it| Endpoint::of(it, asked, secrets));
        Ok(Self {
            endpoints: endpoints.collect::<Result<_>>()?,
            rows: u64::try_from(info.total_records).ok(),
        })
    }

    pub fn endpoints(&self) -> usize {
        self.endpoints.len()
    }

    /// What one of so many streams reads: its part of the endpoints, or where there are fewer
    /// than streams one that others read too.
    pub fn pieces(&self, asked: &Address, stream: usize, streams: usize) -> Vec<Piece> {
        let piece = |endpoint: &Endpoint| Piece {
            address: match &endpoint.elsewhere {
                Some(address) => address.clone(),
                None => asked.clone(),
            },
            ticket: endpoint.ticket.clone(),
        };
        let count = self.endpoints.len();
        match count < streams {
            true => vec![piece(&self.endpoints[stream % count])],
            false => {
                let own = self.endpoints.iter().skip(stream).step_by(streams);
                own.map(piece).collect()
            }
        }
    }

    /// Rows that all streams read together.
    fn rows_of(&self, streams: usize) -> Option<u64> {
        match self.endpoints.len() {
            count if count >= streams => self.rows,
            1 => self.rows?.checked_mul(streams as u64),
            _ => None,
        }
    }

    fn text(&self) -> String {
        let endpoints = match self.endpoints.len() {
            1 => "1 endpoint".to_owned(),
            count => format!("{count} endpoints"),
        };
        match self.rows {
            Some(rows) => format!("{endpoints}, {rows} rows"),
            None => endpoints,
        }
    }
}

impl Endpoint {
    fn of(endpoint: &FlightEndpoint, asked: &Address, secrets: bool) -> Result<Self> {
        let ticket = endpoint.ticket.clone().unwrap_or_default().ticket;
        let location = match endpoint.location.first() {
            Some(location) => Address::of_location(&location.uri)?,
            None => None,
        };
        let elsewhere = location.map(|mut address| {
            // A server that only knows the address it listens on means: where you found me.
            if ["0.0.0.0", "::"].contains(&address.host.as_str()) {
                address.host = asked.host.clone();
            }
            address
        });
        let elsewhere = elsewhere.filter(|address| address != asked);
        if let Some(address) = &elsewhere {
            // A path says nothing on another host: on this one it is some other server's, who would be
            // given the trial's headers.
            let is_path = |address: &Address| address.to_host().socket().is_some();
            if is_path(address) && !is_path(asked) {
                return Err(Error::protocol(format!(
                    "the server offers its data at the Unix socket {}, which Venturi cannot reach: such a \
                     location is followed only from a server that was itself reached over a Unix socket",
                    hosts::printable(&address.authority())
                )));
            }
            // Another place gets this trial's headers too, and with them its credentials.
            if asked.tls && !address.tls && secrets {
                return Err(Error::new(
                    Kind::Tls,
                    format!(
                        "the server offers its data at {} without TLS, where the trial's headers and credentials would travel in the clear",
                        address.authority()
                    ),
                ));
            }
        }
        Ok(Self { elsewhere, ticket })
    }
}

impl Flight {
    /// Each server is asked for the flight of the whole trial, of which its streams take theirs:
    /// so a stream reads what it would of one server.
    pub(super) async fn plan_at_each(
        &self,
        links: &[Link],
        descriptor: &FlightDescriptor,
        plan: &mut Plan,
    ) -> Result<()> {
        let asking = self.servers.iter().zip(links);
        let asking = asking.map(|(server, link)| self.offer(server, link, descriptor));
        let offers = try_join_all(asking).await?;
        let streams = self.spec.streams;
        for (server, offer) in self.servers.iter().zip(&offers) {
            if offer.endpoints.len() != streams {
                let streams = match streams {
                    1 => "1 stream".to_owned(),
                    many => format!("{many} streams"),
                };
                let text = format!("the server offers {} for {streams}", offer.text());
                return Err(self.at(&server.address, Error::new(Kind::Unsupported, text)));
            }
        }
        let sides: Vec<_> = self.servers.iter().zip(&offers).collect();
        plan.pieces = (0..streams)
            .map(|stream| {
                let (server, offer) = of_stream(&sides, stream);
                offer.pieces(&server.address, stream, streams)
            })
            .collect();
        Ok(())
    }

    /// The first server is asked, and its endpoints' locations are followed. Endpoints without
    /// one, or at that server itself, may be read from any server of the URL if all of them
    /// answer alike; if not, the URL names servers of which nobody knows what to read there.
    pub(super) async fn plan_by_first(
        &self,
        links: &[Link],
        descriptor: &FlightDescriptor,
        plan: &mut Plan,
    ) -> Result<()> {
        let streams = self.spec.streams;
        let first = self.offer(&self.servers[0], &links[0], descriptor).await?;
        plan.rows = first.rows_of(streams);
        let open = |endpoint: &Endpoint| endpoint.elsewhere.is_none();
        if first.endpoints.iter().any(open) {
            let others = self.servers.iter().zip(links).skip(1);
            let others =
                others.map(|(server, link)| self.same_offer(server, link, descriptor, &first));
            try_join_all(others).await?;
        }
        plan.pieces = (0..streams)
            .map(|stream| {
                let server = of_stream(&self.servers, stream);
                first.pieces(&server.address, stream, streams)
            })
            .collect();
        Ok(())
    }

    /// Asks one more server for the flight: its answer must be the first one's.
    async fn same_offer(
        &self,
        server: &Server,
        link: &Link,
        descriptor: &FlightDescriptor,
        first: &Offer,
    ) -> Result<()> {
        let advice = "the streams are spread over all servers of the URL, so each must hold the same flight: name those that do";
        let offer = match self.offer(server, link, descriptor).await {
            Ok(offer) => offer,
            Err(mut error) => {
                if error.kind == Kind::Server {
                    error.message = format!("{}; {advice}", error.message);
                }
                return Err(error);
            }
        };
        if offer == *first {
            return Ok(());
        }
        let unlike = match (offer.text(), first.text()) {
            (there, here) if there != here => format!("{here}; {there}"),
            _ => "their tickets or locations differ".to_owned(),
        };
        Err(Error::usage(format!(
            "{} and {} answer this flight differently ({unlike}): {advice}",
            self.servers[0].address.authority(),
            server.address.authority()
        )))
    }

    async fn offer(
        &self,
        server: &Server,
        link: &Link,
        descriptor: &FlightDescriptor,
    ) -> Result<Offer> {
        let secrets = !self.headers.is_empty() || server.login.is_some();
        let asking = async {
            let info = flight_info(link, descriptor).await?;
            Offer::of(&info, &server.address, secrets)
        };
        asking
            .await
            .map_err(|error| self.at(&server.address, error))
    }
}

/// What a server says of a flight.
pub(crate) async fn flight_info(link: &Link, descriptor: &FlightDescriptor) -> Result<FlightInfo> {
    let request = descriptor.encode_to_vec();
    let replies = link.unary("GetFlightInfo", &[], &request).await?;
    let reply = replies
        .first()
        .ok_or_else(|| Error::protocol("GetFlightInfo without an answer"))?;
    FlightInfo::decode(&reply[..])
        .map_err(|error| Error::protocol(format!("GetFlightInfo: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_base::codec::proto::Location;

    #[test]
    fn a_socket_is_followed_from_a_socket_only() {
        let at = |uri: &str| Address::of_location(uri).unwrap().unwrap();
        let endpoint = FlightEndpoint {
            location: vec![Location {
                uri: "grpc+unix:///run/s".into(),
            }],
            ..Default::default()
        };
        let near = Endpoint::of(&endpoint, &at("grpc+unix:///run/t"), true).unwrap();
        assert_eq!(near.elsewhere, Some(at("grpc+unix:///run/s")));
        for asked in ["grpc://h:1", "grpc+tls://h:1"] {
            let refused = Endpoint::of(&endpoint, &at(asked), false).unwrap_err();
            assert_eq!(refused.kind, Kind::Protocol);
            assert!(refused.message.contains("/run/s"), "{}", refused.message);
        }
    }
}
