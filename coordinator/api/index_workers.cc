#include "coordinator/api/index_workers.h"

#include <utility>

namespace coxswain {

void IndexWorkers::Ask(int worker, proto::IndexPart request, Done done) {
  proto::ControlRequest control;
  *control.mutable_index_part() = std::move(request);
  control.mutable_index_part()->set_pass(pass_);
  controller_.AskWorker(worker, std::move(control),
                        [done = std::move(done)](absl::StatusOr<proto::ControlReply> reply) {
                          if (!reply.ok()) return done(reply.status());
                          done(std::move(*reply->mutable_part_indexed()));
                        });
}

}  // namespace coxswain
