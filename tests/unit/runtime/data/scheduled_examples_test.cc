// Where a program is in its data, and that it comes back there.
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "coordinator/api/data_cursor.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/scheduled_examples.h"

namespace coxswain::data {
namespace {

using Range = ScheduledExamples::Range;
using Ranges = std::vector<Range>;

Ticket Training(int64_t epoch, int64_t begin, int64_t end) {
  return {Part::kTraining, epoch, begin, end};
}

TEST_CASE("tickets that are scheduled in order are one range an epoch", "[data]") {
  ScheduledExamples scheduled;
  CHECK(scheduled.empty());
  for (int64_t begin = 0; begin < 1000; begin += 10) scheduled.Add(Training(0, begin, begin + 10));
  scheduled.Add(Training(1, 0, 10));
  scheduled.Add({Part::kTest, 1, 10, 20});
  scheduled.Add(Training(1, 10, 10));
  scheduled.Add(Training(-1, 0, 10));
  CHECK(scheduled.ranges() == Ranges{{0, 0, 1000}, {1, 0, 10}});
  CHECK(scheduled.NextFree(0, 0, 1000) == std::pair<int64_t, int64_t>{1000, 1000});
  CHECK(scheduled.NextFree(1, 0, 1000) == std::pair<int64_t, int64_t>{10, 1000});
  CHECK(scheduled.NextFree(7, 3, 1000) == std::pair<int64_t, int64_t>{3, 1000});
  scheduled.Remove(Training(0, 500, 510));
  CHECK(scheduled.NextFree(0, 0, 1000) == std::pair<int64_t, int64_t>{500, 510});
  CHECK(scheduled.NextFree(0, 505, 1000) == std::pair<int64_t, int64_t>{505, 510});
  CHECK(scheduled.NextFree(0, 510, 1000) == std::pair<int64_t, int64_t>{1000, 1000});
}

TEST_CASE("ranges are what a set of examples is", "[data]") {
  std::mt19937 random(5);
  ScheduledExamples scheduled;
  std::set<std::pair<int64_t, int64_t>> plain;
  for (int i = 0; i < 3000; ++i) {
    const int64_t epoch = random() % 3, begin = random() % 100, end = begin + random() % 12;
    const bool add = random() % 3 != 0;
    add ? scheduled.Add(Training(epoch, begin, end))
        : scheduled.Remove(Training(epoch, begin, end));
    for (int64_t e = begin; e < end; ++e) {
      add ? (void)plain.insert({epoch, e}) : (void)plain.erase({epoch, e});
    }
    std::set<std::pair<int64_t, int64_t>> found;
    const Ranges ranges = scheduled.ranges();
    for (const Range& r : ranges) {
      for (int64_t e = r.begin; e < r.end; ++e) found.insert({r.epoch, e});
    }
    REQUIRE(found == plain);
    const auto again = ScheduledExamples::FromRanges(0, ranges);  // sorted, with gaps
    REQUIRE(again.ok());
    REQUIRE(again->ranges() == ranges);
  }
}

TEST_CASE("who leaves out very much is not told of all of it", "[data]") {
  constexpr auto kMost = static_cast<int64_t>(ScheduledExamples::kMostRanges);
  ScheduledExamples scheduled;
  for (int64_t i = 0; i <= kMost + 1; ++i) scheduled.Add(Training(0, 2 * i, 2 * i + 1));
  CHECK(scheduled.ranges().size() == ScheduledExamples::kMostRanges);
  CHECK(scheduled.ranges()[0] == Range{0, 0, 5});
  scheduled.Add(Training(1, 0, 1));
  CHECK(scheduled.first_epoch() == 1);
  CHECK(scheduled.ranges() == Ranges{{1, 0, 1}});
  CHECK(scheduled.NextFree(0, 1, 9) == std::pair<int64_t, int64_t>{9, 9});
}

TEST_CASE("a cursor hands out what is not scheduled, whatever the batch is now", "[data]") {
  DataCursor cursor;
  std::vector<std::string> tickets;
  const auto all = [&](int64_t batch) {
    tickets.clear();
    while (const auto t = cursor.Next(batch, 10, 2, /*only_full=*/false))
      tickets.push_back(t->ToString());
    return tickets;
  };
  CHECK(all(4) ==
        std::vector<std::string>{Training(0, 0, 4).ToString(), Training(0, 4, 8).ToString(),
                                 Training(0, 8, 10).ToString(), Training(1, 0, 4).ToString(),
                                 Training(1, 4, 8).ToString(), Training(1, 8, 10).ToString()});
  CHECK_FALSE(cursor.Next(4, 10, 2, false));
  cursor = DataCursor();
  cursor.scheduled.Add(Training(0, 0, 4));
  cursor.scheduled.Add(Training(0, 6, 10));  // scheduled before the one in between was
  cursor.scheduled.Add(Training(1, 0, 3));
  CHECK(all(5) == std::vector<std::string>{Training(0, 4, 6).ToString(),
                                           Training(1, 3, 8).ToString(),
                                           Training(1, 8, 10).ToString()});
  CHECK_FALSE(DataCursor().Next(4, 0, 2, false));
}

TEST_CASE("a cursor that drops remainders hands out full batches only, after a resume too",
          "[data]") {
  DataCursor cursor;
  const auto all = [&](int64_t batch) {
    std::vector<std::string> tickets;
    while (const auto t = cursor.Next(batch, 20, 2, /*only_full=*/true)) {
      CHECK(t->size() == batch);
      tickets.push_back(t->ToString());
    }
    return tickets;
  };
  CHECK(all(8) ==
        std::vector<std::string>{Training(0, 0, 8).ToString(), Training(0, 8, 16).ToString(),
                                 Training(1, 0, 8).ToString(), Training(1, 8, 16).ToString()});
  // Of batches of 3, one of which was cancelled; now they are of 4.
  cursor = DataCursor();
  cursor.scheduled.Add(Training(0, 0, 3));
  cursor.scheduled.Add(Training(0, 6, 9));
  cursor.scheduled.Add(Training(1, 0, 15));
  CHECK(all(4) == std::vector<std::string>{Training(0, 9, 13).ToString(),
                                           Training(0, 13, 17).ToString(),
                                           Training(1, 15, 19).ToString()});
}

TEST_CASE("a manifest keeps the place in the data, and an older one has none", "[checkpoint]") {
  checkpoint::Manifest manifest;
  manifest.number = 1;
  manifest.job_state = "{}";
  checkpoint::DatasetProgress data;
  data.dataset = 1;
  data.fingerprint = 0xfedcba9876543210;
  data.scheduled.Add(Training(3, 7, 9));
  manifest.data = {data};
  const std::string text = checkpoint::ToJson(manifest);
  const auto parsed = checkpoint::ParseManifest(text, "m");
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  REQUIRE(parsed->data.size() == 1);
  CHECK(parsed->data[0].fingerprint == data.fingerprint);
  CHECK(parsed->data[0].scheduled.ranges() == Ranges{{3, 7, 9}});

  CHECK_FALSE(ScheduledExamples::FromRanges(0, {{0, 5, 5}}).ok());
  CHECK_FALSE(ScheduledExamples::FromRanges(0, {{0, 5, 9}, {0, 9, 12}}).ok());
  CHECK_FALSE(ScheduledExamples::FromRanges(0, {{1, 5, 9}, {0, 9, 12}}).ok());
  CHECK_FALSE(ScheduledExamples::FromRanges(2, {{1, 5, 9}}).ok());
  CHECK_FALSE(ScheduledExamples::FromRanges(-1, {}).ok());
}

}  // namespace
}  // namespace coxswain::data
