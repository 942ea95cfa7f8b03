// checkpoint, cluster.
#include "coordinator/job/job_sections.h"

namespace coxswain {

void ReadFailures(const JobReader& reader) {
  if (reader.Good("checkpoint")) {
    const SectionView view = reader.file.Sub("checkpoint");
    CheckpointSpec* checkpoint = &reader.job->checkpoint;
    checkpoint->directory = view.String("directory");
    checkpoint->every_seconds = view.Real("every_seconds");
    checkpoint->every_steps = view.Int("every_steps");
    checkpoint->keep = view.Int("keep");
    checkpoint->incremental = view.Bool("incremental");
    checkpoint->on_ps_loss =
        view.Choice<PsLossPolicy>("on_ps_loss", {{"rollback", PsLossPolicy::kRollback},
                                                 {"replay", PsLossPolicy::kReplay},
                                                 {"accept_loss", PsLossPolicy::kAcceptLoss}});
    checkpoint->ps_return_seconds = view.Real("ps_return_seconds");
    checkpoint->rebalance = view.Bool("rebalance");
  }
  if (reader.Good("cluster")) {
    const SectionView view = reader.file.Sub("cluster");
    ClusterSpec* cluster = &reader.job->cluster;
    cluster->lease_seconds = view.Real("lease_seconds");
    cluster->timeout_seconds = view.Real("timeout_seconds");
    cluster->quarantine_after = view.Int("quarantine_after");
    cluster->closure_timeout_seconds = view.Real("closure_timeout_seconds");
  }
}

}  // namespace coxswain
