// A file that changes between two passes over it.
#pragma once

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "runtime/data/spec_check.h"
#include "tests/testing/data_files.h"
#include "tests/testing/played_readers.h"

namespace coxswain {

// A worker makes the index of a.csv, and the file has one row more when the worker is asked for the
// `at`th time; for each `at` below `end` at which that can happen, the error names the file.
inline void CheckChangesAreTold(
    const DataFiles& files, const std::string& text, const std::string& row, int64_t end,
    const std::function<proto::DatasetSpec(const std::string& path)>& spec_of) {
  int told = 0;
  for (int64_t at = 0; at < end; at += 3) {
    const auto spec = data::CheckSpec(spec_of(files.Write("a.csv", text))).value();
    std::atomic<bool> changed{false};
    PlayedReaders readers(1, [&](int, int64_t asked, const proto::IndexPart& request) {
      // Else it is told that a pass is over.
      if (asked != at || (!request.has_read() && !request.has_before())) return absl::OkStatus();
      files.Write("a.csv", text + row);
      changed = true;
      return absl::OkStatus();
    });
    const absl::Status status = IndexByWorkers(spec, 1500, &readers).status();
    if (!changed) continue;
    INFO(at << " " << status);
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()),
               Catch::Matchers::Contains("a.csv: changed since it was indexed"));
    ++told;
  }
  CHECK(told > 2);
}

}  // namespace coxswain
