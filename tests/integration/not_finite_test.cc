// A job whose data make a gradient infinite: it ends and says where, and its checkpoints are good.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Contains;

TEST_CASE(
    "a gradient that is no number ends the job with its table, id, example and line, and --resume "
    "works",
    "[not_finite]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  // Their mean, from which the model begins, is small.
  std::ofstream ratings(files.Path("ratings.csv"), std::ios::app);
  // 600 ratings behind a header. A batch has one, whose order is drawn.
  const std::string bad = absl::StrCat(files.Path("ratings.csv"), ":60");
  ratings << "u1,i1,3e38\nu2,i2,-3e38\n";
  for (int i = 0; i < 30'000; ++i) ratings << "u" << i % 30 << ",i" << i % 20 << ",3\n";
  ratings.close();
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train",
                                          job,
                                          "--in-process",
                                          "--checkpoint-dir",
                                          files.Path("checkpoints"),
                                          "--set",
                                          "train.batch_size=1",
                                          "--set",
                                          "train.epochs=2",
                                          "--set",
                                          "split.validation=0.0001",
                                          "--set",
                                          "checkpoint.every_steps=5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Coxswain(arguments);
  };
  const auto check = [&](const Process::Result& result) {
    CAPTURE(result.out, result.err);
    CHECK(result.code == 3);
    CHECK_THAT(result.err, Contains("the gradient of table '"));
    CHECK_THAT(result.err, Contains("infinite; it is not applied; the id is in example "));
    CHECK_THAT(result.err, Contains(" of training epoch 0, counted from 0: "));
    CHECK_THAT(result.err, Contains(bad + "2") || Contains(bad + "3"));
  };
  // A checkpoint is there, however slow the disk is: a job's last one is always written.
  const auto first = train({"--set", "train.epochs=", "--set", "train.steps=20"});
  INFO(first.out << first.err);
  REQUIRE(first.code == 0);
  check(train({"--resume"}));
  // It can go on, and meets the same example.
  const auto again = train({"--resume"});
  check(again);
  CHECK_THAT(again.err, Contains("resuming from "));
  CHECK_THAT(again.err, !Contains("NaN or infinite"));
}

}  // namespace
}  // namespace coxswain
