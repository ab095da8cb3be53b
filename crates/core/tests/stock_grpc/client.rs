//! The stock client against our server.

use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::{Action, FlightClient, FlightDescriptor, Ticket};
use futures::{stream, StreamExt, TryStreamExt};
use prost::Message;
use tonic::transport::{Channel, Endpoint};
use venturi_core::codec::perf::{Perf, Token};
use venturi_core::server::flight::Server;

use super::{batch, block_on};

fn serve() -> Server {
    let spec = r#"{"host": "127.0.0.1", "port": 0, "memory_bytes": 100000000}"#;
    Server::start(spec).unwrap()
}

fn endpoint(server: &Server) -> Endpoint {
    Endpoint::from_shared(format!("http://{}", server.address())).unwrap()
}

async fn connect(server: &Server) -> Channel {
    endpoint(server).connect().await.unwrap()
}

fn path(name: &str) -> FlightDescriptor {
    FlightDescriptor::new_path(vec![name.to_owned()])
}

/// A ticket for so many rows of the perf protocol.
fn perf(rows: i64, per_batch: i32) -> Ticket {
    let definition = Perf {
        schema: vec![],
        stream_count: 1,
        records_per_stream: rows,
        records_per_batch: per_batch,
    };
    let token = Token {
        definition: Some(definition),
        start: 0,
        end: rows,
    };
    Ticket::new(token.encode_to_vec())
}

async fn put(channel: Channel, name: &str, batches: Vec<RecordBatch>) -> Result<(), FlightError> {
    let messages = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(path(name)))
        .build(stream::iter(batches.into_iter().map(Ok)));
    let answers = FlightClient::new(channel).do_put(messages).await?;
    answers.try_for_each(|_| async { Ok(()) }).await
}

async fn get(channel: Channel, ticket: Ticket) -> Result<usize, FlightError> {
    let batches = FlightClient::new(channel).do_get(ticket).await?;
    let rows = |sum, batch: RecordBatch| async move { Ok(sum + batch.num_rows()) };
    batches.try_fold(0, rows).await
}

async fn act(channel: Channel, name: &str, body: &str) -> Result<Vec<u8>, FlightError> {
    let action = Action::new(name.to_owned(), body.to_owned().into_bytes());
    let answers = FlightClient::new(channel).do_action(action).await?;
    let answers: Vec<_> = answers.try_collect().await?;
    Ok(answers.concat())
}

async fn used(channel: Channel) -> u64 {
    let text = act(channel, "statistics", "").await.unwrap();
    let statistics: serde_json::Value = serde_json::from_slice(&text).unwrap();
    statistics["memory_used_bytes"].as_u64().unwrap()
}

fn code(error: FlightError) -> tonic::Code {
    match error {
        FlightError::Tonic(status) => status.code(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_table_there_and_back() {
    let server = serve();
    block_on(async {
        let channel = connect(&server).await;
        let sent: Vec<_> = (1..4).map(|k| batch(k * 1000)).collect();
        put(channel.clone(), "t", sent.clone()).await.unwrap();
        let mut client = FlightClient::new(channel.clone());
        let info = client.get_flight_info(path("t")).await.unwrap();
        assert_eq!(info.total_records, 6000);
        let schema = client.get_schema(path("t")).await.unwrap();
        assert_eq!(schema, *sent[0].schema());
        let listed: Vec<_> = client
            .list_flights(vec![])
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        assert_eq!(listed.len(), 1);
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let received: Vec<_> = client
            .do_get(ticket)
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        assert_eq!(received, sent);
        assert_eq!(act(channel.clone(), "ping", "").await.unwrap(), b"ok");
        let actions: Vec<_> = client
            .list_actions()
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        assert!(actions.iter().any(|action| action.r#type == "drop"));
        act(channel.clone(), "drop", "t").await.unwrap();
        let gone = client.get_flight_info(path("t")).await.unwrap_err();
        assert_eq!(code(gone), tonic::Code::NotFound);
        let unknown = act(channel.clone(), "dance", "").await.unwrap_err();
        assert_eq!(code(unknown), tonic::Code::Unimplemented);
        let ticket = get(channel, Ticket::new("nonsense")).await.unwrap_err();
        assert_eq!(code(ticket), tonic::Code::InvalidArgument);
    });
}

/// Gets, puts and actions at once on one connection, in windows of 64 KiB and smaller.
#[test]
fn many_calls_on_one_channel() {
    for window in [None, Some(1000), Some(1 << 20)] {
        let server = serve();
        block_on(async {
            let endpoint = endpoint(&server).initial_stream_window_size(window);
            let channel = endpoint.connect().await.unwrap();
            let gets = (0..6).map(|_| get(channel.clone(), perf(50_000, 4096)));
            let puts = (0..4).map(|k| {
                let channel = channel.clone();
                async move { put(channel, &format!("t{k}"), vec![batch(4000); 5]).await }
            });
            let pings = (0..20).map(|_| act(channel.clone(), "ping", ""));
            let (gets, puts, pings) = futures::join!(
                futures::future::join_all(gets),
                futures::future::join_all(puts),
                futures::future::join_all(pings)
            );
            gets.into_iter()
                .for_each(|rows| assert_eq!(rows.unwrap(), 50_000));
            puts.into_iter().for_each(|put| put.unwrap());
            pings
                .into_iter()
                .for_each(|ping| assert_eq!(ping.unwrap(), b"ok"));
            for k in 0..4 {
                let mut client = FlightClient::new(channel.clone());
                let info = client.get_flight_info(path(&format!("t{k}")));
                assert_eq!(info.await.unwrap().total_records, 20_000);
            }
        });
    }
}

#[test]
fn a_slow_reader() {
    let server = serve();
    block_on(async {
        let channel = connect(&server).await;
        let mut batches = FlightClient::new(channel)
            .do_get(perf(200_000, 4096))
            .await
            .unwrap();
        let mut rows = 0;
        while let Some(batch) = batches.next().await {
            rows += batch.unwrap().num_rows();
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        assert_eq!(rows, 200_000);
    });
}

#[test]
fn calls_given_up_leave_nothing_behind() {
    let server = serve();
    block_on(async {
        let channel = connect(&server).await;
        for _ in 0..20 {
            let mut client = FlightClient::new(channel.clone());
            let mut batches = client.do_get(perf(1 << 40, 4096)).await.unwrap();
            assert_eq!(batches.next().await.unwrap().unwrap().num_rows(), 4096);
        }
        let whole = get(channel, perf(10_000, 1000)).await;
        assert_eq!(whole.unwrap(), 10_000);
    });
    // What gets read from is kept for the next one.
    let kept = block_on(async { used(connect(&server).await).await });
    // hyper goes on with a request whose answer nobody awaits: only the end of its runtime
    // ends this put.
    block_on(async {
        let channel = connect(&server).await;
        let slowly = stream::iter(std::iter::repeat_with(|| Ok(batch(1000)))).then(|batch| async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            batch
        });
        let messages = FlightDataEncoderBuilder::new()
            .with_flight_descriptor(Some(path("t")))
            .build(slowly);
        let mut client = FlightClient::new(channel.clone());
        let putting = async { client.do_put(messages).await.unwrap().count().await };
        let given_up = tokio::time::timeout(Duration::from_millis(100), putting).await;
        assert!(given_up.is_err());
        assert!(used(channel).await > kept);
    });
    block_on(async {
        let channel = connect(&server).await;
        for _ in 0..100 {
            if used(channel.clone()).await == kept {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(used(channel.clone()).await, kept);
    });
}

#[test]
fn a_refused_put_says_why_and_the_channel_lives_on() {
    let server = serve();
    block_on(async {
        let channel = connect(&server).await;
        // 3.2 MB each: more than the server's 100 MB with the 32nd.
        let too_much = put(channel.clone(), "t", vec![batch(100_000); 40]).await;
        assert_eq!(code(too_much.unwrap_err()), tonic::Code::ResourceExhausted);
        put(channel.clone(), "t", vec![batch(10)]).await.unwrap();
        // A batch of one page, and the table that has it.
        let held = used(channel).await;
        assert!((4096..10_000).contains(&held), "{held}");
    });
}

#[test]
fn long_headers() {
    let server = serve();
    block_on(async {
        let channel = connect(&server).await;
        for (length, fits) in [(10, true), (30_000, true), (60_000, true), (100_000, false)] {
            let mut client = FlightClient::new(channel.clone());
            client.add_header("x-long", &"y".repeat(length)).unwrap();
            let answer = client.get_schema(path("t")).await.map_err(code);
            let found = answer == Err(tonic::Code::NotFound);
            assert_eq!(found, fits, "{length}: {answer:?}");
        }
        let again = connect(&server).await;
        assert_eq!(act(again, "ping", "").await.unwrap(), b"ok");
    });
}
