// Cuts that are found by counting values are those of a list of all rows that is sorted.
#include "runtime/data/stream/time_cuts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/data/hash.h"
#include "runtime/data/stream/cut_search.h"
#include "runtime/data/stream/value_counts.h"
#include "runtime/data/time_split.h"

namespace coxswain::data {
namespace {

TEST_CASE("bits of numbers have their order, and become them again") {
  const double most = std::numeric_limits<double>::max();
  const double tiny = std::numeric_limits<double>::denorm_min();
  const std::vector<double> ascending = {-most, -1e9, -2, -1.5,          -1,  -tiny, 0, tiny,
                                         1,     1.5,  2,  1700000000.25, most};
  for (size_t i = 0; i < ascending.size(); ++i) {
    CHECK(ValueOfBits(OrderedBits(ascending[i])) == ascending[i]);
    if (i > 0) CHECK(OrderedBits(ascending[i]) > OrderedBits(ascending[i - 1]));
  }
  CHECK(OrderedBits(-0.0) == OrderedBits(0.0));
}

int64_t RowsOf(absl::Span<const ValueCounts::Bin> bins) {
  int64_t rows = 0;
  for (const ValueCounts::Bin& bin : bins) rows += bin.rows;
  return rows;
}

TEST_CASE(
    "counts of values: all of them as long as they fit, then those near each other together") {
  ValueCounts counts(16);
  for (uint64_t i = 0; i < 1000; ++i) counts.Add(i % 10 * 7);
  CHECK(counts.bins().size() == 10);
  CHECK(counts.shift() == 0);
  CHECK(counts.bins()[3].bits == 21);
  CHECK(counts.bins()[3].rows == 100);
  for (uint64_t i = 0; i < 1000; ++i) counts.Add(Mix64(i));
  CHECK(counts.bins().size() <= 16);
  CHECK(counts.bins().size() >= 4);
  CHECK(counts.shift() >= 60);
  CHECK(RowsOf(counts.bins()) == 2000);
}

TEST_CASE("counts of values: what was counted elsewhere is added, however coarse") {
  ValueCounts fine(1000), coarse(8), all(1000);
  for (uint64_t i = 0; i < 500; ++i) {
    fine.Add(i);
    coarse.Add(3 * i);
    all.Add(i);
    all.Add(3 * i);
  }
  proto::ValueCounts of_coarse, of_fine;
  coarse.Save(&of_coarse);
  fine.Save(&of_fine);
  REQUIRE(fine.Merge(of_coarse).ok());
  REQUIRE(coarse.Merge(of_fine).ok());
  for (ValueCounts* merged : {&fine, &coarse}) {
    for (const ValueCounts::Bin& bin : merged->bins()) {
      int64_t wanted = 0;
      for (const ValueCounts::Bin& one : all.bins()) {
        if (one.bits >> merged->shift() == bin.bits) wanted += one.rows;
      }
      CHECK(bin.rows == wanted);
    }
    CHECK(RowsOf(merged->bins()) == 1000);
  }
}

TEST_CASE("counts of values: a message that makes no sense is refused") {
  const auto refused = [](const proto::ValueCounts& wrong) {
    return absl::IsInvalidArgument(ValueCounts(8).Merge(wrong));
  };
  proto::ValueCounts counts;
  counts.add_bits(5);
  CHECK(refused(counts));  // without its rows
  counts.add_rows(1);
  CHECK_FALSE(refused(counts));
  for (const int shift : {-1, 62, 64}) {
    counts.set_shift(shift);
    CHECK(refused(counts));
  }
  counts.set_shift(0);
  counts.set_rows(0, 0);
  CHECK(refused(counts));
  counts.set_rows(0, 1);
  counts.add_bits(5);
  counts.add_rows(1);
  CHECK(refused(counts));  // twice the same
}

struct Rows {
  std::vector<double> values;
  proto::DatasetSpec spec;
  int64_t kept = 0;
};

// The cuts, counted in parts of some rows, each and all together with so many bins.
proto::TimeCuts Search(const Rows& rows, int64_t bins, int* passes) {
  CutSearch search(rows.spec);
  for (*passes = 0; !search.ranges().empty(); ++*passes) {
    REQUIRE(*passes < 64);
    std::vector<ValueCounts> all(search.ranges().size(), ValueCounts(bins));
    for (size_t begin = 0; begin < rows.values.size(); begin += 37) {
      for (size_t range = 0; range < all.size(); ++range) {
        const proto::ValueRange& in = search.ranges()[range];
        ValueCounts part(bins);
        for (size_t row = begin; row < std::min(begin + 37, rows.values.size()); ++row) {
          const uint64_t bits = OrderedBits(rows.values[row]);
          const bool first = in.first_rows() == 0 || static_cast<int64_t>(row) < in.first_rows();
          if (first && bits >= in.low() && bits <= in.high()) part.Add(bits);
        }
        proto::ValueCounts counted;
        part.Save(&counted);
        REQUIRE(all[range].Merge(counted).ok());
      }
    }
    REQUIRE(search.Take(absl::MakeSpan(all), rows.kept).ok());
  }
  return search.cuts();
}

std::vector<Part> Wanted(const Rows& rows) {
  const auto parts = [&](int64_t size) {
    RowOrder order;
    order.by = rows.values;
    return SplitByValue(rows.spec.split(), size, order, {});
  };
  std::vector<Part> wanted = parts(static_cast<int64_t>(rows.values.size()));
  const std::vector<Part> kept = parts(rows.kept);
  std::copy(kept.begin(), kept.end(), wanted.begin());
  return wanted;
}

void CheckParts(const Rows& rows) {
  const std::vector<Part> wanted = Wanted(rows);
  for (const int64_t bins : {4, 9, 100000}) {
    INFO(rows.values.size() << " rows, " << rows.kept << " kept, " << bins << " bins, "
                            << rows.spec.split().ShortDebugString());
    int passes = 0;
    TimeCuts cuts(Search(rows, bins, &passes));
    if (bins == 100000) CHECK(passes == 1);
    for (size_t row = 0; row < wanted.size(); ++row) {
      // The state goes from one process to the next.
      if (row % 5 == 0) cuts = TimeCuts(cuts.Save());
      REQUIRE(cuts.Next(static_cast<int64_t>(row), rows.values[row]) == wanted[row]);
    }
    CHECK(cuts.over());
    for (size_t row = 0; row < wanted.size(); ++row) {
      REQUIRE(cuts.Of(static_cast<int64_t>(row), rows.values[row]) == wanted[row]);
    }
  }
}

TEST_CASE("cuts: the parts are those of sorted rows, whatever the values and shares") {
  const double odd[] = {0.0,  -0.0,  5e-324, -5e-324, 1e308, -1e308,
                        -1.5, 1.7e9, 1.7e9,  1.7e9,   42,    -1.7e9};
  for (uint64_t seed = 0; seed < 150; ++seed) {
    auto draw = [seed, n = uint64_t{0}](uint64_t below) mutable {
      return HashPair(seed, ++n) % below;
    };
    Rows rows;
    const uint64_t size = draw(seed % 3 == 0 ? 6 : 400);
    const uint64_t kind = draw(5);
    for (uint64_t i = 0; i < size; ++i) {
      rows.values.push_back(kind == 0   ? odd[draw(12)]
                            : kind == 1 ? 1.7e9 + static_cast<double>(draw(100000))
                            : kind == 2 ? 7
                            : kind == 3 ? std::ldexp(1.0, static_cast<int>(draw(600)) - 300)
                                        : static_cast<double>(i) - 100);
    }
    rows.spec.mutable_split()->set_by("t");
    rows.spec.mutable_split()->set_test_fraction(
        draw(4) == 0 ? 0 : 0.01 * static_cast<double>(draw(60)));
    rows.spec.mutable_split()->set_validation_fraction(0.01 * static_cast<double>(draw(40)));
    if (draw(2) == 0) {
      rows.spec.mutable_trained()->set_rows(1 + static_cast<int64_t>(draw(size + 1)));
      rows.kept = rows.spec.trained().rows() <= static_cast<int64_t>(size) && draw(3) > 0
                      ? rows.spec.trained().rows()
                      : 0;
    }
    CheckParts(rows);
  }
}

TEST_CASE("cuts: other values than were counted before are an error, or leave a cut open") {
  proto::DatasetSpec spec;
  spec.mutable_split()->set_by("t");
  spec.mutable_split()->set_test_fraction(0.5);
  CutSearch search(spec);
  std::vector<ValueCounts> counts(1, ValueCounts(4));
  for (uint64_t i = 0; i < 100; ++i) counts[0].Add(Mix64(i));
  REQUIRE(search.Take(absl::MakeSpan(counts), 0).ok());
  REQUIRE(search.ranges().size() == 1);
  std::vector<ValueCounts> none(1, ValueCounts(4));
  CHECK(absl::IsFailedPrecondition(search.Take(absl::MakeSpan(none), 0)));

  proto::TimeCuts cuts;
  cuts.mutable_all()->mutable_test()->set_value(5);
  cuts.mutable_all()->mutable_test()->set_rows(1);
  cuts.mutable_all()->mutable_test()->set_row(-1);
  TimeCuts open(cuts);
  CHECK(open.Next(0, 5) == Part::kTraining);
  CHECK_FALSE(open.over());
  CHECK(open.Next(1, 5) == Part::kTest);
  CHECK(open.over());
}

}  // namespace
}  // namespace coxswain::data
