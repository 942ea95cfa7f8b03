// The parts of a data set's files that this worker reads while the coordinator makes the index:
// those that are being read, and those whose rows are kept until the coordinator knows what is in
// front of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/control.pb.h"
#include "runtime/cluster/daemon.h"
#include "runtime/cluster/pending_tasks.h"
#include "runtime/data/stream/file_part.h"

namespace coxswain::worker {

// Thread model: belongs to the daemon's loop.
class IndexParts {
 public:
  using Reply = std::function<void(proto::ControlReply reply, std::vector<Buffer> payload)>;

  // All must outlive it, and it must outlive the work that `tasks` counts.
  IndexParts(env::Env* env, env::EventLoop* loop, cluster::PendingTasks* tasks,
             const cluster::DaemonOptions* options);

  // See proto::IndexPart. Rows are read on the pool.
  void Handle(const proto::IndexPart& request, Reply reply);
  // The session is over: nothing is kept, and what is being read ends soon.
  void Clear();

 private:
  using Rows = std::shared_ptr<data::FilePart>;
  struct Held {
    uint64_t load = 0;  // the last one of this part: results of others are dropped
    Rows rows;          // null while they are being read
  };

  void CountText(proto::TextRange range, Reply reply);
  void Read(const proto::IndexPart& request, Reply reply);
  void OnRead(int64_t part, uint64_t load, absl::StatusOr<Rows> rows, const Reply& reply);
  void AddUp(const proto::IndexPart& request, Reply reply);
  absl::Status Named(const absl::Status& status) const;
  void Answer(const Reply& reply, absl::StatusOr<proto::PartIndexed> found) const;

  env::Env* const env_;
  env::EventLoop* const loop_;
  cluster::PendingTasks* const tasks_;
  const cluster::DaemonOptions& options_;
  uint64_t pass_ = 0;
  std::shared_ptr<data::PartFiles> shared_;
  std::map<int64_t, Held> parts_;
  uint64_t last_load_ = 0;
};

}  // namespace coxswain::worker
