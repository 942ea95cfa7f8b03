// dataset.follow, and what a job cannot have with it.
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_format.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/model_kind.h"
#include "runtime/data/made_features.h"
#include "runtime/data/spec_check.h"

namespace coxswain::job {
namespace {

void CheckKeys(const JobReader& reader, const SectionView& dataset) {
  if (dataset.Given("streaming") && dataset.String("streaming") == "false") {
    reader.Error("dataset.streaming",
                 "with dataset.follow files are streamed as they come; wanted true or auto");
  }
  const SectionView train = reader.file.Sub("train");
  if (train.Given("epochs")) {
    reader.Error("train.epochs",
                 "with dataset.follow an epoch is the files that came together, and each is "
                 "trained on once; wanted none, or train.steps");
  }
  if (reader.job->train.visitation == VisitationKind::kPerWorker) {
    reader.Error("train.visitation",
                 "with dataset.follow each row is for one worker; wanted exactly_once");
  }
  const ConsistencyMode mode = reader.job->train.consistency.mode;
  const bool in_steps = mode != ConsistencyMode::kAsync && mode != ConsistencyMode::kBounded;
  if (in_steps && !reader.job->train.deterministic) {  // CheckDeterministic refuses those
    reader.Error("train.consistency",
                 "dataset.follow has no synchronous steps; wanted the mode async or bounded");
  }
  const SectionView split = reader.file.Sub("split");
  for (const char* key : {"validation", "test", "holdout_per", "by"}) {
    if (!split.Given(key)) continue;
    reader.Error(absl::StrCat("split.", key),
                 "with dataset.follow all rows that come are trained on; wanted split.test_path, "
                 "files of their own");
  }
}

void CheckFeatures(const JobReader& reader) {
  const proto::DatasetSpec& dataset = reader.job->dataset;
  if (!FormatOf(*reader.job).has_rows) {
    reader.Error("dataset.follow",
                 "the words of a text are counted before training, so all of it has to be there; "
                 "wanted false");
    return;
  }
  for (const proto::FeatureSpec& feature : dataset.features()) {
    const std::string path = absl::StrCat("features.", feature.name());
    if (!feature.history_of().empty()) {
      reader.Error(path, "with dataset.follow there is no history, which is made of all rows");
    } else if (feature.keep_names()) {
      reader.Error(path + ".keep_names",
                   "with dataset.follow names would be those of all rows, which are still to come; "
                   "wanted false");
    } else if (data::LearnsVocabulary(feature, dataset) && !data::HasFixedValues(feature)) {
      reader.Error(path,
                   "with dataset.follow no vocabulary is learned, for which all rows would have to "
                   "be there; wanted id: hash or id: raw, hash_buckets, vocabulary or "
                   "vocabulary_file");
    } else if (feature.normalization() == proto::FeatureSpec::STANDARD ||
               feature.normalization() == proto::FeatureSpec::MIN_MAX) {
      reader.Error(path + ".normalization",
                   "with dataset.follow nothing is measured on all rows; wanted none, log1p or "
                   "divide");
    }
  }
}

void CheckSchedule(const JobReader& reader, const std::string& path,
                   const proto::OptimizerSpec& optimizer) {
  const std::string& kind = optimizer.schedule().kind();
  const bool ends = kind == "cosine_decay" || kind == "linear_decay";
  if (!ends || optimizer.schedule().decay_steps() > 0 || reader.job->train.steps > 0) return;
  reader.Error(path,
               "with dataset.follow nobody knows how many steps there will be; wanted "
               "decay_steps, or train.steps");
}

}  // namespace

void CheckFollow(const JobReader& reader) {
  if (!reader.Good("dataset")) return;
  const SectionView dataset = reader.file.Sub("dataset");
  if (!reader.job->follow.enabled) {
    for (const char* key : {"follow_end", "follow_idle"}) {
      if (dataset.Given(key)) reader.Error(absl::StrCat("dataset.", key), "only with follow: true");
    }
    return;
  }
  if (reader.job->follow.end.find('/') != std::string::npos) {
    reader.Error("dataset.follow_end", "wanted the name of a file, found a path");
  }
  CheckKeys(reader, dataset);
  CheckFeatures(reader);
  const JobSpec& job = *reader.job;
  if (job.model == nullptr) return;
  if (KindOf(*job.model).predicts != Predicts::kLabel || job.dataset.has_known_items()) {
    reader.Error("model",
                 "with dataset.follow: wanted a model that predicts a label, and metrics "
                 "of labels; what ranks items has to know all rows");
  }
  CheckSchedule(reader, "optimizer.dense.schedule", job.dense_optimizer);
  for (const TableSpec& table : job.tables) {
    CheckSchedule(reader, "optimizer.table.schedule", table.optimizer);
  }
}

}  // namespace coxswain::job
