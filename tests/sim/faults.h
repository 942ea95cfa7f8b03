// What goes wrong in a simulated world, and when: drawn from its source of chance.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/sim/job.h"
#include "tests/sim/site.h"

namespace coxswain::sim {

struct FaultOptions {
  // How often each kind is drawn, relative to the others; 0: never.
  int kill_worker = 4;
  int kill_ps = 0;
  int kill_coordinator = 0;
  int replace_coordinator = 0;  // it stands still, another one starts, then it goes on
  int terminate = 1;            // a worker or PS is asked to end
  int pause = 2;                // any node
  int cut = 2;                  // a node or a pair of nodes, one direction or both
  int slow = 1;                 // a node's messages
  int disk_full = 0;
  int rot = 0;      // a bit of a checkpoint flips; at most once
  int elastic = 0;  // a worker joins or leaves
  int move = 0;     // a worker's machine goes, another one at another address takes its place
  // Closures, frames or their replies, which a node sends, are lost: a few, or all for a while.
  // Pings are not.
  int swallow = 0;
  int mute = 0;
  int swallow_control = 0;  // a few control requests or replies, likewise
  int pause_coordinator = 0;
  int wave = 0;   // several workers are killed within milliseconds, those that are back since long
  int rival = 0;  // somebody starts another job on the cluster
  int most_workers = 8;

  absl::Duration first = absl::Milliseconds(20);
  absl::Duration interval = absl::Milliseconds(300);  // mean
  int most = 20;
  // How long a node is down, stopped or cut off: mostly the one or the other.
  absl::Duration short_outage = absl::Milliseconds(100);
  absl::Duration long_outage = absl::Seconds(5);
  // Processes that are killed exactly at a fault point.
  int ambushes = 2;
  bool ambush_ps = false;
  bool resize = false;  // a coordinator that starts again uses another number of PS
};

class FaultDriver {
 public:
  FaultDriver(Site* site, Job* job, FaultOptions options);

  void Start();
  // No more faults; all that is broken is mended (what is down or stopped comes back in its time).
  void StopAndMend();

  int64_t injected() const { return injected_; }
  const std::map<std::string, int64_t>& by_kind() const { return by_kind_; }

 private:
  struct Ambush {
    std::string point;
    int64_t pass = 0;  // the how many-th
  };

  void Next();
  void Inject();
  absl::Duration Outage();
  int AnyNode();
  void CoordinatorGoes();
  template <typename T>
  const T& Pick(const std::vector<T>& from);
  void Say(const std::string& kind, const std::string& what);
  void KillOne(const std::vector<int>& nodes, const char* kind);
  void KillSeveral(const std::vector<int>& nodes);
  void CutSome();
  void ChangeWorkers();
  void MoveWorker();
  void TellWorkers(std::vector<std::string> workers);
  void StartRival();
  void RotNewest();
  void Mute(int node, absl::Duration length);
  bool OnFaultPoint(int node, const char* point);

  Site* const site_;
  Job* const job_;
  const FaultOptions options_;
  bool stopped_ = false;
  int rival_node_ = -1;
  int64_t injected_ = 0;
  std::map<std::string, int64_t> by_kind_;
  std::vector<Ambush> ambushes_;
  std::map<std::string, int64_t> passes_;
};

// The points in the production code where a process may be ambushed.
const std::vector<std::string>& WorkerPoints();
const std::vector<std::string>& PsPoints();

}  // namespace coxswain::sim
