// The column that names each example, for those who count visits.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

// 101 rows of which x is the row's number; about a fifth of them is validation.
proto::DatasetSpec NumberedRows(const DataFiles& files, bool shuffle) {
  std::string csv = "x,y\n";
  for (int i = 0; i < 101; ++i) absl::StrAppend(&csv, i, ",", i % 2, "\n");
  proto::DatasetSpec spec = CsvSpec(files.Write("rows.csv", csv));
  AddNumeric(&spec, "x");
  spec.mutable_label()->set_column("y");
  spec.mutable_split()->set_validation_fraction(0.2);
  spec.set_seed(7);
  spec.set_shuffle(shuffle);
  spec.set_example_ids(true);
  return spec;
}

// The ids of one epoch, read by tickets of `size` examples.
std::vector<int64_t> Epoch(const Dataset& data, Part part, int64_t epoch, int64_t size) {
  std::vector<int64_t> all;
  const int64_t count = data.num_examples(part);
  for (int64_t begin = 0; begin < count; begin += size) {
    const Ticket ticket{part, epoch, begin, std::min(begin + size, count)};
    const auto ids = Values<int64_t>(data, ticket, "example_id");
    REQUIRE(ids.size() == static_cast<size_t>(ticket.size()));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

std::vector<int64_t> Counted(int64_t count) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(i);
  return all;
}

std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST_CASE("data set: per worker, each reader has an order of its own, and of all examples",
          "[data]") {
  const DataFiles files;
  proto::DatasetSpec spec = NumberedRows(files, /*shuffle=*/true);
  const auto epoch = [&](uint64_t reader, int64_t number) {
    auto data = Dataset::Load(spec, reader);
    REQUIRE(data.ok());
    return Epoch(**data, Part::kTraining, number, 7);
  };
  CHECK(epoch(1, 0) == epoch(2, 0));
  spec.set_per_worker(true);
  const std::vector<int64_t> first = epoch(1, 0);
  CHECK(first == epoch(1, 0));
  CHECK(first != epoch(2, 0));
  CHECK(first != epoch(1, 1));
  CHECK(Sorted(first) == Counted(static_cast<int64_t>(first.size())));
  CHECK(Sorted(first) == Sorted(epoch(2, 0)));
  // What else the seed decides is the same for all.
  CHECK(Epoch(*Dataset::Load(spec, 1).value(), Part::kValidation, 0, 7) ==
        Epoch(*Dataset::Load(spec, 2).value(), Part::kValidation, 0, 7));
  CHECK(Dataset::Load(spec, 1).value()->fingerprint() ==
        Dataset::Load(spec, 2).value()->fingerprint());
}

TEST_CASE("data set: the tickets of an epoch have each example's number once", "[data]") {
  const DataFiles files;
  const bool shuffle = GENERATE(false, true);
  const auto data = MustLoad(NumberedRows(files, shuffle));
  for (const Part part : {Part::kTraining, Part::kValidation}) {
    const int64_t count = data->num_examples(part);
    REQUIRE(count > 5);
    for (const int64_t size : {int64_t{1}, int64_t{7}, count}) {
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        CAPTURE(PartName(part), size, epoch);
        CHECK(Sorted(Epoch(*data, part, epoch, size)) == Counted(count));
      }
    }
    const bool training = part == Part::kTraining, moves = shuffle && training;
    CHECK((Epoch(*data, part, 0, 7) != Counted(count)) == moves);
    // The epochs behind the first one of what is held out are samples, which are drawn.
    CHECK((Epoch(*data, part, 0, 7) != Epoch(*data, part, 1, 7)) == (moves || !training));
  }
}

TEST_CASE("data set: an example's number is of the example, whatever the order", "[data]") {
  const DataFiles files;
  const auto plain = MustLoad(NumberedRows(files, false));
  const auto shuffled = MustLoad(NumberedRows(files, true));
  const auto rows = Values<float>(*plain, AllOf(*plain, Part::kTraining), "x");
  CHECK(std::is_sorted(rows.begin(), rows.end()));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const Ticket all = AllOf(*shuffled, Part::kTraining, epoch);
    const auto x = Values<float>(*shuffled, all, "x");
    const auto ids = Values<int64_t>(*shuffled, all, "example_id");
    REQUIRE(ids.size() == rows.size());
    for (size_t i = 0; i < ids.size(); ++i) CHECK(x[i] == rows[static_cast<size_t>(ids[i])]);
  }
}

TEST_CASE("data set: there are example numbers only for who asks", "[data]") {
  const DataFiles files;
  proto::DatasetSpec spec = NumberedRows(files, true);
  const auto with = MustLoad(spec);
  REQUIRE(with->columns(Part::kTraining).size() == 3);
  CHECK(with->columns(Part::kTraining).back().name == "example_id");
  spec.set_example_ids(false);
  const auto without = MustLoad(spec);
  CHECK(without->columns(Part::kTraining).size() == 2);
  CHECK(without->fingerprint() != with->fingerprint());
  // A feature may have that name only where it is free.
  AddNumeric(&spec, "example_id")->set_column("x");
  MustLoad(spec);
  spec.set_example_ids(true);
  CHECK_THAT(LoadError(spec), Catch::Matchers::Contains("\"example_id\"") ||
                                  Catch::Matchers::Contains("'example_id'"));
}

}  // namespace
}  // namespace coxswain::data
