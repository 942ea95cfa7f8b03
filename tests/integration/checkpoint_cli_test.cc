// `coxswain checkpoint`: what it says of good and damaged checkpoints, and its exit codes.
#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/match.h"
#include "tests/integration/jobs.h"
#include "tests/testing/checkpoints.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

Process::Result Checkpoint(const std::string& command, const std::string& directory,
                           bool json = false) {
  std::vector<std::string> arguments = {"checkpoint", command, directory};
  if (json) arguments.push_back("--json");
  return Coxswain(arguments);
}

TEST_CASE("good checkpoints are listed, verified and shown", "[cli][checkpoint]") {
  const DataFiles dir;
  const auto files = env::NewRealFileSystem();
  const std::string where = dir.Path("checkpoints");
  WriteCheckpoint(files.get(), where, 8);
  const std::string newest = WriteCheckpoint(files.get(), where, 9);

  const auto list = Checkpoint("list", where);
  CAPTURE(list.out, list.err);
  CHECK(list.code == 0);
  CHECK_THAT(list.out, Contains("number") && Contains("12,336") && Contains("660"));
  CHECK(list.out.find("       9  ") < list.out.find("       8  "));
  const auto listed = nlohmann::json::parse(Checkpoint("list", where, true).out);
  REQUIRE(listed.size() == 2);
  CHECK(listed[0]["number"] == 9);
  CHECK(listed[0]["checkpoint"] == "checkpoint-000009");
  CHECK(listed[0]["ok"] == true);
  CHECK(listed[0]["written"] == "2026-01-01T00:00:00+00:00");
  CHECK(listed[0]["bytes"] == 660);
  CHECK(listed[0]["bytes_written"] == 0);
  CHECK(listed[0]["pending_closures"] == 2);
  CHECK(listed[1]["number"] == 8);

  const auto verify = Checkpoint("verify", where);
  CAPTURE(verify.out, verify.err);
  CHECK(verify.code == 0);
  CHECK_THAT(verify.out, StartsWith("checkpoint-000009  ok, 660 bytes in 3 files\n") &&
                             Contains("checkpoint-000008  ok"));
  CHECK(verify.err.empty());

  const auto inspect = Checkpoint("inspect", where);
  CAPTURE(inspect.out, inspect.err);
  CHECK(inspect.code == 0);
  CHECK_THAT(inspect.out, StartsWith(newest + "\n"));
  for (const char* part : {"12,336", "users", "[7,2]", "f32", "lazy_adam", "430", "bias", "120",
                           "all below 40", "2 pending", "training epoch 3", "\"hit_rate@10\": 0.1",
                           "60 bytes", "3 shards, 660 bytes, 0 of them new"}) {
    CHECK_THAT(inspect.out, Contains(part));
  }
  // One checkpoint instead of its directory.
  CHECK(Checkpoint("inspect", newest).out == inspect.out);
  CHECK(Checkpoint("inspect", newest + "/").code == 0);
  CHECK(Checkpoint("verify", newest).code == 0);
}

TEST_CASE("damaged checkpoints are named, and code 3 tells that the newest is one",
          "[cli][checkpoint]") {
  const DataFiles dir;
  const auto files = env::NewRealFileSystem();
  const std::string where = dir.Path("checkpoints");
  const std::string first = WriteCheckpoint(files.get(), where, 1);
  const std::string second = WriteCheckpoint(files.get(), where, 2);
  WriteCheckpoint(files.get(), where, 3);

  // An old one: the newest is good.
  FlipByte(files.get(), first + "/manifest.json", 50);
  const auto old = Checkpoint("verify", where);
  CHECK(old.code == 0);
  CHECK_THAT(old.out, Contains("checkpoint-000001  damaged: " + first + "/manifest.json"));

  std::filesystem::resize_file(where + "/checkpoint-000003/shard-00002.safetensors", 10);
  const auto verify = Checkpoint("verify", where);
  CAPTURE(verify.out, verify.err);
  CHECK(verify.code == 3);
  CHECK_THAT(verify.out, Contains("checkpoint-000003/shard-00002.safetensors: wanted 220 bytes"));
  CHECK_THAT(verify.out, Contains("checkpoint-000002  ok"));
  CHECK_THAT(verify.err, StartsWith("error: ") && Contains("checkpoint-000002 is the newest good"));
  const auto list = Checkpoint("list", where);
  CHECK(list.code == 0);
  CHECK_THAT(list.out, Contains("found 10") && Contains("checkpoint-000001/manifest.json"));

  // The second one's size is right: only reading shows it.
  FlipByte(files.get(), second + "/shard-00001.safetensors", 5);
  CHECK_THAT(Checkpoint("list", second).out, Contains("  ok\n"));
  const auto none = Checkpoint("verify", where, true);
  CHECK(none.code == 3);
  CHECK_THAT(none.err, Contains("no checkpoint") && Contains("is good"));
  const auto json = nlohmann::json::parse(none.out);
  REQUIRE(json.size() == 3);
  for (const auto& entry : json) CHECK(entry["ok"] == false);
  CHECK(absl::StrContains(json[1]["error"].get<std::string>(), "shard-00001.safetensors"));

  // Inspect goes on to the newest manifest that can be read, or says that there is none.
  FlipByte(files.get(), where + "/checkpoint-000003/manifest.json", 50);
  const auto inspect = Checkpoint("inspect", where);
  CHECK(inspect.code == 0);
  CHECK_THAT(inspect.out, StartsWith(second));
  CHECK_THAT(inspect.err, StartsWith("warning: ") && Contains("checkpoint-000003"));
  const auto damaged = Checkpoint("inspect", first);
  CHECK(damaged.code == 3);
  CHECK_THAT(damaged.err, StartsWith("error: ") && Contains(first));
  std::filesystem::remove(second + "/manifest.json");
  CHECK(Checkpoint("inspect", where).code == 3);
  const auto unreadable = Checkpoint("list", where);
  CHECK(unreadable.code == 3);
  CHECK_THAT(unreadable.out, Contains("checkpoint-000001/manifest.json"));
  CHECK_THAT(unreadable.err, Contains("has a manifest that can be read"));
}

TEST_CASE("checkpoint commands say what is wrong with their arguments", "[cli][checkpoint]") {
  const DataFiles dir;
  const std::string none = dir.Path("none"), file = dir.Write("file", "");
  for (const char* command : {"list", "verify", "inspect"}) {
    INFO(command);
    const auto missing = Checkpoint(command, none);
    CHECK(missing.code == 2);
    CHECK_THAT(missing.err, StartsWith("error: ") && Contains(none));
    CHECK(Checkpoint(command, file).code == 2);
    CHECK(Coxswain({"checkpoint", command}).code == 2);
    const auto help = Coxswain({"checkpoint", command, "--help"});
    CHECK(help.code == 0);
    CHECK_THAT(help.out, Contains("DIR"));
  }
  std::filesystem::create_directory(dir.Path("empty"));
  CHECK(Checkpoint("list", dir.Path("empty")).code == 0);
  CHECK(Checkpoint("list", dir.Path("empty"), true).out == "[]\n");
  CHECK(Checkpoint("verify", dir.Path("empty")).code == 3);
  CHECK_THAT(Checkpoint("inspect", dir.Path("empty")).err, Contains("holds no checkpoint"));
  const auto unknown = Checkpoint("verfy", none);
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err,
             Contains("unknown command \"verfy\"") && Contains("did you mean \"verify\""));
  const auto flag = Coxswain({"checkpoint", "list", none, "--jsn"});
  CHECK(flag.code == 2);
  CHECK_THAT(flag.err,
             Contains("did you mean \"--json\"") && Contains("`coxswain checkpoint list --help`"));
  const auto bare = Coxswain({"checkpoint"});
  CHECK(bare.code == 2);
  CHECK_THAT(bare.err, StartsWith("error: "));
}

}  // namespace
}  // namespace coxswain
