// A stock Arrow C++ Flight server that speaks the Flight performance protocol.
// It sends what a user of the library would send: a RecordBatchReader behind a
// RecordBatchStream, default options, no tuning. Prints one JSON line when it listens.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <arrow/flight/api.h>
#include <arrow/util/config.h>

#include "peer.h"
#include "tool.h"

namespace flight = arrow::flight;
using arrow::Status;

namespace {

class PeerServer : public flight::FlightServerBase {
 public:
  explicit PeerServer(std::string host) : host_(std::move(host)) {}

  Status GetFlightInfo(const flight::ServerCallContext&, const flight::FlightDescriptor& request,
                       std::unique_ptr<flight::FlightInfo>* info) override {
    ARROW_ASSIGN_OR_RAISE(const peer::Perf perf, peer::DecodePerf(request.cmd));
    ARROW_ASSIGN_OR_RAISE(const auto here, flight::Location::ForGrpcTcp(host_, port()));
    std::vector<flight::FlightEndpoint> endpoints(static_cast<size_t>(perf.stream_count));
    for (int64_t i = 0; i < perf.stream_count; ++i) {
      const peer::Token token{perf, i * perf.records_per_stream, (i + 1) * perf.records_per_stream};
      auto& endpoint = endpoints[static_cast<size_t>(i)];
      endpoint.ticket.ticket = peer::Encode(token);
      endpoint.locations = {here};
    }
    const int64_t rows = perf.stream_count * perf.records_per_stream;
    ARROW_ASSIGN_OR_RAISE(auto made, flight::FlightInfo::Make(*peer::PerfSchema(), request,
                                                              endpoints, rows, -1));
    *info = std::make_unique<flight::FlightInfo>(std::move(made));
    return Status::OK();
  }

  Status DoGet(const flight::ServerCallContext&, const flight::Ticket& request,
               std::unique_ptr<flight::FlightDataStream>* stream) override {
    ARROW_ASSIGN_OR_RAISE(const peer::Token token, peer::DecodeToken(request.ticket));
    ARROW_ASSIGN_OR_RAISE(auto batch, peer::RandomBatch(token.definition.records_per_batch));
    *stream = std::make_unique<flight::RecordBatchStream>(std::make_shared<peer::Repeated>(
        std::move(batch), token.definition.records_per_stream));
    return Status::OK();
  }

  Status DoPut(const flight::ServerCallContext&,
               std::unique_ptr<flight::FlightMessageReader> reader,
               std::unique_ptr<flight::FlightMetadataWriter> writer) override {
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const flight::FlightStreamChunk chunk, reader->Next());
      if (!chunk.data) return Status::OK();
      if (chunk.app_metadata) ARROW_RETURN_NOT_OK(writer->WriteMetadata(*chunk.app_metadata));
    }
  }

  Status DoAction(const flight::ServerCallContext&, const flight::Action& action,
                  std::unique_ptr<flight::ResultStream>* result) override {
    if (action.type != "ping") return Status::NotImplemented("action ", action.type);
    std::vector<flight::Result> results(1);
    results[0].body = arrow::Buffer::FromString("ok");
    *result = std::make_unique<flight::SimpleResultStream>(std::move(results));
    return Status::OK();
  }

 private:
  const std::string host_;
};

Status Serve(const peer::Flags& flags) {
  const int port = static_cast<int>(flags.Count("port", 0));
  ARROW_ASSIGN_OR_RAISE(const auto where, flight::Location::ForGrpcTcp(flags.Text("host"), port));
  PeerServer server(flags.Text("host"));
  ARROW_RETURN_NOT_OK(server.Init(flight::FlightServerOptions(where)));
  ARROW_RETURN_NOT_OK(server.SetShutdownOnSignals({SIGTERM, SIGINT}));
  std::cout << "{\"address\": \"" << flags.Text("host") << ":" << server.port()
            << "\", \"pid\": " << getpid() << ", \"software\": \"arrow-cpp " << ARROW_VERSION_STRING
            << "\"}" << std::endl;
  return server.Serve();
}

}  // namespace

int main(int argc, char** argv) {
  const peer::Flags flags(
      argc, argv, {{"host", "127.0.0.1"}, {"port", "0"}, {"exit-with-parent", "false"}});
  if (flags.Set("exit-with-parent")) prctl(PR_SET_PDEATHSIG, SIGTERM);
  const Status status = Serve(flags);
  if (!status.ok()) std::cerr << "error: " << status.ToString() << std::endl;
  return status.ok() ? 0 : 1;
}
