#include <catch2/catch.hpp>

#include "coordinator/core/dataset_table.h"

namespace coxswain::core {
namespace {

proto::DatasetReady Ready(uint64_t fingerprint) {
  proto::DatasetReady ready;
  ready.set_fingerprint(fingerprint);
  return ready;
}

TEST_CASE("workers that read other data than the first one are refused", "[dataset_table]") {
  DatasetTable datasets;
  datasets.Register(1, {});
  CHECK_FALSE(datasets.fingerprint(1));
  CHECK(datasets.Check(1, Ready(7)).ok());
  CHECK(datasets.Check(1, Ready(7)).ok());
  CHECK(absl::IsDataLoss(datasets.Check(1, Ready(8))));
  CHECK(datasets.fingerprint(1) == 7);
  CHECK(datasets.Check(2, Ready(8)).ok());  // of one that has gone since
}

TEST_CASE("workers that read other data than the coordinator are refused, the first one too",
          "[dataset_table]") {
  DatasetTable datasets;
  DatasetSource source;
  source.fingerprint = 7;
  datasets.Register(1, source);
  CHECK(datasets.fingerprint(1) == 7);
  CHECK(absl::IsDataLoss(datasets.Check(1, Ready(8))));
  CHECK(datasets.Check(1, Ready(7)).ok());
}

TEST_CASE("a data set that is registered anew takes the place of the old one", "[dataset_table]") {
  DatasetTable datasets;
  const auto old = datasets.Register(1, {});
  CHECK(datasets.Check(1, Ready(7)).ok());
  const auto current = datasets.Register(1, {});
  CHECK_FALSE(datasets.IsCurrent(old));
  CHECK(datasets.IsCurrent(current));
  CHECK(datasets.Check(1, Ready(8)).ok());
  datasets.Withdraw(old);  // its failure is late
  CHECK(datasets.Requests().size() == 1);
  datasets.Withdraw(current);
  CHECK(datasets.Requests().empty());
  CHECK_FALSE(datasets.IsCurrent(current));
}

TEST_CASE("a worker that comes is asked for every data set, in order", "[dataset_table]") {
  DatasetTable datasets;
  datasets.Register(9, {});
  datasets.Register(2, {});
  const auto requests = datasets.Requests();
  REQUIRE(requests.size() == 2);
  CHECK(requests[0].register_dataset().dataset() == 2);
  CHECK(requests[1].register_dataset().dataset() == 9);
}

TEST_CASE("a data set that was let go is unread when no plan reads it", "[dataset_table]") {
  DatasetTable datasets;
  datasets.Register(1, {});
  datasets.Register(2, {});
  const auto none = [](DatasetId) { return false; };
  CHECK(datasets.Unread(none).empty());
  datasets.LetGo(1);
  datasets.LetGo(3);  // there is none
  CHECK(datasets.Unread([](DatasetId id) { return id == 1; }).empty());
  CHECK(datasets.Unread(none) == std::vector<DatasetId>{1});
  datasets.Remove(1);
  CHECK(datasets.Unread(none).empty());
  REQUIRE(datasets.Requests().size() == 1);
  CHECK(datasets.Requests()[0].register_dataset().dataset() == 2);
}

}  // namespace
}  // namespace coxswain::core
