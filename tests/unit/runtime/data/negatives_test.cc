// Rows of label 0 that steps of training do not get.
#include "runtime/data/negatives.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Floats = std::vector<float>;
using Ids = std::vector<int64_t>;

constexpr int64_t kRows = 4000;

// Row i has the number i, the tags i and i + 1 (none where 3 divides i), and a label that is 1
// where 10 divides i.
proto::DatasetSpec NumberedRows(const DataFiles& files, double keep) {
  std::string text = "x,t,y\n";
  for (int64_t i = 0; i < kRows; ++i) {
    absl::StrAppend(&text, i, ",", i % 3 == 0 ? "" : absl::StrCat("t", i % 7, " t", i % 5), ",",
                    i % 10 == 0 ? 1 : 0, "\n");
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "x");
  AddCategorical(&spec, "t")->set_multi_valued(true);
  spec.mutable_label()->set_column("y");
  if (keep > 0) spec.mutable_label()->set_keep_negatives(keep);
  spec.set_shuffle(true);
  spec.set_seed(5);
  return spec;
}

size_t At(const Dataset& data, const std::string& name) {
  const auto& columns = data.columns(Part::kTraining);
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return i;
  }
  FAIL("no column " << name);
  return 0;
}

Floats NumbersOf(const Dataset& data, const Batch& batch) {
  const auto x = batch[At(data, "x")].values<float>();
  return Floats(x.begin(), x.end());
}

Batch Kept(const Dataset& data, const Ticket& ticket) {
  Batch batch = *data.Read(ticket);
  REQUIRE(data.LeaveOutNegatives(ticket, &batch).ok());
  return batch;
}

TEST_CASE("negatives: all rows of label 1 stay, and the wanted share of the others") {
  const DataFiles files;
  const auto data = MustLoad(NumberedRows(files, 0.25));
  int64_t positive = 0, negative = 0;
  for (int64_t begin = 0; begin < kRows; begin += 250) {
    for (const float x : NumbersOf(*data, Kept(*data, {Part::kTraining, 0, begin, begin + 250}))) {
      ++(std::fmod(x, 10) == 0 ? positive : negative);
    }
  }
  CHECK(positive == kRows / 10);
  // 3600 draws of 0.25: five standard deviations are 130.
  CHECK(std::abs(negative - 900) < 130);
}

TEST_CASE("negatives: a batch has the values of the rows that stay, and no others") {
  const DataFiles files;
  const auto data = MustLoad(NumberedRows(files, 0.25));
  const Ticket ticket{Part::kTraining, 0, 0, 500};
  const Batch all = *data->Read(ticket), kept = Kept(*data, ticket);
  const Floats rows = NumbersOf(*data, kept), before = NumbersOf(*data, all);
  REQUIRE(rows.size() < before.size());
  const size_t values = At(*data, "t.values"), offsets = At(*data, "t.offsets");
  const size_t labels = At(*data, "label");
  CHECK(kept[offsets].num_elements() == std::ssize(rows) + 1);
  CHECK(kept[labels].num_elements() == std::ssize(rows));
  size_t at = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    while (before[at] != rows[i]) ++at;  // the order is that of the batch
    CHECK(kept[labels].values<float>()[i] == all[labels].values<float>()[at]);
    const auto list = [&](const Batch& batch, size_t row) {
      const auto ends = batch[offsets].values<int32_t>();
      const auto ids = batch[values].values<int64_t>();
      return Ids(ids.begin() + ends[row], ids.begin() + ends[row + 1]);
    };
    CHECK(list(kept, i) == list(all, at));
  }
}

TEST_CASE("negatives: the same rows stay when a batch is read again, and others in other epochs") {
  const DataFiles files;
  const auto spec = NumberedRows(files, 0.25);
  const auto data = MustLoad(spec), elsewhere = MustLoad(spec);
  const Ticket first{Part::kTraining, 0, 0, kRows}, second{Part::kTraining, 1, 0, kRows};
  Floats one = NumbersOf(*data, Kept(*data, first));
  CHECK(one == NumbersOf(*elsewhere, Kept(*elsewhere, first)));
  // By their positions in the epoch, and not by where batches begin.
  Floats pieces;
  for (int64_t begin = 0; begin < kRows; begin += 1000) {
    const Floats piece = NumbersOf(*data, Kept(*data, {Part::kTraining, 0, begin, begin + 1000}));
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  CHECK(pieces == one);
  Floats two = NumbersOf(*data, Kept(*data, second));
  std::sort(one.begin(), one.end());
  std::sort(two.begin(), two.end());
  CHECK(one != two);
}

TEST_CASE("negatives: other parts, and data sets that keep all, keep all rows") {
  const DataFiles files;
  auto spec = NumberedRows(files, 0.25);
  spec.mutable_split()->set_validation_fraction(0.5);
  const auto data = MustLoad(spec);
  const Ticket held_out{Part::kValidation, 0, 0, 500};
  CHECK(NumbersOf(*data, Kept(*data, held_out)).size() == 500);
  const auto all = MustLoad(NumberedRows(files, 1));
  CHECK(NumbersOf(*all, Kept(*all, {Part::kTraining, 0, 0, 500})).size() == 500);
  // It is the same data, to go on from a checkpoint with another share.
  CHECK(all->fingerprint() == MustLoad(NumberedRows(files, 0))->fingerprint());
  CHECK(all->fingerprint() == MustLoad(NumberedRows(files, 0.25))->fingerprint());
}

TEST_CASE("negatives: a batch that would be empty keeps a row") {
  Batch batch{Tensor::FromVector<float>({0, 0, 0}), Tensor::FromVector<float>({7, 8, 9})};
  std::vector<ColumnSpec> columns(2);
  columns[0].name = "label";
  columns[1].name = "x";
  REQUIRE(LeaveOutNegatives(1e-9, 1, 0, columns, &batch).ok());
  CHECK(batch[0].num_elements() == 1);
  CHECK(batch[1].values<float>()[0] == 7);
}

TEST_CASE("negatives: streamed rows that stay are those of batches that are read") {
  const DataFiles files;
  const auto data = MustLoad(Streamed(files, NumberedRows(files, 0.25), /*block_bytes=*/2000, 2));
  REQUIRE(data->index() != nullptr);
  const Ticket ticket{Part::kTraining, 0, 100, 900};
  const Floats rows = NumbersOf(*data, Kept(*data, ticket));
  CHECK(rows.size() < 400);
  CHECK(std::count_if(rows.begin(), rows.end(), [](float x) { return std::fmod(x, 10) == 0; }) >
        30);
  CHECK(rows == NumbersOf(*data, Kept(*data, ticket)));
}

TEST_CASE("negatives: what cannot leave out rows is refused") {
  const DataFiles files;
  const auto error = [&](auto change) {
    auto spec = NumberedRows(files, 0.25);
    change(&spec);
    return LoadError(spec);
  };
  CHECK_THAT(error([](auto* spec) { spec->mutable_label()->set_keep_negatives(1.5); }),
             Contains("label.keep_negatives: wanted above 0 to 1, found 1.5"));
  CHECK_THAT(error([](auto* spec) { spec->mutable_label()->set_keep_negatives(-1); }),
             Contains("found -1"));
  CHECK_THAT(error([](auto* spec) { spec->mutable_label()->clear_column(); }),
             Contains("wanted a label's column"));
  CHECK_THAT(error([](auto* spec) { spec->set_query("x"); }), Contains("a query keeps all"));
  CHECK_THAT(error([](auto* spec) { spec->set_example_ids(true); }), Contains("visits"));
}

}  // namespace
}  // namespace coxswain::data
