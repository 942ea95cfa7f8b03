// The machines of a simulated world: nodes at fixed addresses, on each of them a process that can
// be killed, stopped for a while, asked to end, and started anew.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_env.h"
#include "tests/sim/world.h"

namespace coxswain::sim {

// What runs on a node. Destroyed when its life is over; it must not wait for the world then.
class Process {
 public:
  virtual ~Process() = default;
  virtual void Start() = 0;
  // Asked to end in order (SIGTERM): calls `done` when it has said goodbye.
  virtual void Terminate(std::function<void()> done) { done(); }
};

// What a process gets.
struct Place {
  World* world = nullptr;
  env::Env* env = nullptr;
  net::Transport* transport = nullptr;
  LifePtr life;
  std::string address;
};

class Site {
 public:
  using Factory = std::function<std::unique_ptr<Process>(const Place& place)>;
  struct Options {
    NetworkOptions network;
    SimEnv::Options env;
    bool links = true;  // files can have second names
  };

  Site(World* world, Options options);
  // Ends all processes.
  ~Site();

  World* world() { return world_; }
  const Options& options() const { return options_; }
  Network* network() { return &network_; }
  Disk* disk() { return &disk_; }

  // A node without a process yet. `name` "worker:3" is also its address.
  // `env`: instead of the site's.
  int AddNode(const std::string& name, Factory factory,
              std::optional<SimEnv::Options> env = std::nullopt);
  int nodes() const { return static_cast<int>(nodes_.size()); }
  const std::string& name(int node) const { return nodes_[static_cast<size_t>(node)].name; }

  // All of these may be called from anywhere, also from within the process that they concern.
  void Start(int node);
  // The process is gone at once; nothing if there is none. Starts another one after `restart_after`
  // (negative: never).
  void Kill(int node, Death death, absl::Duration restart_after);
  // Asks it to end; after it has, as Kill.
  void Terminate(int node, absl::Duration restart_after);
  void Pause(int node, absl::Duration length);
  // Stops the process for `length` and starts another one beside it at once, as a supervisor does
  // that takes it for dead.
  void PauseAndReplace(int node, absl::Duration length);

  // The process of now; null if there is none.
  LifePtr life(int node) const { return nodes_[static_cast<size_t>(node)].life; }
  Process* process(int node) const { return nodes_[static_cast<size_t>(node)].process.get(); }
  bool up(int node) const;

  // Asked at each fault point of a process that is alive: true kills it there and then.
  using Ambush = std::function<bool(int node, const char* point)>;
  void set_ambush(Ambush ambush, std::function<absl::Duration()> restart_delay) {
    ambush_ = std::move(ambush);
    ambush_restart_ = std::move(restart_delay);
  }
  const std::map<std::string, int64_t>& fault_points() const { return fault_points_; }

 private:
  struct Node {
    std::string name;
    Factory factory;
    SimEnv::Options env_options;
    int starts = 0;
    LifePtr life;
    std::unique_ptr<SimEnv> env;
    std::unique_ptr<net::Transport> transport;
    std::unique_ptr<Process> process;
    bool starting = false;
  };
  // A process on its way out, or one that was replaced while it stood still.
  struct Remains {
    LifePtr life;
    std::unique_ptr<SimEnv> env;
    std::unique_ptr<net::Transport> transport;
    std::unique_ptr<Process> process;
  };

  std::shared_ptr<Remains> Detach(Node* node);
  void Die(const LifePtr& life, Death death);
  void Bury(const std::shared_ptr<Remains>& remains);

  World* const world_;
  const Options options_;
  Disk disk_;
  Network network_;
  std::vector<Node> nodes_;
  std::vector<std::shared_ptr<Remains>> replaced_;
  std::vector<std::unique_ptr<SimEnv>> old_envs_;
  Ambush ambush_;
  std::function<absl::Duration()> ambush_restart_;
  std::map<std::string, int64_t> fault_points_;  // how often each was passed
};

}  // namespace coxswain::sim
