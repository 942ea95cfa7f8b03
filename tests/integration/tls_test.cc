// A cluster whose processes encrypt what they say to each other.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

// Through memory that both ends share nothing travels that could be encrypted.
const Process::Environment kOverTcp = {{"COXSWAIN_TRANSPORT", "grpc"}};

Process::Result OverTcp(const std::vector<std::string>& arguments) {
  return Run(CoxswainCommand(arguments), kOverTcp, absl::Seconds(60));
}

TEST_CASE("a cluster with certificates trains, and refuses who has none", "[tls]") {
  const DataFiles files;
  const std::string ours = files.Path("ours"), others = files.Path("others");
  for (const std::string& directory : {ours, others}) {
    const auto made = Coxswain({"make-certificates", directory});
    CAPTURE(made.err);
    REQUIRE(made.code == 0);
    CHECK_THAT(made.out, Contains(directory));
  }
  Daemons daemons(files, 2, 2, [&](const std::string&, int) {
    return Daemons::Launch{{"/usr/bin/env", "COXSWAIN_TRANSPORT=grpc"}, {"--tls-dir", ours}};
  });
  CHECK(daemons.ps(0).WaitForError("TLS with " + ours + "/tls.crt"));
  const std::string job = WriteMatrixFactorization(files);
  const std::vector<std::string> train = {
      "train", job, "--cluster", daemons.cluster_file(), "--connect-timeout", "2"};
  const auto with = [](std::vector<std::string> command, const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  const auto nothing = OverTcp(train);
  CAPTURE(nothing.err);
  CHECK(nothing.code == 4);
  CHECK_THAT(nothing.err, Contains(daemons.config().ps[0]));
  const auto another = OverTcp(with(train, {"--tls-dir", others}));
  CAPTURE(another.err);
  CHECK(another.code == 4);
  CHECK_THAT(another.err, Contains("certificate verify failed"));
  const auto status = OverTcp({"status", "--cluster", daemons.cluster_file(), "--tls-dir", ours});
  CAPTURE(status.out, status.err);
  CHECK(status.code == 0);
  CHECK_THAT(status.out, Contains("waiting for a coordinator"));
  const auto trained = OverTcp(with(train, {"--tls-dir", ours, "--quiet"}));
  CAPTURE(trained.err);
  CHECK(trained.code == 0);
  // As programs find it that are started by others.
  Process::Environment named = kOverTcp;
  named["COXSWAIN_TLS_DIR"] = ours;
  const auto again = Run(CoxswainCommand(with(train, {"--quiet"})), named, absl::Seconds(60));
  CAPTURE(again.err);
  CHECK(again.code == 0);
}

TEST_CASE("certificates that cannot be used are a mistake of who names them", "[tls]") {
  const DataFiles files;
  const std::string directory = files.Path("certificates");
  REQUIRE(Coxswain({"make-certificates", directory, "--tls-name", "ranking", "--days", "2"}).code ==
          0);
  const std::string cluster =
      files.Write("cluster.yaml", "ps: [\"127.0.0.1:1\"]\nworker: [\"127.0.0.1:2\"]\n");
  const std::string job = WriteMatrixFactorization(files);
  const std::vector<std::vector<std::string>> commands = {
      {COXSWAIN_BINARY_DIR "/bin/coxswain-ps", "--port", "0"},
      {COXSWAIN_BINARY_DIR "/bin/coxswain-worker", "--port", "0"},
      CoxswainCommand({"train", job, "--cluster", cluster}),
      CoxswainCommand({"status", "--cluster", cluster}),
      CoxswainCommand({"add-worker", "127.0.0.1:3", "--cluster", cluster}),
  };
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--tls-dir", directory});
    const auto result = Run(command, {}, absl::Seconds(20));
    CAPTURE(command, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(directory + "/tls.crt") && Contains("'coxswain'"));
  }
  // One that is about to expire is told of while it still works.
  Process ps({COXSWAIN_BINARY_DIR "/bin/coxswain-ps", "--port", "0", "--tls-dir", directory,
              "--tls-name", "ranking"});
  CHECK(ps.WaitForError(" W ps:0] TLS with " + directory));
  // And of what takes its place and cannot be used, while it runs.
  REQUIRE(ps.WaitForOutput("listening on"));
  std::ofstream(directory + "/tls.key") << "torn";
  CHECK(ps.WaitForError("new connections cannot be made"));
  const auto twice = Coxswain({"make-certificates", directory});
  CHECK(twice.code == 2);
  CHECK_THAT(twice.err, Contains(directory + "/") && Contains("already"));
  const auto local = Coxswain({"train", job, "--local", "1x1", "--tls-dir", directory});
  CHECK(local.code == 2);
  CHECK_THAT(local.err, Contains("--tls-dir excludes --local"));
}

}  // namespace
}  // namespace coxswain
