// Models whose vectors meet in products of pairs need them of one width, and two at least. A
// number's vector is one of its own times the number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/variable_inputs.h"
#include "coordinator/model/model_parts.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {

// Completes `features` and sets their width to `dim`. The numbers make one vector together, or each
// its own.
void CompleteProductFeatures(const job::JobReader& reader, int64_t dim, bool numbers_are_one,
                             std::vector<std::string>* features);
// The same of features that are complete. `why` an embedding has this width and no other; null: it
// is a default.
void CheckProductFeatures(const job::JobReader& reader, int64_t dim, const char* why,
                          bool numbers_are_one, const std::vector<std::string>& features);

// The vectors that numbers are multiplied by: a row of `dim` for each of these features that is a
// number.
inline constexpr char kNumberVectors[] = "numbers/vectors";
absl::Status CreateNumberVectors(ModelParts* parts, const std::vector<std::string>& features,
                                 int64_t dim);
// The vectors of all features side by side, [B, features.size() * dim]: embeddings, then numbers.
Output FieldVectors(FunctionBuilder& f, const ModelParts& parts,
                    const std::vector<std::string>& features, int64_t dim);
// What these are of, for models that go on from another; and what the vectors of numbers are of.
std::vector<job::VariablePart> FieldParts(const job::JobSpec& job,
                                          const std::vector<std::string>& features, int64_t dim);
job::VariableInputs NumberVectorInputs(const job::JobSpec& job,
                                       const std::vector<std::string>& features);

// The sum of the dot products of all pairs of vectors of `apart` [B, vectors, dim], as [B].
Output PairProducts(FunctionBuilder& f, Output apart);

}  // namespace coxswain::model
