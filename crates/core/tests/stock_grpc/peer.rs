//! A small Flight server on the stock stack.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::*;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use super::batch;

/// A ticket is `rows` (ten batches of 100 rows), `fails` (an error after the third),
/// `closed` (refused at once).
#[derive(Default)]
pub struct Peer {
    /// Batches of all puts.
    pub batches: Arc<AtomicU64>,
}

type Answer<T> = std::result::Result<Response<T>, Status>;
type Many<T> = BoxStream<'static, std::result::Result<T, Status>>;

impl Peer {
    /// Runs on a thread of its own; returns where it listens.
    pub fn start(self) -> String {
        let (send, address) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
                send.send(incoming.local_addr().unwrap()).unwrap();
                let service = FlightServiceServer::new(self);
                let server = tonic::transport::Server::builder().add_service(service);
                server.serve_with_incoming(incoming).await.unwrap();
            });
        });
        address.recv().unwrap().to_string()
    }

    fn info(&self, name: &str) -> std::result::Result<FlightInfo, Status> {
        let (tickets, rows) = match name {
            "one" => (vec!["rows"], 1000),
            "three" => (vec!["rows"; 3], 3000),
            "unsure" => (vec!["rows"], -1),
            "lies" => (vec!["rows"], 1001),
            "fails" => (vec!["rows", "fails"], 2000),
            _ => return Err(Status::not_found(format!("no {name} here"))),
        };
        let info = FlightInfo::new()
            .try_with_schema(&batch(1).schema())
            .map_err(|error| Status::internal(error.to_string()))?
            .with_total_records(rows);
        Ok(tickets.into_iter().fold(info, |info, ticket| {
            info.with_endpoint(FlightEndpoint::new().with_ticket(Ticket::new(ticket)))
        }))
    }
}

#[tonic::async_trait]
impl FlightService for Peer {
    type HandshakeStream = Many<HandshakeResponse>;
    type ListFlightsStream = Many<FlightInfo>;
    type DoGetStream = Many<FlightData>;
    type DoPutStream = Many<PutResult>;
    type DoExchangeStream = Many<FlightData>;
    type DoActionStream = Many<arrow_flight::Result>;
    type ListActionsStream = Many<ActionType>;

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        let descriptor = request.into_inner();
        let command = String::from_utf8_lossy(&descriptor.cmd).into_owned();
        let name = descriptor.path.first().cloned().unwrap_or(command);
        self.info(&name).map(Response::new)
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let ticket = request.into_inner().ticket;
        let fails = match &ticket[..] {
            b"rows" => false,
            b"fails" => true,
            _ => return Err(Status::permission_denied("closed")),
        };
        let batches = (0..10).map(move |k| match fails && k == 3 {
            true => Err(Status::data_loss("the disk, the disk").into()),
            false => Ok(batch(100)),
        });
        let messages = FlightDataEncoderBuilder::new().build(stream::iter(batches));
        Ok(Response::new(messages.map_err(Status::from).boxed()))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        let mut messages = request.into_inner();
        let first = messages.message().await?;
        let path = first
            .and_then(|first| first.flight_descriptor)
            .unwrap_or_default()
            .path;
        if path == ["refused"] {
            return Err(Status::resource_exhausted("no room"));
        }
        let counted = self.batches.clone();
        let drops = path == ["fails"];
        let acknowledged = messages.filter_map(move |message| {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            std::future::ready(match message {
                Ok(_) if drops && number == 5 => Some(Err(Status::aborted("enough"))),
                Ok(data) if data.app_metadata.is_empty() => None,
                Ok(data) => Some(Ok(PutResult {
                    app_metadata: data.app_metadata,
                })),
                Err(status) => Some(Err(status)),
            })
        });
        Ok(Response::new(acknowledged.boxed()))
    }

    async fn do_action(&self, _: Request<Action>) -> Answer<Self::DoActionStream> {
        Err(Status::unimplemented("no actions"))
    }
    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        Err(Status::unimplemented("no handshake"))
    }
    async fn list_flights(&self, _: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        Err(Status::unimplemented("no list"))
    }
    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<PollInfo> {
        Err(Status::unimplemented("no poll"))
    }
    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        Err(Status::unimplemented("no schema"))
    }
    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        Err(Status::unimplemented("no exchange"))
    }
    async fn list_actions(&self, _: Request<Empty>) -> Answer<Self::ListActionsStream> {
        Err(Status::unimplemented("no actions"))
    }
}
