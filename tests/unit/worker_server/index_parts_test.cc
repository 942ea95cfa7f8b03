// A worker that reads parts of files for the coordinator's index.
#include "worker_server/index_parts.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "runtime/data/stream/file_identity.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/one_worker.h"

namespace coxswain::worker {
namespace {

using namespace testing;
using Catch::Matchers::Contains;

// Part `part` of a pass: all rows of the file.
proto::ControlRequest Read(int64_t part, const std::string& path, uint64_t pass = 7) {
  proto::ControlRequest request;
  proto::IndexPart* const index = request.mutable_index_part();
  index->set_pass(pass);
  index->set_part(part);
  proto::DatasetSpec* const spec = index->mutable_read()->mutable_spec();
  *spec = CsvSpec(path);
  AddCategorical(spec, "x");
  *index->mutable_read()->add_files() = data::IdentifyFile(path).value_or(proto::IndexedFile());
  return request;
}

// Rows and their hash that are in front of it.
proto::ControlRequest AddUp(int64_t part, int64_t rows = 0, uint64_t pass = 7) {
  proto::ControlRequest request;
  proto::IndexPart* const index = request.mutable_index_part();
  index->set_pass(pass);
  index->set_part(part);
  index->mutable_before()->set_rows(rows);
  for (int lane = 0; lane < 4; ++lane) index->mutable_before()->add_chain(1);
  return request;
}

TEST_CASE("a worker reads a part, adds it up when it is told what is in front, and forgets it",
          "[worker]") {
  const OneWorker w;
  const DataFiles files;
  const std::string path = files.Write("a.csv", "x\nb\na\nb\n");
  CHECK(w.coordinator->Request(Read(1, path)).has_part_indexed());
  CHECK(w.coordinator->Request(Read(2, path)).has_part_indexed());
  const proto::ControlReply reply = w.coordinator->Request(AddUp(2, 1000));
  REQUIRE(reply.has_part_indexed());
  const proto::IndexedPart& sums = reply.part_indexed().sums();
  CHECK(sums.after().rows() == 1003);
  REQUIRE(sums.blocks_size() == 1);
  CHECK(sums.blocks(0).first_row() == 1000);
  REQUIRE(sums.features_size() == 1);
  REQUIRE(sums.features(0).texts_size() == 2);
  CHECK(sums.features(0).texts(0) == "b");
  CHECK(sums.features(0).training(0) == 2);
  CHECK(absl::IsNotFound(w.StatusOf(AddUp(2))));
  CHECK(w.coordinator->Request(AddUp(1)).part_indexed().sums().after().rows() == 3);
  // Both at once, for what is too large to be kept.
  proto::ControlRequest both = Read(3, path);
  *both.mutable_index_part()->mutable_before() = AddUp(3, 50).index_part().before();
  CHECK(w.coordinator->Request(both).part_indexed().sums().after().rows() == 53);
  CHECK(absl::IsNotFound(w.StatusOf(AddUp(3))));
}

// Parts of the pass below this one are over.
proto::ControlRequest Over(uint64_t pass, int64_t first_open) {
  proto::ControlRequest request;
  request.mutable_index_part()->set_pass(pass);
  request.mutable_index_part()->set_first_open(first_open);
  return request;
}
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

TEST_CASE("a worker forgets parts that are over, and those of a pass that is", "[worker]") {
  const OneWorker w;
  const DataFiles files;
  const std::string path = files.Write("a.csv", "x\n1\n");
  for (const int64_t part : {1, 2, 3}) REQUIRE(w.StatusOf(Read(part, path)).ok());
  CHECK(w.StatusOf(Over(7, 2)).ok());
  CHECK(absl::IsNotFound(w.StatusOf(AddUp(1))));
  CHECK(w.StatusOf(AddUp(2)).ok());
  CHECK(w.StatusOf(Over(7, kAll)).ok());
  CHECK(absl::IsNotFound(w.StatusOf(AddUp(3))));
}

TEST_CASE("passes at the same time have their own parts at a worker, until each is over",
          "[worker]") {
  const OneWorker w;
  const DataFiles files;
  const std::string one = files.Write("a.csv", "x\n1\n"), two = files.Write("b.csv", "x\n1\n2\n");
  const auto rows = [&](uint64_t pass) {
    return w.coordinator->Request(AddUp(1, 0, pass)).part_indexed().sums().after().rows();
  };
  REQUIRE(w.StatusOf(Read(1, one, 7)).ok());
  REQUIRE(w.StatusOf(Read(1, two, 8)).ok());
  CHECK(rows(7) == 1);
  REQUIRE(w.StatusOf(Read(2, one, 7)).ok());
  CHECK(w.StatusOf(Over(7, kAll)).ok());
  CHECK(rows(8) == 2);
  CHECK(absl::IsNotFound(w.StatusOf(AddUp(2, 0, 7))));
}

TEST_CASE("of more passes than a worker keeps it forgets the one that asked for nothing longest",
          "[worker]") {
  const OneWorker w;
  const DataFiles files;
  const std::string path = files.Write("a.csv", "x\n1\n");
  constexpr uint64_t kMost = IndexParts::kMostPasses;
  for (uint64_t pass = 1; pass <= kMost; ++pass) REQUIRE(w.StatusOf(Read(1, path, pass)).ok());
  REQUIRE(w.StatusOf(Read(2, path, 1)).ok());
  REQUIRE(w.StatusOf(Read(1, path, kMost + 1)).ok());
  CHECK(absl::IsNotFound(w.StatusOf(AddUp(1, 0, 2))));
  CHECK(w.StatusOf(AddUp(1, 0, 1)).ok());
  CHECK(w.StatusOf(AddUp(1, 0, kMost + 1)).ok());
}

// What ends a pass does not reach a worker that is cut off.
TEST_CASE("a worker forgets the parts of a coordinator that connects again", "[worker]") {
  const OneWorker w;
  const DataFiles files;
  REQUIRE(w.StatusOf(Read(1, files.Write("a.csv", "x\n1\n"))).ok());
  FakeCoordinator again(w.transport.get(), "worker", OneWorker::kEpoch);
  const proto::ControlReply reply = again.Request(AddUp(1));
  CHECK(absl::IsNotFound(cluster::FromProto(reply.status())));
}

TEST_CASE("what a worker cannot read of a part is an error with the file and the worker",
          "[worker]") {
  const OneWorker w;
  const DataFiles files;
  const std::string path = files.Write("a.csv", "x\n1\n");
  proto::ControlRequest request = Read(1, path);
  const absl::Status missing = w.StatusOf(Read(1, files.Path("none.csv")));
  CHECK(absl::IsNotFound(missing));
  CHECK_THAT(std::string(missing.message()),
             Contains("none.csv") && Contains("/job:worker/task:4"));
  files.Write("a.csv", "x\n1\n2\n");
  const absl::Status changed = w.StatusOf(request);
  CHECK(absl::IsFailedPrecondition(changed));
  CHECK_THAT(std::string(changed.message()),
             Contains("a.csv: changed since it was indexed") && Contains("/job:worker/task:4"));
}

TEST_CASE("a part that makes no sense is refused by a worker", "[worker]") {
  const OneWorker w;
  const DataFiles files;
  const std::string path = files.Write("a.csv", "x\n1\n");
  const auto refused = [&](const std::function<void(proto::PartOfFiles*)>& change) {
    proto::ControlRequest request = Read(1, path);
    change(request.mutable_index_part()->mutable_read());
    return absl::IsInvalidArgument(w.StatusOf(request));
  };
  CHECK(refused([](auto* part) { part->clear_files(); }));
  CHECK(refused([](auto* part) { part->mutable_spec()->set_format("nonsense"); }));
  CHECK(refused([](auto* part) { part->set_begin(-1); }));
  CHECK(refused([](auto* part) { part->set_end(-1); }));
  CHECK(refused([](auto* part) {
    part->set_begin(3);
    part->set_end(2);
  }));
  CHECK(w.StatusOf(Read(1, path)).ok());
  proto::ControlRequest add = AddUp(1);
  add.mutable_index_part()->mutable_before()->clear_chain();
  CHECK(absl::IsInvalidArgument(w.StatusOf(add)));
}

}  // namespace
}  // namespace coxswain::worker
