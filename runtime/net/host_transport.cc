// The transport of daemons and coordinators: shared memory between processes of one user on one
// host, gRPC between all others.
//
// A listener at host:port also listens at a Unix socket in the abstract namespace that is named
// after it. Such names are known within one network namespace only, and so is the address: who
// finds the socket is on the same host. The one that connects makes the memory and passes it over
// the socket; both ends ask the kernel for the other's user. Whatever goes wrong before the other
// end has answered, gRPC is used.
//
// A listener at "local:NAME" has such a socket only, and is there for processes of its user alone.
#include "runtime/net/host_transport.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/net/accept_loop.h"
#include "runtime/net/address.h"
#include "runtime/net/pass.h"
#include "runtime/net/poller.h"
#include "runtime/net/shm_link.h"
#include "runtime/net/shm_socket.h"
#include "runtime/net/transport.h"
#include "runtime/net/weak_list.h"

namespace coxswain::net {
namespace {

// The threads on which links run their handlers: connections are dealt out to them.
class Pollers {
 public:
  // Where no other can be made, those that there are do more. Errors: as Poller::Make, while there
  // is none.
  absl::StatusOr<std::shared_ptr<Poller>> Next() {
    absl::MutexLock lock(&mu_);
    if (pollers_.empty()) {
      const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
      pollers_.resize(std::clamp(cores / 2, 1u, 8u));
    }
    std::shared_ptr<Poller>& poller = pollers_[next_++ % pollers_.size()];
    if (poller != nullptr) return poller;
    absl::StatusOr<std::shared_ptr<Poller>> made = Poller::Make();
    if (made.ok()) return poller = *std::move(made);
    for (const std::shared_ptr<Poller>& other : pollers_) {
      if (other != nullptr) return other;
    }
    return made.status();
  }

 private:
  absl::Mutex mu_;
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::shared_ptr<Poller>> pollers_ ABSL_GUARDED_BY(mu_);
};

// The links of one listener or transport. Thread-safe.
class LinkSet {
 public:
  // False after CloseAll.
  bool Add(const std::shared_ptr<ShmLink>& link) {
    absl::MutexLock lock(&mu_);
    if (!closed_) links_.Add(link);
    return !closed_;
  }
  void CloseAll(const absl::Status& reason) {
    std::vector<std::shared_ptr<ShmLink>> links;
    {
      absl::MutexLock lock(&mu_);
      closed_ = true;
      links = links_.Live();
    }
    for (const auto& link : links) link->Close(reason);
    for (const auto& link : links) link->WaitClosed();
  }

 private:
  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  WeakList<ShmLink> links_ ABSL_GUARDED_BY(mu_);
};

// What a listener's sources share.
struct Door {
  AcceptFunction accept;
  std::string address;
  TransportOptions options;
  absl::Duration hello_timeout;
  std::shared_ptr<Pollers> pollers;
  LinkSet links;
  std::atomic<uint64_t> arrivals{0};
  absl::Mutex mu;
  bool closed ABSL_GUARDED_BY(mu) = false;
  int accepting ABSL_GUARDED_BY(mu) = 0;
};

// A new connection to a listener, until it has passed its memory. While this process has no
// descriptor for what belongs to it, it waits, as those do whom the AcceptLoop cannot take.
class Arrival final : public PollerSource, public std::enable_shared_from_this<Arrival> {
 public:
  Arrival(std::shared_ptr<Door> door, std::shared_ptr<Poller> poller, UniqueFd socket)
      : door_(std::move(door)), poller_(std::move(poller)), socket_(std::move(socket)) {}

  int fd() const override { return socket_.get(); }
  // Its time is up; on the poller's thread.
  void GiveUp() {
    late_ = true;
    shutdown(socket_.get(), SHUT_RDWR);  // the poller forgets it
  }

  bool OnReady() override {
    short_of_descriptors_ = false;
    if (late_) return false;
    // The poller forgets this source by its own descriptor, and the link needs one.
    UniqueFd socket(dup(socket_.get()));
    absl::StatusOr<UniqueFd> file =
        socket.valid() ? ReceiveHello(socket_) : absl::ResourceExhaustedError("no descriptor");
    if (absl::IsResourceExhausted(file.status())) {
      short_of_descriptors_ = true;
      return false;
    }
    if (!file.ok() && absl::IsUnavailable(file.status())) return true;  // it is not there yet
    if (absl::IsCancelled(file.status())) return false;
    absl::StatusOr<std::shared_ptr<ShmSegment>> segment =
        file.ok() ? ShmSegment::Map(*file) : file.status();
    if (!segment.ok()) {
      LogRefused(segment.status());
      SendAnswer(socket_, false);
      return false;
    }
    {
      absl::MutexLock lock(&door_->mu);
      if (door_->closed) return false;
      ++door_->accepting;
    }
    Accept(std::move(socket), *std::move(segment));
    absl::MutexLock lock(&door_->mu);
    --door_->accepting;
    return false;
  }

  void OnForgotten() override {
    const std::shared_ptr<Poller> poller = poller_.lock();
    if (!short_of_descriptors_ || poller == nullptr) return;
    poller->RunAfter(AcceptLoop::kPause, [self = shared_from_this()] { self->TryAgain(); });
  }

 private:
  void TryAgain() {
    const auto poller = poller_.lock();
    if (poller == nullptr) return;
    if (const absl::Status added = poller->Add(shared_from_this()); !added.ok()) {
      LogRefused(added);
    }
  }
  // The other end sees the socket closed, and uses gRPC if it may.
  void LogRefused(const absl::Status& why) const {
    LogWarning("a connection to ", door_->address,
               " through shared memory is refused: ", why.message());
  }

  void Accept(UniqueFd socket, std::shared_ptr<ShmSegment> segment) {
    SendAnswer(socket_, true);
    const std::string peer =
        absl::StrCat("connection ", ++door_->arrivals, " of ", PeerName(socket_));
    auto link = std::make_shared<ShmLink>(ShmLink::kServer, std::move(socket), std::move(segment),
                                          peer, door_->options, poller_);
    door_->links.Add(link);
    const auto connection = std::make_shared<ShmConnection>(link);
    std::shared_ptr<ConnectionHandler> handler = door_->accept(connection);
    if (handler == nullptr) link->Close(absl::UnavailableError("the connection was refused"));
    link->Open(std::move(handler));
    if (const auto poller = poller_.lock()) {
      if (absl::Status added = poller->Add(link); !added.ok()) link->Close(std::move(added));
    }
  }

  const std::shared_ptr<Door> door_;
  const std::weak_ptr<Poller> poller_;
  const UniqueFd socket_;
  // Of the poller's thread.
  bool short_of_descriptors_ = false;
  bool late_ = false;
};

// Someone has connected. Errors: those of whoever is refused; the other end sees the socket closed.
absl::Status Receive(const std::shared_ptr<Door>& door, UniqueFd arrived) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Poller> poller, door->pollers->Next());
  auto arrival = std::make_shared<Arrival>(door, poller, std::move(arrived));
  RETURN_IF_ERROR(poller->Add(arrival));
  poller->RunAfter(door->hello_timeout, [weak = std::weak_ptr<Arrival>(arrival)] {
    if (const auto silent = weak.lock()) silent->GiveUp();
  });
  return absl::OkStatus();
}

// Lets those in who connect to `door`. Errors: as Poller::Add.
absl::StatusOr<std::shared_ptr<AcceptLoop>> StartDoor(const std::shared_ptr<Door>& door,
                                                      UniqueFd socket) {
  const auto take = [door](UniqueFd arrived) {
    if (!SameUser(arrived)) return;  // the other end sees it closed, and uses gRPC
    if (const absl::Status received = Receive(door, std::move(arrived)); !received.ok()) {
      LogWarning("a connection to ", door->address,
                 " through shared memory is refused: ", received.message());
    }
  };
  ASSIGN_OR_RETURN(const std::shared_ptr<Poller> poller, door->pollers->Next());
  auto loop = std::make_shared<AcceptLoop>(
      poller, std::move(socket),
      absl::StrCat("those who connect to ", door->address, " on this host"), take);
  RETURN_IF_ERROR(poller->Add(loop));
  return loop;
}

class HostListener final : public Listener {
 public:
  // `source` may be null: gRPC only.
  HostListener(std::unique_ptr<Listener> grpc, std::shared_ptr<Door> door,
               std::shared_ptr<AcceptLoop> source)
      : grpc_(std::move(grpc)), door_(std::move(door)), source_(std::move(source)) {}

  ~HostListener() override {
    if (source_ != nullptr) source_->ShutDown();
    const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(door_->mu) {
      return door_->accepting == 0;
    };
    {
      absl::MutexLock lock(&door_->mu);
      door_->closed = true;
      door_->mu.Await(absl::Condition(&idle));
    }
    door_->links.CloseAll(
        absl::UnavailableError(absl::StrCat("the listener at ", address(), " ended")));
  }

  std::string address() const override { return door_->address; }

 private:
  const std::unique_ptr<Listener> grpc_;  // null: same user only
  const std::shared_ptr<Door> door_;
  const std::shared_ptr<AcceptLoop> source_;
};

// A connection that this process makes: through shared memory if the other end says yes, else
// through gRPC. Until that is known, messages wait. Thread-safe.
class Dial final : public std::enable_shared_from_this<Dial> {
 public:
  using UseGrpc = std::function<std::shared_ptr<Connection>(std::shared_ptr<ConnectionHandler>)>;

  Dial(std::string address, size_t max_message_bytes, std::shared_ptr<ConnectionHandler> handler,
       UseGrpc use_grpc)
      : address_(std::move(address)),
        max_message_bytes_(max_message_bytes),
        use_grpc_(std::move(use_grpc)),
        handler_(std::move(handler)) {}

  const std::string& address() const { return address_; }
  size_t max_message_bytes() const { return max_message_bytes_; }

  void Send(Message message) {
    std::shared_ptr<Connection> connection;
    {
      absl::MutexLock lock(&mu_);
      if (closed_.has_value()) return;
      if (connection_ == nullptr) {
        waiting_.push_back(std::move(message));
        return;
      }
      connection = connection_;
    }
    connection->Send(std::move(message));
  }

  void Close(absl::Status reason) {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<ConnectionHandler> handler;
    {
      absl::MutexLock lock(&mu_);
      if (closed_.has_value()) return;
      closed_ = reason;
      connection = connection_;
      // It is told here unless a connection tells it.
      handler = std::exchange(handler_, nullptr);
      if (handler != nullptr) ++busy_;
    }
    if (handler != nullptr) {
      handler->OnClosed(reason);
      handler.reset();
      absl::MutexLock lock(&mu_);
      --busy_;
    }
    if (connection != nullptr) connection->Close(std::move(reason));
  }

  // It is closed, and nobody tells its handler.
  void Abandon(absl::Status reason) {
    std::shared_ptr<ConnectionHandler> handler;  // goes after the lock
    absl::MutexLock lock(&mu_);
    closed_ = std::move(reason);
    handler = std::exchange(handler_, nullptr);
  }

  // The other end has answered: from now on through `connection`, which handles with the handler
  // that `use` is given (null when it has been told that the connection is closed).
  void Use(absl::FunctionRef<std::shared_ptr<Connection>(std::shared_ptr<ConnectionHandler>)> use) {
    std::shared_ptr<ConnectionHandler> handler;
    {
      absl::MutexLock lock(&mu_);
      handler = std::exchange(handler_, nullptr);
      ++busy_;
    }
    const std::shared_ptr<Connection> connection = use(std::move(handler));
    std::optional<absl::Status> closed;
    for (bool all = false; !all;) {
      std::deque<Message> waiting;
      {
        absl::MutexLock lock(&mu_);
        waiting.swap(waiting_);
        all = waiting.empty();
        if (all) {
          connection_ = connection;
          closed = closed_;
        }
      }
      for (Message& message : waiting) connection->Send(std::move(message));
    }
    if (closed.has_value()) connection->Close(*std::move(closed));  // meanwhile
    absl::MutexLock lock(&mu_);
    --busy_;
  }
  // The other end will not have it.
  void UseGrpcInstead() {
    if (dialing()) Use(use_grpc_);
  }

  // The other end has not answered, and nobody has closed it.
  bool dialing() const {
    absl::MutexLock lock(&mu_);
    return handler_ != nullptr;
  }
  // Blocks while the handler is told of a Close, or is given to a connection.
  void WaitIdle() {
    const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return busy_ == 0; };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&idle));
  }

 private:
  const std::string address_;
  const size_t max_message_bytes_;
  const UseGrpc use_grpc_;
  mutable absl::Mutex mu_;
  std::shared_ptr<ConnectionHandler> handler_ ABSL_GUARDED_BY(mu_);  // until someone else has it
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);
  std::deque<Message> waiting_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mu_);
  int busy_ ABSL_GUARDED_BY(mu_) = 0;
};

class DialConnection final : public Connection {
 public:
  explicit DialConnection(std::shared_ptr<Dial> dial) : dial_(std::move(dial)) {}
  ~DialConnection() override { dial_->Close(absl::OkStatus()); }
  void Send(Message message) override {
    const std::shared_ptr<Dial> dial = dial_;
    dial->Send(std::move(message));
  }
  void Close(absl::Status reason) override {
    const std::shared_ptr<Dial> dial = dial_;
    dial->Close(std::move(reason));
  }
  std::string peer() const override { return dial_->address(); }
  size_t max_message_bytes() const override { return dial_->max_message_bytes(); }

 private:
  const std::shared_ptr<Dial> dial_;
};

// Waits for the answer to a Dial.
class AnswerSource final : public PollerSource {
 public:
  AnswerSource(std::shared_ptr<Dial> dial, UniqueFd socket, std::shared_ptr<ShmSegment> segment,
               std::shared_ptr<LinkSet> links, const TransportOptions& options,
               std::weak_ptr<Poller> poller)
      : dial_(std::move(dial)),
        socket_(std::move(socket)),
        segment_(std::move(segment)),
        links_(std::move(links)),
        options_(options),
        poller_(std::move(poller)) {}

  int fd() const override { return socket_.get(); }
  bool OnReady() override {
    const ShmAnswer answer = ReceiveAnswer(socket_);
    if (answer == ShmAnswer::kNotYet) return true;
    const std::shared_ptr<Poller> poller = poller_.lock();
    UniqueFd socket(dup(socket_.get()));  // the poller still has the old one to forget
    if (answer == ShmAnswer::kNo || !socket.valid() || poller == nullptr) {
      dial_->UseGrpcInstead();
      return false;
    }
    auto link = std::make_shared<ShmLink>(ShmLink::kClient, std::move(socket), segment_,
                                          dial_->address(), options_, poller_);
    dial_->Use([&](std::shared_ptr<ConnectionHandler> handler) {
      if (!links_->Add(link)) link->Close(absl::UnavailableError("the transport ended"));
      link->Open(std::move(handler));
      return std::make_shared<ShmConnection>(link);
    });
    if (absl::Status added = poller->Add(link); !added.ok()) link->Close(std::move(added));
    return false;
  }

  void OnTimeout(absl::Duration timeout) {
    if (!dial_->dialing()) return;
    dial_->Close(absl::UnavailableError(absl::StrCat("no answer from ", dial_->address(),
                                                     " within ", absl::FormatDuration(timeout))));
    shutdown(socket_.get(), SHUT_RDWR);  // the poller forgets it
  }

 private:
  const std::shared_ptr<Dial> dial_;
  const UniqueFd socket_;
  const std::shared_ptr<ShmSegment> segment_;
  const std::shared_ptr<LinkSet> links_;
  const TransportOptions options_;
  const std::weak_ptr<Poller> poller_;
};

// The transport for those that are not here. It may be used until the HostTransport goes.
struct FarTransport {
  absl::Mutex mu;
  std::unique_ptr<Transport> transport ABSL_GUARDED_BY(mu);

  std::shared_ptr<Connection> Connect(const std::string& address, absl::Duration timeout,
                                      std::shared_ptr<ConnectionHandler> handler) {
    absl::MutexLock lock(&mu);
    if (transport != nullptr) return transport->Connect(address, timeout, std::move(handler));
    auto dead = std::make_shared<Dial>(address, kMaxMessageBytes, nullptr, nullptr);
    dead->Close(absl::UnavailableError("the transport ended"));
    return std::make_shared<DialConnection>(std::move(dead));
  }
  std::unique_ptr<Transport> Take() {
    absl::MutexLock lock(&mu);
    return std::move(transport);
  }
};

class HostTransport final : public Transport, public AsksForPasses {
 public:
  HostTransport(const TransportOptions& options, absl::Duration hello_timeout)
      : options_(options), hello_timeout_(hello_timeout) {
    absl::MutexLock lock(&grpc_->mu);
    grpc_->transport = NewGrpcTransport(options);
  }

  ~HostTransport() override {
    const absl::Status reason = absl::UnavailableError("the transport ended");
    std::vector<std::shared_ptr<Dial>> dials;
    {
      absl::MutexLock lock(&mu_);
      closed_ = true;
      dials = dials_.Live();
    }
    for (const auto& dial : dials) dial->Close(reason);
    for (const auto& dial : dials) dial->WaitIdle();
    links_->CloseAll(reason);
    grpc_->Take();
  }

  void UseSecret(std::shared_ptr<const Secret> secret, const StrangerLimits& limits) override {
    absl::MutexLock lock(&grpc_->mu);
    if (auto* asks = dynamic_cast<AsksForPasses*>(grpc_->transport.get())) {
      asks->UseSecret(std::move(secret), limits);
    }
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFunction accept) override {
    if (IsLocalAddress(address)) return ListenLocally(address, std::move(accept));
    std::unique_ptr<Listener> grpc;
    {
      absl::MutexLock lock(&grpc_->mu);
      ASSIGN_OR_RETURN(grpc, grpc_->transport->Listen(address, accept));
    }
    auto door = NewDoor(grpc->address(), std::move(accept));
    ASSIGN_OR_RETURN(const HostPort bound, ParseHostPort(door->address));
    absl::StatusOr<UniqueFd> socket = ListenAt(ShmName(bound));
    std::shared_ptr<AcceptLoop> source;
    absl::Status opened = socket.status();
    if (opened.ok()) {
      auto started = StartDoor(door, *std::move(socket));
      opened = started.status();
      if (opened.ok()) source = *std::move(started);
    }
    if (!opened.ok()) {
      LogWarning("no shared memory for those who connect to ", door->address,
                 " on this host: ", opened.message());
    }
    return std::make_unique<HostListener>(std::move(grpc), std::move(door), std::move(source));
  }

  std::shared_ptr<Connection> Connect(const std::string& address, absl::Duration timeout,
                                      std::shared_ptr<ConnectionHandler> handler) override {
    const bool local = IsLocalAddress(address);
    UniqueFd socket = Find(address);
    absl::StatusOr<ShmSegment::Created> memory =
        absl::UnavailableError(absl::StrCat("nobody listens at ", address));
    if (socket.valid() && SameUser(socket)) {
      memory = ShmSegment::Create();
    } else if (socket.valid() && local) {
      memory =
          absl::PermissionDeniedError(absl::StrCat("who listens at ", address, " is another user"));
    }
    const absl::Status reached = memory.ok() ? SendHello(socket, memory->file) : memory.status();
    if (!reached.ok() && !local) return grpc_->Connect(address, timeout, std::move(handler));
    Dial::UseGrpc otherwise = [grpc = grpc_, address,
                               timeout](std::shared_ptr<ConnectionHandler> h) {
      return grpc->Connect(address, timeout, std::move(h));
    };
    if (local) otherwise = [address](auto h) { return Refused(address, std::move(h)); };
    auto dial = std::make_shared<Dial>(address, options_.max_message_bytes, std::move(handler),
                                       std::move(otherwise));
    auto connection = std::make_shared<DialConnection>(dial);
    if (!Keep(dial)) {
      dial->Abandon(absl::UnavailableError("the transport ended"));
      return connection;
    }
    const absl::StatusOr<std::shared_ptr<Poller>> poller = pollers_->Next();
    absl::Status waits = poller.status();
    if (waits.ok() && !reached.ok()) {
      const absl::Status why = absl::UnavailableError(reached.message());
      (*poller)->RunAfter(absl::ZeroDuration(), [dial, why] { dial->Close(why); });
    } else if (waits.ok()) {
      auto answer = std::make_shared<AnswerSource>(dial, std::move(socket), memory->segment, links_,
                                                   options_, *poller);
      waits = WaitForAnswer(poller->get(), answer, timeout);
    }
    if (!waits.ok() && local) {
      dial->Close(absl::UnavailableError(waits.message()));
    } else if (!waits.ok()) {
      dial->UseGrpcInstead();
    }
    return connection;
  }

 private:
  // False when the transport ends.
  bool Keep(const std::shared_ptr<Dial>& dial) {
    absl::MutexLock lock(&mu_);
    if (!closed_) dials_.Add(dial);
    return !closed_;
  }

  // Errors: as Poller::Add.
  static absl::Status WaitForAnswer(Poller* poller, const std::shared_ptr<AnswerSource>& answer,
                                    absl::Duration timeout) {
    RETURN_IF_ERROR(poller->Add(answer));
    poller->RunAfter(timeout, [weak = std::weak_ptr<AnswerSource>(answer), timeout] {
      if (const auto source = weak.lock()) source->OnTimeout(timeout);
    });
    return absl::OkStatus();
  }

  std::shared_ptr<Door> NewDoor(const std::string& address, AcceptFunction accept) {
    auto door = std::make_shared<Door>();
    door->accept = std::move(accept);
    door->address = address;
    door->options = options_;
    door->hello_timeout = hello_timeout_;
    door->pollers = pollers_;
    return door;
  }

  absl::StatusOr<std::unique_ptr<Listener>> ListenLocally(const std::string& wanted,
                                                          AcceptFunction accept) {
    std::string address = wanted;
    if (address == kLocalScheme) {  // a name that nobody can have taken before
      uint64_t name[2] = {};
      COX_CHECK(getrandom(name, sizeof(name), 0) == sizeof(name), "no entropy");
      absl::StrAppend(&address, absl::Hex(name[0], absl::kZeroPad16),
                      absl::Hex(name[1], absl::kZeroPad16));
    }
    ASSIGN_OR_RETURN(UniqueFd socket, ListenAt(LocalName(address)));
    auto door = NewDoor(address, std::move(accept));
    ASSIGN_OR_RETURN(auto source, StartDoor(door, std::move(socket)));
    return std::make_unique<HostListener>(nullptr, std::move(door), std::move(source));
  }

  // A connection that the listener at a local address did not take.
  static std::shared_ptr<Connection> Refused(const std::string& address,
                                             std::shared_ptr<ConnectionHandler> handler) {
    auto dead = std::make_shared<Dial>(address, kMaxMessageBytes, std::move(handler), nullptr);
    dead->Close(absl::UnavailableError(absl::StrCat(address, " refused the connection")));
    return std::make_shared<DialConnection>(std::move(dead));
  }

  // A socket to who listens at `address` on this host; an invalid one if nobody does.
  static UniqueFd Find(const std::string& address) {
    if (IsLocalAddress(address)) {
      absl::StatusOr<UniqueFd> socket = ConnectTo(LocalName(address));
      return socket.ok() ? *std::move(socket) : UniqueFd();
    }
    const absl::StatusOr<HostPort> host_port = ParseHostPort(address);
    if (!host_port.ok()) return {};
    for (const std::string& name : ShmNamesFor(*host_port)) {
      if (absl::StatusOr<UniqueFd> socket = ConnectTo(name); socket.ok()) return *std::move(socket);
    }
    return {};
  }

  const TransportOptions options_;
  const absl::Duration hello_timeout_;
  const std::shared_ptr<Pollers> pollers_ = std::make_shared<Pollers>();
  const std::shared_ptr<FarTransport> grpc_ = std::make_shared<FarTransport>();
  const std::shared_ptr<LinkSet> links_ = std::make_shared<LinkSet>();
  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  WeakList<Dial> dials_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<Transport> NewHostTransportWith(const TransportOptions& options,
                                                absl::Duration hello_timeout) {
  return std::make_unique<HostTransport>(options, hello_timeout);
}

std::unique_ptr<Transport> NewHostTransport(const TransportOptions& options) {
  const char* wanted = std::getenv("COXSWAIN_TRANSPORT");
  if (wanted != nullptr && absl::string_view(wanted) == "grpc") return NewGrpcTransport(options);
  if (wanted != nullptr && wanted[0] != '\0') {
    LogWarning("COXSWAIN_TRANSPORT: wanted grpc, found ", wanted, ", which has no effect");
  }
  return NewHostTransportWith(options, kHelloTimeout);
}

}  // namespace coxswain::net
