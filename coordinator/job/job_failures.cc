// checkpoint, cluster.
#include "coordinator/job/job_sections.h"

namespace coxswain::job {

void ReadFailures(const JobReader& reader) {
  if (reader.Good("checkpoint")) {
    reader.Read("checkpoint", reader.file.Sub("checkpoint"), &reader.job->checkpoint);
    if (reader.job->train.consistency.in_steps() &&
        reader.job->checkpoint.on_ps_loss != PsLossPolicy::kRollback) {
      reader.Error("checkpoint.on_ps_loss",
                   absl::StrCat("updates of several batches want all shards to go back together; ",
                                "wanted rollback", AlsoInSteps(*reader.job)));
    }
  }
  if (reader.Good("cluster")) {
    reader.Read("cluster", reader.file.Sub("cluster"), &reader.job->cluster);
  }
}

}  // namespace coxswain::job
