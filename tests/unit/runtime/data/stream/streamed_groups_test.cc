// Which tickets are near each other, so that one worker had better read them.
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/streamed_rows.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

constexpr int64_t kRows = 2000, kBatch = 16;

// 40 blocks of 50 rows, 5 blocks in a window.
proto::DatasetSpec Spec(const DataFiles& files) {
  std::string csv = "a,y\n";
  for (int64_t i = 0; i < kRows; ++i) absl::StrAppend(&csv, 10000 + i, ",", i % 2, "\n");
  auto spec = CsvSpec(files.Write("a.csv", csv));
  AddNumeric(&spec, "a");
  spec.mutable_label()->set_column("y");
  spec.set_shuffle(true);
  spec.set_example_ids(true);
  spec = Streamed(files, spec, 400, 5);
  spec.mutable_stream()->set_batch(kBatch);
  return spec;
}

std::map<uint64_t, std::vector<Ticket>> ByGroup(const Dataset& data, int64_t epoch) {
  std::map<uint64_t, std::vector<Ticket>> groups;
  for (int64_t begin = 0; begin < kRows; begin += kBatch) {
    const Ticket ticket{Part::kTraining, epoch, begin, begin + kBatch};
    groups[data.GroupOf(ticket)].push_back(ticket);
  }
  return groups;
}

TEST_CASE("streaming: tickets are in one group for each window, others in each epoch") {
  DataFiles files;
  const auto data = MustLoad(Spec(files));
  const auto first = ByGroup(*data, 0), second = ByGroup(*data, 1);
  CHECK(first.size() == 8);
  CHECK(second.size() == 8);
  for (const auto& [group, tickets] : first) {
    CHECK(group != 0);
    CHECK(second.count(group) == 0);
    CHECK(tickets.back().end - tickets.front().begin == static_cast<int64_t>(tickets.size()) * 16);
  }
  CHECK(data->group_size() == 250);
  CHECK(data->GroupOf({Part::kTraining, 0, kRows, kRows + 1}) == 0);
  CHECK(data->GroupOf({Part::kTraining, 0, 5, 5}) == 0);
}

TEST_CASE("streaming: there are no groups in memory, nor where each reader has its own order") {
  DataFiles files;
  auto spec = Spec(files);
  spec.set_per_worker(true);
  CHECK(MustLoad(spec)->GroupOf({Part::kTraining, 0, 0, 1}) == 0);
  CHECK(MustLoad(spec)->group_size() == 0);
  spec.set_per_worker(false);
  spec.mutable_stream()->set_mode(proto::StreamOptions::NEVER);
  CHECK(MustLoad(spec)->GroupOf({Part::kTraining, 0, 0, 1}) == 0);
  CHECK(MustLoad(spec)->group_size() == 0);
}

TEST_CASE("streaming: another size of batches is another order, and another data set") {
  DataFiles files;
  auto spec = Spec(files);
  const auto data = MustLoad(spec);
  spec.mutable_stream()->set_batch(kBatch + 1);
  CHECK(MustLoad(spec)->fingerprint() != data->fingerprint());
}

TEST_CASE("streaming: what is said to come next changes no batch, and may be nonsense") {
  DataFiles files;
  const auto data = MustLoad(Spec(files));
  const Ticket ticket{Part::kTraining, 3, 32, 48};
  const std::vector<std::string> wanted = Bytes(*data, ticket);
  for (const Ticket& ahead : {Ticket{Part::kTraining, 3, 1600, 1616}, Ticket{Part::kTest, 0, 0, 1},
                              Ticket{Part::kTraining, -1, 0, 1}, Ticket{}, ticket}) {
    const auto batch = data->Read(ticket, &ahead);
    REQUIRE(batch.ok());
    for (size_t i = 0; i < wanted.size(); ++i) {
      CHECK(std::string(static_cast<const char*>((*batch)[i].buffer().data()),
                        (*batch)[i].bytes()) == wanted[i]);
    }
  }
}

// Four readers that take the windows of an epoch in turn parse each block about once in all.
TEST_CASE("streaming: readers of groups of their own parse each block once, but for shared ones") {
  DataFiles files;
  const auto spec = Spec(files);
  const auto data = MustLoad(spec);
  auto checked = CheckSpec(spec);
  REQUIRE(checked.ok());
  auto streamed = MakeStreamedSpec(*std::move(checked), data->index());
  REQUIRE(streamed.ok());
  constexpr uint64_t kKey = 77;
  std::vector<std::unique_ptr<StreamedRows>> readers;
  for (int i = 0; i < 4; ++i) {
    readers.push_back(
        std::make_unique<StreamedRows>(*streamed, [](absl::AnyInvocable<void()> task) { task(); }));
  }
  std::vector<std::vector<Ticket>> windows(8);
  for (int64_t begin = 0; begin < kRows; begin += kBatch) {
    const Ticket ticket{Part::kTraining, 0, begin, begin + kBatch};
    windows.at(static_cast<size_t>(readers[0]->GroupOf(ticket, kKey))).push_back(ticket);
  }
  int64_t parsed = 0, ahead = 0;
  for (size_t reader = 0; reader < readers.size(); ++reader) {
    for (size_t window : {reader, reader + 4}) {
      const StreamedRows::Ordered next{windows[std::min(window + 4, reader + 4)].front(), kKey};
      for (const Ticket& ticket : windows[window]) {
        REQUIRE(readers[reader]->Read(ticket, kKey, 1, &next).ok());
      }
    }
    parsed += readers[reader]->counters().parsed;
    ahead += readers[reader]->counters().parsed_ahead;
  }
  CHECK(data->index()->blocks_size() == 40);
  CHECK(parsed >= 40);
  CHECK(parsed <= 40 + 7);  // where one window ends and the next begins
  CHECK(ahead > parsed / 2);
}

}  // namespace
}  // namespace coxswain::data
