// What the transport tests share: handlers that record what they are told, and two connected ends.
// Handlers only record; every assertion is made on the test's thread.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/net/transport.h"

namespace coxswain::net_testing {

// Far more than anything takes; a test that waits this long has failed.
constexpr absl::Duration kPatience = absl::Seconds(60);

// Records a connection's life. Thread-safe.
class Recorder : public net::ConnectionHandler {
 public:
  // Runs in OnMessage, before the message is recorded. Set it before the connection lives.
  std::function<void(const net::Message&)> on_message;
  std::function<void()> on_closed;

  void OnMessage(net::Message message) override {
    Enter();
    if (on_message) on_message(message);
    absl::MutexLock lock(&mu_);
    if (closes_ > 0) late_ = true;
    messages_.push_back(std::move(message));
    inside_ = false;
  }
  void OnClosed(absl::Status status) override {
    Enter();
    if (on_closed) on_closed();
    absl::MutexLock lock(&mu_);
    ++closes_;
    status_ = std::move(status);
    inside_ = false;
  }

  // Whether this number of messages came in time.
  bool WaitMessages(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [&] { return messages_.size() >= count; };
    return mu_.AwaitWithTimeout(absl::Condition(&enough), kPatience);
  }
  // How it closed; DeadlineExceeded when it did not.
  absl::Status WaitClosed() {
    absl::MutexLock lock(&mu_);
    const auto closed = [&] { return closes_ > 0; };
    if (!mu_.AwaitWithTimeout(absl::Condition(&closed), kPatience)) {
      return absl::DeadlineExceededError("OnClosed never came");
    }
    return status_;
  }
  std::vector<net::Message> messages() const {
    absl::MutexLock lock(&mu_);
    return messages_;
  }
  // From now on they are counted anew.
  std::vector<net::Message> TakeMessages() {
    absl::MutexLock lock(&mu_);
    return std::exchange(messages_, {});
  }
  size_t count() const {
    absl::MutexLock lock(&mu_);
    return messages_.size();
  }
  int closes() const {
    absl::MutexLock lock(&mu_);
    return closes_;
  }
  // No calls overlapped, and none came after OnClosed.
  bool orderly() const {
    absl::MutexLock lock(&mu_);
    return !overlap_ && !late_ && closes_ <= 1;
  }

 private:
  void Enter() {
    absl::MutexLock lock(&mu_);
    if (inside_) overlap_ = true;
    inside_ = true;
  }

  mutable absl::Mutex mu_;
  bool inside_ = false, overlap_ = false, late_ = false;
  int closes_ = 0;
  absl::Status status_;
  std::vector<net::Message> messages_;
};

struct End {
  std::shared_ptr<net::Connection> connection;
  std::shared_ptr<Recorder> recorder;
};

// Accepts connections and keeps them. Outlives the listener that it serves. Thread-safe.
class Acceptor {
 public:
  // Runs for each new end before it is kept.
  std::function<void(End&)> prepare;

  net::AcceptFunction function() {
    return [this](std::shared_ptr<net::Connection> connection)
               -> std::shared_ptr<net::ConnectionHandler> {
      End end{std::move(connection), std::make_shared<Recorder>()};
      if (prepare) prepare(end);
      std::shared_ptr<Recorder> recorder = end.recorder;
      absl::MutexLock lock(&mu_);
      ++accepted_;
      ends_.push_back(std::move(end));
      return recorder;
    };
  }

  int accepted() const {
    absl::MutexLock lock(&mu_);
    return accepted_;
  }

  // Takes the next end that was accepted; an empty one when none came.
  End Take() {
    absl::MutexLock lock(&mu_);
    const auto some = [&] { return !ends_.empty(); };
    if (!mu_.AwaitWithTimeout(absl::Condition(&some), kPatience)) return {};
    End end = std::move(ends_.front());
    ends_.erase(ends_.begin());
    return end;
  }

 private:
  mutable absl::Mutex mu_;
  int accepted_ = 0;
  std::vector<End> ends_;
};

struct Kind {
  const char* name;
  const char* listen_at;
  std::function<std::unique_ptr<net::Transport>()> make;
};

inline Kind InProcess() {
  return {"in process", "task", [] { return net::NewInProcessTransport(); }};
}
inline Kind Grpc() {
  return {"gRPC", "127.0.0.1:0", [] { return net::NewGrpcTransport(); }};
}
inline Kind SameHost() {
  return {"same host", "127.0.0.1:0", [] { return net::NewHostTransport(); }};
}

// Without a port, for processes of one user.
inline Kind SameUser() {
  return {"same user", "local:", [] { return net::NewHostTransport(); }};
}

// A transport with a listener.
struct Net {
  explicit Net(const Kind& kind, std::function<void(End&)> prepare = nullptr)
      : transport(kind.make()) {
    acceptor.prepare = std::move(prepare);
    auto started = transport->Listen(kind.listen_at, acceptor.function());
    REQUIRE(started.ok());
    listener = std::move(*started);
  }

  End Connect() { return ConnectTo(listener->address()); }
  End ConnectTo(const std::string& address, absl::Duration timeout = kPatience) {
    End end{nullptr, std::make_shared<Recorder>()};
    end.connection = transport->Connect(address, timeout, end.recorder);
    return end;
  }

  Acceptor acceptor;
  std::unique_ptr<net::Transport> transport;
  std::unique_ptr<net::Listener> listener;
};

// A buffer of `bytes` bytes that depend on `seed`.
inline Buffer Bytes(size_t bytes, uint32_t seed) {
  Buffer buffer = Buffer::Allocate(bytes);
  auto* data = static_cast<unsigned char*>(buffer.data());
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(seed + i * 31 + (i >> 8));
  return buffer;
}

inline bool SameBytes(const Buffer& a, const Buffer& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

inline bool SameMessage(const net::Message& a, const net::Message& b) {
  if (a.type != b.type || a.header != b.header || a.payload.size() != b.payload.size())
    return false;
  for (size_t i = 0; i < a.payload.size(); ++i) {
    if (!SameBytes(a.payload[i], b.payload[i])) return false;
  }
  return true;
}

inline net::Message Numbered(uint16_t type, int number) {
  return {type, std::to_string(number), {}};
}

// Whether the messages of `type` are numbered 0, 1, 2 ... `count` - 1.
inline bool InOrder(const std::vector<net::Message>& messages, uint16_t type, int count) {
  int next = 0;
  for (const net::Message& message : messages) {
    if (message.type != type) continue;
    if (message.header != std::to_string(next)) return false;
    ++next;
  }
  return next == count;
}

}  // namespace coxswain::net_testing
