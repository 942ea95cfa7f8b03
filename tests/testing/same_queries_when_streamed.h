// Holds queries that are streamed against the same ones in memory.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {

// Each query of the part's epoch, whole, by its number.
inline std::map<int64_t, std::vector<std::string>> QueriesOf(const Dataset& data, Part part,
                                                             int64_t epoch) {
  std::map<int64_t, std::vector<std::string>> queries;
  for (int64_t i = 0; i < data.num_examples(part); ++i) {
    const Ticket ticket{part, epoch, i, i + 1};
    const int64_t number = Values<int64_t>(data, ticket, "example_id")[0];
    CHECK(queries.emplace(number, Bytes(data, ticket)).second);
  }
  return queries;
}

// The queries that are streamed are those in memory, in order and shuffled, wherever blocks end.
inline void CheckQueriesWhenStreamed(const DataFiles& files, proto::DatasetSpec spec) {
  spec.set_seed(11);
  spec.set_example_ids(true);
  const auto whole = MustLoad(spec);
  REQUIRE(whole->num_examples(Part::kTraining) > 10);
  for (const int64_t block_bytes : {1, 60, 400, 1 << 20}) {
    INFO("blocks of " << block_bytes << " bytes");
    spec.set_shuffle(false);
    const auto in_order = MustLoad(Streamed(files, spec, block_bytes, 2));
    REQUIRE(in_order->index() != nullptr);
    CheckSameIndex(Streamed(files, spec, block_bytes, 2));
    spec.set_shuffle(true);
    const auto shuffled = MustLoad(Streamed(files, spec, block_bytes, 2));
    for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
      const int64_t n = whole->num_examples(part);
      REQUIRE(in_order->num_examples(part) == n);
      for (const int64_t size : {int64_t{1}, int64_t{7}, n}) {
        for (int64_t begin = 0; begin < n; begin += std::max<int64_t>(1, size)) {
          const Ticket ticket{part, part == Part::kTraining ? 2 : 0, begin,
                              std::min(begin + size, n)};
          REQUIRE(Bytes(*in_order, ticket) == Bytes(*whole, ticket));
        }
      }
      CHECK(in_order->label_summary(part).ToString() == whole->label_summary(part).ToString());
      CHECK(QueriesOf(*shuffled, part, 1) == QueriesOf(*whole, part, 1));
    }
    CHECK(in_order->trained_rows().SerializeAsString() ==
          whole->trained_rows().SerializeAsString());
    const Ticket last{Part::kTest, 0, whole->num_examples(Part::kTest) - 1,
                      whole->num_examples(Part::kTest)};
    CHECK(in_order->PlaceOf(last) == whole->PlaceOf(last));
  }
}

}  // namespace coxswain::data
