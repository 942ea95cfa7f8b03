// What kinds of models have in common when they look at the features that they name.
#pragma once

#include <string>
#include <vector>

#include "coordinator/job/job_sections.h"
#include "coordinator/job/variable_inputs.h"

namespace coxswain::job {

inline constexpr char kWithoutLayers[] = "without hidden layers";

bool IsNumeric(const JobSpec& job, const std::string& feature);
// Of a numeric one: 1, or how many numbers its vector has.
int64_t NumberWidth(const JobSpec& job, const std::string& feature);

// Of features side by side, as layers get them: an embedding, a number, or a vector of numbers
// each.
std::vector<VariablePart> SideBySide(const JobSpec& job, const std::vector<std::string>& features);
// The same of numeric ones alone.
std::vector<VariablePart> NumbersSideBySide(const JobSpec& job,
                                            const std::vector<std::string>& features);

// The feature that the key at `path` names, or null and an error.
const proto::FeatureSpec* CheckFeature(const JobReader& reader, const std::string& path,
                                       const std::string& name);

// The same; another error unless it is categorical with a single value.
const proto::FeatureSpec* CheckSingle(const JobReader& reader, const std::string& path,
                                      const std::string& name);

// Checks `section`.features; where the file has none, fills in all but the label.
void CompleteFeatures(const JobReader& reader, const std::string& section,
                      std::vector<std::string>* features);

// Gives a categorical feature that has no width the width `dim`, which it has to have where `fixed`
// says why.
void SetDim(const JobReader& reader, const std::string& feature, int64_t dim,
            const char* fixed = nullptr);
// The same with the width of models that have none of their own.
void SetDefaultDim(const JobReader& reader, const std::string& feature);

}  // namespace coxswain::job
