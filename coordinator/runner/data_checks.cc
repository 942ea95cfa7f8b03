// Labels, averages and the rows of parts; vocabularies of followed files; tests of words; an index
// that is out of date.
#include "coordinator/runner/data_checks.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/job/size_limits.h"
#include "runtime/base/logging.h"
#include "runtime/base/mistake.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/file_error.h"
#include "runtime/data/file_list.h"
#include "runtime/data/names.h"
#include "runtime/data/skip_gram.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/index_builder.h"
#include "runtime/data/stream/index_file.h"
#include "runtime/data/time_split.h"
#include "runtime/env/file_system.h"

namespace coxswain::runner {
namespace {

absl::Status Wrong(const job::JobSpec& job, const std::string& key, absl::string_view what) {
  return config::ConfigurationError(absl::StrCat(job.Where(key), ": ", key, ": ", what));
}

// What is wrong with a label that is the same in all training examples that count; empty: nothing.
std::string OneLabel(const data::Dataset& data, const proto::LabelSpec& label) {
  const data::LabelSummary labels = data.label_summary(Part::kTraining, label.name());
  if (!labels.constant()) return "";
  const std::string of =
      label.weight().empty()
          ? absl::StrCat(data.num_examples(Part::kTraining), " training examples")
          : absl::StrCat(labels.count, " training examples of a weight above 0");
  return absl::StrCat("wanted labels that differ, found ", labels.low, " in all ", of);
}

// A model learns nothing of rows that are all the same. One that has learned before may get such an
// hour of rows.
absl::Status CheckNumberLabel(const job::JobSpec& job, const data::Dataset& data,
                              const proto::LabelSpec& label, const std::string& key,
                              absl::string_view advice) {
  const std::string wrong = OneLabel(data, label);
  if (wrong.empty()) return absl::OkStatus();
  if (!job.dataset.has_trained()) return Wrong(job, key, absl::StrCat(wrong, advice));
  LogWarning(key, ": ", wrong, "; the model goes on from one that may have seen others");
  return absl::OkStatus();
}

absl::Status CheckLabels(const job::JobSpec& job, const data::Dataset& data) {
  const std::string& feature = job.dataset.label().feature();
  if (!job::HasLabel(job)) return absl::OkStatus();
  for (const proto::LabelSpec& label : job.dataset.labels()) {
    RETURN_IF_ERROR(CheckNumberLabel(job, data, label, absl::StrCat("labels.", label.name()), ""));
  }
  if (!job.tasks.empty()) return absl::OkStatus();
  if (feature.empty()) {
    return CheckNumberLabel(job, data, job.dataset.label(), "label",
                            "; is it the right column, separator or comparison?");
  }
  const auto examples = data.num_examples(Part::kTraining);
  if (data.vocabulary_size(feature) > job.model->classes()) {
    return Wrong(
        job, "model.classes",
        absl::StrCat("feature ", data::Quoted(feature), " has ", data.vocabulary_size(feature),
                     " values, wanted at most ", job.model->classes()));
  }
  // So these are no more than there are classes.
  const std::vector<int64_t> counts = data.training_counts(feature);
  const auto classes =
      counts.size() - static_cast<size_t>(std::count(counts.begin(), counts.end(), 0));
  if (classes < 2) {
    return Wrong(job, "label.feature",
                 absl::StrCat("wanted labels that differ, found one value of ",
                              data::Quoted(feature), " in all ", examples, " training examples"));
  }
  return absl::OkStatus();
}

// Averages begin with the initial values: after few steps they are mostly these.
void TellOfShortAverages(const job::JobSpec& job, const data::Dataset& data) {
  if (!job.train.ema || job.follow.enabled) return;
  const int64_t examples = data.num_examples(Part::kTraining);
  const int64_t per_epoch = (examples + job.train.batch_size - 1) / job.train.batch_size;
  const int64_t steps = job.train.steps > 0 ? job.train.steps : job.train.epochs * per_epoch;
  const double left = std::pow(job.train.ema->decay, static_cast<double>(steps));
  constexpr double kMuch = 0.05;
  if (left < kMuch) return;
  LogWarning(
      "train.ema.decay: after ", steps, " steps the averages, which the model is saved with, ",
      "are still ", std::lround(100 * left), "% initial values; a decay of ",
      absl::StrFormat("%.3g", std::pow(0.01, 1 / static_cast<double>(steps))), " would leave 1%");
}

// Without rows an evaluation says nothing: nobody would be told how good the model is, and nothing
// that goes by a metric would ever happen.
absl::Status CheckEvaluatedRows(const job::JobSpec& job, const data::Dataset& data) {
  const bool by_rows = job::KindOf(*job.model).predicts != job::Predicts::kNeighbours;
  if (!job.evaluate.enabled || !by_rows || data.num_examples(job.evaluate.part) > 0) {
    return absl::OkStatus();
  }
  return Wrong(job, "split",
               absl::StrCat("it keeps no rows for the ", PartName(job.evaluate.part),
                            " part, which is to be evaluated, and ",
                            data.num_examples(Part::kTraining), " for training; wanted ",
                            data::SplitsAtValues(job.dataset.split()) ? "an earlier value"
                                                                      : "a larger share",
                            ", other files, or no split"));
}

}  // namespace

absl::Status CheckTestFiles(const job::JobSpec& job) {
  const absl::Status status = data::CheckHeldOut(job.dataset);
  return AsMistake(
      Annotate(status, absl::StrCat(job.Where("split.test_path"), ": split.test_path")));
}

absl::Status CheckTrainingData(const job::JobSpec& job, const data::Dataset& data) {
  if (data.num_examples(Part::kTraining) == 0) {
    if (data.windows() != nullptr) {
      return Wrong(job, "model.positions",
                   absl::StrCat("all: wanted a user with two training rows or more, found none in ",
                                data.part_size(Part::kTraining), " rows"));
    }
    return config::ConfigurationError(
        absl::StrCat(job.Where("dataset"), ": no training examples in the data set"));
  }
  RETURN_IF_ERROR(CheckLabels(job, data));
  RETURN_IF_ERROR(CheckEvaluatedRows(job, data));
  TellOfShortAverages(job, data);
  for (const job::TableSpec& table : job.tables) {
    if (table.hash) continue;
    const std::string key = absl::StrCat("features.", table.feature);
    const int64_t rows = data.vocabulary_size(table.feature);
    if (rows == 0) return Wrong(job, key, "it has no values in the training part");
    const std::string why = job::TooManyNumbers(table, rows);
    if (!why.empty()) return Wrong(job, key, why);
  }
  return absl::OkStatus();
}

absl::Status CheckSameVocabularies(const job::JobSpec& job, const data::Dataset& before,
                                   const data::Dataset& now) {
  for (const proto::FeatureSpec& feature : job.dataset.features()) {
    const std::vector<std::string>* const wanted = before.vocabulary(feature.name());
    const std::vector<std::string>* const found = now.vocabulary(feature.name());
    if (wanted == nullptr || found == nullptr || *wanted == *found) continue;
    const std::string key = absl::StrCat("features.", feature.name(), ".vocabulary_file");
    const absl::Status other = absl::FailedPreconditionError(absl::StrCat(
        job.Where(key), ": ", key, ": ", feature.vocabulary_file(), " has other keys than when ",
        "the job began: wanted the same ", wanted->size(), " in the same order, found ",
        found->size(), "; new ones need id: hash, id: raw or hash_buckets"));
    return WithDetail(other, {ErrorCause::kApplication, false, "", 0});
  }
  return absl::OkStatus();
}

absl::StatusOr<model::WordTests> ReadWordTests(const job::JobSpec& job, const data::Dataset& data) {
  model::WordTests tests;
  const model::FindWord find = [&data](absl::string_view word) {
    return data.Lookup(data::kWordFeature, word);
  };
  const auto read = [&](const char* key, const std::string& path, auto reader) -> absl::Status {
    if (path.empty()) return absl::OkStatus();
    const absl::Status status = reader(path, find, &tests);
    return AsMistake(Annotate(status, job.Where(key)));
  };
  RETURN_IF_ERROR(
      read("evaluate.word_similarity", job.evaluate.word_similarity, model::ReadWordPairs));
  RETURN_IF_ERROR(read("evaluate.analogies", job.evaluate.analogies, model::ReadAnalogies));
  return tests;
}

absl::Status WithoutStaleIndex(const absl::Status& error, proto::DatasetSpec spec) {
  if (!data::IsChangedError(error)) return error;
  const auto listed = data::WithFiles(std::move(spec));
  if (!listed.ok()) return error;
  const auto checked = data::CheckSpec(*listed);
  if (!checked.ok()) return error;
  // That of a test part is not to blame for a file that came, of which none is saved.
  const auto file = data::FileOf(error);
  if (file && !absl::c_linear_search(data::IndexedPaths(*checked), *file)) return error;
  const auto disk = env::NewRealFileSystem();
  if (!data::RemoveIndex(*checked, disk.get())) return error;
  absl::Status said(error.code(),
                    absl::StrCat(error.message(),
                                 "; the saved index is removed: the next run makes another one"));
  const auto detail = GetDetail(error);
  return detail ? WithDetail(std::move(said), *detail) : said;
}

}  // namespace coxswain::runner
