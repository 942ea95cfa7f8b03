// Parsing texts of JOB.yaml in tests, and what is said of those that are wrong.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_kind.h"
#include "runtime/base/status.h"
#include "runtime/data/spec_check.h"

namespace coxswain::testing {

inline job::JobSpec MustParse(const std::string& text,
                              const std::vector<std::string>& overrides = {}) {
  absl::StatusOr<job::JobSpec> job = job::ParseJob(text, "job.yaml", overrides);
  INFO(job.status().message());
  REQUIRE(job.ok());
  // What the parser lets through, the reader of data takes too.
  CHECK(data::CheckSpec(job->dataset).status().message() == "");
  return *std::move(job);
}

inline std::string ModelName(const job::JobSpec& job) { return job::KindOf(*job.model).name; }
inline std::string LossName(const job::JobSpec& job) { return job::KindOf(*job.loss).name; }

// What is wrong with the text; "": nothing.
inline std::string ErrorOf(const std::string& text,
                           const std::vector<std::string>& overrides = {}) {
  const absl::StatusOr<job::JobSpec> job = job::ParseJob(text, "job.yaml", overrides);
  if (job.ok()) return "";
  CHECK(job.status().code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(GetDetail(job.status()).has_value());
  CHECK(GetDetail(job.status())->cause == ErrorCause::kConfiguration);
  return std::string(job.status().message());
}

// The error after one replacement in a valid text.
inline std::string Changed(const std::string& text, const std::string& from,
                           const std::string& to) {
  INFO("'" << from << "' -> '" << to << "'");
  REQUIRE(ErrorOf(text) == "");
  REQUIRE(absl::StrContains(text, from));
  return ErrorOf(absl::StrReplaceAll(text, {{from, to}}));
}

}  // namespace coxswain::testing
