// The workers of a cluster, as the pass that makes an index asks them.
#pragma once

#include <cstdint>

#include "coordinator/core/controller.h"
#include "runtime/data/stream/index_pass.h"

namespace coxswain {

class IndexWorkers final : public data::PartReaders {
 public:
  // `pass`: unique in this process. The controller must outlive it.
  IndexWorkers(core::Controller* controller, uint64_t pass)
      : controller_(*controller), pass_(pass) {}
  int count() override { return controller_.num_workers(); }
  void Ask(int worker, proto::IndexPart request, Done done) override;

 private:
  core::Controller& controller_;
  const uint64_t pass_;
};

}  // namespace coxswain
