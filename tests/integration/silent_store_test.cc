// An object store that takes connections and says nothing.
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/net/unique_fd.h"
#include "tests/integration/jobs.h"
#include "tests/s3/object_store.h"
#include "tests/testing/arrow_specs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

class SilentStore {
 public:
  SilentStore() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(fd_.get(), 16) == 0);
    REQUIRE(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  // Waits until somebody asks.
  bool IsAsked() const {
    constexpr int kPatienceMs = 60'000;
    pollfd waiting{fd_.get(), POLLIN, 0};
    return poll(&waiting, 1, kPatienceMs) == 1;
  }
  Process::Environment environment() const {
    return {{"AWS_ENDPOINT_URL", absl::StrCat("http://127.0.0.1:", port_)},
            {"AWS_ACCESS_KEY_ID", "key"},
            {"AWS_SECRET_ACCESS_KEY", "secret"},
            {"AWS_EC2_METADATA_DISABLED", "true"}};
  }

 private:
  const net::UniqueFd fd_;
  int port_ = 0;
};

TEST_CASE("a store that says nothing is told, and the first signal ends the wait for it", "[s3]") {
  if (!HasArrow()) return;
  const DataFiles files;
  const std::string model = files.Path("model");
  const auto trained = Coxswain(
      {"train", WriteMatrixFactorization(files), "--in-process", "--quiet", "--model-dir", model});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const SilentStore store;
  Process predict(CoxswainCommand({"predict", "--model-dir", model, "--input", "s3://b/rows.csv"}),
                  store.environment());
  REQUIRE(store.IsAsked());
  CHECK(predict.WaitForError("waiting for the object store"));
  CHECK_THAT(predict.err(), Contains("s3://b/rows.csv"));
  predict.Kill(SIGTERM);
  // The store's library would wait two minutes.
  const auto result = predict.Wait();
  CAPTURE(result.out, result.err);
  CHECK(result.code == 130);
}

TEST_CASE("the first signal ends a job at once that still reads its data", "[s3]") {
  if (!HasArrow()) return;
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  for (const bool resumes : {false, true}) {
    const SilentStore store;
    std::vector<std::string> command = {"train",
                                        job,
                                        "--local",
                                        "1x1",
                                        "--set",
                                        "dataset.path=s3://b/rows.csv",
                                        "--checkpoint-dir",
                                        files.Path("checkpoints")};
    if (resumes) command.push_back("--resume");
    Process train(CoxswainCommand(command), store.environment());
    REQUIRE(store.IsAsked());
    train.Kill(SIGTERM);
    const auto result = train.Wait();
    CAPTURE(resumes, result.out, result.err);
    CHECK(result.code == (resumes ? 75 : 130));
    CHECK_THAT(result.err, Contains(resumes ? "interrupted; resume with" : "interrupted"));
  }
}

TEST_CASE("a store that fails again and again is not the user's mistake, whatever asks it",
          "[s3]") {
  if (!HasArrow()) return;
  const DataFiles files;
  ObjectStore store;
  store.FailNext(1'000'000, 503);
  const std::string job = WriteMatrixFactorization(files);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"train", job, "--in-process"}, {"validate", job}}) {
    Process run(CoxswainCommand([&] {
                  std::vector<std::string> all = command;
                  all.insert(all.end(), {"--set", "dataset.path=s3://b/ratings.csv"});
                  return all;
                }()),
                store.environment());
    const auto result = run.Wait();
    CAPTURE(command[0], result.out, result.err);
    CHECK(result.code == 3);
    CHECK_THAT(result.err, Contains("s3://b/ratings.csv"));
  }
}

}  // namespace
}  // namespace coxswain
