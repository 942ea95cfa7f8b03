// Models have variables beside those of features. A feature by whose name another variable would be
// called the same is refused with the job file, and not when the second one is made.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/model_features.h"
#include "coordinator/model/model_parts.h"

namespace coxswain::model {

// Where a model has a table for the feature, and a variable called `own`.
inline void CheckTableName(const job::JobReader& reader, const std::string& feature,
                           const std::string& own) {
  if (feature != own) return;
  reader.Error(
      "features." + feature,
      absl::StrCat("its table would be called '", own,
                   "', like a variable that the model has; give the feature another name"));
}

// Of the features of a linear part.
inline void CheckLinearNames(const job::JobReader& reader,
                             const std::vector<std::string>& features) {
  for (const std::string& name : features) {
    if (WideName(name) != kWideBias || !job::IsNumeric(*reader.job, name)) continue;
    reader.Error("features." + name,
                 absl::StrCat("its weight would be called '", kWideBias,
                              "', like the bias of all; give the feature another name"));
  }
}

}  // namespace coxswain::model
