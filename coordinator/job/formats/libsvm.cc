// format: libsvm
#include "absl/strings/str_cat.h"
#include "coordinator/job/formats/job_formats.h"
#include "coordinator/job/size_limits.h"
#include "runtime/data/spec_check.h"

namespace coxswain::job {
namespace {

using enum KeyType;
using proto::FeatureSpec;

constexpr SchemaKey kKeys[] = {
    Field<proto::DatasetSpec>(kInt, "feature_count", "0",
                              "number of features n: indices are 1..n, and are the values of a "
                              "feature named `features`; 0: the largest index in the files")
        .Into("libsvm_features")
        .Min(0)
        .Max(kMostBuckets),
    Field<proto::DatasetSpec>(kBool, "zero_based", "false", "indices are 0..n-1 instead of 1..n"),
};

void ReadLibsvm(const JobReader& reader, const SectionView& view) {
  ReadKeys(kKeys, view, &reader.job->dataset);
}

// The one feature; the file may say how it is embedded.
void ReadLibsvmFeature(const JobReader& reader) {
  FeatureSpec* feature = reader.job->dataset.add_features();
  feature->set_name(kLibsvmFeature);
  feature->set_column(kLibsvmFeature);
  feature->set_kind(FeatureSpec::CATEGORICAL);
  feature->set_multi_valued(true);
  feature->set_combiner("sum");
  const std::vector<SectionView> views = reader.file.Sections("features");
  if (views.empty()) return;
  const std::string path = absl::StrCat("features.", kLibsvmFeature);
  if (views.size() > 1 || views[0].String("name") != kLibsvmFeature ||
      views[0].String("kind") != "categorical") {
    reader.Error("features",
                 "a libsvm data set has one feature, of kind categorical and name 'features'");
    return;
  }
  for (const std::string& key : views[0].Keys()) {
    if (key != "name" && key != "kind" && key != "dim" && key != "combiner") {
      reader.Error(absl::StrCat(path, ".", key),
                   "a libsvm data set allows only name, kind, dim and combiner");
    }
  }
  feature->set_dim(views[0].Int("dim"));
  if (views[0].Given("combiner")) feature->set_combiner(views[0].String("combiner"));
}

int64_t FeatureCount(const proto::DatasetSpec& dataset) { return dataset.libsvm_features(); }

}  // namespace

const JobFormat& LibsvmJobFormat() {
  static constexpr JobFormat kFormat = {.name = "libsvm",
                                        .keys = kKeys,
                                        .read = ReadLibsvm,
                                        .read_features = ReadLibsvmFeature,
                                        .has_columns = false,
                                        .query = data::kLibsvmQuery,
                                        .least_rows = FeatureCount,
                                        .rows_key = "dataset.feature_count",
                                        .label = JobFormat::Label::kInLine};
  return kFormat;
}

}  // namespace coxswain::job
