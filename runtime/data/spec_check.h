// A DatasetSpec checked before a file is opened, and its defaults filled in.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"

namespace coxswain::data {

// The columns that a libsvm file has.
inline constexpr char kLibsvmLabel[] = "label";
inline constexpr char kLibsvmFeatures[] = "features";
inline constexpr char kLibsvmQuery[] = "qid";
// LabelSpec.positive_comparison of a label that is 1 where the field is not empty.
inline constexpr char kPresent[] = "present";
// Names of batch columns that no feature may take.
inline constexpr char kLabelColumn[] = "label";
inline constexpr char kWeightColumn[] = "label.weight";
inline constexpr char kKnownColumn[] = "known";
inline constexpr char kExampleIdColumn[] = "example_id";  // when the spec wants it

// A column of numbers that one of DatasetSpec.labels brings: its label, or its weight.
struct NamedLabel {
  std::string name;  // in a batch: "label.click", "label.click.weight"
  const proto::LabelSpec* spec = nullptr;
  bool is_weight = false;

  const std::string& column() const { return is_weight ? spec->weight() : spec->column(); }
};
// In the order of a batch: a label's weight follows it. The spec outlives them.
std::vector<NamedLabel> NamedLabels(const proto::DatasetSpec& spec);
// Batch columns of a label of this name.
std::string LabelColumnOf(const std::string& label);
std::string WeightColumnOf(const std::string& label);

// The same spec with
// - feature names and columns (each stands in for the other);
// - what its format fills in (DataFormat::FillDefaults): the separator ",", libsvm's feature
//   "features" and label column "label", a text's feature "word" and window of 5;
// - holdout_min at least 2 when holdout_per is set, so that every group keeps a training row.
// Errors: InvalidArgument for what contradicts itself: the message names the feature and the field.
absl::StatusOr<proto::DatasetSpec> CheckSpec(proto::DatasetSpec spec);

// The vocabulary of such a feature comes from the files' own values.
bool LearnsVocabulary(const proto::FeatureSpec& feature, const proto::DatasetSpec& spec);
bool IsHistory(const proto::FeatureSpec& feature);
// The history; null: there is none.
const proto::FeatureSpec* FindHistory(const proto::DatasetSpec& spec);
// How many values, the last ones by the order of `by`, are seen of each history; 0: all of them, or
// a sample of those that have no order.
int64_t LastOfHistory(const proto::DatasetSpec& spec);

}  // namespace coxswain::data
