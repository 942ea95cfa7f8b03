// What the parts of checkpointing hear of one another.
#include "coordinator/core/checkpoints.h"

#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "tests/testing/checkpoints.h"
#include "tests/testing/fake_tasks.h"

namespace coxswain::core {
namespace {

constexpr ShardId kShard = 1;

// A job whose checkpoints are written where the test says so.
struct Job {
  void Start(uint64_t next, int keep = 1, int64_t every_steps = 0) {
    CheckpointOptions options;
    options.keep = keep;
    options.every_steps = every_steps;
    checkpoints.StartAt(
        std::make_shared<Checkpointer>(&env, std::make_shared<testing::ManualLoop>(), Session{7, 0},
                                       std::move(options), Checkpointer::Source{}),
        next);
  }
  bool Written(uint64_t number) {
    Checkpointer::Outcome outcome;
    outcome.manifest = SampleManifest(number);
    outcome.path = "/dir/" + checkpoint::CheckpointName(number);
    return checkpoints.Ended(outcome);
  }

  testing::TestEnv env;
  Checkpoints checkpoints;
};

TEST_CASE("the first checkpoint of a resumed job builds on the one it goes on from",
          "[checkpoint]") {
  Job job;
  job.checkpoints.Resume(SampleManifest(4), "/dir/" + checkpoint::CheckpointName(4), /*steps=*/40);
  job.Start(/*next=*/5);
  REQUIRE(job.checkpoints.BaseOf(kShard) != nullptr);
  CHECK(job.checkpoints.points().newest().manifest.number == 4);
  CHECK_FALSE(job.checkpoints.DueByTime(40));  // it has all of that
  CHECK(job.checkpoints.DueByTime(41));
}

TEST_CASE("a checkpoint that was written is news once", "[checkpoint]") {
  Job job;
  job.Start(5);
  CHECK(job.Written(5));
  CHECK_FALSE(job.Written(5));
  CHECK(job.checkpoints.points().size() == 1);
  CHECK(job.checkpoints.BaseOf(kShard) != nullptr);
}

TEST_CASE("after one that may be visible though it failed, nothing has a base", "[checkpoint]") {
  Job job;
  job.Start(5);
  REQUIRE(job.Written(5));
  Checkpointer::Outcome failed;
  failed.status = absl::UnavailableError("a PS is lost");
  CHECK_FALSE(job.checkpoints.Ended(failed));
  CHECK(job.checkpoints.BaseOf(kShard) != nullptr);
  failed.may_be_visible = true;
  CHECK_FALSE(job.checkpoints.Ended(failed));
  CHECK(job.checkpoints.BaseOf(kShard) == nullptr);
  CHECK(job.checkpoints.points().newest().manifest.number == 5);
}

TEST_CASE("checkpoints behind which training went back are none that later ones go on from",
          "[checkpoint]") {
  Job job;
  checkpoint::Manifest begun_with = SampleManifest(4);
  begun_with.abandoned.Add(2, 2);
  job.checkpoints.Resume(std::move(begun_with), "/dir/" + checkpoint::CheckpointName(4), 40);
  const auto gone = [&job] {
    std::vector<uint64_t> all;
    for (uint64_t number = 1; number < 20; ++number) {
      if (job.checkpoints.abandoned().Has(number)) all.push_back(number);
    }
    return all;
  };
  job.Start(/*next=*/6, /*keep=*/3);  // there was one that was damaged
  CHECK(gone() == std::vector<uint64_t>{2, 5});
  REQUIRE(job.Written(6));
  job.checkpoints.writer()->set_next_number(7);
  // A shard that is new was in none of them.
  job.checkpoints.Created(99, 4);
  job.checkpoints.WentBack({}, 4);
  CHECK(gone() == std::vector<uint64_t>{2, 5});
  // The next one is on its way when a parameter server is lost, and may become visible.
  job.checkpoints.writer()->set_next_number(8);
  job.checkpoints.WentBack({kShard}, 6);
  CHECK(gone() == std::vector<uint64_t>{2, 5, 7});
  job.checkpoints.WentBack({kShard}, 6);
  CHECK(gone() == std::vector<uint64_t>{2, 5, 7});
}

TEST_CASE("what is written by hand is safe in the next checkpoint, and no base of any",
          "[checkpoint]") {
  Job job;
  job.Start(5);
  REQUIRE(job.Written(5));
  CHECK_FALSE(job.checkpoints.DueByWrites());
  CHECK(job.checkpoints.MakeWay(/*runs_again=*/false));
  const uint64_t covered_by = job.checkpoints.WriteSent(kShard);
  CHECK(job.checkpoints.BaseOf(kShard) == nullptr);
  CHECK(job.checkpoints.BaseOf(kShard + 1) != nullptr);
  job.checkpoints.WriteDone(kShard, covered_by);
  CHECK(job.checkpoints.safe_from().at(kShard) == covered_by);
  CHECK(job.checkpoints.DueByWrites());
  CHECK_FALSE(job.checkpoints.DueByWrites());
}

TEST_CASE("a write waits for closures that run again", "[checkpoint]") {
  Job job;
  int tried = 0;
  CHECK_FALSE(job.checkpoints.MakeWay(/*runs_again=*/true));
  job.checkpoints.Hold([&tried] { ++tried; });
  for (auto& write : job.checkpoints.Release()) write();
  CHECK(tried == 1);
}

TEST_CASE("checkpoints come by steps, and none where nobody writes them", "[checkpoint]") {
  Job job;
  CHECK_FALSE(job.checkpoints.DueBySteps(1000));
  CHECK_FALSE(job.checkpoints.IsCurrent(0));
  job.Start(1, /*keep=*/1, /*every_steps=*/10);
  CHECK_FALSE(job.checkpoints.DueBySteps(9));
  CHECK(job.checkpoints.DueBySteps(10));
  job.checkpoints.Stop();
  CHECK_FALSE(job.checkpoints.DueBySteps(10));
}

}  // namespace
}  // namespace coxswain::core
