#include "coordinator/model/kinds/product_features.h"

#include <algorithm>

#include "coordinator/job/model_features.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/job/size_limits.h"
#include "coxswain/optimizers.h"

namespace coxswain::model {

void CompleteProductFeatures(const job::JobReader& reader, int64_t dim, bool numbers_are_one,
                             std::vector<std::string>* features) {
  job::CompleteFeatures(reader, "model", features);
  CheckProductFeatures(
      reader, dim, "a product of two vectors needs them of one width:", numbers_are_one, *features);
}

void CheckProductFeatures(const job::JobReader& reader, int64_t dim, const char* why,
                          bool numbers_are_one, const std::vector<std::string>& features) {
  int64_t tables = 0, numbers = 0;
  for (const std::string& name : features) {
    if (reader.job->FindFeature(name) == nullptr) return;
    if (!numbers_are_one && reader.job->FindFeature(name)->kind() == proto::FeatureSpec::VECTOR) {
      reader.Error("model.features", absl::StrCat("'", name, "' is a vector, of which this model ",
                                                  "makes nothing: wanted numbers"));
    }
    ++(job::IsNumeric(*reader.job, name) ? numbers : tables);
    job::SetDim(reader, name, dim, why);
  }
  const int64_t vectors = tables + (numbers_are_one ? std::min<int64_t>(numbers, 1) : numbers);
  if (vectors < 2) {
    reader.Error("model.features",
                 absl::StrCat("wanted features that make two or more vectors, found ", tables,
                              " categorical and ", numbers, " numeric ones"));
  }
}

absl::Status CreateNumberVectors(ModelParts* parts, const std::vector<std::string>& features,
                                 int64_t dim) {
  const auto numbers = static_cast<int64_t>(parts->NumericNames(features).size());
  if (numbers == 0) return absl::OkStatus();
  return parts->CreateDense(kNumberVectors, {numbers, dim},
                            NormalInit(job::kEmbeddingStddev, parts->job().train.seed));
}

Output FieldVectors(FunctionBuilder& f, const ModelParts& parts,
                    const std::vector<std::string>& features, int64_t dim) {
  std::vector<Output> vectors = parts.Vectors(f, features);
  const Output numbers = parts.Numbers(f, features);
  if (numbers.valid()) {
    const auto n = static_cast<int64_t>(features.size() - vectors.size());
    const Output scaled =
        f.Mul(f.Reshape(numbers, {-1, n, 1}), parts.DenseValue(f, kNumberVectors));
    vectors.push_back(f.Reshape(scaled, {-1, n * dim}));
  }
  return vectors.size() == 1 ? vectors[0] : f.Concat(vectors, 1);
}

std::vector<job::VariablePart> FieldParts(const job::JobSpec& job,
                                          const std::vector<std::string>& features, int64_t dim) {
  std::vector<job::VariablePart> parts;
  for (const std::string& name : features) {
    if (!job::IsNumeric(job, name)) parts.push_back({{name}, "", dim});
  }
  for (const job::VariablePart& number : job::NumbersSideBySide(job, features)) {
    parts.push_back({number.of, "times its vector", dim});
  }
  return parts;
}

job::VariableInputs NumberVectorInputs(const job::JobSpec& job,
                                       const std::vector<std::string>& features) {
  return {job::NumbersSideBySide(job, features), {}};
}

// sum_{i<j} v_i v_j = ((sum_i v_i)^2 - sum_i v_i^2) / 2
Output PairProducts(FunctionBuilder& f, Output apart) {
  const Output squares = f.Sub(f.Square(f.Sum(apart, {1})), f.Sum(f.Square(apart), {1}));
  return f.Mul(f.Sum(squares, {1}), f.Scalar(0.5f));
}

}  // namespace coxswain::model
