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

// What workers load.
struct DatasetSource {
  proto::DatasetSpec spec;
  std::shared_ptr<const proto::DatasetIndex> index;  // of a streamed data set, else null
  // Of the data that they must find. Without it, what the first one finds is what others must find.
  std::optional<uint64_t> fingerprint;
};

class DatasetTable {
 public:
  // A registration of a data set; a later one replaces it.
  struct Registration {
    DatasetId dataset = 0;
    uint64_t number = 0;
  };

  Registration Register(DatasetId dataset, DatasetSource source);
  bool IsCurrent(const Registration& registration) const;
  // The data set could not be loaded, so workers that join later must not fail because of it. Has
  // no effect if the registration is not current.
  void Withdraw(const Registration& registration);
  // Nobody schedules on it any more; it goes when no plan reads it.
  void LetGo(DatasetId dataset);
  // Those that were let go and that no plan reads.
  std::vector<DatasetId> Unread(const std::function<bool(DatasetId)>& is_read) const;
  void Remove(DatasetId dataset);

  // A worker has loaded the data set. Errors: DataLoss when its data is not what it must be. OK for
  // a data set that is no longer registered.
  absl::Status Check(DatasetId dataset, const proto::DatasetReady& ready);
  // Of its data, where that is known.
  std::optional<uint64_t> fingerprint(DatasetId dataset) const;

  // The request to a worker to load the data set; the requests to a worker that has none.
  proto::ControlRequest Request(DatasetId dataset) const;
  std::vector<proto::ControlRequest> Requests() const;

 private:
  struct Dataset {
    DatasetSource source;
    uint64_t number = 0;  // of its registration
    bool let_go = false;
  };

  uint64_t registrations_ = 0;
  std::map<DatasetId, Dataset> datasets_;
};

}  // namespace coxswain::core
