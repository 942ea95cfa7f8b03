// Who is heard where there is a secret, and what is said to whom.
#include "runtime/net/secret_transport.h"

#include <sys/stat.h>

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/net/message_type.h"
#include "runtime/net/tcp_socket.h"
#include "tests/testing/data_files.h"
#include "tests/unit/runtime/net/harness.h"

namespace coxswain::net_testing {
namespace {

net::Secret Named(const DataFiles& files, const std::string& name, const std::string& text) {
  const std::string path = files.Write(name, text);
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  auto secret = net::Secret::Read(path);
  INFO(secret.status());
  REQUIRE(secret.ok());
  return *secret;
}

// Both ends of connections, on transports of their own where that can be. In process there is but
// one transport: whoever wants two ends with different secrets listens beside it.
struct Secrets {
  const DataFiles files;
  const net::Secret ours = Named(files, "ours", "0123456789abcdef0123456789abcdef\n");
  const net::Secret theirs = Named(files, "theirs", "0123456789abcdef0123456789abcdee\n");
};

Kind WithSecret(const Kind& kind, const net::Secret& secret) {
  return {kind.name, kind.listen_at,
          [kind, secret] { return net::NewSecretTransport(kind.make(), secret); }};
}

ErrorCause CauseOf(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail ? detail->cause : ErrorCause::kUnknown;
}

uint16_t TypeOf(net::MessageType type) { return static_cast<uint16_t>(type); }

TEST_CASE("with a secret messages arrive in order and unchanged, in both directions", "[secret]") {
  const Secrets secrets;
  const Kind kind = GENERATE(values<Kind>({InProcess(), Grpc(), SameHost(), SameUser()}));
  INFO(kind.name);
  Net net(WithSecret(kind, secrets.ours));
  End client = net.Connect();
  // From two threads, while the ends prove themselves and after.
  constexpr int kCount = 300;
  const auto send = [&](uint16_t type) {
    for (int i = 0; i < kCount; ++i) {
      net::Message message = Numbered(type, i);
      message.payload.push_back(
          Bytes(static_cast<size_t>(i * 97 % 5000), static_cast<uint32_t>(i)));
      client.connection->Send(std::move(message));
    }
  };
  std::thread other([&] { send(101); });
  send(100);
  other.join();
  End server = net.acceptor.Take();
  REQUIRE(server.recorder != nullptr);
  REQUIRE(server.recorder->WaitMessages(2 * kCount));
  const std::vector<net::Message> received = server.recorder->messages();
  CHECK(InOrder(received, 100, kCount));
  CHECK(InOrder(received, 101, kCount));
  for (const net::Message& message : received) {
    const int i = std::stoi(message.header);
    REQUIRE(message.payload.size() == 1);
    CHECK(SameBytes(message.payload[0],
                    Bytes(static_cast<size_t>(i * 97 % 5000), static_cast<uint32_t>(i))));
  }
  for (int i = 0; i < kCount; ++i) server.connection->Send(Numbered(102, i));
  REQUIRE(client.recorder->WaitMessages(kCount));
  CHECK(InOrder(client.recorder->messages(), 102, kCount));
  server.connection->Close(absl::AbortedError("enough"));
  CHECK(client.recorder->WaitClosed() == absl::AbortedError("enough"));
  CHECK(client.recorder->orderly());
  CHECK(server.recorder->orderly());
}

TEST_CASE("a connection whose last handle goes ends, proven or not", "[secret]") {
  const Secrets secrets;
  Net net(WithSecret(InProcess(), secrets.ours));
  for (const bool says_something : {false, true}) {
    End client = net.Connect();
    if (says_something) {
      client.connection->Send(Numbered(100, 0));
      REQUIRE(net.acceptor.Take().recorder->WaitMessages(1));
    }
    client.connection = nullptr;
    CHECK(client.recorder->WaitClosed() != absl::DeadlineExceededError("OnClosed never came"));
  }
}

// What greets keeps the channel. Were it the last to do so, a thread of gRPC would wait for itself.
TEST_CASE("a transport may end while one of its connections greets", "[secret]") {
  const Secrets secrets;
  const auto silent = net::ListenTcp({"127.0.0.1", 0}, absl::Seconds(1));  // its backlog takes them
  REQUIRE(silent.ok());
  net::TransportOptions options;
  options.close_linger = absl::Milliseconds(1);
  for (int i = 0; i < 300; ++i) {
    const auto transport = net::NewSecretTransport(net::NewGrpcTransport(options), secrets.ours);
    transport->Connect(absl::StrCat("127.0.0.1:", silent->port), kPatience,
                       std::make_shared<Recorder>());
  }
}

// Over TCP, so that the ends may have transports of their own.
struct Ends {
  Ends(const net::Secret& listens, const net::Secret& connects)
      : net(WithSecret(Grpc(), listens)),
        transport(net::NewSecretTransport(net::NewGrpcTransport(), connects)) {
    client.recorder = std::make_shared<Recorder>();
    client.connection = transport->Connect(net.listener->address(), kPatience, client.recorder);
    client.connection->Send(Numbered(100, 0));
  }
  bool accepted() {
    net.listener.reset();  // no handler runs any more
    return net.acceptor.accepted() > 0;
  }

  Net net;
  std::unique_ptr<net::Transport> transport;
  End client;
};

TEST_CASE("who has another secret is told so, and is not heard", "[secret]") {
  const Secrets secrets;
  Ends ends(secrets.ours, secrets.theirs);
  const absl::Status closed = ends.client.recorder->WaitClosed();
  INFO(closed);
  CHECK(absl::IsUnauthenticated(closed));
  CHECK(CauseOf(closed) == ErrorCause::kConfiguration);
  CHECK(absl::StrContains(closed.message(), "another secret"));
  CHECK(absl::StrContains(closed.message(), secrets.files.Path("theirs")));
  CHECK_FALSE(ends.accepted());
  CHECK(ends.client.recorder->count() == 0);
}

TEST_CASE("who has no secret is told so, and is not heard", "[secret]") {
  const Secrets secrets;
  Ends ends(secrets.ours, net::Secret());
  const absl::Status closed = ends.client.recorder->WaitClosed();
  CHECK(absl::IsUnauthenticated(closed));
  CHECK(absl::StrContains(closed.message(), "--secret-file"));
  CHECK_FALSE(ends.accepted());
}

// What a listener without the transport under test has been sent. Not over gRPC, where passes come
// first: see net_pass_test.cc.
struct Impostor {
  using Answer = std::function<net::Message(const net::Message&)>;
  explicit Impostor(const Answer& answer)
      : net(SameUser(), [answer](End& end) {
          end.recorder->on_message = [weak = std::weak_ptr<net::Connection>(end.connection),
                                      answer](const net::Message& message) {
            const auto connection = weak.lock();
            if (connection != nullptr && message.type == TypeOf(net::MessageType::kAuthHello)) {
              connection->Send(answer(message));
            }
          };
        }) {}
  Net net;
};

TEST_CASE("an impostor of a daemon is told nothing", "[secret]") {
  const Secrets secrets;
  const std::string nonce(32, 'n');
  const auto challenge = [&](std::string proof) {
    return net::Message{TypeOf(net::MessageType::kAuthChallenge), nonce + std::move(proof), {}};
  };
  const std::vector<std::function<net::Message(const net::Message&)>> answers = {
      [&](const net::Message&) { return challenge(std::string(32, 'p')); },
      [&](const net::Message&) { return challenge(""); },
      // What the client has sent is no proof of anything.
      [&](const net::Message& hello) { return challenge(hello.header.substr(1)); },
      [&](const net::Message& hello) {
        return challenge(secrets.theirs.Proof(
            absl::StrCat("coxswain listener ", hello.header.substr(1), nonce)));
      },
      [&](const net::Message&) { return Numbered(2, 0); },
  };
  for (const auto& answer : answers) {
    Impostor impostor(answer);
    const auto transport = net::NewSecretTransport(net::NewHostTransport(), secrets.ours);
    auto client = std::make_shared<Recorder>();
    auto connection = transport->Connect(impostor.net.listener->address(), kPatience, client);
    connection->Send(Numbered(100, 0));
    const absl::Status closed = client->WaitClosed();
    INFO(closed);
    CHECK(absl::IsUnauthenticated(closed));
    CHECK(CauseOf(closed) == ErrorCause::kConfiguration);
    const End end = impostor.net.acceptor.Take();
    REQUIRE(absl::IsUnauthenticated(end.recorder->WaitClosed()));
    REQUIRE(end.recorder->count() == 1);
    CHECK(end.recorder->messages()[0].type == TypeOf(net::MessageType::kAuthHello));
    CHECK(client->count() == 0);
  }
}

// An honest exchange as somebody on the way sees it.
struct Overheard {
  net::Message hello, proof;
  std::string nonce;  // of the listener
};

Overheard Listen(const net::Secret& secret) {
  Overheard heard;
  heard.nonce = std::string(32, 'n');
  Impostor honest([&](const net::Message& hello) {  // it does have the secret
    heard.hello = hello;
    const std::string nonces = hello.header.substr(1) + heard.nonce;
    return net::Message{TypeOf(net::MessageType::kAuthChallenge),
                        heard.nonce + secret.Proof(absl::StrCat("coxswain listener ", nonces)),
                        {}};
  });
  const auto transport = net::NewSecretTransport(net::NewHostTransport(), secret);
  auto connection =
      transport->Connect(honest.net.listener->address(), kPatience, std::make_shared<Recorder>());
  connection->Send(Numbered(100, 0));
  const End end = honest.net.acceptor.Take();
  REQUIRE(end.recorder->WaitMessages(2));
  heard.proof = end.recorder->messages()[1];
  REQUIRE(heard.proof.type == TypeOf(net::MessageType::kAuthProof));
  return heard;
}

TEST_CASE("a proof that was overheard opens no other connection, and covers the first message",
          "[secret]") {
  const Secrets secrets;
  const Overheard heard = Listen(secrets.ours);
  net::Message altered = heard.proof;
  altered.header.back() = '7';
  for (const net::Message& second : {heard.proof, altered, heard.hello, Numbered(100, 0)}) {
    Net net(WithSecret(SameUser(), secrets.ours));
    const auto plain = net::NewHostTransport();
    auto client = std::make_shared<Recorder>();
    auto connection = plain->Connect(net.listener->address(), kPatience, client);
    connection->Send(heard.hello);
    REQUIRE(client->WaitMessages(1));
    CHECK(client->messages()[0].header.substr(0, 32) != heard.nonce);  // another one each time
    connection->Send(second);
    CHECK(absl::IsUnauthenticated(client->WaitClosed()));
    net.listener.reset();
    CHECK(net.acceptor.accepted() == 0);
  }
  // The proof of a first message is none of another one.
  const net::Message& proof = heard.proof;
  const std::string nonces = heard.hello.header.substr(1) + heard.nonce;
  const auto covered = [&](uint16_t type, absl::string_view header) {
    return secrets.ours.Proves(
        absl::StrCat("coxswain connector ", nonces, absl::string_view("\0", 1), type,
                     absl::string_view("\0", 1), header),
        absl::string_view(proof.header).substr(0, 32));
  };
  CHECK(covered(100, "0"));
  CHECK_FALSE(covered(100, "1"));
  CHECK_FALSE(covered(101, "0"));
}

// A listener with limits for strangers, and strangers that connect to it and say hello.
struct Crowd {
  Crowd(const net::Secret& secret, const net::StrangerLimits& limits)
      : net({"same user", "local:", [&] {
               return net::NewSecretTransport(net::NewHostTransport(), secret, limits);
             }}) {}

  End Stranger() {
    End end{nullptr, std::make_shared<Recorder>()};
    end.connection = plain->Connect(net.listener->address(), kPatience, end.recorder);
    end.connection->Send(
        {TypeOf(net::MessageType::kAuthHello), std::string(1, '\1') + std::string(32, 'x'), {}});
    return end;
  }
  // One that was let in, as far as a stranger is.
  End StrangerWithin() {
    End end = Stranger();
    REQUIRE(end.recorder->WaitMessages(1));
    return end;
  }
  bool FriendIsHeard() {
    End end = net.Connect();
    end.connection->Send(Numbered(100, 0));
    return net.acceptor.Take().recorder->WaitMessages(1);
  }

  Net net;
  std::unique_ptr<net::Transport> plain = net::NewHostTransport();
};

TEST_CASE("who proves nothing in time has to go, and who has proven himself stays", "[secret]") {
  const Secrets secrets;
  Crowd crowd(secrets.ours, {.patience = absl::Milliseconds(50)});
  End friendly = crowd.net.Connect();
  friendly.connection->Send(Numbered(100, 0));
  End server = crowd.net.acceptor.Take();
  REQUIRE(server.recorder->WaitMessages(1));
  for (int i = 0; i < 2; ++i) {  // the timer is set again
    const absl::Status closed = crowd.Stranger().recorder->WaitClosed();
    INFO(closed);
    CHECK(absl::IsUnavailable(closed));
  }
  const absl::Status closed = crowd.StrangerWithin().recorder->WaitClosed();
  INFO(closed);
  CHECK(absl::StrContains(closed.message(), "no proof"));
  friendly.connection->Send(Numbered(100, 1));
  CHECK(server.recorder->WaitMessages(2));
  CHECK(friendly.recorder->closes() == 0);
}

TEST_CASE("when too many prove nothing the oldest goes, if it has had its time", "[secret]") {
  const Secrets secrets;
  Crowd crowd(secrets.ours, {.patience = absl::Hours(1), .least = absl::ZeroDuration(), .most = 4});
  std::vector<End> strangers;
  for (int i = 0; i < 5; ++i) strangers.push_back(crowd.StrangerWithin());
  CHECK(absl::IsUnavailable(strangers[0].recorder->WaitClosed()));
  CHECK(crowd.FriendIsHeard());
  CHECK(absl::IsUnavailable(strangers[1].recorder->WaitClosed()));
  for (int i = 2; i < 5; ++i) CHECK(strangers[i].recorder->closes() == 0);
}

TEST_CASE("nobody is pushed out in the middle of his proof: the newest has to try again",
          "[secret]") {
  const Secrets secrets;
  Crowd crowd(secrets.ours, {.patience = absl::Hours(2), .least = absl::Hours(1), .most = 4});
  std::vector<End> strangers;
  for (int i = 0; i < 4; ++i) strangers.push_back(crowd.StrangerWithin());
  End late = crowd.net.Connect();
  late.connection->Send(Numbered(100, 0));
  const absl::Status refused = late.recorder->WaitClosed();
  INFO(refused);
  CHECK(absl::IsUnavailable(refused));  // which is tried again
  for (const End& stranger : strangers) CHECK(stranger.recorder->closes() == 0);
  CHECK(crowd.net.acceptor.accepted() == 0);
}

}  // namespace
}  // namespace coxswain::net_testing
