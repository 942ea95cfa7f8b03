// The example programs that go on from their checkpoints, killed again and again.
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/testing/data_files.h"
#include "tests/testing/paths.h"
#include "tests/testing/process.h"

namespace coxswain {
namespace {

// How many lines of the output are about checkpoints that were written.
int Written(const std::string& out) {
  int written = 0;
  for (size_t at = 0; (at = out.find(" written, ", at)) != std::string::npos; ++at) ++written;
  return written;
}

// Kills the program of this command, which takes seconds, again and again. What it says when it was
// left alone in the end.
std::string KilledAgainAndAgain(const std::vector<std::string>& command) {
  std::mt19937 random(static_cast<unsigned>(time(nullptr)));
  int resumed = 0;
  for (int kills = 0; kills < 12; ++kills) {
    Process program(command);
    // The next one has something to go on from; then anywhere between two checkpoints.
    if (!program.WaitForOutput(" written, ")) break;
    const Process::Result result = program.Wait(absl::Milliseconds(random() % 20));
    INFO(result.out << result.err);
    CHECK((result.code == Process::kTimedOut || result.code == 0));  // kill -9
    resumed += absl::StrContains(result.out, "going on from");
    if (result.code == 0) break;
  }
  const Process::Result last = Run(command, {}, absl::Minutes(3));
  INFO(last.out << last.err);
  CHECK(last.code == 0);
  CHECK(absl::StrContains(last.out, "going on from"));
  CHECK(resumed >= 3);
  CHECK(Written(last.out) >= 1);
  return last.out;
}

TEST_CASE("a program that is killed again and again uses each example once an epoch", "[resume]") {
  const DataFiles files;
  // So many epochs that the kills, each a checkpoint or two after the start, leave most to do.
  CHECK_THAT(
      KilledAgainAndAgain({COXSWAIN_BINARY_DIR "/bin/example-resume", files.Path("run"), "1000"}),
      Catch::Matchers::Contains("0 of 500 examples were not used 1000 times"));
}

TEST_CASE("a program with its own data that is killed again and again uses each batch once",
          "[resume]") {
  const DataFiles files;
  CHECK_THAT(KilledAgainAndAgain(
                 {COXSWAIN_BINARY_DIR "/bin/example-own-data", files.Path("run"), "100000"}),
             Catch::Matchers::Contains("0 of 500 examples were not used as often"));
}

}  // namespace
}  // namespace coxswain
