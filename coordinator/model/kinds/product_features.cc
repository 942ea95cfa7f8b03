#include "coordinator/model/kinds/product_features.h"

#include <algorithm>

#include "coordinator/job/model_features.h"

namespace coxswain::model {

void CompleteProductFeatures(const job::JobReader& reader, int64_t dim, bool numbers_are_one,
                             std::vector<std::string>* features) {
  job::CompleteFeatures(reader, "model", features);
  int64_t tables = 0, numbers = 0;
  for (const std::string& name : *features) {
    if (reader.job->FindFeature(name) == nullptr) return;
    if (!numbers_are_one && reader.job->FindFeature(name)->kind() == proto::FeatureSpec::VECTOR) {
      reader.Error("model.features", absl::StrCat("'", name, "' is a vector, of which this model ",
                                                  "makes nothing: wanted numbers"));
    }
    ++(job::IsNumeric(*reader.job, name) ? numbers : tables);
    job::SetDim(reader, name, dim, "a product of two vectors needs them of one width:");
  }
  const int64_t vectors = tables + (numbers_are_one ? std::min<int64_t>(numbers, 1) : numbers);
  if (vectors < 2) {
    reader.Error("model.features",
                 absl::StrCat("wanted features that make two or more vectors, found ", tables,
                              " categorical and ", numbers, " numeric ones"));
  }
}

}  // namespace coxswain::model
