// The manifest of a saved model: formats that are known, and files that are as they were saved.
#include "coordinator/model/saved_manifest.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "coordinator/model/saved_reader.h"
#include "tests/testing/data_files.h"
#include "tests/testing/saved_models.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;

absl::Status Check(const std::string& directory) {
  const auto manifest = ReadModelManifest(directory);
  return manifest.ok() ? CheckModelFiles(directory, *manifest) : manifest.status();
}

// A model of two small files and no variable.
void WriteFiles(const DataFiles& files) {
  std::filesystem::create_directories(files.Path("m/vocabulary"));
  files.Write("m/job.yaml", "name: a\n");
  files.Write("m/vocabulary/x.txt", "b\na\n");
  const auto sums = ChecksumsOf(files.Path("m"), {"job.yaml", "vocabulary/x.txt"});
  REQUIRE(sums.ok());
  nlohmann::ordered_json manifest = {{"format", kModelFormatName},
                                     {"format_version", kModelFormat},
                                     {"variables", nlohmann::json::array()},
                                     {"checksums", *sums}};
  files.Write("m/model.json", manifest.dump());
}

TEST_CASE("manifest: a file of a model that is not as it was saved is named", "[saved]") {
  const DataFiles files;
  WriteFiles(files);
  CHECK(Check(files.Path("m")).ok());
  files.Write("m/vocabulary/x.txt", "b\nc\n");
  CHECK_THAT(std::string(Check(files.Path("m")).message()),
             Contains("vocabulary/x.txt") && Contains("not what was saved"));
  files.Write("m/vocabulary/x.txt", "b\n");
  CHECK_THAT(std::string(Check(files.Path("m")).message()),
             Contains("vocabulary/x.txt") && Contains("wanted the 4 bytes") && Contains("found 2"));
  std::filesystem::remove(files.Path("m/vocabulary/x.txt"));
  CHECK_THAT(std::string(Check(files.Path("m")).message()),
             Contains("vocabulary/x.txt") && Contains("missing"));
}

TEST_CASE("manifest: a model can be moved", "[saved]") {
  const DataFiles files;
  WriteFiles(files);
  std::filesystem::rename(files.Path("m"), files.Path("elsewhere"));
  CHECK(Check(files.Path("elsewhere")).ok());
}

TEST_CASE("manifest: a model of a later format is refused, one of an earlier format is read",
          "[saved]") {
  const DataFiles files;
  std::filesystem::create_directories(files.Path("m"));
  files.Write("m/model.json",
              R"({"format": "coxswain-model", "format_version": 999, "variables": []})");
  for (const absl::Status& status : {ReadModelManifest(files.Path("m")).status(),
                                     SavedSource::OpenModel(files.Path("m")).status()}) {
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()),
               Contains("model.json") && Contains("format 999") && Contains("up to 2"));
  }
  files.Write("m/model.json", R"({"format": "coxswain-model", "variables": []})");
  CHECK(SavedSource::OpenModel(files.Path("m")).ok());
  CHECK(Check(files.Path("m")).ok());
  files.Write("m/model.json", R"({"format": "coxswain-model", "format_version": "two"})");
  CHECK(absl::IsDataLoss(ReadModelManifest(files.Path("m")).status()));
}

TEST_CASE("manifest: a name that leads out of the model is refused", "[saved]") {
  const DataFiles files;
  std::filesystem::create_directories(files.Path("m"));
  files.Write("outside", "x");
  files.Write("m/model.json",
              R"({"format": "coxswain-model", "checksums": {"../outside": {"bytes": 1,
                  "crc32": 1}}})");
  CHECK_THAT(std::string(Check(files.Path("m")).message()), Contains("'../outside'"));
}

}  // namespace
}  // namespace coxswain::model
