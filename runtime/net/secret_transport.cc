// The handshake from the end that connects (Connector) and from the one that listens (Arrival), and
// the transport around them.
#include "runtime/net/secret_transport.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/status.h"
#include "runtime/net/message_type.h"
#include "runtime/net/pass.h"
#include "runtime/net/poller.h"

namespace coxswain::net {
namespace {

constexpr char kVersion = 1;
constexpr size_t kNonce = kNonceBytes, kProof = kProofBytes;

Message Handshake(MessageType type, std::string header) {
  Message message;
  message.type = static_cast<uint16_t>(type);
  message.header = std::move(header);
  return message;
}

bool Is(const Message& message, MessageType type) {
  return message.type == static_cast<uint16_t>(type);
}

// What the two ends prove. They differ, so that neither can be handed its own proof.
std::string ListenerProves(absl::string_view nonces) {
  return absl::StrCat("coxswain listener ", nonces);
}
std::string ConnectorProves(absl::string_view nonces, uint16_t type, absl::string_view header) {
  return absl::StrCat("coxswain connector ", nonces, absl::string_view("\0", 1), type,
                      absl::string_view("\0", 1), header);
}

// The end that connects.
class Connector final : public ConnectionHandler {
 public:
  Connector(std::string address, std::shared_ptr<const Secret> secret,
            std::shared_ptr<ConnectionHandler> handler)
      : address_(std::move(address)), secret_(std::move(secret)), handler_(std::move(handler)) {}

  // `inner` is the connection that this object handles.
  void Begin(const std::shared_ptr<Connection>& inner) {
    {
      absl::MutexLock lock(&mu_);
      inner_ = inner;
    }
    inner->Send(Handshake(MessageType::kAuthHello, std::string(1, kVersion) + nonce_));
  }

  void Send(const std::shared_ptr<Connection>& inner, Message message) {
    if (open_.load(std::memory_order_acquire)) {
      inner->Send(std::move(message));
      return;
    }
    bool first = false;
    {
      absl::MutexLock lock(&mu_);
      if (closed_) return;
      // Again, under the lock: whoever sent what waited may have ended since.
      if (!open_.load(std::memory_order_relaxed)) {
        waiting_.push_back(std::move(message));
        if (nonces_.empty() || sending_) return;
        sending_ = true;
        first = true;
      }
    }
    if (first) {
      SendWaiting(inner);
    } else {
      inner->Send(std::move(message));
    }
  }

  void OnMessage(Message message) override {
    if (proven_) {
      handler_->OnMessage(std::move(message));
      return;
    }
    std::shared_ptr<Connection> inner;
    {
      absl::MutexLock lock(&mu_);
      inner = inner_.lock();
    }
    if (inner == nullptr) return;  // it is being closed
    if (!Is(message, MessageType::kAuthChallenge) || message.header.size() != kNonce + kProof) {
      inner->Close(AsksForNoSecret(address_));
      return;
    }
    std::string nonces = nonce_ + message.header.substr(0, kNonce);
    if (!secret_->Proves(ListenerProves(nonces),
                         absl::string_view(message.header).substr(kNonce))) {
      inner->Close(AnotherSecret(address_, *secret_));
      return;
    }
    proven_ = true;
    {
      absl::MutexLock lock(&mu_);
      nonces_ = std::move(nonces);
      if (waiting_.empty() || sending_) return;
      sending_ = true;
    }
    SendWaiting(inner);
  }

  void OnClosed(absl::Status status) override {
    {
      absl::MutexLock lock(&mu_);
      closed_ = true;
      waiting_.clear();
    }
    // The other end's word, before or after its proof.
    if (absl::IsUnauthenticated(status) && !GetDetail(status)) {
      status = SecretRefused(address_, absl::StrCat("refused this process: ", status.message()));
    }
    handler_->OnClosed(std::move(status));
  }

 private:
  // The first message with the proof, and what has come since, in order. One caller at a time, who
  // holds no lock.
  void SendWaiting(const std::shared_ptr<Connection>& inner) {
    for (;;) {
      std::deque<Message> batch;
      std::string nonces;
      {
        absl::MutexLock lock(&mu_);
        batch.swap(waiting_);
        if (batch.empty()) {
          open_.store(true, std::memory_order_release);
          return;
        }
        nonces = std::exchange(first_sent_, true) ? "" : nonces_;
      }
      if (!nonces.empty()) {
        const Message& first = batch.front();
        std::string header = secret_->Proof(ConnectorProves(nonces, first.type, first.header));
        header.append(reinterpret_cast<const char*>(&first.type), sizeof(first.type));
        header.append(first.header);
        Message proof = Handshake(MessageType::kAuthProof, std::move(header));
        proof.payload = first.payload;
        inner->Send(std::move(proof));
        batch.pop_front();
      }
      for (Message& message : batch) inner->Send(std::move(message));
    }
  }

  const std::string address_;
  const std::shared_ptr<const Secret> secret_;
  const std::shared_ptr<ConnectionHandler> handler_;
  const std::string nonce_ = NewNonce();
  bool proven_ = false;            // of the handler's calls: the other end is
  std::atomic<bool> open_{false};  // nothing waits any more
  absl::Mutex mu_;
  std::weak_ptr<Connection> inner_ ABSL_GUARDED_BY(mu_);
  std::string nonces_ ABSL_GUARDED_BY(mu_);  // once the other end is proven
  std::deque<Message> waiting_ ABSL_GUARDED_BY(mu_);
  bool sending_ ABSL_GUARDED_BY(mu_) = false;
  bool first_sent_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

class SecretConnection final : public Connection {
 public:
  SecretConnection(std::shared_ptr<Connector> connector, std::shared_ptr<Connection> inner)
      : connector_(std::move(connector)), inner_(std::move(inner)) {}
  void Send(Message message) override {
    // The handler that is called may drop this object.
    const std::shared_ptr<Connector> connector = connector_;
    const std::shared_ptr<Connection> inner = inner_;
    connector->Send(inner, std::move(message));
  }
  void Close(absl::Status reason) override {
    const std::shared_ptr<Connection> inner = inner_;
    inner->Close(std::move(reason));
  }
  std::string peer() const override { return inner_->peer(); }
  size_t max_message_bytes() const override { return inner_->max_message_bytes(); }

 private:
  const std::shared_ptr<Connector> connector_;
  const std::shared_ptr<Connection> inner_;
};

// What the connections of one listener share. Thread-safe.
struct Door {
  const std::shared_ptr<const Secret> secret;
  const AcceptFunction accept;
  const std::shared_ptr<Strangers> strangers;
  Complaints complaints;
};

// The end that listens, until it knows whom it has before it; then it only hands on. Its calls do
// not overlap.
class Arrival final : public ConnectionHandler {
 public:
  Arrival(std::shared_ptr<Door> door, std::shared_ptr<Connection> connection)
      : door_(std::move(door)), connection_(std::move(connection)) {}

  // False: there is no room for one more who has proven nothing.
  bool Enter() {
    number_ = door_->strangers->Enter(
        [door = door_, weak = std::weak_ptr<Connection>(connection_)](absl::string_view why) {
          const auto connection = weak.lock();
          if (connection == nullptr) return;
          door->complaints.Say(connection->peer(), why);
          connection->Close(absl::UnavailableError(why));
        });
    return number_ != 0;
  }

  void OnMessage(Message message) override {
    if (handler_ != nullptr) {
      handler_->OnMessage(std::move(message));
    } else if (connection_ == nullptr) {
      return;  // refused
    } else if (nonces_.empty()) {
      Challenge(message);
    } else {
      Check(std::move(message));
    }
  }

  void OnClosed(absl::Status status) override {
    door_->strangers->Leave(number_);
    if (handler_ != nullptr) {
      handler_->OnClosed(std::move(status));
    } else if (connection_ != nullptr && absl::IsUnauthenticated(status)) {
      door_->complaints.Say(connection_->peer(),
                            "it has another secret than this process, and said so");
    }
    handler_ = nullptr;
    connection_ = nullptr;
  }

 private:
  void Challenge(const Message& message) {
    if (!Is(message, MessageType::kAuthHello) || message.header.size() != 1 + kNonce ||
        message.header[0] != kVersion) {
      Refuse("wanted a proof of the cluster's secret; see --secret-file");
      return;
    }
    const std::string nonce = NewNonce();
    nonces_ = message.header.substr(1) + nonce;
    connection_->Send(Handshake(MessageType::kAuthChallenge,
                                nonce + door_->secret->Proof(ListenerProves(nonces_))));
  }

  void Check(Message message) {
    uint16_t type = 0;
    constexpr size_t kBefore = kProof + sizeof(type);
    if (!Is(message, MessageType::kAuthProof) || message.header.size() < kBefore) {
      Refuse("wanted a proof of the cluster's secret");
      return;
    }
    std::memcpy(&type, message.header.data() + kProof, sizeof(type));
    const absl::string_view all = message.header;
    if (!door_->secret->Proves(ConnectorProves(nonces_, type, all.substr(kBefore)),
                               all.substr(0, kProof))) {
      Refuse("the cluster's secret is another one");
      return;
    }
    Message first;
    first.type = type;
    first.header = message.header.substr(kBefore);
    first.payload = std::move(message.payload);
    door_->strangers->Leave(number_);
    const std::shared_ptr<Connection> connection = std::exchange(connection_, nullptr);
    handler_ = door_->accept(connection);
    if (handler_ == nullptr) {
      connection->Close(absl::UnavailableError("the connection was refused"));
      return;
    }
    handler_->OnMessage(std::move(first));
  }

  void Refuse(const std::string& why) {
    const std::shared_ptr<Connection> connection = std::exchange(connection_, nullptr);
    door_->complaints.Say(connection->peer(), why);
    connection->Close(absl::UnauthenticatedError(why));
  }

  const std::shared_ptr<Door> door_;
  uint64_t number_ = 0;
  std::shared_ptr<Connection> connection_;  // until somebody else has it
  std::string nonces_;                      // once it was challenged
  std::shared_ptr<ConnectionHandler> handler_;
};

class SecretTransport final : public Transport {
 public:
  SecretTransport(std::unique_ptr<Transport> inner, Secret secret, const StrangerLimits& limits)
      : secret_(std::make_shared<Secret>(std::move(secret))),
        limits_(limits),
        inner_(std::move(inner)) {
    if (auto* asks = dynamic_cast<AsksForPasses*>(inner_.get())) asks->UseSecret(secret_, limits_);
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFunction accept) override {
    ASSIGN_OR_RETURN(std::shared_ptr<Poller> poller, Poller::Make());
    auto door = std::shared_ptr<Door>(
        new Door{secret_, std::move(accept), std::make_shared<Strangers>(limits_, poller), {}});
    return inner_->Listen(address, [door](std::shared_ptr<Connection> connection) {
      auto arrival = std::make_shared<Arrival>(door, std::move(connection));
      return arrival->Enter() ? arrival : nullptr;
    });
  }

  std::shared_ptr<Connection> Connect(const std::string& address, absl::Duration timeout,
                                      std::shared_ptr<ConnectionHandler> handler) override {
    auto connector = std::make_shared<Connector>(address, secret_, std::move(handler));
    auto inner = inner_->Connect(address, timeout, connector);
    connector->Begin(inner);
    return std::make_shared<SecretConnection>(std::move(connector), std::move(inner));
  }

 private:
  const std::shared_ptr<const Secret> secret_;
  const StrangerLimits limits_;
  const std::unique_ptr<Transport> inner_;
};

}  // namespace

std::unique_ptr<Transport> NewSecretTransport(std::unique_ptr<Transport> inner, Secret secret,
                                              const StrangerLimits& limits) {
  if (secret.empty()) return inner;
  return std::make_unique<SecretTransport>(std::move(inner), std::move(secret), limits);
}

}  // namespace coxswain::net
