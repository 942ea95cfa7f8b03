// The parts of data sets' files that this worker reads while the coordinator makes their indexes:
// those that are being read, and those whose rows are kept until the coordinator knows what is in
// front of them. Several strategies may create data sets at the same time, each in a pass of its
// own.
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

  // See proto::IndexPart. Rows are read on the pool. Of more passes than kMostPasses the one that
  // has asked for nothing longest is forgotten; it reads its parts again.
  static constexpr size_t kMostPasses = 64;
  void Handle(const proto::IndexPart& request, Reply reply);
  // The session is over, or its coordinator has given up what it asked for: nothing is kept, and
  // what is being read ends soon.
  void Clear();

 private:
  using Rows = std::shared_ptr<data::FilePart>;
  struct Held {
    uint64_t load = 0;  // the last one of this part: results of others are dropped
    Rows rows;          // null while they are being read
  };
  struct Pass {
    uint64_t asked = 0;  // the last request, by number
    std::shared_ptr<data::PartFiles> shared = std::make_shared<data::PartFiles>();
    std::map<int64_t, Held> parts;
  };

  Pass* PassOf(uint64_t number);
  void Forget(uint64_t pass);
  void CountText(const Pass& pass, proto::TextRange range, Reply reply);
  void Read(Pass* pass, const proto::IndexPart& request, Reply reply);
  void OnRead(uint64_t pass, int64_t part, uint64_t load, absl::StatusOr<Rows> rows,
              const Reply& reply);
  void AddUp(Pass* pass, const proto::IndexPart& request, Reply reply);
  absl::Status Named(const absl::Status& status) const;
  void Answer(const Reply& reply, absl::StatusOr<proto::PartIndexed> found) const;

  env::Env* const env_;
  env::EventLoop* const loop_;
  cluster::PendingTasks* const tasks_;
  const cluster::DaemonOptions& options_;
  std::map<uint64_t, Pass> passes_;  // by number
  uint64_t requests_ = 0, last_load_ = 0;
};

}  // namespace coxswain::worker
