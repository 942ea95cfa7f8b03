// What the program reads as soon as its closures are over, while parameter servers are lost and
// what was over runs again: it is what the state is at the end.
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/job.h"

namespace coxswain::sim {

// A PS may be lost just then, and the program may take its time.
void CoordinatorProcess::ReadAtOnce() {
  Random& random = place_.world->random();
  // What was written by hand would be lost with it.
  if (checkpoints_since_write_ >= 2 && random.Chance(0.8)) {
    const auto ps = static_cast<size_t>(random.Below(job_->ps_used_));
    job_->site_->Kill(job_->ps_nodes_[ps], Death::kProcess,
                      random.Between(absl::Milliseconds(1), absl::Milliseconds(500)));
  }
  const bool joins = random.Chance(0.5);
  place_.world->Schedule(random.Between(absl::ZeroDuration(), absl::Seconds(1)), place_.life,
                         [this, joins] { joins ? ReadAfterJoin() : ReadOver(0); });
}

void CoordinatorProcess::ReadAfterJoin() {
  controller_->AwaitRerun(Guard([this](const absl::StatusOr<Generation>& generation) {
    if (!generation.ok()) {
      CannotRead(generation.status());
      return;
    }
    controller_->GetStats(Guard([this](const core::Controller::Stats& stats) {
      if (stats.open > 0) {
        place_.world->Violation(absl::StrCat(stats.open, " closures are open after a join"));
      }
      ReadOver(0);
    }));
  }));
}

void CoordinatorProcess::ReadOver(size_t shard) {
  if (shard == 0) {
    read_at_once_.clear();
    controller_->GetStats(Guard([this](const core::Controller::Stats& stats) {
      ps_lost_before_ = stats.failures.ps_lost;
    }));
  }
  if (shard == shards_.size()) {
    controller_->GetStats(Guard([this](const core::Controller::Stats& stats) {
      job_->totals.read_back += stats.failures.ps_lost != ps_lost_before_;
      Verify();
    }));
    return;
  }
  const proto::ShardSpec& spec = shards_[shard];
  if (spec.variable().has_hash()) {
    read_at_once_.emplace_back();
    ReadOver(shard + 1);
    return;
  }
  ++job_->totals.read_at_once;
  controller_->ReadRows(spec.id(), 0, spec.rows(), 0,
                        Guard([this, shard](absl::StatusOr<Tensor> rows) {
                          if (!rows.ok()) {
                            CannotRead(rows.status());
                            return;
                          }
                          read_at_once_.push_back(*std::move(rows));
                          ReadOver(shard + 1);
                        }));
}

std::string CoordinatorProcess::WrongReads() const {
  for (size_t s = 0; s < read_at_once_.size(); ++s) {
    const Tensor &read = read_at_once_[s], &last = final_.shards[s].rows;
    if (read.dtype() == DType::kInvalid) continue;  // of a hash table
    if (read.bytes() == last.bytes() && std::memcmp(read.raw(), last.raw(), read.bytes()) == 0) {
      continue;
    }
    return absl::StrCat("shard ", shards_[s].id(), " was read as ", read.ToString(),
                        " when all closures were over, and is ", last.ToString());
  }
  return "";
}

}  // namespace coxswain::sim
