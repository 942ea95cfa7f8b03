// The files that predictions of checkpoints need, when somebody removes them or they cannot be
// written.
#include "coordinator/cli/kept_inputs.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/testing/data_files.h"

namespace coxswain::cli {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

struct Kept {
  void Begin() {
    inputs.Begin(dir.Path("c"), [this] {
      ++saves;
      if (!broken.ok()) return broken;
      fs::create_directories(dir.Path("c/inputs"));
      dir.Write("c/inputs/inputs.json", "{}");
      return absl::OkStatus();
    });
  }

  DataFiles dir;
  absl::Status broken;
  int saves = 0;
  std::vector<std::string> notes;
  KeptInputs inputs{[this](const std::string& note) { notes.push_back(note); }};
};

TEST_CASE("inputs that were removed are written again with the next checkpoint", "[checkpoint]") {
  Kept k;
  k.inputs.CheckpointWritten();
  k.inputs.Look();  // of a job that has not begun
  CHECK(k.saves == 0);
  k.Begin();
  k.inputs.CheckpointWritten();
  k.inputs.Look();
  CHECK(k.saves == 1);
  fs::remove_all(k.dir.Path("c"));
  k.inputs.Look();  // there is no checkpoint that needs them
  CHECK(k.saves == 1);
  k.inputs.CheckpointWritten();
  k.inputs.Look();
  CHECK(k.saves == 2);
  REQUIRE(k.notes.size() == 1);
  CHECK_THAT(k.notes[0], Contains(k.dir.Path("c/inputs") + " was removed; it is written again"));
}

TEST_CASE("inputs that could not be written are tried with each checkpoint, and told once",
          "[checkpoint]") {
  Kept k;
  // What an earlier job left is not this job's.
  fs::create_directories(k.dir.Path("c/inputs"));
  k.dir.Write("c/inputs/inputs.json", "{}");
  k.broken = absl::ResourceExhaustedError("No space left on device");
  k.Begin();
  for (int i = 0; i < 3; ++i) {
    k.inputs.CheckpointWritten();
    k.inputs.Look();
  }
  CHECK(k.saves == 4);
  REQUIRE(k.notes.size() == 1);
  CHECK_THAT(k.notes[0], Contains("inputs is not written") && Contains("No space left"));
  k.broken = absl::OkStatus();
  k.inputs.CheckpointWritten();
  k.inputs.Look();
  k.inputs.CheckpointWritten();
  k.inputs.Look();
  CHECK(k.saves == 5);
  REQUIRE(k.notes.size() == 2);
  CHECK_THAT(k.notes[1], Contains("inputs is written now"));
}

}  // namespace
}  // namespace coxswain::cli
