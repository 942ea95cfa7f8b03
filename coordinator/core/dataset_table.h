// The data sets that workers load, and the check that all of them have loaded the same data. Does
// no I/O. Owned by the coordinator's loop.
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

// A data set that a worker has loaded.
struct WorkerDataset {
  uint64_t fingerprint = 0;
  std::vector<int64_t> examples;  // by part
};

class DatasetTable {
 public:
  // A registration of a data set; a later one replaces it.
  struct Registration {
    DatasetId dataset = 0;
    uint64_t number = 0;
  };

  // `index`: for a streamed data set, else null.
  Registration Register(DatasetId dataset, proto::DatasetSpec spec,
                        std::shared_ptr<const proto::DatasetIndex> index = nullptr);
  bool IsCurrent(const Registration& registration) const;
  // The data set could not be loaded, so workers that join later must not fail because of it. Has
  // no effect if the registration is not current.
  void Withdraw(const Registration& registration);
  // Nobody schedules on it any more; it goes when no plan reads it.
  void LetGo(DatasetId dataset);
  // Those that were let go and that no plan reads.
  std::vector<DatasetId> Unread(const std::function<bool(DatasetId)>& is_read) const;
  void Remove(DatasetId dataset);

  // A worker has loaded the data set. Errors: DataLoss when its data differs from that of the first
  // worker. OK for a data set that is no longer registered.
  absl::Status Check(DatasetId dataset, const proto::DatasetReady& ready);
  // The fingerprint of the data that the first worker has loaded, if any.
  std::optional<uint64_t> fingerprint(DatasetId dataset) const;

  // The request to a worker to load the data set; the requests to a worker that has none.
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
