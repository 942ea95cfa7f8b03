// The data sets that workers load, and whether all of them have loaded the same data: pure. Owned
// by the coordinator's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"

namespace coxswain::core {

// What a worker has loaded.
struct WorkerDataset {
  uint64_t fingerprint = 0;
  std::vector<int64_t> examples;  // by part
};

class DatasetTable {
 public:
  // One of a data set's registrations; a later one takes its place.
  struct Registration {
    DatasetId dataset = 0;
    uint64_t number = 0;
  };

  // `index`: of one that is streamed, else null.
  Registration Register(DatasetId dataset, proto::DatasetSpec spec,
                        std::shared_ptr<const proto::DatasetIndex> index = nullptr);
  bool IsCurrent(const Registration& registration) const;
  // It could not be loaded: workers that come need not fail with it, too. Nothing where it is not
  // current.
  void Withdraw(const Registration& registration);
  // Nobody schedules on it any more; it goes when no plan reads it.
  void LetGo(DatasetId dataset);
  // Those that were let go and that no plan reads.
  std::vector<DatasetId> Unread(const std::function<bool(DatasetId)>& is_read) const;
  void Remove(DatasetId dataset);

  // A worker has loaded it. Errors: DataLoss when it has other data than the first one. OK for a
  // data set that is not here any more.
  absl::Status Check(DatasetId dataset, const proto::DatasetReady& ready);
  // Of the data that the first worker has loaded, if one has.
  std::optional<uint64_t> fingerprint(DatasetId dataset) const;

  // What a worker is asked that is to load it; what one is asked that has none.
  proto::ControlRequest Request(DatasetId dataset) const;
  std::vector<proto::ControlRequest> Requests() const;

 private:
  struct Dataset {
    proto::DatasetSpec spec;
    std::shared_ptr<const proto::DatasetIndex> index;
    uint64_t number = 0;  // of its registration
    bool let_go = false;
    std::optional<uint64_t> fingerprint;
  };

  uint64_t registrations_ = 0;
  std::map<DatasetId, Dataset> datasets_;
};

}  // namespace coxswain::core
