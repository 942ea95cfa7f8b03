// Which directories a pattern of data would look into.
#include "coordinator/cli/read_as_data.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/cli/exit_code.h"
#include "tests/testing/data_files.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

// The message; empty: no file of it would be read.
std::string Said(const DataFiles& dir, const std::string& data, const std::string& directory,
                 DirectoryOf what) {
  const absl::Status status = CheckNotReadAsData({"--model-dir", dir.Path(directory)}, what,
                                                 {{"the job's data", dir.Path(data)}});
  if (!status.ok()) CHECK(ToExitCode(status) == kExitUsage);
  return std::string(status.message());
}

TEST_CASE("a model goes where no pattern of data takes in its files", "[outputs]") {
  const DataFiles dir;
  fs::create_directories(dir.Path("days/1"));
  const auto said = [&](const std::string& data, const std::string& directory) {
    return Said(dir, data, directory, DirectoryOf::kModel);
  };
  CHECK_THAT(said("days/*/*", "days/model"),
             Contains("days/model: files in it would be read as the job's data, which is all of " +
                      dir.Path("days/*/*") + ": name another directory"));
  struct Case {
    const char* data;
    const char* directory;
    bool good;
  };
  for (const Case& c : {Case{"days/*/*", "days/model", false},
                        {"days/*/*", "days/model/", false},
                        {"days/*/*", "days/../days/model", false},
                        {"days/*/*.json", "days/new", false},
                        {"days/m*/[a-z]*.json", "days/model", false},
                        {"days/*/*/*.csv", "days/model", false},  // joined/
                        {"days/*/*/*.tsv", "days/model", true},
                        {"days/*/*", "days/new/model", true},
                        {"days/*/*/*", "days/new/model", false},
                        {"days/*/model.json", "days/new", false},
                        {"days/*/mine.json", "days/new", false},  // a table may be called so
                        {"days/*/*.csv", "days/model", true},
                        {"days/*/*.jsonl", "days/model", true},
                        {"days/*", "days/model", true},
                        {"days", "days/model", true},
                        {"days/d*/*", "days/model", true},
                        {"days/*/*", "model", true},
                        {"days/*/*", "days", false},  // slots/
                        {"days/*/*.csv", "days", false},
                        {"days/*.csv", "days", true},
                        {"days/*/*", "days/.model", true},
                        {"*/*/*", "days/model", false},
                        {"s3://days/*/*", "days/model", true},
                        {"model/vocabulary/*.txt", "model", false},
                        {"model/mine/*.txt", "model", true},
                        {"days/model/a.json", "days/model", true}}) {
    CAPTURE(c.data, c.directory);
    CHECK(said(c.data, c.directory).empty() == c.good);
  }
}

TEST_CASE("summaries go where no pattern of data takes in event files", "[outputs]") {
  const DataFiles dir;
  const auto said = [&](const std::string& data, const std::string& directory) {
    return Said(dir, data, directory, DirectoryOf::kSummaries);
  };
  CHECK_THAT(said("days/*/*", "days/runs"), Contains("would be read as the job's data"));
  CHECK_THAT(said("days/*/events*", "days/runs"), Contains("would be read as the job's data"));
  CHECK(said("days/*/*.csv", "days/runs").empty());
  CHECK(said("days/*/*", "runs").empty());
}

TEST_CASE("a link to a directory is that directory where data is looked for", "[outputs]") {
  const DataFiles dir;
  fs::create_directories(dir.Path("days"));
  fs::create_directories(dir.Path("elsewhere/in"));
  fs::create_directory_symlink(dir.Path("elsewhere/in"), dir.Path("days/link"));
  fs::create_directory_symlink(dir.Path("days"), dir.Path("other"));
  for (const char* directory : {"elsewhere/in", "days/link", "other/new"}) {
    CAPTURE(directory);
    CHECK_FALSE(Said(dir, "days/*/*", directory, DirectoryOf::kModel).empty());
  }
  CHECK_FALSE(Said(dir, "other/*/*", "days/new", DirectoryOf::kModel).empty());
  CHECK(Said(dir, "days/*/*", "elsewhere/out", DirectoryOf::kModel).empty());
}

TEST_CASE("each kind of directory is refused where its own files would be read", "[outputs]") {
  const DataFiles dir;
  fs::create_directories(dir.Path("data"));
  const auto good = [&](const std::string& data, const std::string& directory, DirectoryOf what) {
    return Said(dir, data, directory, what).empty();
  };
  CHECK(good("data", "data", DirectoryOf::kCheckpoints));  // which has directories only
  CHECK(good("data/*.csv", "data", DirectoryOf::kCheckpoints));
  CHECK(good("data/*/*", "data/cx", DirectoryOf::kCheckpoints));
  CHECK_FALSE(good("data/*/*", "data", DirectoryOf::kCheckpoints));
  CHECK_FALSE(good("data/*/*/*", "data/cx", DirectoryOf::kCheckpoints));
  CHECK(good("data/*/*/*.csv", "data/cx", DirectoryOf::kCheckpoints));
  CHECK_FALSE(good("data/*/*/*/*.csv", "data/cx", DirectoryOf::kCheckpoints));  // inputs/joined/
  CHECK_FALSE(good("data/*.jsonl", "data", DirectoryOf::kEvaluations));
  CHECK_FALSE(good("data/*/*.csv", "data/export", DirectoryOf::kExport));
  CHECK(good("data/*/*.parquet", "data/export", DirectoryOf::kExport));
  CHECK_FALSE(good("data", "data", DirectoryOf::kCache));
  CHECK_FALSE(good("data/*", "data", DirectoryOf::kCache));
  CHECK(good("data/*.csv", "data", DirectoryOf::kCache));
  CHECK_FALSE(good("data/*/*", "data", DirectoryOf::kCache));
  CHECK_FALSE(good("data/*/*.json", "data/chaos", DirectoryOf::kChaos));
}

TEST_CASE("a job's cache does not lie among its data", "[outputs]") {
  const DataFiles dir;
  fs::create_directories(dir.Path("data"));
  job::JobSpec job;
  job.dataset.add_paths(dir.Path("data"));
  CHECK(CheckCacheNotReadAsData(job).ok());
  job.dataset.mutable_stream()->set_cache_directory(dir.Path("data/cache"));
  CHECK(CheckCacheNotReadAsData(job).ok());
  job.dataset.mutable_stream()->set_cache_directory(dir.Path("data"));
  const absl::Status refused = CheckCacheNotReadAsData(job);
  CHECK(ToExitCode(refused) == kExitUsage);
  CHECK_THAT(std::string(refused.message()), Contains("would be read as the job's data"));
}

}  // namespace
}  // namespace coxswain::cli
