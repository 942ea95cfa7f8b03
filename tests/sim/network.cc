#include "tests/sim/network.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/net/message_type.h"

namespace coxswain::sim {
namespace {

constexpr int kClient = 0, kServer = 1;
// Messages from this type on have a packed header: closures, frames and their replies.
constexpr uint16_t kFirstPacked = 32;
constexpr absl::Duration kDuplicateDelay = absl::Milliseconds(30);  // mean
constexpr absl::Duration kMaxConnectRetry = absl::Minutes(1);

net::Message CopyOf(const net::Message& message) {
  net::Message copy;
  copy.type = message.type;
  copy.header = message.header;
  for (const Buffer& slice : message.payload) {
    Buffer bytes = Buffer::Allocate(slice.size());
    if (slice.size() > 0) std::memcpy(bytes.data(), slice.data(), slice.size());
    copy.payload.push_back(std::move(bytes));
  }
  return copy;
}

bool IsFrame(uint16_t type) {
  switch (static_cast<net::MessageType>(type)) {
    case net::MessageType::kFrame:
    case net::MessageType::kFrames:
    case net::MessageType::kFrameReply:
    case net::MessageType::kFrameReplies:
      return true;
    default:
      return false;
  }
}

// Of what is the same in every run: protobuf maps have no order.
uint64_t HashOf(const net::Message& message) {
  uint64_t hash = message.type;
  hash = hash * 31 + message.header.size();
  if (message.type >= kFirstPacked)
    hash = HashBytes(message.header.data(), message.header.size(), hash);
  for (const Buffer& slice : message.payload) hash = HashBytes(slice.data(), slice.size(), hash);
  return hash;
}

}  // namespace

// One connection. Side 0 connected, side 1 accepted.
struct Link : std::enable_shared_from_this<Link> {
  struct Item {
    absl::Duration due;
    net::Message message;
    std::optional<absl::Status> close;  // the last item
    absl::Duration sent = absl::ZeroDuration();
  };
  struct Side {
    int node = 0;
    LifePtr life;  // null: not accepted yet
    std::shared_ptr<net::ConnectionHandler> handler;
    bool closed = false;      // neither sends nor receives any more
    std::deque<Item> coming;  // on the way to this side
    absl::Duration last_due;  // of what has arrived
    bool stalled = false;
  };

  Link(Network* n, uint64_t i) : network(n), id(i) {}

  World* world() { return network->world_; }

  void Send(int from, net::Message message) {
    Side& me = side[from];
    if (me.closed || (me.life != nullptr && !me.life->alive)) return;
    if (network->Swallows(me.node, message)) return;
    if (const size_t bytes = message.wire_bytes(); bytes > network->options_.max_message_bytes) {
      world()->Violation(absl::StrCat(me.life ? me.life->name : "?", " sends a message of type ",
                                      message.type, " and ", bytes, " bytes"));
      return;
    }
    const double duplicates = network->options_.duplicates;
    if (duplicates > 0 && message.type >= kFirstPacked && world()->random().Chance(duplicates)) {
      auto again = std::make_shared<net::Message>(CopyOf(message));
      world()->Schedule(world()->random().Exponential(kDuplicateDelay),
                        [self = shared_from_this(), from, again] {
                          ++self->network->duplicates_;
                          self->Put(1 - from, {absl::ZeroDuration(), CopyOf(*again), std::nullopt});
                        });
    }
    Put(1 - from, Item{absl::ZeroDuration(), std::move(message), std::nullopt});
  }

  // What the peer will see, sooner or later.
  void Put(int to, Item item) {
    Side& peer = side[to];
    if (peer.closed) return;
    item.sent = world()->now();
    // An event that spent time may have sent already what it sends later than this.
    auto next = peer.coming.end();
    while (next != peer.coming.begin() && std::prev(next)->sent > item.sent) --next;
    const absl::Duration before =
        next == peer.coming.begin() ? peer.last_due : std::prev(next)->due;
    item.due = std::max(before, world()->now() + network->Travel(side[1 - to].node, peer.node));
    const absl::Duration due = item.due;
    PumpAt(to, due - world()->now());
    for (next = std::next(peer.coming.insert(next, std::move(item))); next != peer.coming.end();
         ++next) {
      if (next->due >= due) break;
      next->due = due;
      PumpAt(to, due - world()->now());
    }
  }

  void PumpAt(int to, absl::Duration delay) {
    if (side[to].life == nullptr) return;  // when it is accepted
    const LifePtr& life = side[to].life;
    world()->ScheduleOn(life->reader, delay, life,
                        [self = shared_from_this(), to] { self->Pump(to); });
  }

  void Pump(int to) {
    Side& me = side[to];
    while (!me.closed && !me.coming.empty() && me.coming.front().due <= world()->now() &&
           me.life->alive && !me.life->paused) {
      if (network->Blocked(side[1 - to].node, me.node)) {
        if (!me.stalled) network->stalled_.push_back({weak_from_this(), to});
        me.stalled = true;
        return;
      }
      Item item = std::move(me.coming.front());
      me.coming.pop_front();
      me.last_due = item.due;
      if (item.close.has_value()) {
        Closed(to, *item.close);
        return;
      }
      if (to == kClient) established = true;
      ++network->messages_;
      network->frame_messages_ += IsFrame(item.message.type);
      net::Message copy = CopyOf(item.message);
      world()->Note(kNoteMessage, id * 2 + static_cast<uint64_t>(to), HashOf(copy), [&] {
        return absl::StrCat(side[1 - to].life ? side[1 - to].life->name : "?", " -> ",
                            me.life->name, "  type ", copy.type, ", ",
                            copy.header.size() + copy.payload_bytes(), " bytes, link ", id);
      });
      if (network->swallows_ && network->swallows_(me.node, copy)) continue;
      const bool whole =
          !network->on_message_ || network->on_message_(side[1 - to].life, me.node, copy);
      if (!me.life->alive) return;
      if (!whole) {
        me.coming.clear();
        Reset("a message broke the connection");
        return;
      }
      const std::shared_ptr<net::ConnectionHandler> handler = me.handler;
      if (handler != nullptr) handler->OnMessage(std::move(copy));
    }
  }

  // This side learns that it is over.
  void Closed(int s, const absl::Status& reason) {
    Side& me = side[s];
    if (me.closed) return;
    me.closed = true;
    Tell(s, reason);
  }
  void Tell(int s, const absl::Status& reason) {
    Side& me = side[s];
    me.coming.clear();
    world()->Note(kNoteClosed, id * 2 + static_cast<uint64_t>(s), reason.ok(), [&] {
      return absl::StrCat(me.life ? me.life->name : "?", " loses link ", id, ": ",
                          reason.ToString());
    });
    if (auto handler = std::exchange(me.handler, nullptr)) handler->OnClosed(reason);
  }

  // This side ends it.
  void Close(int by, const absl::Status& reason) {
    Side& me = side[by];
    if (me.closed || (me.life != nullptr && !me.life->alive)) return;
    me.closed = true;
    me.coming.clear();
    if (me.handler != nullptr) {
      world()->Schedule(world()->random().Exponential(absl::Microseconds(20)), me.life,
                        [self = shared_from_this(), by, reason] { self->Tell(by, reason); });
    }
    // What is on the way mostly arrives before the news.
    if (world()->random().Chance(0.2)) Lose(1 - by);
    Put(1 - by, Item{absl::ZeroDuration(), {}, reason});
  }

  // A random part of what comes to this side, from some point on, is lost.
  void Lose(int to) {
    std::deque<Item>& coming = side[to].coming;
    coming.resize(
        static_cast<size_t>(world()->random().Below(static_cast<int64_t>(coming.size()) + 1)));
  }

  // Both sides see it break.
  void Reset(absl::string_view why) {
    for (Side& s : side) {
      if (s.closed) continue;
      Put(static_cast<int>(&s - side), Item{absl::ZeroDuration(), {}, absl::UnavailableError(why)});
    }
  }

  Network* const network;
  const uint64_t id;
  Side side[2];
  bool established = false;  // the client has heard of the server
};

struct Acceptor {
  std::string address;
  LifePtr life;
  net::AcceptFunction accept;
  bool stopped = false;
  std::vector<std::weak_ptr<Link>> links;
};

class SimConnection final : public net::Connection {
 public:
  SimConnection(std::shared_ptr<Link> link, int side, std::string peer)
      : link_(std::move(link)), side_(side), peer_(std::move(peer)) {}
  ~SimConnection() override { link_->Close(side_, absl::OkStatus()); }
  void Send(net::Message message) override {
    const std::shared_ptr<Link> keep = link_;
    keep->Send(side_, std::move(message));
  }
  void Close(absl::Status reason) override {
    const std::shared_ptr<Link> keep = link_;
    keep->Close(side_, reason);
  }
  std::string peer() const override { return peer_; }
  size_t max_message_bytes() const override { return link_->network->max_message_bytes(); }

 private:
  const std::shared_ptr<Link> link_;
  const int side_;
  const std::string peer_;
};

class SimListener final : public net::Listener {
 public:
  SimListener(Network* network, std::shared_ptr<Acceptor> acceptor)
      : network_(network), acceptor_(std::move(acceptor)) {}
  ~SimListener() override {
    acceptor_->stopped = true;
    const auto it = network_->acceptors_.find(acceptor_->address);
    if (it != network_->acceptors_.end() && it->second == acceptor_) {
      network_->acceptors_.erase(it);
    }
    for (auto& weak : acceptor_->links) {
      auto link = weak.lock();
      if (link == nullptr) continue;
      auto handler = std::exchange(link->side[kServer].handler, nullptr);
      link->Close(kServer, absl::UnavailableError("the listener ended"));
      if (handler != nullptr) handler->OnClosed(absl::UnavailableError("the listener ended"));
    }
  }
  std::string address() const override { return acceptor_->address; }

 private:
  Network* const network_;
  const std::shared_ptr<Acceptor> acceptor_;
};

class SimTransport final : public net::Transport {
 public:
  SimTransport(Network* network, LifePtr life) : network_(network), life_(std::move(life)) {}

  absl::StatusOr<std::unique_ptr<net::Listener>> Listen(const std::string& address,
                                                        net::AcceptFunction accept) override {
    auto acceptor = std::make_shared<Acceptor>();
    acceptor->address = address;
    acceptor->life = life_;
    acceptor->accept = std::move(accept);
    auto& there = network_->acceptors_[address];
    if (there != nullptr && there->life->alive) {
      return absl::UnavailableError(absl::StrCat("the address ", address, " is taken"));
    }
    there = acceptor;
    return std::make_unique<SimListener>(network_, std::move(acceptor));
  }

  std::shared_ptr<net::Connection> Connect(
      const std::string& address, absl::Duration timeout,
      std::shared_ptr<net::ConnectionHandler> handler) override {
    return network_->Connect(life_, address, timeout, std::move(handler));
  }

 private:
  Network* const network_;
  const LifePtr life_;
};

std::unique_ptr<net::Transport> Network::NewTransport(LifePtr life) {
  return std::make_unique<SimTransport>(this, std::move(life));
}

bool Network::Swallows(int node, const net::Message& message) {
  const bool packed = message.type >= kFirstPacked;
  const bool control = message.type == static_cast<uint16_t>(net::MessageType::kControl) ||
                       message.type == static_cast<uint16_t>(net::MessageType::kControlReply);
  if (!packed && !control) return false;
  auto& counts = packed ? swallow_ : swallow_control_;
  const auto next = counts.find(node);
  const bool one = next != counts.end() && next->second > 0;
  if (!one && (control || mute_.count(node) == 0)) return false;
  if (one) --next->second;
  ++(packed ? swallowed_ : control_swallowed_);
  world_->Note(kNoteFault, 2, message.type, [&] {
    return absl::StrCat("SWALLOWED message of node ", node, ", type ", message.type);
  });
  return true;
}

absl::Duration Network::Travel(int from, int to) {
  Random& random = world_->random();
  absl::Duration time = options_.latency + random.Exponential(options_.jitter);
  if (random.Chance(options_.spikes)) {
    time += random.Between(absl::ZeroDuration(), options_.spike);
  }
  for (int node : {from, to}) {
    const auto slow = slow_.find(node);
    if (slow != slow_.end() && slow->second > absl::ZeroDuration()) {
      time += random.Between(absl::ZeroDuration(), slow->second);
    }
  }
  return time;
}

void Network::Remember(const LifePtr& life, const std::shared_ptr<Link>& link) {
  auto& links = links_[life->number];
  // Now and then those that are over are let go.
  if (links.size() >= 16 && (links.size() & (links.size() - 1)) == 0) {
    links.erase(
        std::remove_if(links.begin(), links.end(), [](auto& weak) { return weak.expired(); }),
        links.end());
  }
  links.push_back(link);
}

std::shared_ptr<net::Connection> Network::Connect(const LifePtr& life, const std::string& address,
                                                  absl::Duration timeout,
                                                  std::shared_ptr<net::ConnectionHandler> handler) {
  static_assert(kClient == 0);
  auto link = std::make_shared<Link>(this, ++last_link_);
  auto connection = std::make_shared<SimConnection>(link, kClient, address);
  Link::Side& client = link->side[kClient];
  client.node = life->node;
  client.life = life;
  const auto host = hosts_.find(address);
  link->side[kServer].node = host == hosts_.end() ? -1 : host->second;
  if (!life->alive) {
    client.closed = true;
    return connection;
  }
  client.handler = std::move(handler);
  Remember(life, link);
  world_->Note(kNoteConnect, life->number, link->id, [&] {
    return absl::StrCat(life->name, " connects to ", address, ", link ", link->id);
  });
  world_->Schedule(Travel(client.node, link->side[kServer].node),
                   [this, link, address] { Arrive(link, address); });
  world_->Schedule(timeout, life, [link, address] {
    if (!link->established) {
      link->Put(kServer, {absl::ZeroDuration(), {}, absl::UnavailableError("the client gave up")});
      link->Closed(kClient, absl::UnavailableError(absl::StrCat("no answer from ", address)));
    }
  });
  return connection;
}

void Network::Arrive(const std::shared_ptr<Link>& link, const std::string& address,
                     absl::Duration retry) {
  Link::Side &client = link->side[kClient], &server = link->side[kServer];
  if (client.closed || !client.life->alive) return;
  const auto again = [&] {  // the system tries again
    world_->Schedule(retry, [this, link, address, retry] {
      Arrive(link, address, std::min(2 * retry, kMaxConnectRetry));
    });
  };
  if (Blocked(client.node, server.node) || Blocked(server.node, client.node)) {
    again();
    return;
  }
  const auto found = acceptors_.find(address);
  if (found != acceptors_.end() && found->second->life->alive) {
    world_->Schedule(absl::ZeroDuration(), found->second->life,
                     [this, link, acceptor = found->second] { Accept(link, acceptor); });
  } else if (ghosts_.count(server.node) == 0) {
    link->Put(kClient, {absl::ZeroDuration(),
                        {},
                        absl::UnavailableError(absl::StrCat("nobody listens at ", address))});
  } else {
    again();  // the machine is gone
  }
}

void Network::Accept(const std::shared_ptr<Link>& link, const std::shared_ptr<Acceptor>& acceptor) {
  Link::Side &client = link->side[kClient], &server = link->side[kServer];
  // A client that gave up meanwhile may have left its messages with the system.
  if (acceptor->stopped || server.closed) return;
  if ((client.closed || !client.life->alive) && world_->random().Chance(0.5)) return;
  server.life = acceptor->life;
  acceptor->links.push_back(link);
  if ((acceptor->links.size() & (acceptor->links.size() - 1)) == 0) {
    auto& links = acceptor->links;
    links.erase(
        std::remove_if(links.begin(), links.end(), [](auto& weak) { return weak.expired(); }),
        links.end());
  }
  Remember(server.life, link);
  server.handler = acceptor->accept(std::make_shared<SimConnection>(
      link, kServer, absl::StrCat(client.life->name, " on link ", link->id)));
  for (const Link::Item& item : server.coming) {
    link->PumpAt(kServer, std::max(absl::ZeroDuration(), item.due - world_->now()));
  }
  world_->Schedule(Travel(server.node, client.node), [this, link] {
    if (!Blocked(link->side[kServer].node, link->side[kClient].node)) link->established = true;
  });
}

void Network::OnDeath(const LifePtr& life, Death death) {
  const auto it = links_.find(life->number);
  if (it == links_.end()) return;
  for (auto& weak : it->second) {
    auto link = weak.lock();
    if (link == nullptr) continue;
    const int me = link->side[kClient].life == life ? kClient : kServer;
    if (link->side[me].closed) continue;
    link->side[me].closed = true;
    link->side[me].coming.clear();
    // It was at something that takes time, and has not come to the end of it.
    std::deque<Link::Item>& coming = link->side[1 - me].coming;
    while (!coming.empty() && coming.back().sent > world_->now()) coming.pop_back();
    if (world_->random().Chance(0.5)) link->Lose(1 - me);
    if (death == Death::kProcess) {
      link->Put(1 - me, {absl::ZeroDuration(), {}, absl::UnavailableError("connection reset")});
    } else {
      ghosts_[life->node].push_back(link);
    }
  }
  if (death == Death::kMachine) ghosts_[life->node];
}

void Network::OnRestart(int node) {
  const auto it = ghosts_.find(node);
  if (it == ghosts_.end()) return;
  for (const auto& link : it->second) link->Reset("connection reset by a restarted machine");
  ghosts_.erase(it);
}

void Network::Forget(const LifePtr& life) {
  const auto it = links_.find(life->number);
  if (it == links_.end()) return;
  const auto links = std::move(it->second);
  links_.erase(it);
  for (const auto& weak : links) {
    auto link = weak.lock();
    if (link == nullptr) continue;
    for (Link::Side& side : link->side) {
      if (side.life == life) side.handler = nullptr;
    }
  }
}

void Network::BreakAll(const LifePtr& life) {
  const auto it = links_.find(life->number);
  if (it == links_.end()) return;
  const auto links = it->second;
  for (const auto& weak : links) {
    auto link = weak.lock();
    if (link == nullptr) continue;
    for (Link::Side& side : link->side) {
      if (side.life != life) continue;
      if (auto handler = std::exchange(side.handler, nullptr)) {
        handler->OnClosed(absl::UnavailableError("the process is dead"));
      }
    }
  }
}

void Network::Heal() {
  cut_out_.clear();
  cut_in_.clear();
  cut_pairs_.clear();
  for (auto& [weak, to] : std::exchange(stalled_, {})) {
    auto link = weak.lock();
    if (link == nullptr) continue;
    link->side[to].stalled = false;
    if (world_->random().Chance(0.5)) {
      link->PumpAt(to, world_->random().Exponential(absl::Milliseconds(20)));
    } else {
      // Too long for TCP: it breaks, and what stood still is lost.
      link->side[to].coming.clear();
      link->Reset("connection timed out");
    }
  }
}

}  // namespace coxswain::sim
