// The ceiling of the bench: bytes over plain loopback TCP, in messages of the size of a
// batch, by blocking send and recv from and into one buffer that is used again and again.
// `--serve` answers for the life of the process; without it one trial is run, with the
// same threads, clock and JSON line as the Flight client has.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <latch>
#include <thread>
#include <vector>

#include "tool.h"

namespace {

// What a client asks for, sent as it lies in memory: both ends are on one machine.
struct Request {
  int64_t get;
  int64_t bytes;
  int64_t message_bytes;
};

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "error: " << what << ": " << std::strerror(errno) << std::endl;
  std::exit(1);
}

bool SendAll(int socket, const void* data, int64_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(socket, at, static_cast<size_t>(size), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    size -= sent;
  }
  return true;
}

bool ReceiveAll(int socket, void* data, int64_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t received = recv(socket, at, static_cast<size_t>(size), 0);
    if (received <= 0) return false;
    at += received;
    size -= received;
  }
  return true;
}

// Moves `bytes` in messages; the last one is shorter.
template <typename Move>
bool Messages(const Request& request, Move&& move) {
  std::vector<char> buffer(static_cast<size_t>(request.message_bytes), 'x');
  for (int64_t left = request.bytes; left > 0; left -= request.message_bytes) {
    if (!move(buffer.data(), std::min(left, request.message_bytes))) return false;
  }
  return true;
}

bool Send(int socket, const Request& request) {
  return Messages(request, [=](char* data, int64_t size) { return SendAll(socket, data, size); });
}

bool Receive(int socket, const Request& request) {
  return Messages(request, [=](char* data, int64_t size) { return ReceiveAll(socket, data, size); });
}

void Answer(int socket) {
  Request request{};
  while (ReceiveAll(socket, &request, sizeof request)) {
    if (request.get) {
      if (!Send(socket, request)) break;
    } else if (!Receive(socket, request) || !SendAll(socket, "k", 1)) {
      break;
    }
  }
  close(socket);
}

[[noreturn]] void Serve() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  auto* address = reinterpret_cast<sockaddr*>(&here);
  if (listener < 0 || bind(listener, address, size) != 0 || listen(listener, 64) != 0 ||
      getsockname(listener, address, &size) != 0) {
    Fail("cannot listen");
  }
  std::cout << "{\"address\": \"127.0.0.1:" << ntohs(here.sin_port) << "\", \"pid\": " << getpid()
            << ", \"software\": \"raw TCP\"}" << std::endl;
  while (true) {
    const int socket = accept(listener, nullptr, nullptr);
    if (socket < 0) Fail("accept");
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::thread(Answer, socket).detach();
  }
}

int Connect(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  const int made = socket(AF_INET, SOCK_STREAM, 0);
  if (inet_pton(AF_INET, address.substr(0, colon).c_str(), &there.sin_addr) != 1 ||
      connect(made, reinterpret_cast<sockaddr*>(&there), sizeof there) != 0) {
    Fail("cannot connect to " + address);
  }
  const int on = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

void Trial(const peer::Flags& flags) {
  const bool get = flags.Text("operation") == "get";
  if (!get && flags.Text("operation") != "put") flags.Refuse("--operation must be get or put");
  const Request request{get, flags.Count("bytes-per-stream"), flags.Count("message-bytes")};
  const auto streams = static_cast<size_t>(flags.Count("streams"));
  std::vector<int> sockets;
  for (size_t i = 0; i < streams; ++i) sockets.push_back(Connect(flags.Text("address")));

  std::vector<int64_t> ends(streams);
  std::latch go(1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < streams; ++i) {
    threads.emplace_back([&, i] {
      char done = 0;
      go.wait();
      const bool ok = SendAll(sockets[i], &request, sizeof request) &&
                      (get ? Receive(sockets[i], request)
                           : Send(sockets[i], request) && ReceiveAll(sockets[i], &done, 1));
      if (!ok) Fail("the peer went away");
      ends[i] = peer::Now();
    });
  }
  const peer::CpuTime before = peer::ProcessCpu();
  const int64_t start = peer::Now();
  go.count_down();
  for (auto& thread : threads) thread.join();
  const peer::CpuTime after = peer::ProcessCpu();
  const int64_t messages = (request.bytes + request.message_bytes - 1) / request.message_bytes;
  std::cout << "{\"operation\": \"" << flags.Text("operation") << "\", \"streams\": " << streams
            << ", \"bytes\": " << request.bytes * static_cast<int64_t>(streams)
            << ", \"interval_ns\": " << *std::max_element(ends.begin(), ends.end()) - start
            << ", \"batches\": " << messages * static_cast<int64_t>(streams)
            << ", \"user_ns\": " << after.user_ns - before.user_ns
            << ", \"system_ns\": " << after.system_ns - before.system_ns << "}" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const peer::Flags flags(argc, argv,
                          {{"serve", "false"},
                           {"exit-with-parent", "false"},
                           {"address", "127.0.0.1:31337"},
                           {"operation", "get"},
                           {"streams", "1"},
                           {"bytes-per-stream", "1000000000"},
                           {"message-bytes", "131072"}});
  if (flags.Set("exit-with-parent")) prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (flags.Set("serve")) Serve();
  Trial(flags);
  return 0;
}
