#include "tests/bench/coordinator/fake_workers.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "absl/strings/str_cat.h"
#include "coordinator/local/local_tasks.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/cluster/control.h"
#include "runtime/env/env.h"
#include "runtime/function/frame.h"
#include "runtime/net/transport.h"

namespace coxswain {
namespace {

constexpr int kPerProcess = 250;
constexpr char kListening[] = "listening on ";

uint64_t NewIncarnation() {
  std::random_device device;
  return uint64_t{device()} << 32 | device() | 1;
}

// One connection of a coordinator.
class FakeWorker final : public net::ConnectionHandler {
 public:
  FakeWorker(int task, uint64_t incarnation, std::shared_ptr<net::Connection> connection)
      : task_(task), incarnation_(incarnation), connection_(std::move(connection)) {}

  void OnMessage(net::Message message) override {
    switch (static_cast<net::MessageType>(message.type)) {
      case net::MessageType::kHello:
        return Greet();
      case net::MessageType::kPing: {
        const auto ping = cluster::DecodeControl<proto::PingRequest>(message);
        proto::PongReply pong;
        if (ping.ok()) pong.set_session(ping->session());
        pong.set_incarnation(incarnation_);
        connection_->Send(cluster::EncodeControl(net::MessageType::kPong, pong));
        return;
      }
      case net::MessageType::kControl: {
        const auto request = cluster::DecodeControl<proto::ControlRequest>(message);
        if (!request.ok()) return connection_->Close(request.status());
        proto::ControlReply reply;
        reply.set_request(request->request());
        *reply.mutable_status() = cluster::ToProto(absl::OkStatus());
        if (request->has_status()) FillStatus(reply.mutable_task_status());
        connection_->Send(cluster::EncodeControl(net::MessageType::kControlReply, reply));
        return;
      }
      case net::MessageType::kRunClosure: {
        const auto closure = function::DecodeClosureRequest(std::move(message));
        if (!closure.ok()) return connection_->Close(closure.status());
        function::ClosureReply reply;
        reply.session = closure->session;
        reply.closure = closure->closure;
        reply.attempt = closure->attempt;
        reply.status = absl::OkStatus();
        reply.results = {Tensor::Scalar<float>(0)};
        connection_->Send(function::Encode(std::move(reply)));
        return;
      }
      default:
        connection_->Close(absl::InvalidArgumentError("no message for a worker"));
    }
  }
  void OnClosed(absl::Status) override { connection_.reset(); }

 private:
  void Greet() {
    proto::HelloReply reply;
    *reply.mutable_status() = cluster::ToProto(absl::OkStatus());
    reply.set_job("worker");
    reply.set_task(task_);
    reply.set_incarnation(incarnation_);
    reply.set_version(kVersion);
    reply.set_fresh(true);
    connection_->Send(cluster::EncodeControl(net::MessageType::kHelloReply, reply));
  }
  void FillStatus(proto::TaskStatus* status) const {
    status->set_job("worker");
    status->set_task(task_);
    status->set_incarnation(incarnation_);
  }

  const int task_;
  const uint64_t incarnation_;
  std::shared_ptr<net::Connection> connection_;
};

// Adds the addresses that a child tells.
absl::Status ReadAddresses(int fd, int count, std::vector<std::string>* addresses) {
  FILE* file = fdopen(fd, "r");
  if (file == nullptr) return absl::InternalError("cannot read what the fake workers say");
  char line[256];
  int read = 0;
  while (read < count && fgets(line, sizeof(line), file) != nullptr) {
    absl::string_view text = absl::string_view(line);
    const size_t at = text.find(kListening);
    if (at == absl::string_view::npos) continue;
    text.remove_prefix(at + sizeof(kListening) - 1);
    addresses->push_back(std::string(text.substr(0, text.find('\n'))));
    ++read;
  }
  fclose(file);
  if (read == count) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("a process of fake workers ended after ", read, " of ", count, " addresses"));
}

}  // namespace

int RunFakeWorkers(int first, int count) {
  const auto env = env::NewRealEnv(1);  // as a daemon has it
  const auto transport = net::NewGrpcTransport();
  std::vector<std::unique_ptr<net::Listener>> listeners;
  for (int task = first; task < first + count; ++task) {
    auto listener = transport->Listen(
        "127.0.0.1:0",
        [task, incarnation = NewIncarnation()](std::shared_ptr<net::Connection> connection) {
          return std::make_shared<FakeWorker>(task, incarnation, std::move(connection));
        });
    if (!listener.ok()) {
      std::fprintf(stderr, "%s\n", std::string(listener.status().message()).c_str());
      return 4;
    }
    std::printf("%s%s\n", kListening, (*listener)->address().c_str());
    listeners.push_back(*std::move(listener));
  }
  std::fflush(stdout);
  while (true) pause();
}

absl::StatusOr<std::unique_ptr<FakeWorkers>> FakeWorkers::Start(int count) {
  auto workers = std::make_unique<FakeWorkers>();
  ASSIGN_OR_RETURN(const std::string directory, local::ProgramDirectory());
  std::vector<int> pipes;
  absl::Status status;
  for (int first = 0; first < count && status.ok(); first += kPerProcess) {
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) return absl::InternalError("cannot make a pipe");
    local::ChildOptions options;
    options.command = {absl::StrCat(directory, "/coxswain-bench"), "fake-workers",
                       absl::StrCat(first), absl::StrCat(std::min(kPerProcess, count - first))};
    options.out = out[1];
    options.death_signal = SIGKILL;
    auto child = local::Child::Start(options);
    close(out[1]);
    pipes.push_back(out[0]);
    status = child.status();
    if (child.ok()) workers->children_.push_back(*std::move(child));
  }
  for (size_t i = 0; i < pipes.size(); ++i) {
    if (!status.ok()) {
      close(pipes[i]);
      continue;
    }
    const int first = static_cast<int>(i) * kPerProcess;
    status = ReadAddresses(pipes[i], std::min(kPerProcess, count - first), &workers->addresses_);
  }
  RETURN_IF_ERROR(status);
  return workers;
}

}  // namespace coxswain
