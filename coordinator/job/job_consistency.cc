// train.consistency and train.deterministic: what each mode wants of the other keys.
#include "absl/strings/str_cat.h"
#include "coordinator/job/job_sections.h"

namespace coxswain::job {

namespace {

// Fixed, because the result depends on it. It keeps 4 workers busy with two batches each.
constexpr int64_t kDefaultWindow = 8;

const char* NameOf(ConsistencyMode mode) {
  switch (mode) {
    case ConsistencyMode::kAsync:
      return "async";
    case ConsistencyMode::kBounded:
      return "bounded";
    case ConsistencyMode::kSync:
      return "sync";
    case ConsistencyMode::kHybrid:
      return "hybrid";
  }
  return "unknown";
}

// The keys of the one mode are not for the others.
void CheckKeysOfModes(const JobReader& reader, const SectionView& view) {
  const Consistency& consistency = reader.job->train.consistency;
  const struct {
    const char* key;
    ConsistencyMode mode;
    bool wanted;
  } kKeys[] = {{"max_staleness", ConsistencyMode::kBounded, true},
               {"replicas", ConsistencyMode::kSync, true},
               {"backup", ConsistencyMode::kSync, false},
               {"group_size", ConsistencyMode::kHybrid, true},
               {"window", ConsistencyMode::kAsync, false}};
  for (const auto& [key, mode, wanted] : kKeys) {
    if (consistency.mode != mode && view.Given(key)) {
      reader.Error(absl::StrCat("train.consistency.", key),
                   absl::StrCat("only with mode `", NameOf(mode), "`"));
    } else if (consistency.mode == mode && wanted && !view.Has(key)) {
      reader.Error("train.consistency",
                   absl::StrCat("mode `", NameOf(mode), "` wants `", key, "`"));
    }
  }
  if (consistency.mode == ConsistencyMode::kAsync && view.Given("window") &&
      !reader.job->train.deterministic) {
    reader.Error("train.consistency.window", "only with train.deterministic");
  }
  if (!consistency.in_steps() && view.Given("reduce")) {
    reader.Error("train.consistency.reduce",
                 reader.job->train.deterministic
                     ? "with train.deterministic the updates of a window are applied one by one; "
                       "wanted no `reduce`, or the mode `sync`"
                     : "only with modes `sync` and `hybrid`, or with `accumulate`");
  }
  if (consistency.reduce == GradientReduction::kNone && consistency.accumulate > 1) {
    reader.Error("train.consistency.reduce",
                 "with `accumulate` an update is of all its microbatches; wanted mean or sum");
  }
}

// With train.deterministic, `async` and `bounded` are synchronous steps whose batches are updates
// of their own, in order: the same updates, of which none is late by more than it may be. With
// microbatches CheckDeterministic refuses the job.
void PutInOrder(const JobReader& reader, bool window_given) {
  TrainSpec* const train = &reader.job->train;
  Consistency* const c = &train->consistency;
  const bool in_order = c->mode == ConsistencyMode::kAsync || c->mode == ConsistencyMode::kBounded;
  if (!train->deterministic || !in_order || c->accumulate > 1) return;
  if (c->mode == ConsistencyMode::kBounded) {
    c->replicas = c->max_staleness + 1;
    if (c->replicas > Consistency::kMostReplicas) {
      reader.Error("train.consistency.max_staleness",
                   absl::StrCat("with train.deterministic this many batches and one more are held "
                                "until all are there; wanted at most ",
                                Consistency::kMostReplicas - 1));
      c->replicas = Consistency::kMostReplicas;
    }
  } else if (!window_given) {  // the key's member is `replicas`
    c->replicas = kDefaultWindow;
  }
  c->mode = ConsistencyMode::kSync;
  c->reduce = GradientReduction::kNone;
}

}  // namespace

std::string AlsoInSteps(const JobSpec& job) {
  return job.train.deterministic
             ? "; train.deterministic applies batches in steps, whatever the mode"
             : "";
}

void CheckConsistency(const JobReader& reader, const SectionView& view) {
  CheckKeysOfModes(reader, view);
  PutInOrder(reader, view.Given("window"));
  const Consistency& consistency = reader.job->train.consistency;
  if (consistency.mode == ConsistencyMode::kSync &&
      consistency.reduce != GradientReduction::kNone &&
      consistency.staleness_rate != StalenessRate::kNone) {
    reader.Error("train.consistency.staleness_rate",
                 "with mode `sync` no gradient is late; wanted none");
  }
  if (!consistency.in_steps()) return;
  const std::string also = AlsoInSteps(*reader.job);
  if (consistency.delay_compensation != 0) {
    reader.Error("train.consistency.delay_compensation",
                 absl::StrCat("only where an update is of one batch and applied as it comes, with ",
                              "`async` and `bounded`", also));
  }
  if (consistency.batches() > Consistency::kMostReplicas) {
    reader.Error("train.consistency",
                 absl::StrCat("an update has at most ", Consistency::kMostReplicas,
                              " batches, found ", consistency.batches()));
  }
  if (reader.job->train.steps_per_function != 1) {
    reader.Error("train.steps_per_function",
                 absl::StrCat("an update of several batches is of one batch for each function; ",
                              "wanted 1", also));
  }
  if (reader.job->train.on_error != ErrorPolicy::kFailFast) {
    reader.Error("train.on_error",
                 absl::StrCat("an update of several batches can be neither applied nor left out ",
                              "without one of them; wanted fail_fast", also));
  }
}

void CheckDeterministic(const JobReader& reader) {
  TrainSpec* train = &reader.job->train;
  if (!train->deterministic || !reader.Good("train")) return;
  const auto wrong = [&](const std::string& path, absl::string_view message) {
    reader.Error(path, absl::StrCat("with train.deterministic ", message));
  };
  if (train->consistency.mode != ConsistencyMode::kSync) {
    wrong("train.consistency",
          "the order of updates must not depend on who is faster; wanted the mode async, bounded "
          "or sync, and `accumulate` only with sync");
  }
  if (reader.job->dataset.followed()) {
    wrong("dataset.follow", "examples do not depend on when files come; wanted false");
  }
  if (train->consistency.backup > 0) {
    wrong("train.consistency.backup", "no batch is left for later for being slow; wanted 0");
  }
  if (train->device == DeviceChoice::kGpu) {
    wrong("train.device", "sums have a fixed order, which they have on CPUs; wanted cpu or auto");
  }
  train->device = DeviceChoice::kCpu;
  if (train->visitation != VisitationKind::kExactlyOnce) {
    wrong("train.visitation", "examples do not depend on the worker; wanted exactly_once");
  }
  for (const TableSpec& table : reader.job->tables) {
    if (!table.hash || table.hash->ttl_seconds() == 0) continue;
    wrong(absl::StrCat("tables.", table.name, ".hash_table.ttl_seconds"),
          "rows do not go by the clock; wanted ttl_steps");
  }
}

}  // namespace coxswain::job
