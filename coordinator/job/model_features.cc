#include "coordinator/job/model_features.h"

#include <set>

#include "runtime/config/yaml_reader.h"

namespace coxswain::job {
namespace {

using proto::FeatureSpec;

constexpr int64_t kDefaultDim = 16;

std::vector<std::string> FeatureNames(const JobSpec& job) {
  std::vector<std::string> names;
  for (const FeatureSpec& feature : job.dataset.features()) names.push_back(feature.name());
  return names;
}

}  // namespace

int64_t NumberWidth(const JobSpec& job, const std::string& feature) {
  const FeatureSpec* found = job.FindFeature(feature);
  return found != nullptr && found->kind() == FeatureSpec::VECTOR ? found->width() : 1;
}

bool IsNumeric(const JobSpec& job, const std::string& feature) {
  const FeatureSpec* found = job.FindFeature(feature);
  return found != nullptr && found->kind() != FeatureSpec::CATEGORICAL;
}

std::vector<VariablePart> SideBySide(const JobSpec& job, const std::vector<std::string>& features) {
  std::vector<VariablePart> parts;
  for (const std::string& name : features) {
    const TableSpec* table = job.FindTable(name);
    parts.push_back(table == nullptr ? VariablePart{{name}, "number", NumberWidth(job, name)}
                                     : VariablePart{{name}, "", table->dim});
  }
  return parts;
}

std::vector<VariablePart> NumbersSideBySide(const JobSpec& job,
                                            const std::vector<std::string>& features) {
  std::vector<std::string> numbers;
  for (const std::string& name : features) {
    if (IsNumeric(job, name)) numbers.push_back(name);
  }
  return SideBySide(job, numbers);
}

const FeatureSpec* CheckFeature(const JobReader& reader, const std::string& path,
                                const std::string& name) {
  const FeatureSpec* feature = reader.job->FindFeature(name);
  if (feature == nullptr) {
    reader.Error(path, config::UnknownName("feature", name, FeatureNames(*reader.job)));
  }
  return feature;
}

const FeatureSpec* CheckSingle(const JobReader& reader, const std::string& path,
                               const std::string& name) {
  const FeatureSpec* feature = CheckFeature(reader, path, name);
  if (feature != nullptr &&
      (feature->kind() != FeatureSpec::CATEGORICAL || feature->multi_valued())) {
    reader.Error(path, absl::StrCat("wanted a categorical feature with a single value; '", name,
                                    "' is not"));
  }
  return feature;
}

void CompleteFeatures(const JobReader& reader, const std::string& section,
                      std::vector<std::string>* features) {
  std::set<std::string> seen;
  for (size_t i = 0; i < features->size(); ++i) {
    const std::string item = absl::StrCat(section, ".features.", i);
    CheckFeature(reader, item, (*features)[i]);
    if (!seen.insert((*features)[i]).second) {
      reader.Error(item, absl::StrCat("'", (*features)[i], "' is there twice"));
    }
  }
  if (!features->empty()) return;
  const std::string label = reader.file.Sub("label").String("feature");
  for (const std::string& name : FeatureNames(*reader.job)) {
    if (name != label) features->push_back(name);
  }
  if (features->empty()) reader.Error(section, "there is no feature to learn from");
}

void SetDim(const JobReader& reader, const std::string& name, int64_t dim, const char* fixed) {
  for (FeatureSpec& feature : *reader.job->dataset.mutable_features()) {
    if (feature.name() != name || feature.kind() != FeatureSpec::CATEGORICAL) continue;
    if (feature.dim() == 0) feature.set_dim(dim);
    if (fixed != nullptr && feature.dim() != dim) {
      reader.Error(
          absl::StrCat("features.", name, ".dim"),
          absl::StrCat(fixed, " it has to be model.dim, ", dim, "; found ", feature.dim()));
    }
  }
}

void SetDefaultDim(const JobReader& reader, const std::string& feature) {
  SetDim(reader, feature, kDefaultDim);
}

}  // namespace coxswain::job
