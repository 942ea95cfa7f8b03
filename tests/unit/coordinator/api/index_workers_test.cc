// Workers of a cluster that read parts of data sets for the coordinator's indexes.
#include "coordinator/api/index_workers.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/spec_check.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain {
namespace {

using testing::MustStart;

proto::DatasetSpec SpecOf(const DataFiles& files, const std::string& name) {
  std::string csv = "x,c\n";
  for (int i = 0; i < 4000; ++i) absl::StrAppend(&csv, i, ",", name, i % 97, "\n");
  proto::DatasetSpec spec = CsvSpec(files.Write(name, csv));
  AddNumeric(&spec, "x");
  AddCategorical(&spec, "c");
  return data::CheckSpec(Streamed(files, spec, 400)).value();
}

TEST_CASE("the workers of a cluster make several indexes at the same time, each as one process",
          "[api]") {
  const Cluster cluster = MustStart(1, 2);
  const DataFiles files;
  const std::vector<proto::DatasetSpec> specs = {SpecOf(files, "a.csv"), SpecOf(files, "b.csv"),
                                                 SpecOf(files, "c.csv")};
  std::vector<absl::StatusOr<proto::DatasetIndex>> made(specs.size());
  std::atomic<size_t> ready{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < specs.size(); ++i) {
    threads.emplace_back([&, i] {
      IndexWorkers workers(cluster.controller(), i + 1);
      data::IndexOptions options;
      options.workers = &workers;
      options.part_bytes = 500;
      ++ready;
      while (ready < specs.size()) continue;
      made[i] = data::BuildIndexOnWorkers(specs[i], options);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < specs.size(); ++i) {
    INFO(made[i].status().ToString());
    REQUIRE(made[i].ok());
    CHECK(made[i]->ShortDebugString() == data::BuildIndex(specs[i]).value().ShortDebugString());
  }
}

}  // namespace
}  // namespace coxswain
