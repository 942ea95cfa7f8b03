// The network of a simulated world. Messages travel as copies and arrive after a random time; a
// connection keeps their order and delivers each at most once, as TCP does, but what was sent on
// an older connection may well arrive after what was sent on a newer one.
//
// Faults: a cut, also of one direction only (what is on the way stands still; when the cut heals it
// arrives late, or the connection breaks), slow nodes, and the death of either end.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/net/transport.h"
#include "tests/sim/world.h"

namespace coxswain::sim {

struct Link;
struct Acceptor;

struct NetworkOptions {
  absl::Duration latency = absl::Microseconds(50);  // at least
  absl::Duration jitter = absl::Microseconds(150);  // mean of what is added
  double spikes = 0.01;                             // how often a message takes longer:
  absl::Duration spike = absl::Milliseconds(30);    // up to this
  // How often what must not matter twice (closures, frames, their replies) is delivered once more,
  // some time later on the same connection. TCP would not do it; a proxy that resends may.
  double duplicates = 0;
  // Nobody may send a larger message (Connection::max_message_bytes): it is a violation.
  size_t max_message_bytes = std::numeric_limits<size_t>::max();
};

enum class Death {
  kProcess,  // the system closes its connections: peers hear of it
  kMachine,  // peers hear nothing until the address is there again
};

class Network {
 public:
  Network(World* world, NetworkOptions options) : world_(world), options_(options) {}

  // `node` is where `address` is, whether somebody listens there or not.
  void AddHost(const std::string& address, int node) { hosts_[address] = node; }
  std::unique_ptr<net::Transport> NewTransport(LifePtr life);

  // Right after World::MarkDead.
  void OnDeath(const LifePtr& life, Death death);
  // A new process of the node is there: peers of its older ones that heard nothing learn it now.
  void OnRestart(int node);
  // Lets go of the handlers of a dead process.
  void Forget(const LifePtr& life);
  // Tells the handlers of a dead process that all its connections broke, for its destructors' sake.
  void BreakAll(const LifePtr& life);

  // Nothing leaves the node / reaches it, until Heal.
  void CutOut(int node) { cut_out_.insert(node); }
  void CutIn(int node) { cut_in_.insert(node); }
  void CutPair(int from, int to) { cut_pairs_.insert({from, to}); }
  // All cuts at once.
  void Heal();
  // From now on it is quick, and delivers nothing twice and everything once.
  void Calm() {
    options_.spikes = options_.duplicates = 0;
    swallow_.clear();
    swallow_control_.clear();
    mute_.clear();
  }
  // Adds up to `extra` to what the node's messages take; zero ends it.
  void SetSlow(int node, absl::Duration extra) { slow_[node] = extra; }

  // Of closures, frames and their replies, which the node sends, the next so many are lost, while
  // all else goes on: what a mistake in a daemon does, or a proxy.
  void Swallow(int node, int count) { swallow_[node] += count; }
  // The same of control requests and their replies.
  void SwallowControl(int node, int count) { swallow_control_[node] += count; }
  // All closures, frames and replies to them, until it is set to false.
  void SetMute(int node, bool mute) { mute ? (void)mute_.insert(node) : (void)mute_.erase(node); }
  int64_t swallowed() const { return swallowed_; }
  int64_t control_swallowed() const { return control_swallowed_; }

  // And those of which this says so, when they arrive at the node.
  void set_swallows(std::function<bool(int node, const net::Message&)> swallows) {
    swallows_ = std::move(swallows);
  }

  // Sees each message before the node does, and may kill the node: then it does not get it. False:
  // the message breaks its connection. `from`: who has sent it; null where nobody knows any more.
  using OnMessage = std::function<bool(const LifePtr& from, int node, const net::Message&)>;
  void set_on_message(OnMessage on_message) { on_message_ = std::move(on_message); }

  size_t max_message_bytes() const { return options_.max_message_bytes; }
  uint64_t messages() const { return messages_; }
  // Of these, frames and answers to them.
  int64_t frame_messages() const { return frame_messages_; }
  int64_t duplicates() const { return duplicates_; }  // delivered

 private:
  friend struct Link;
  friend class SimTransport;
  friend class SimConnection;
  friend class SimListener;

  std::shared_ptr<net::Connection> Connect(const LifePtr& life, const std::string& address,
                                           absl::Duration timeout,
                                           std::shared_ptr<net::ConnectionHandler> handler);
  // Again after `retry`, and then after twice that, while nobody answers.
  void Arrive(const std::shared_ptr<Link>& link, const std::string& address,
              absl::Duration retry = absl::Milliseconds(200));
  void Accept(const std::shared_ptr<Link>& link, const std::shared_ptr<Acceptor>& acceptor);
  bool Blocked(int from, int to) const {
    return cut_out_.count(from) > 0 || cut_in_.count(to) > 0 || cut_pairs_.count({from, to}) > 0;
  }
  absl::Duration Travel(int from, int to);
  void Remember(const LifePtr& life, const std::shared_ptr<Link>& link);

  World* const world_;
  NetworkOptions options_;
  std::map<std::string, int> hosts_;
  std::map<std::string, std::shared_ptr<Acceptor>> acceptors_;
  std::set<int> cut_out_, cut_in_;
  std::set<std::pair<int, int>> cut_pairs_;
  std::map<int, absl::Duration> slow_;
  std::map<uint64_t, std::vector<std::weak_ptr<Link>>> links_;  // by life
  std::map<int, std::vector<std::shared_ptr<Link>>> ghosts_;    // by node of a lost machine
  std::vector<std::pair<std::weak_ptr<Link>, int>> stalled_;    // and the receiving side
  // Whether this message of the node is lost.
  bool Swallows(int node, const net::Message& message);

  std::map<int, int> swallow_, swallow_control_;
  std::set<int> mute_;
  int64_t swallowed_ = 0, control_swallowed_ = 0;
  std::function<bool(int node, const net::Message&)> swallows_;
  OnMessage on_message_;
  uint64_t messages_ = 0;
  int64_t frame_messages_ = 0;
  int64_t duplicates_ = 0;
  uint64_t last_link_ = 0;
};

}  // namespace coxswain::sim
