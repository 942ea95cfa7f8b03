// A directory that another process replaces while it is read.
#include "coordinator/model/unreplaced.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/testing/data_files.h"

namespace coxswain::model {
namespace {

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Reads two files; `between` is called after the first one.
template <typename Between>
absl::StatusOr<std::string> ReadTwo(const DataFiles& files, Between between) {
  return ReadUnreplaced(files.Path("model"), "model.json", [&]() -> absl::StatusOr<std::string> {
    std::string read = Content(files.Path("model/model.json"));
    between();
    return read + Content(files.Path("model/weights"));
  });
}

void Save(const DataFiles& files, const std::string& version) {
  const std::filesystem::path next = files.Path("next");
  std::filesystem::create_directory(next);
  files.Write("next/model.json", version);
  files.Write("next/weights", version);
  std::filesystem::remove_all(files.Path("model"));
  std::filesystem::rename(next, files.Path("model"));
}

TEST_CASE("a model that is replaced while it is read is read again, never as a mixture") {
  const DataFiles files;
  Save(files, "1");
  int replaced = 0;
  const auto once = ReadTwo(files, [&] {
    if (replaced++ == 0) Save(files, "2");
  });
  REQUIRE(once.ok());
  CHECK(*once == "22");
  CHECK(replaced == 2);
}

TEST_CASE("a model that is replaced again and again is an error that names it") {
  const DataFiles files;
  Save(files, "0");
  int version = 0;
  const auto never = ReadTwo(files, [&] { Save(files, std::to_string(++version)); });
  CHECK(never.status().code() == absl::StatusCode::kUnavailable);
  CHECK(never.status().message().find("was replaced while it was read") != std::string::npos);
  CHECK(version == 3);
}

TEST_CASE("what goes wrong with a model that nobody replaces is told as it is") {
  const DataFiles files;
  const auto none = ReadUnreplaced(files.Path("none"), "model.json", [] {
    return absl::StatusOr<int>(absl::NotFoundError("no model"));
  });
  CHECK(none.status().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace coxswain::model
