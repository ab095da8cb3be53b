//! A stock gRPC stack (tonic over h2, with arrow-flight) as an independent peer: its client
//! against our server, our client against its server.

mod client;
mod peer;
mod server;

use arrow_array::RecordBatch;
use venturi_core::data::records;
use venturi_core::spec::Values;

/// Every test has a runtime of its own, and ends in time.
fn block_on<T>(future: impl std::future::Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let limit = std::time::Duration::from_secs(10);
        tokio::time::timeout(limit, future).await.expect("in time")
    })
}

fn batch(rows: usize) -> RecordBatch {
    records::batch(4, rows, Values::Sequential, 0).unwrap()
}
