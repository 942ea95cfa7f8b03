// Passes: what strangers can make a gRPC listener read, keep and wait for.
#include "runtime/net/pass.h"

#include <netdb.h>

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "runtime/base/status.h"
#include "runtime/net/address.h"
#include "runtime/net/grpc_codec.h"
#include "runtime/net/grpc_stream.h"
#include "runtime/net/secret_transport.h"
#include "runtime/net/wire_format.h"
#include "tests/unit/runtime/net/harness.h"
#include "tests/unit/runtime/net/relay.h"

namespace coxswain::net_testing {
namespace {

std::shared_ptr<const net::Secret> NewSecret() {
  return std::make_shared<net::Secret>(net::Secret::Random());
}

constexpr absl::Duration kNow = absl::Hours(100);

TEST_CASE("a pass is good once, for a while, at the listener that was greeted", "[secret]") {
  const auto secret = NewSecret();
  net::PassDesk desk(secret), other(secret);
  const net::PassRequest request(secret);
  const auto answer = desk.Answer(request.greeting(), kNow);
  REQUIRE(answer.ok());
  REQUIRE(request.Proves(*answer));
  const std::string pass = request.Pass(*answer);
  CHECK(absl::IsUnavailable(other.Take(pass, kNow)));
  CHECK(absl::IsUnavailable(desk.Take(pass, kNow - absl::Nanoseconds(1))));
  CHECK(absl::IsUnavailable(desk.Take(pass, kNow + net::kPassLifetime)));
  const absl::Duration late = kNow + net::kPassLifetime - absl::Nanoseconds(1);
  CHECK(desk.Take(pass, late).ok());
  CHECK(absl::IsUnavailable(desk.Take(pass, late)));
  // Also when others have come meanwhile.
  for (int i = 0; i < 100; ++i) {
    const net::PassRequest next(secret);
    CHECK(desk.Take(next.Pass(*desk.Answer(next.greeting(), late)), late).ok());
  }
  CHECK(absl::IsUnavailable(desk.Take(pass, late)));
}

TEST_CASE("a pass with any byte changed opens nothing", "[secret]") {
  const auto secret = NewSecret();
  net::PassDesk desk(secret);
  const net::PassRequest request(secret);
  const std::string answer = *desk.Answer(request.greeting(), kNow);
  const std::string pass = request.Pass(answer);
  for (size_t i = 0; i < pass.size(); ++i) {
    std::string changed = pass;
    changed[i] ^= 1;
    CHECK(absl::IsUnauthenticated(desk.Take(changed, kNow)));
  }
  for (const std::string& wrong :
       {std::string(), pass.substr(1), pass + "x", request.BadPass(answer), answer}) {
    CHECK(absl::IsUnauthenticated(desk.Take(wrong, kNow)));
  }
  CHECK(desk.Take(pass, kNow).ok());
}

TEST_CASE("a listener without the secret can answer no greeting", "[secret]") {
  const auto secret = NewSecret();
  net::PassDesk desk(NewSecret());
  const net::PassRequest request(secret), another(secret);
  const std::string answer = *desk.Answer(request.greeting(), kNow);
  CHECK_FALSE(request.Proves(answer));
  CHECK_FALSE(request.Proves(""));
  CHECK_FALSE(request.Proves(answer + "x"));
  // Nor with what an honest one has answered to somebody else.
  net::PassDesk honest(secret);
  CHECK_FALSE(request.Proves(*honest.Answer(another.greeting(), kNow)));
  CHECK(request.Proves(*honest.Answer(request.greeting(), kNow)));
  for (const std::string& greeting :
       {std::string(), std::string(33, '\2'), std::string(500, '\1')}) {
    CHECK_FALSE(honest.Answer(greeting, kNow).ok());
  }
}

Kind Guarded(const std::shared_ptr<const net::Secret>& secret,
             const net::StrangerLimits& limits = {}) {
  return {"gRPC", "127.0.0.1:0",
          [=] { return net::NewSecretTransport(net::NewGrpcTransport(), *secret, limits); }};
}

void CheckFriendIsHeard(Net& net) {
  End client = net.Connect();
  client.connection->Send(Numbered(1, 0));
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  CHECK(server.recorder->WaitMessages(1));
}

// A stranger's call with this metadata, that goes on to send all the time.
class Pusher : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Pusher(const std::string& address, const std::string& pass)
      : channel_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {
    if (!pass.empty()) context_.AddMetadata(net::kPassKey, pass);
    const std::string text(16 << 20, 'x');
    const grpc::Slice slice(text);
    bytes_ = grpc::ByteBuffer(&slice, 1);
    grpc::GenericStub(channel_).PrepareBidiStreamingCall(&context_, net::kStreamMethod, {}, this);
    StartWrite(&bytes_);
    StartCall();
  }
  grpc::Status WaitDone() {
    REQUIRE(done_.WaitForNotificationWithTimeout(kPatience));
    return status_;
  }

 private:
  void OnWriteDone(bool ok) override {
    if (ok) StartWrite(&bytes_);
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::ByteBuffer bytes_;
  grpc::Status status_;
  absl::Notification done_;
};

TEST_CASE("a stream without a pass is ended, whatever it goes on to send", "[secret]") {
  Net net(Guarded(NewSecret()));
  for (const std::string& pass : {std::string(), std::string(97, '\1'), std::string(3000, 'x')}) {
    Pusher pusher(net.listener->address(), pass);
    CHECK(pusher.WaitDone().error_code() == grpc::StatusCode::UNAUTHENTICATED);
  }
  CHECK(net.acceptor.accepted() == 0);
  CheckFriendIsHeard(net);
}

// Greets as a friend does. Returns his pass, as it goes over the network.
class Greeter : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Greeter(const std::string& address, const std::shared_ptr<const net::Secret>& secret)
      : request_(secret),
        channel_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {
    context_.AddMetadata(net::kGreetingKey, request_.greeting());
    grpc::GenericStub(channel_).PrepareBidiStreamingCall(&context_, net::kGreetMethod, {}, this);
    StartCall();
  }
  std::string WaitPass() {
    REQUIRE(done_.WaitForNotificationWithTimeout(kPatience));
    const auto& all = context_.GetServerTrailingMetadata();
    const auto it = all.find(net::kAnswerKey);
    REQUIRE(it != all.end());
    const std::string answer(it->second.data(), it->second.size());
    REQUIRE(request_.Proves(answer));
    return request_.Pass(answer);
  }

 private:
  void OnDone(const grpc::Status&) override { done_.Notify(); }

  const net::PassRequest request_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  absl::Notification done_;
};

// A call with this pass that says one thing, and hears how the stream ends.
class Speaker : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Speaker(const std::string& address, const std::string& pass, net::Message message)
      : channel_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {
    context_.AddMetadata(net::kPassKey, pass);
    std::vector<net::Packet> frames(1);
    frames[0].message = std::move(message);
    says_ = net::EncodeBatch(std::move(frames));
    grpc::GenericStub(channel_).PrepareBidiStreamingCall(&context_, net::kStreamMethod, {}, this);
    StartWrite(&says_);
    StartRead(&hears_);
    StartCall();
  }
  absl::Status WaitGoodbye() {
    REQUIRE(done_.WaitForNotificationWithTimeout(kPatience));
    return goodbye_;
  }

 private:
  void OnReadDone(bool ok) override {
    const auto batch = ok ? net::GatherBatch(hears_) : absl::UnavailableError("no goodbye");
    if (!batch.ok()) return;
    const absl::Status parsed = net::ParsePackets(*batch, [&](net::Packet frame) {
      goodbye_ = frame.kind == net::PacketKind::kGoodbye ? net::GoodbyeReason(frame.message)
                                                         : absl::OkStatus();
      return true;
    });
    if (!parsed.ok()) goodbye_ = parsed;
    context_.TryCancel();
  }
  void OnDone(const grpc::Status&) override { done_.Notify(); }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::ByteBuffer says_, hears_;
  absl::Status goodbye_ = absl::UnknownError("no goodbye came");
  absl::Notification done_;
};

TEST_CASE("who overhears a pass, and is faster with it than its owner, is not heard", "[secret]") {
  const auto secret = NewSecret();
  Net net(Guarded(secret));
  const std::string& address = net.listener->address();
  const std::string pass = Greeter(address, secret).WaitPass();
  CHECK(absl::IsUnauthenticated(Speaker(address, pass, Numbered(1, 0)).WaitGoodbye()));
  CHECK(net.acceptor.accepted() == 0);
  CheckFriendIsHeard(net);
}

TEST_CASE("a TCP connection that shows no pass in time is closed; one that did stays", "[secret]") {
  Net net(Guarded(NewSecret(), {.patience = absl::Milliseconds(100)}));
  End client = net.Connect();
  client.connection->Send(Numbered(1, 0));
  End server = net.acceptor.Take();
  REQUIRE(server.recorder->WaitMessages(1));
  const std::string preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  for (const std::string& says : {std::string(), preface}) {
    const int fd = ConnectSocket(net.listener->address());
    REQUIRE(fd >= 0);
    CHECK(send(fd, says.data(), says.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(says.size()));
    char answer[256];
    while (recv(fd, answer, sizeof(answer), 0) > 0) {
    }
    close(fd);
  }
  client.connection->Send(Numbered(1, 1));
  CHECK(server.recorder->WaitMessages(2));
  CHECK(client.recorder->closes() == 0);
}

TEST_CASE("TCP connections that show no pass are few, and a friend tries again until there is room",
          "[secret]") {
  Net net(Guarded(NewSecret(),
                  {.patience = absl::Milliseconds(300), .least = absl::Hours(1), .most = 4}));
  std::vector<int> fds;
  for (int i = 0; i < 12; ++i) fds.push_back(ConnectSocket(net.listener->address()));
  CheckFriendIsHeard(net);
  for (const int fd : fds) close(fd);
}

// Who is refused for want of room comes again, as whoever connects to a task does.
TEST_CASE("friends that come all at once get in, also where few may wait", "[secret]") {
  struct {
    absl::Mutex mu;
    std::vector<int> refused;
    int accepted = 0;
  } events;
  constexpr int kFriends = 30;
  Net net(Guarded(NewSecret(), {.patience = absl::Hours(2), .least = absl::Hours(1), .most = 3}));
  net.acceptor.prepare = [&events](End&) {
    absl::MutexLock lock(&events.mu);
    ++events.accepted;
  };
  std::vector<End> friends(kFriends);
  const auto come = [&](int i) {
    End& end = friends[static_cast<size_t>(i)];
    end = {nullptr, std::make_shared<Recorder>()};
    end.recorder->on_closed = [&events, i] {
      absl::MutexLock lock(&events.mu);
      events.refused.push_back(i);
    };
    end.connection = net.transport->Connect(net.listener->address(), kPatience, end.recorder);
    end.connection->Send(Numbered(1, i));
  };
  for (int i = 0; i < kFriends; ++i) come(i);
  while (true) {
    std::vector<int> refused;
    {
      absl::MutexLock lock(&events.mu);
      const auto news = [&events] {
        return events.accepted == kFriends || !events.refused.empty();
      };
      REQUIRE(events.mu.AwaitWithTimeout(absl::Condition(&news), kPatience));
      if (events.accepted == kFriends) break;
      refused.swap(events.refused);
    }
    for (const int i : refused) {
      CHECK(absl::IsUnavailable(friends[static_cast<size_t>(i)].recorder->WaitClosed()));
      come(i);
    }
  }
  for (int i = 0; i < kFriends; ++i) {
    const End server = net.acceptor.Take();
    REQUIRE(server.connection != nullptr);
    CHECK(server.recorder->WaitMessages(1));
  }
}

TEST_CASE("who listens without a secret is told nothing by who has one, over gRPC", "[secret]") {
  Net net(Grpc());
  const auto transport = net::NewSecretTransport(net::NewGrpcTransport(), net::Secret::Random());
  auto client = std::make_shared<Recorder>();
  auto connection = transport->Connect(net.listener->address(), kPatience, client);
  connection->Send(Numbered(100, 0));
  const absl::Status closed = client->WaitClosed();
  INFO(closed);
  CHECK(absl::IsUnauthenticated(closed));
  CHECK(absl::StrContains(closed.message(), "--insecure"));
  net.listener.reset();
  CHECK(net.acceptor.accepted() == 0);
}

TEST_CASE("with a secret, too, a silent host is Unavailable after the timeout", "[secret]") {
  const ListeningSocket silent;
  REQUIRE(silent.ok());
  const auto transport = net::NewSecretTransport(net::NewGrpcTransport(), net::Secret::Random());
  auto client = std::make_shared<Recorder>();
  auto connection = transport->Connect(silent.address(), absl::Milliseconds(100), client);
  connection->Send(Numbered(1, 0));
  CHECK(absl::IsUnavailable(client->WaitClosed()));
}

TEST_CASE("with a secret a connection can be closed at any moment of its beginning", "[secret]") {
  Net net(Guarded(NewSecret()));
  for (int i = 0; i < 50; ++i) {
    End client = net.Connect();
    client.connection->Send(Numbered(1, 0));
    for (int pause = 0; pause < i * 20; ++pause) std::this_thread::yield();
    client.connection->Close(absl::CancelledError("enough"));
    const absl::Status closed = client.recorder->WaitClosed();
    INFO(closed);
    CHECK(absl::IsCancelled(closed));
    CHECK(client.recorder->orderly());
  }
  net.transport.reset();
}

// A socket connected to an address of either kind of IP; -1 when that fails.
int ConnectRaw(const net::HostPort& to) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &wanted, &found) != 0) {
    return -1;
  }
  int fd = socket(found->ai_family, SOCK_STREAM, 0);
  if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  return fd;
}

TEST_CASE("whose pass it was is known with both kinds of IP", "[secret]") {
  const auto transport = net::NewSecretTransport(net::NewGrpcTransport(), net::Secret::Random(),
                                                 {.patience = absl::Seconds(1)});
  for (const char* address : {"127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "localhost:0"}) {
    INFO(address);
    Acceptor acceptor;
    auto listener = transport->Listen(address, acceptor.function());
    if (!listener.ok()) {  // a machine without IPv6
      CHECK(absl::IsUnavailable(listener.status()));
      continue;
    }
    net::HostPort to = *net::ParseHostPort((*listener)->address());
    if (to.host == "0.0.0.0") to.host = "127.0.0.1";
    auto client = std::make_shared<Recorder>();
    auto connection = transport->Connect(net::FormatHostPort(to), kPatience, client);
    connection->Send(Numbered(1, 0));
    End server = acceptor.Take();
    REQUIRE(server.recorder != nullptr);
    REQUIRE(server.recorder->WaitMessages(1));
    // When a stranger that came later has to go, the first one would have had to go as well.
    const int fd = ConnectRaw(to);
    REQUIRE(fd >= 0);
    char byte;
    while (recv(fd, &byte, 1, 0) > 0) {
    }
    close(fd);
    connection->Send(Numbered(1, 1));
    CHECK(server.recorder->WaitMessages(2));
    CHECK(client->closes() == 0);
    listener->reset();
  }
}

}  // namespace
}  // namespace coxswain::net_testing
