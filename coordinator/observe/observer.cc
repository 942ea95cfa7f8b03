#include "coordinator/observe/observer.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/cluster/control.h"

namespace coxswain::observe {
namespace {

// One question to one task.
class Question final : public net::ConnectionHandler {
 public:
  explicit Question(std::string address)
      : answer_(absl::UnavailableError(absl::StrCat("no answer from ", address))) {}

  void OnMessage(net::Message message) override {
    if (message.type != static_cast<uint16_t>(net::MessageType::kControlReply)) return;
    auto reply = cluster::DecodeControl<proto::ControlReply>(message);
    if (!reply.ok()) {
      Answer(reply.status());
    } else if (!reply->has_task_status()) {
      Answer(absl::InternalError("answered something else"));
    } else {
      Answer(reply->task_status());
    }
  }
  void OnClosed(absl::Status status) override {
    Answer(status.ok() ? absl::UnavailableError("closed the connection") : status);
  }

  absl::StatusOr<proto::TaskStatus> Wait(absl::Time deadline) {
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithDeadline(absl::Condition(&answered_), deadline);
    return answer_;
  }

 private:
  void Answer(absl::StatusOr<proto::TaskStatus> answer) {
    absl::MutexLock lock(&mu_);
    if (answered_) return;
    answered_ = true;
    answer_ = std::move(answer);
  }

  absl::Mutex mu_;
  bool answered_ ABSL_GUARDED_BY(mu_) = false;
  absl::StatusOr<proto::TaskStatus> answer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::vector<absl::StatusOr<proto::TaskStatus>> ObserveTasks(
    net::Transport* transport, const std::vector<std::string>& addresses, absl::Duration timeout) {
  std::vector<std::shared_ptr<Question>> questions;
  std::vector<std::shared_ptr<net::Connection>> connections;
  for (const std::string& address : addresses) {
    questions.push_back(std::make_shared<Question>(address));
    // The transport knows why there is no connection, and is to say it in time.
    auto connection = transport->Connect(address, 0.8 * timeout, questions.back());
    proto::HelloRequest hello;
    hello.set_role(proto::OBSERVER);
    connection->Send(cluster::EncodeControl(net::MessageType::kHello, hello));
    proto::ControlRequest request;
    request.set_request(1);
    request.mutable_status()->set_staleness(true);
    connection->Send(cluster::EncodeControl(net::MessageType::kControl, request));
    connections.push_back(std::move(connection));
  }
  const absl::Time deadline = absl::Now() + timeout;
  std::vector<absl::StatusOr<proto::TaskStatus>> answers;
  for (auto& question : questions) answers.push_back(question->Wait(deadline));
  for (auto& connection : connections) connection->Close(absl::OkStatus());
  return answers;
}

}  // namespace coxswain::observe
