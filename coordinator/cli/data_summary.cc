#include "coordinator/cli/data_summary.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/display.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/job/unused_features.h"

namespace coxswain::cli {
namespace {

constexpr size_t kShownClasses = 12;

// "training 8,066, validation 1,008, test 1,008"; of windows "training 640 windows with 25,000
// targets, test 600".
std::string Examples(const data::Dataset& data) {
  std::string text = absl::StrCat("training ", WithCommas(data.num_examples(Part::kTraining)));
  if (const data::HistoryWindows* const windows = data.windows()) {
    absl::StrAppend(&text, " windows with ", WithCommas(windows->targets()), " targets");
  }
  for (const Part part : {Part::kValidation, Part::kTest}) {
    if (data.num_examples(part) == 0) continue;
    absl::StrAppend(&text, ", ", PartName(part), " ", WithCommas(data.num_examples(part)));
  }
  return text;
}

std::string DescribeFeature(const proto::FeatureSpec& feature, const data::Dataset& data) {
  const std::string& name = feature.name();
  if (feature.kind() == proto::FeatureSpec::VECTOR) {
    return absl::StrCat("vectors of ", WithCommas(feature.width()), " numbers");
  }
  if (const data::NumericTransform* t = data.transform(name)) {
    if (t->kind != proto::FeatureSpec::STANDARD && t->kind != proto::FeatureSpec::MIN_MAX) {
      return "numbers";
    }
    return absl::StrFormat("numbers, (x - %g) / %g", t->shift, t->scale);
  }
  if (!feature.history_of().empty()) {
    // Of data that is streamed they are not counted for this.
    if (data.index() != nullptr) return absl::StrCat("history by ", feature.group_by());
    return absl::StrCat("history of ", WithCommas(static_cast<int64_t>(data.groups().size())),
                        " groups");
  }
  if (!feature.id().empty()) return absl::StrCat("any 64-bit ids (", feature.id(), ")");
  const std::vector<std::string>* values = data.vocabulary(name);
  if (values == nullptr) {
    return absl::StrCat(WithCommas(data.vocabulary_size(name)),
                        feature.hash_buckets() > 0 ? " hash buckets" : " indices");
  }
  const auto known = static_cast<int64_t>(values->size());
  std::string text = absl::StrCat(WithCommas(known), " values");
  if (data.vocabulary_size(name) > known) {
    absl::StrAppend(&text, " and ", WithCommas(data.vocabulary_size(name) - known), " for others");
  }
  for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
    const int64_t unknown = data.CountUnknown(name, part);
    if (unknown == 0) continue;
    absl::StrAppendFormat(
        &text, "; others in %.1f%% of %s",
        100.0 * static_cast<double>(unknown) / static_cast<double>(data.part_size(part)),
        PartName(part));
  }
  return text;
}

// How often training examples have each value of a feature: "red 60.0%, blue 40.0%".
std::string SharesOf(const std::string& feature, const data::Dataset& data) {
  std::string shares;
  const std::vector<int64_t> counts = data.training_counts(feature);
  const std::vector<std::string>* values = data.vocabulary(feature);
  const auto examples = static_cast<double>(data.part_size(Part::kTraining));
  for (size_t i = 0; i < std::min(counts.size(), kShownClasses); ++i) {
    absl::StrAppendFormat(
        &shares, "%s%s %.1f%%", i == 0 ? "" : ", ",
        values != nullptr && i < values->size() ? (*values)[i] : absl::StrCat("#", i),
        100.0 * static_cast<double>(counts[i]) / examples);
  }
  if (counts.size() > kShownClasses) {
    absl::StrAppend(&shares, " and ", counts.size() - kShownClasses, " more");
  }
  return shares;
}

}  // namespace

std::string DescribeUnused(const job::JobSpec& job) {
  const std::vector<std::string> unused = job::UnusedFeatures(job);
  return unused.empty()
             ? ""
             : absl::StrCat("not used by the model: ", absl::StrJoin(unused, ", "), "\n");
}

std::string DescribeBadRows(const data::BadRows& bad) {
  std::string text;
  for (const std::string& wrong : bad.first) absl::StrAppend(&text, "  ", wrong, "\n");
  const int64_t more = bad.count - static_cast<int64_t>(bad.first.size());
  if (more > 0) absl::StrAppend(&text, "  and ", WithCommas(more), " more\n");
  return text;
}

std::string DescribeLabels(const job::JobSpec& job, const data::Dataset& data) {
  const int64_t examples = data.part_size(Part::kTraining);
  if (job.follow.enabled && examples == 0) return "training examples come with the files\n";
  if (!job::HasLabel(job)) return "";
  const auto of = [examples](const proto::LabelSpec& label, const data::LabelSummary& labels) {
    return label.weight().empty()
               ? absl::StrCat(WithCommas(examples), " training examples")
               : absl::StrCat(WithCommas(labels.count), " training examples of a weight above 0");
  };
  std::string of_tasks;
  for (const proto::LabelSpec& label : job.dataset.labels()) {
    const data::LabelSummary labels = data.label_summary(Part::kTraining, label.name());
    absl::StrAppend(&of_tasks, "label ", label.name(), " of ", of(label, labels), ": ",
                    labels.ToString(), "\n");
  }
  if (!job.tasks.empty()) return of_tasks;
  const std::string& feature = job.dataset.label().feature();
  if (feature.empty()) {
    const data::LabelSummary labels = data.label_summary(Part::kTraining);
    return absl::StrCat("labels of ", of(job.dataset.label(), labels), ": ", labels.ToString(),
                        "\n");
  }
  return absl::StrCat("labels of ", WithCommas(examples), " training ",
                      data.windows() == nullptr ? "examples" : "rows", ": ",
                      SharesOf(feature, data), "\n");
}

std::string DescribeData(const job::JobSpec& job, const data::Dataset& data) {
  std::string text =
      absl::StrCat("examples: ", Examples(data), "\n",
                   data.index() == nullptr ? "read: into memory\n" : "read: streamed, by blocks\n",
                   DescribeUnused(job), DescribeLabels(job, data));
  if (const data::BadRows& bad = data.bad_rows(); bad.count > 0) {
    absl::StrAppend(&text, "rows that cannot be read and are passed over: ", WithCommas(bad.count),
                    " (dataset.max_bad_rows: ", WithCommas(job.dataset.max_bad_rows()), ")\n",
                    DescribeBadRows(bad));
  }
  for (const proto::FeatureSpec& feature : job.dataset.features()) {
    absl::StrAppend(&text, "feature ", feature.name(), ": ", DescribeFeature(feature, data), "\n");
  }
  return text;
}

std::string DescribeJoins(const job::JobSpec& job, const data::JoinCounts& joins) {
  std::string text;
  for (int i = 0; i < job.dataset.joins_size(); ++i) {
    const proto::JoinSpec& join = job.dataset.joins(i);
    const int64_t without = joins.without[static_cast<size_t>(i)];
    absl::StrAppend(&text, "join ", join.path(), " by ", join.left_on(), ": ");
    if (without == 0) {
      absl::StrAppend(&text, "has all ", WithCommas(joins.rows), " rows\n");
    } else {
      absl::StrAppendFormat(
          &text, "lacks the key of %s of %s rows (%.1f%%): its columns are empty there\n",
          WithCommas(without), WithCommas(joins.rows),
          100.0 * static_cast<double>(without) / static_cast<double>(joins.rows));
    }
  }
  return text;
}

}  // namespace coxswain::cli
