// Connections through shared memory: what is particular to them. What they share with the other
// transports is in net_messages_test.cc and net_closing_test.cc.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/net/address.h"
#include "runtime/net/host_transport.h"
#include "runtime/net/shm_arena.h"
#include "runtime/net/shm_link.h"
#include "runtime/net/shm_segment.h"
#include "runtime/net/shm_socket.h"
#include "tests/unit/runtime/net/failing_epoll.h"
#include "tests/unit/runtime/net/harness.h"

namespace coxswain::net_testing {
namespace {

// One end of a connection that need not keep the rules.
class RudeEnd {
 public:
  explicit RudeEnd(const std::string& address) {
    auto socket = net::ConnectTo(net::ShmNamesFor(*net::ParseHostPort(address))[0]);
    if (socket.ok()) socket_ = *std::move(socket);
    auto memory = net::ShmSegment::Create();
    if (memory.ok()) memory_ = *std::move(memory);
  }
  bool ok() const { return socket_.valid() && memory_.segment != nullptr; }
  const net::UniqueFd& socket() const { return socket_; }
  bool Greet() { return net::SendHello(socket_, memory_.file).ok(); }
  net::ShmDirection& out() { return memory_.segment->direction(0); }
  char* arena() { return memory_.segment->arena(0); }
  net::ShmDirection& in() { return memory_.segment->direction(1); }
  void Wake() { send(socket_.get(), "w", 1, MSG_NOSIGNAL); }
  void Vanish() { socket_ = net::UniqueFd(); }
  // Whether the other end closes the socket.
  bool WaitHungUp() {
    fcntl(socket_.get(), F_SETFL, 0);
    char bytes[64];
    while (true) {
      const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), 0);
      if (got <= 0) return got == 0;
    }
  }
  void Write(const net::Message& message, uint32_t block, uint64_t offset) {
    net::WritePacket({net::PacketKind::kMessage, message}, arena() + offset);
    Publish({offset, net::PacketBytes(message), block, 0});
  }
  void Publish(const net::ShmDescriptor& descriptor) {
    const uint64_t n = out().sent.load();
    out().ring[n % net::kShmSlots] = descriptor;
    out().sent.store(n + 1);
    Wake();
  }

 private:
  net::UniqueFd socket_;
  net::ShmSegment::Created memory_;
};

// Returns whom the acceptor sees.
std::string CheckAlive(Net& net) {
  End client = net.Connect();
  client.connection->Send(Numbered(1, 0));
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  CHECK(server.recorder->WaitMessages(1));
  return server.connection->peer();
}

TEST_CASE("tasks on one host meet in shared memory", "[net]") {
  Net net(SameHost());
  End client = net.Connect();
  client.connection->Send({1, "", {Bytes(1 << 20, 3)}});
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  REQUIRE(server.recorder->WaitMessages(1));
  CHECK_THAT(server.connection->peer(), Catch::EndsWith("on this host"));
  CHECK_THAT(client.connection->peer(), Catch::StartsWith("127.0.0.1:"));
}

TEST_CASE("gRPC alone is used where the environment says so, and meets what uses both", "[net]") {
  setenv("COXSWAIN_TRANSPORT", "grpc", 1);
  const std::unique_ptr<net::Transport> plain = net::NewHostTransport();
  unsetenv("COXSWAIN_TRANSPORT");
  Net net(SameHost());
  End client{nullptr, std::make_shared<Recorder>()};
  client.connection = plain->Connect(net.listener->address(), kPatience, client.recorder);
  client.connection->Send(Numbered(1, 0));
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  CHECK(server.recorder->WaitMessages(1));
  CHECK_THAT(server.connection->peer(), Catch::StartsWith("127.0.0.1:"));
}

TEST_CASE("a listener at all addresses is found in shared memory by those of this host", "[net]") {
  auto transport = net::NewHostTransport();
  Acceptor acceptor;
  auto listener = transport->Listen("0.0.0.0:0", acceptor.function());
  REQUIRE(listener.ok());
  const int port = net::ParseHostPort((*listener)->address())->port;
  auto recorder = std::make_shared<Recorder>();
  auto connection = transport->Connect("127.0.0.1:" + std::to_string(port), kPatience, recorder);
  End server = acceptor.Take();
  REQUIRE(server.connection != nullptr);
  CHECK_THAT(server.connection->peer(), Catch::EndsWith("on this host"));
}

TEST_CASE("a receiver that keeps what it gets holds up the sender, and loses nothing", "[net]") {
  Net net(SameHost());
  End client = net.Connect();
  constexpr int kMessages = 3 * static_cast<int>(net::kShmSlots);
  for (int i = 0; i < kMessages; ++i) {
    net::Message message = Numbered(1, i);
    message.payload.push_back(Bytes(20'000, static_cast<uint32_t>(i)));
    client.connection->Send(std::move(message));
  }
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  // The recorder keeps them, so that no more than the ring's slots can be out.
  REQUIRE(server.recorder->WaitMessages(net::kShmSlots));
  CHECK(server.recorder->count() == net::kShmSlots);
  client.connection->Send(Numbered(2, 0));
  std::vector<net::Message> taken = server.recorder->TakeMessages();
  CHECK(InOrder(taken, 1, net::kShmSlots));
  CHECK(SameBytes(taken[7].payload[0], Bytes(20'000, 7)));
  taken.clear();
  while (taken.size() < kMessages + 1 - net::kShmSlots) {
    REQUIRE(server.recorder->WaitMessages(1));
    for (net::Message& message : server.recorder->TakeMessages()) {
      message.payload.clear();
      taken.push_back(std::move(message));
    }
  }
  CHECK(taken.back().type == 2);
  CHECK(taken.front().header == std::to_string(net::kShmSlots));
  CHECK(client.recorder->closes() == 0);
}

TEST_CASE("what was received outlives the connection and the transport", "[net]") {
  net::Message kept;
  {
    Net net(SameHost());
    End client = net.Connect();
    client.connection->Send({1, "", {Bytes(1 << 20, 5)}});
    End server = net.acceptor.Take();
    REQUIRE(server.recorder->WaitMessages(1));
    kept = server.recorder->TakeMessages()[0];
  }
  CHECK(SameBytes(kept.payload[0], Bytes(1 << 20, 5)));
}

TEST_CASE("what a peer sent before it vanished is delivered, then it is Unavailable", "[net]") {
  Net net(SameHost());
  RudeEnd peer(net.listener->address());
  REQUIRE((peer.ok() && peer.Greet()));
  peer.Write(Numbered(1, 0), 0, 0);
  peer.Write(Numbered(1, 1), 1, 4096);
  peer.Vanish();
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  CHECK(absl::IsUnavailable(server.recorder->WaitClosed()));
  CHECK(InOrder(server.recorder->messages(), 1, 2));
  CHECK(server.recorder->orderly());
  CheckAlive(net);
}

TEST_CASE("a peer that breaks the rules of shared memory is cut off and does no harm", "[net]") {
  Net net(SameHost());
  const std::vector<net::ShmDescriptor> wrong = {
      {net::kShmArenaBytes + 64, 64, 0, 0},
      {0, net::kShmArenaBytes + 1, 0, 0},
      {uint64_t{0} - 64, 128, 0, 0},
      {1, 64, 0, 0},
      {0, 0, 0, 0},
      {0, 4096, 0, 0},  // zeros are no frame
  };
  for (const net::ShmDescriptor& descriptor : wrong) {
    RudeEnd peer(net.listener->address());
    REQUIRE((peer.ok() && peer.Greet()));
    peer.Publish(descriptor);
    End server = net.acceptor.Take();
    REQUIRE(server.connection != nullptr);
    CHECK(absl::IsDataLoss(server.recorder->WaitClosed()));
    CHECK(peer.WaitHungUp());
  }
  SECTION("more frames than the ring has") {
    RudeEnd peer(net.listener->address());
    REQUIRE((peer.ok() && peer.Greet()));
    peer.out().sent.store(uint64_t{1} << 40);
    peer.Wake();
    End server = net.acceptor.Take();
    CHECK(absl::IsDataLoss(server.recorder->WaitClosed()));
  }
  SECTION("blocks that it was not given") {
    RudeEnd peer(net.listener->address());
    REQUIRE((peer.ok() && peer.Greet()));
    End server = net.acceptor.Take();
    peer.in().returns[0] = 17;
    peer.in().returned.store(1);
    server.connection->Send(Numbered(1, 0));
    CHECK(absl::IsUnavailable(server.recorder->WaitClosed()));
    CHECK(peer.WaitHungUp());
  }
  CheckAlive(net);
}

TEST_CASE("only memory that cannot shrink is taken from a peer", "[net]") {
  Net net(SameHost());
  const std::string name = net::ShmNamesFor(*net::ParseHostPort(net.listener->address()))[0];
  const auto refused = [&](const net::UniqueFd& file) {
    auto socket = net::ConnectTo(name);
    if (!socket.ok() || !net::SendHello(*socket, file).ok()) return false;
    while (true) {
      const net::ShmAnswer answer = net::ReceiveAnswer(*socket);
      if (answer != net::ShmAnswer::kNotYet) return answer == net::ShmAnswer::kNo;
    }
  };
  auto good = net::ShmSegment::Create();
  REQUIRE(good.ok());
  const off_t bytes = lseek(good->file.get(), 0, SEEK_END);
  net::UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(unsealed.get(), bytes) == 0);
  CHECK(refused(unsealed));
  net::UniqueFd small(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(small.get(), 4096) == 0);
  CHECK(refused(small));
  net::UniqueFd terminal(open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK(refused(terminal));
  auto nothing = net::ConnectTo(name);
  REQUIRE(nothing.ok());
  CHECK(send(nothing->get(), "nonsense", 8, MSG_NOSIGNAL) == 8);
  CheckAlive(net);
}

TEST_CASE("who connects on one host and says nothing is let go; who said hello stays", "[net]") {
  Net net({"same host", "127.0.0.1:0",
           [] { return net::NewHostTransportWith({}, /*hello_timeout=*/absl::Milliseconds(20)); }});
  End client = net.Connect();
  client.connection->Send(Numbered(1, 0));
  End server = net.acceptor.Take();
  REQUIRE(server.connection != nullptr);
  auto silent = net::ConnectTo(net::ShmNamesFor(*net::ParseHostPort(net.listener->address()))[0]);
  REQUIRE(silent.ok());
  fcntl(silent->get(), F_SETFL, 0);
  char byte;
  CHECK(recv(silent->get(), &byte, 1, 0) == 0);
  // The client's time was up before.
  client.connection->Send(Numbered(1, 1));
  REQUIRE(server.recorder->WaitMessages(2));
  CHECK(server.recorder->closes() == 0);
  CheckAlive(net);
}

// This process can open no more than `spare` descriptors while it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(int spare) {
    getrlimit(RLIMIT_NOFILE, &before_);
    // The least that is free shows how many are in use below it; some are above.
    rlimit fewer = before_;
    fewer.rlim_cur =
        64 + static_cast<rlim_t>(net::UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)).get());
    setrlimit(RLIMIT_NOFILE, &fewer);
    while (true) {
      net::UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) break;
      taken_.push_back(std::move(fd));
    }
    taken_.resize(taken_.size() - static_cast<size_t>(spare));
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
  std::vector<net::UniqueFd> taken_;
};

// Whether something comes, or the other end hangs up, in time.
bool Readable(const net::UniqueFd& socket, absl::Duration timeout) {
  pollfd poll_fd{socket.get(), POLLIN, 0};
  return poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) != 0;
}

TEST_CASE("a listener that has no descriptor for a while lets those on its host in afterwards",
          "[net]") {
  Net net(SameHost());
  const std::string name = net::ShmNamesFor(*net::ParseHostPort(net.listener->address()))[0];
  auto memory = net::ShmSegment::Create();
  REQUIRE(memory.ok());
  absl::StatusOr<net::UniqueFd> waiting = absl::UnknownError("not connected");
  // For this end; for the listener's end too; and for the memory that comes with it.
  const int spare = GENERATE(1, 2, 3);
  {
    const FewDescriptors few(spare);
    waiting = net::ConnectTo(name);
    REQUIRE(waiting.ok());
    REQUIRE(net::SendHello(*waiting, memory->file).ok());
    // The door finds that it cannot take it, time and again; it must not hang up. (Other threads
    // of this process may have closed something, then it answers.)
    Readable(*waiting, absl::Milliseconds(250));
  }
  fcntl(waiting->get(), F_SETFL, 0);
  char answer = 0;
  REQUIRE(recv(waiting->get(), &answer, 1, 0) == 1);
  CHECK(answer == 'y');
  CHECK(net.acceptor.Take().connection != nullptr);
  CHECK_THAT(CheckAlive(net), Catch::EndsWith("on this host"));
}

TEST_CASE("a listener that can watch no more connections refuses one, and lives", "[net]") {
  Net net(SameHost());
  const std::string name = net::ShmNamesFor(*net::ParseHostPort(net.listener->address()))[0];
  {
    const FailingEpoll none;
    absl::StatusOr<net::UniqueFd> refused = net::ConnectTo(name);
    REQUIRE(refused.ok());
    fcntl(refused->get(), F_SETFL, 0);
    char answer = 0;
    CHECK(recv(refused->get(), &answer, 1, 0) == 0);
    // Those who connect from here cannot wait for an answer either; both ends have gRPC.
    CheckAlive(net);
  }
  CHECK_THAT(CheckAlive(net), Catch::EndsWith("on this host"));
}

TEST_CASE("without a way to wait for connections nobody listens and nobody is reached", "[net]") {
  const Kind kind = GENERATE(values<Kind>({SameUser(), Grpc()}));
  INFO(kind.name);
  auto transport = kind.make();
  Acceptor acceptor;
  auto recorder = std::make_shared<Recorder>();
  const FailingEpoll none;
  CHECK(absl::IsResourceExhausted(transport->Listen(kind.listen_at, acceptor.function()).status()));
  const auto connection = transport->Connect("local:nobody", kPatience, recorder);
  CHECK_FALSE(recorder->WaitClosed().ok());
}

TEST_CASE("a listener that waits for descriptors can end, and its name is free then", "[net]") {
  Net net(SameHost());
  const std::string name = net::ShmNamesFor(*net::ParseHostPort(net.listener->address()))[0];
  {
    const FewDescriptors one(1);
    auto waiting = net::ConnectTo(name);
    REQUIRE(waiting.ok());
    CHECK_FALSE(Readable(*waiting, absl::Milliseconds(50)));
    net.listener.reset();
    CHECK_FALSE(net::ConnectTo(name).ok());
  }
}

// Listens where a listener at `address` would, and does with a connection what the test says.
class RudeDoor {
 public:
  explicit RudeDoor(const std::string& address) {
    auto socket = net::ListenAt(net::ShmName(*net::ParseHostPort(address)));
    if (socket.ok()) socket_ = *std::move(socket);
    fcntl(socket_.get(), F_SETFL, 0);
  }
  bool ok() const { return socket_.valid(); }
  net::UniqueFd Accept() {
    return net::UniqueFd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  net::UniqueFd socket_;
};

TEST_CASE("who gets no as the answer, or none and a hang-up, goes by gRPC", "[net]") {
  Net net(Grpc());  // it has no door of its own
  RudeDoor door(net.listener->address());
  REQUIRE(door.ok());
  const auto transport = net::NewHostTransport();
  for (const bool answers : {true, false}) {
    End client{nullptr, std::make_shared<Recorder>()};
    client.connection = transport->Connect(net.listener->address(), kPatience, client.recorder);
    for (int i = 0; i < 100; ++i) client.connection->Send(Numbered(1, i));
    {
      const net::UniqueFd arrival = door.Accept();
      REQUIRE(arrival.valid());
      if (answers) net::SendAnswer(arrival, false);
    }
    for (int i = 100; i < 200; ++i) client.connection->Send(Numbered(1, i));
    End server = net.acceptor.Take();
    REQUIRE(server.connection != nullptr);
    REQUIRE(server.recorder->WaitMessages(200));
    CHECK(InOrder(server.recorder->messages(), 1, 200));
    server.connection->Send(Numbered(2, 0));
    CHECK(client.recorder->WaitMessages(1));
    client.connection->Close(absl::CancelledError("enough"));
    CHECK(absl::IsCancelled(server.recorder->WaitClosed()));
    CHECK(absl::IsCancelled(client.recorder->WaitClosed()));
  }
}

TEST_CASE("a frozen task on the same host is Unavailable after the timeout", "[net]") {
  Net net(Grpc());
  RudeDoor door(net.listener->address());
  REQUIRE(door.ok());
  const auto transport = net::NewHostTransport();
  End client{nullptr, std::make_shared<Recorder>()};
  client.connection =
      transport->Connect(net.listener->address(), absl::Milliseconds(50), client.recorder);
  client.connection->Send(Numbered(1, 0));
  const absl::Status status = client.recorder->WaitClosed();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(net.listener->address()));
}

TEST_CASE("a connection that closes or a transport that ends before the answer tells its handler",
          "[net]") {
  Net net(Grpc());
  RudeDoor door(net.listener->address());
  REQUIRE(door.ok());
  auto transport = net::NewHostTransport();
  End closed{nullptr, std::make_shared<Recorder>()}, left{nullptr, std::make_shared<Recorder>()};
  closed.connection = transport->Connect(net.listener->address(), kPatience, closed.recorder);
  closed.connection->Close(absl::CancelledError("enough"));
  CHECK(absl::IsCancelled(closed.recorder->WaitClosed()));
  left.connection = transport->Connect(net.listener->address(), kPatience, left.recorder);
  transport.reset();
  CHECK(left.recorder->closes() == 1);
  CHECK(absl::IsUnavailable(left.recorder->WaitClosed()));
}

TEST_CASE("a listener's place in shared memory is free when it has ended", "[net]") {
  Net net(SameHost());
  const std::string address = net.listener->address();
  net.listener.reset();
  CHECK_FALSE(net::ConnectTo(net::ShmNamesFor(*net::ParseHostPort(address))[0]).ok());
  Acceptor again;
  auto listener = net.transport->Listen(address, again.function());
  REQUIRE(listener.ok());
  End client = net.ConnectTo(address);
  End server = again.Take();
  REQUIRE(server.connection != nullptr);
  CHECK_THAT(server.connection->peer(), Catch::EndsWith("on this host"));
  listener->reset();
}

TEST_CASE("a connection that brings much to do leaves others their turn", "[net]") {
  constexpr size_t kMany = 12;  // fewer than are read in one go when they are short
  Net net(SameHost());
  absl::Mutex mu;
  std::vector<int> order;  // whose message was handled, by the connection's number
  absl::Notification begun, go_on;
  int accepted = 0;
  net.acceptor.prepare = [&](End& end) {
    end.recorder->on_message = [&, number = ++accepted](const net::Message& message) {
      if (message.type == 1) {
        begun.Notify();
        go_on.WaitForNotificationWithTimeout(kPatience);
      }
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
      while (number == 1 && std::chrono::steady_clock::now() < end) {
      }
      absl::MutexLock lock(&mu);
      order.push_back(number);
    };
  };
  End busy = net.Connect();
  End busy_server = net.acceptor.Take();
  End other = net.Connect();
  End other_server = net.acceptor.Take();
  REQUIRE((busy_server.connection != nullptr && other_server.connection != nullptr));
  busy.connection->Send(Numbered(1, 0));
  REQUIRE(begun.WaitForNotificationWithTimeout(kPatience));
  for (size_t i = 0; i < kMany; ++i) busy.connection->Send(Numbered(2, static_cast<int>(i)));
  other.connection->Send(Numbered(3, 0));
  go_on.Notify();
  REQUIRE(busy_server.recorder->WaitMessages(1 + kMany));
  REQUIRE(other_server.recorder->WaitMessages(1));
  absl::MutexLock lock(&mu);
  REQUIRE(order.size() == kMany + 2);
  // With one thread for both, not last; with more, at once.
  CHECK(order.back() == 1);
}

TEST_CASE("an arena hands out blocks that do not overlap, and the last returned first", "[net]") {
  net::ShmArena arena(1 << 20, 100);
  std::set<std::pair<size_t, size_t>> ranges;
  std::vector<net::ShmArena::Block> blocks;
  for (const size_t bytes : {1, 64, 256, 257, 5000, 4096, 100'000, 300}) {
    const auto block = arena.Allocate(bytes);
    REQUIRE(block.has_value());
    CHECK(block->offset % 64 == 0);
    ranges.emplace(block->offset, block->offset + bytes);
    blocks.push_back(*block);
  }
  size_t end = 0;
  for (const auto& [from, to] : ranges) {
    CHECK(from >= end);
    end = to;
  }
  CHECK(end <= 1 << 20);
  CHECK(arena.Return(blocks[6].id).known);
  CHECK(arena.Allocate(99'000)->offset == blocks[6].offset);
  CHECK_FALSE(arena.Return(12345).known);
  CHECK(arena.Return(blocks[0].id).known);
  CHECK_FALSE(arena.Return(blocks[0].id).known);
}

TEST_CASE("an arena says no while it is full, and is cut anew when it is empty", "[net]") {
  net::ShmArena arena(1 << 20, 100);
  std::vector<uint32_t> ids;
  while (const auto block = arena.Allocate(100'000)) ids.push_back(block->id);
  CHECK(ids.size() == 9);  // of 114,688 bytes
  CHECK_FALSE(arena.Allocate(500'000).has_value());
  for (const uint32_t id : ids) CHECK(arena.Return(id).known);
  CHECK(arena.Allocate(500'000).has_value());
  net::ShmArena few(1 << 20, 2);
  CHECK((few.Allocate(1).has_value() && few.Allocate(1).has_value()));
  CHECK_FALSE(few.Allocate(1).has_value());
}

TEST_CASE("an arena keeps some memory of large blocks and gives back the rest", "[net]") {
  constexpr size_t kBlock = size_t{64} << 20;
  net::ShmArena arena(size_t{1} << 30, 100);
  std::vector<net::ShmArena::Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*arena.Allocate(kBlock));
  size_t discarded = 0;
  for (const net::ShmArena::Block& block : blocks)
    discarded += arena.Return(block.id).discard_bytes;
  CHECK(discarded == 4 * kBlock - net::ShmArena::kKeptBytes);
  // What is taken again and returned counts once.
  for (int i = 0; i < 10; ++i) {
    const auto block = arena.Allocate(kBlock);
    arena.Return(block->id);
  }
  std::vector<uint32_t> again;
  for (int i = 0; i < 4; ++i) again.push_back(arena.Allocate(kBlock)->id);
  discarded = 0;
  for (const uint32_t id : again) discarded += arena.Return(id).discard_bytes;
  CHECK(discarded == 4 * kBlock - net::ShmArena::kKeptBytes);
}

// What another user meets who connects to the socket `name` and says something: 0 when he is shown
// the door. Only calls that a child of a process with threads may make.
int VisitAsNobody(const std::string& name) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(2);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof(address.sun_path)) _exit(3);
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const socklen_t length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) _exit(4);
    char byte = 'x';
    send(fd, &byte, 1, MSG_NOSIGNAL);
    // It is closed without a word.
    const ssize_t got = recv(fd, &byte, 1, 0);
    _exit(got > 0 ? 5 : 0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST_CASE("another user of this machine gets no connection through shared memory", "[net][shm]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can be another user");
    return;
  }
  for (const Kind& kind : {SameHost(), SameUser()}) {
    INFO(kind.name);
    Net net(kind);
    const std::string address = net.listener->address();
    const std::string name = net::IsLocalAddress(address)
                                 ? net::LocalName(address)
                                 : net::ShmNamesFor(*net::ParseHostPort(address))[0];
    CHECK(VisitAsNobody(name) == 0);
    CHECK(net.acceptor.accepted() == 0);
    // Who is of this user gets one.
    End friendly = net.Connect();
    friendly.connection->Send(Numbered(1, 0));
    CHECK(net.acceptor.Take().recorder->WaitMessages(1));
  }
}

TEST_CASE("nobody connects to a socket of this user's that another user has", "[net][shm]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can be another user");
    return;
  }
  // A child of another user listens at a name, and ends when this end of the pipe is closed.
  const std::string address = absl::StrCat("local:impostor-", getpid());
  const std::string name = net::LocalName(address);
  int ready[2], end[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(end) == 0);
  const pid_t child = fork();
  if (child == 0) {
    close(end[1]);
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    sockaddr_un at = {};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path + 1, name.data(), name.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const socklen_t length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (bind(fd, reinterpret_cast<const sockaddr*>(&at), length) != 0 || listen(fd, 8) != 0) {
      _exit(3);
    }
    char byte = 'r';
    if (write(ready[1], &byte, 1) != 1) _exit(4);
    _exit(read(end[0], &byte, 1) == 0 ? 0 : 5);
  }
  REQUIRE(child > 0);
  close(end[0]);
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  const auto transport = net::NewHostTransport();
  auto recorder = std::make_shared<Recorder>();
  const auto connection = transport->Connect(address, kPatience, recorder);
  connection->Send(Numbered(1, 0));
  const absl::Status closed = recorder->WaitClosed();
  CHECK(absl::IsUnavailable(closed));
  CHECK(absl::StrContains(closed.message(), "another user"));
  close(end[1]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace coxswain::net_testing
