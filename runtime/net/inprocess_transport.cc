// The transport between tasks of one process. A connection is two inboxes; to send is to push into
// the peer's. The one thread there is opens connections, so that Connect calls no handler itself.
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/logging.h"
#include "runtime/net/inbox.h"
#include "runtime/net/transport.h"
#include "runtime/net/weak_list.h"
#include "runtime/net/wire_format.h"

namespace coxswain::net {
namespace {

enum Side { kClient = 0, kServer = 1 };

struct Link {
  explicit Link(size_t max_bytes) : max_message_bytes(max_bytes) {}

  const size_t max_message_bytes;
  Inbox inbox[2];
  std::string name[2];  // of the task at that side, as its peer sees it

  void Close(const absl::Status& reason, Side by) {
    inbox[1 - by].Close(reason);
    inbox[by].Close(reason);
  }
};

class InProcessConnection final : public Connection {
 public:
  InProcessConnection(std::shared_ptr<Link> link, Side side)
      : link_(std::move(link)), side_(side) {}
  ~InProcessConnection() override { link_->Close(absl::OkStatus(), side_); }

  // The handler that is called may drop this object: what is still needed is held here.
  void Send(Message message) override {
    const std::shared_ptr<Link> link = link_;
    if (link->inbox[side_].closed()) return;
    if (link->max_message_bytes < std::numeric_limits<size_t>::max() &&
        message.wire_bytes() > link->max_message_bytes) {
      link->Close(TooLarge(peer(), message.wire_bytes(), link->max_message_bytes), side_);
      return;
    }
    link->inbox[1 - side_].Push(std::move(message));
  }

  void Close(absl::Status reason) override {
    const std::shared_ptr<Link> link = link_;
    link->Close(reason, side_);
  }

  std::string peer() const override { return link_->name[1 - side_]; }
  size_t max_message_bytes() const override { return link_->max_message_bytes; }

 private:
  const std::shared_ptr<Link> link_;
  const Side side_;
};

// What is known of one Listen().
struct Acceptor {
  AcceptFunction accept;
  absl::Mutex mu;
  bool stopped ABSL_GUARDED_BY(mu) = false;
  WeakList<Link> links ABSL_GUARDED_BY(mu);
};

// Shared by a transport and its listeners, which may go in any order.
struct Addresses {
  absl::Mutex mu;
  std::map<std::string, std::shared_ptr<Acceptor>> acceptors ABSL_GUARDED_BY(mu);
};

class InProcessListener final : public Listener {
 public:
  InProcessListener(std::shared_ptr<Addresses> addresses, std::shared_ptr<Acceptor> acceptor,
                    std::string address)
      : addresses_(std::move(addresses)),
        acceptor_(std::move(acceptor)),
        address_(std::move(address)) {}

  ~InProcessListener() override {
    {
      absl::MutexLock lock(&addresses_->mu);
      addresses_->acceptors.erase(address_);
    }
    std::vector<std::shared_ptr<Link>> links;
    {
      absl::MutexLock lock(&acceptor_->mu);
      acceptor_->stopped = true;
      links = acceptor_->links.Live();
    }
    const absl::Status reason =
        absl::UnavailableError(absl::StrCat("the listener at ", address_, " ended"));
    for (const auto& link : links) link->Close(reason, kServer);
    // A link whose connection is being accepted is done after that, so no accept outlives this.
    for (const auto& link : links) link->inbox[kServer].WaitDone();
  }

  std::string address() const override { return address_; }

 private:
  const std::shared_ptr<Addresses> addresses_;
  const std::shared_ptr<Acceptor> acceptor_;
  const std::string address_;
};

class InProcessTransport final : public Transport {
 public:
  explicit InProcessTransport(size_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}

  ~InProcessTransport() override {
    std::thread thread;
    std::vector<std::shared_ptr<Link>> links;
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
      thread = std::move(thread_);
      links = links_.Live();
    }
    COX_CHECK(thread.get_id() != std::this_thread::get_id(),
              "a transport is destroyed by one of its own handlers");
    if (thread.joinable()) thread.join();  // opens what is waiting to be opened
    const absl::Status reason = absl::UnavailableError("the transport ended");
    for (const auto& link : links) link->Close(reason, kClient);
    for (const auto& link : links) link->inbox[kClient].WaitDone();
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFunction accept) override {
    if (address.empty()) {
      return absl::InvalidArgumentError("the address to listen at is empty");
    }
    auto acceptor = std::make_shared<Acceptor>();
    acceptor->accept = std::move(accept);
    absl::MutexLock lock(&addresses_->mu);
    if (!addresses_->acceptors.emplace(address, acceptor).second) {
      return absl::UnavailableError(absl::StrCat("the address ", address, " is taken"));
    }
    return std::make_unique<InProcessListener>(addresses_, std::move(acceptor), address);
  }

  std::shared_ptr<Connection> Connect(const std::string& address, absl::Duration /*timeout*/,
                                      std::shared_ptr<ConnectionHandler> handler) override {
    auto link = std::make_shared<Link>(max_message_bytes_);
    link->name[kServer] = address;
    auto connection = std::make_shared<InProcessConnection>(link, kClient);
    absl::MutexLock lock(&mu_);
    link->name[kClient] = absl::StrCat("client ", ++connects_, " of ", address);
    if (stopping_) return connection;
    links_.Add(link);
    pending_.push_back([this, link, address, handler = std::move(handler)]() mutable {
      Open(link, address, std::move(handler));
    });
    if (!thread_.joinable()) thread_ = std::thread([this] { OpenPending(); });
    return connection;
  }

  bool in_process() const override { return true; }

 private:
  void OpenPending() {
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stopping_ || !pending_.empty();
    };
    for (;;) {
      std::function<void()> open;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(&ready));
        if (pending_.empty()) return;
        open = std::move(pending_.front());
        pending_.pop_front();
      }
      open();
    }
  }

  void Open(const std::shared_ptr<Link>& link, const std::string& address,
            std::shared_ptr<ConnectionHandler> handler) {
    const std::shared_ptr<Acceptor> acceptor = FindAndAdd(address, link);
    if (acceptor == nullptr) {
      link->Close(absl::UnavailableError(absl::StrCat("nobody listens at ", address)), kServer);
      link->inbox[kServer].Open(nullptr);
    } else {
      const auto connection = std::make_shared<InProcessConnection>(link, kServer);
      std::shared_ptr<ConnectionHandler> accepted = acceptor->accept(connection);
      if (accepted == nullptr) {
        link->Close(absl::UnavailableError(absl::StrCat(address, " refused the connection")),
                    kServer);
      }
      link->inbox[kServer].Open(std::move(accepted));
    }
    link->inbox[kClient].Open(std::move(handler));
  }

  // The acceptor at `address`, which from now on closes `link` when it ends; nullptr if none.
  std::shared_ptr<Acceptor> FindAndAdd(const std::string& address,
                                       const std::shared_ptr<Link>& link) {
    std::shared_ptr<Acceptor> acceptor;
    {
      absl::MutexLock lock(&addresses_->mu);
      auto it = addresses_->acceptors.find(address);
      if (it == addresses_->acceptors.end()) return nullptr;
      acceptor = it->second;
    }
    absl::MutexLock lock(&acceptor->mu);
    if (acceptor->stopped) return nullptr;
    acceptor->links.Add(link);
    return acceptor;
  }

  const size_t max_message_bytes_;
  const std::shared_ptr<Addresses> addresses_ = std::make_shared<Addresses>();
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  int64_t connects_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<std::function<void()>> pending_ ABSL_GUARDED_BY(mu_);
  WeakList<Link> links_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<Transport> NewInProcessTransport(size_t max_message_bytes) {
  return std::make_unique<InProcessTransport>(max_message_bytes);
}

}  // namespace coxswain::net
