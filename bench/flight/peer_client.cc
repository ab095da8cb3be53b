// A stock Arrow C++ Flight client that measures a server of the Flight performance
// protocol: one thread and one connection per endpoint, get by reader->Next(), put by
// WriteRecordBatch. The clock runs from the moment all streams may start to the end of
// the last one; planning, connecting (and one call on each connection) and making the
// data come before it, unless --include-setup asks for the interval of Arrow's own tool.
// Prints one JSON line; exits with 1 where the rows are not the expected ones.

#include <algorithm>
#include <latch>
#include <thread>

#include <arrow/flight/api.h>

#include "peer.h"
#include "tool.h"

namespace flight = arrow::flight;
using arrow::Status;

namespace {

// One stream: its connection, and what it has moved.
struct Stream {
  std::unique_ptr<flight::FlightClient> client;
  flight::FlightEndpoint endpoint;
  std::shared_ptr<arrow::RecordBatch> batch;  // what a put sends
  int64_t rows_to_put = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
  int64_t batches = 0;
  int64_t end_ns = 0;
  Status status;

  // gRPC connects at the first call, so one is made: a ping.
  Status Open(const flight::Location& fallback) {
    const auto& where = endpoint.locations.empty() ? fallback : endpoint.locations.front();
    ARROW_ASSIGN_OR_RAISE(client, flight::FlightClient::Connect(where));
    ARROW_ASSIGN_OR_RAISE(auto results, client->DoAction(flight::Action{"ping", nullptr}));
    ARROW_ASSIGN_OR_RAISE(auto result, results->Next());
    return result ? Status::OK() : Status::IOError("ping was not answered");
  }

  void Count(const arrow::RecordBatch& moved) {
    rows += moved.num_rows();
    bytes += moved.num_rows() * moved.num_columns() * static_cast<int64_t>(sizeof(int64_t));
    ++batches;
  }

  Status Get() {
    ARROW_ASSIGN_OR_RAISE(auto reader, client->DoGet(endpoint.ticket));
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const flight::FlightStreamChunk chunk, reader->Next());
      if (!chunk.data) return Status::OK();
      Count(*chunk.data);
    }
  }

  Status Put() {
    const flight::FlightDescriptor nameless{flight::FlightDescriptor::UNKNOWN, "", {}};
    ARROW_ASSIGN_OR_RAISE(auto put, client->DoPut(nameless, batch->schema()));
    peer::Repeated source(batch, rows_to_put);
    std::shared_ptr<arrow::RecordBatch> next;
    while (true) {
      ARROW_RETURN_NOT_OK(source.ReadNext(&next));
      if (!next) break;
      ARROW_RETURN_NOT_OK(put.writer->WriteRecordBatch(*next));
      Count(*next);
    }
    ARROW_RETURN_NOT_OK(put.writer->DoneWriting());
    return put.writer->Close();  // waits for the server's status: everything was read
  }
};

Status Run(const peer::Flags& flags) {
  const bool get = flags.Text("operation") == "get";
  if (!get && flags.Text("operation") != "put") flags.Refuse("--operation must be get or put");
  const peer::Perf perf{flags.Count("streams"), flags.Count("rows-per-stream"),
                        flags.Count("rows-per-batch")};
  const bool include_setup = flags.Set("include-setup");
  ARROW_ASSIGN_OR_RAISE(const auto server, flight::Location::Parse("grpc+tcp://" + flags.Text("address")));
  ARROW_ASSIGN_OR_RAISE(auto planner, flight::FlightClient::Connect(server));
  ARROW_ASSIGN_OR_RAISE(auto ping, planner->DoAction(flight::Action{"ping", nullptr}));
  ARROW_RETURN_NOT_OK(ping->Next().status());

  peer::CpuTime cpu_before = peer::ProcessCpu();
  int64_t start_ns = peer::Now();
  const auto command = flight::FlightDescriptor::Command(peer::Encode(perf));
  ARROW_ASSIGN_OR_RAISE(const auto plan, planner->GetFlightInfo(command));
  std::shared_ptr<arrow::RecordBatch> batch;
  if (!get) {
    ARROW_ASSIGN_OR_RAISE(batch, peer::RandomBatch(perf.records_per_batch));
  }
  std::vector<Stream> streams(plan->endpoints().size());
  for (size_t i = 0; i < streams.size(); ++i) {
    streams[i].endpoint = plan->endpoints()[i];
    streams[i].batch = batch;
    streams[i].rows_to_put = perf.records_per_stream;
    if (!include_setup) ARROW_RETURN_NOT_OK(streams[i].Open(server));
  }

  std::latch go(1);
  std::vector<std::thread> threads;
  for (auto& stream : streams) {
    threads.emplace_back([&] {
      go.wait();
      if (include_setup) stream.status = stream.Open(server);
      if (stream.status.ok()) stream.status = get ? stream.Get() : stream.Put();
      stream.end_ns = peer::Now();
    });
  }
  if (!include_setup) {
    cpu_before = peer::ProcessCpu();
    start_ns = peer::Now();
  }
  go.count_down();
  for (auto& thread : threads) thread.join();
  const peer::CpuTime cpu_after = peer::ProcessCpu();

  Stream sum;
  for (const auto& stream : streams) {
    ARROW_RETURN_NOT_OK(stream.status);
    sum.rows += stream.rows;
    sum.bytes += stream.bytes;
    sum.batches += stream.batches;
    sum.end_ns = std::max(sum.end_ns, stream.end_ns);
  }
  const int64_t expected = perf.stream_count * perf.records_per_stream;
  if (sum.rows != expected || (get && plan->total_records() != expected)) {
    return Status::Invalid("expected ", expected, " rows, moved ", sum.rows, ", planned ",
                           plan->total_records());
  }
  std::cout << "{\"operation\": \"" << flags.Text("operation") << "\", \"streams\": " << streams.size()
            << ", \"rows\": " << sum.rows << ", \"bytes\": " << sum.bytes
            << ", \"interval_ns\": " << sum.end_ns - start_ns << ", \"batches\": " << sum.batches
            << ", \"user_ns\": " << cpu_after.user_ns - cpu_before.user_ns
            << ", \"system_ns\": " << cpu_after.system_ns - cpu_before.system_ns << "}" << std::endl;
  return Status::OK();
}

}  // namespace

int main(int argc, char** argv) {
  const peer::Flags flags(argc, argv,
                          {{"address", "127.0.0.1:31337"},
                           {"operation", "get"},
                           {"streams", "1"},
                           {"rows-per-stream", "10000000"},
                           {"rows-per-batch", "4096"},
                           {"include-setup", "false"}});
  const Status status = Run(flags);
  if (!status.ok()) std::cerr << "error: " << status.ToString() << std::endl;
  return status.ok() ? 0 : 1;
}
