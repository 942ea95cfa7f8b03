// Holds a data set that is streamed against the same one in memory.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>

#include "runtime/data/spec_check.h"
#include "tests/testing/played_readers.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain {

// Workers find the index that one process finds, to the byte.
inline void CheckSameIndex(const proto::DatasetSpec& spec) {
  const proto::DatasetSpec checked = data::CheckSpec(spec).value();
  const proto::DatasetIndex index = data::BuildIndex(checked).value();
  const std::pair<int, int64_t> kinds[] = {{1, 200}, {2, 1 << 20}, {5, 1}};
  for (const auto& [workers, part_bytes] : kinds) {
    INFO(workers << " workers, parts of " << part_bytes << " bytes");
    PlayedReaders readers(workers);
    const auto found = IndexByWorkers(checked, part_bytes, &readers);
    INFO(found.status().ToString());
    REQUIRE(found.ok());
    CHECK(found->ShortDebugString() == index.ShortDebugString());
    CHECK(readers.reads() > 0);
  }
}

// The streamed data set is like the one in memory in all but the order of training. `sampled`: and
// in the samples of long lists, which go by an example's place in that order.
inline void CheckSameWhenStreamed(const DataFiles& files, proto::DatasetSpec spec,
                                  bool sampled = false) {
  spec.set_seed(11);
  spec.set_example_ids(true);
  const auto whole = MustLoad(spec);
  spec.set_shuffle(true);
  const auto shuffled = MustLoad(spec);
  for (const int64_t block_bytes : {1, 40, 1000, 1 << 20}) {
    for (const int64_t window : {1, 3}) {
      INFO("blocks of " << block_bytes << " bytes, " << window << " in a window");
      spec.set_shuffle(false);
      const auto in_order = MustLoad(Streamed(files, spec, block_bytes, window));
      spec.set_shuffle(true);
      const auto streamed = MustLoad(Streamed(files, spec, block_bytes, window));
      REQUIRE(streamed->index() != nullptr);
      if (window == 1) CheckSameIndex(Streamed(files, spec, block_bytes, window));
      CHECK(streamed->fingerprint() != whole->fingerprint());
      for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
        REQUIRE(streamed->num_examples(part) == whole->num_examples(part));
        const int64_t n = whole->num_examples(part);
        for (const int64_t size : {int64_t{1}, int64_t{7}, n}) {
          for (int64_t begin = 0; begin < n; begin += std::max<int64_t>(1, size)) {
            const Ticket ticket{part, part == Part::kTraining ? 2 : 0, begin,
                                std::min(begin + size, n)};
            REQUIRE(Bytes(*in_order, ticket) == Bytes(*whole, ticket));
          }
        }
        CHECK(streamed->label_summary(part).ToString() == whole->label_summary(part).ToString());
        for (const proto::FeatureSpec& feature : spec.features()) {
          CHECK(streamed->CountUnknown(feature.name(), part) ==
                whole->CountUnknown(feature.name(), part));
        }
      }
      const auto first = Examples(*streamed, Part::kTraining, 0, 5);
      const auto second = Examples(*streamed, Part::kTraining, 1, 3);
      REQUIRE(static_cast<int64_t>(first.size()) == whole->num_examples(Part::kTraining));
      if (!sampled) {
        CHECK(first == Examples(*whole, Part::kTraining, 0, 64));
        CHECK(second == Examples(*shuffled, Part::kTraining, 7, 64));
      }
      for (const Part part : {Part::kValidation, Part::kTest}) {
        if (sampled) break;
        CHECK(Examples(*streamed, part, 1, 5) == Examples(*whole, part, 1, 64));
      }
      CHECK(streamed->trained_rows().SerializeAsString() ==
            whole->trained_rows().SerializeAsString());
      for (size_t i = 0; i < whole->learned().size(); ++i) {
        CHECK(streamed->learned()[i].ShortDebugString() == whole->learned()[i].ShortDebugString());
      }
      for (const proto::FeatureSpec& feature : spec.features()) {
        CHECK(streamed->names(feature.name()) == whole->names(feature.name()));
        const auto* wanted = whole->vocabulary(feature.name());
        const auto* found = streamed->vocabulary(feature.name());
        REQUIRE((wanted == nullptr) == (found == nullptr));
        if (wanted == nullptr) continue;
        CHECK(*found == *wanted);
        CHECK(streamed->training_counts(feature.name()) == whole->training_counts(feature.name()));
      }
      for (int64_t i = 0; i < std::min<int64_t>(9, streamed->num_examples(Part::kTest)); ++i) {
        const Ticket ticket{Part::kTest, 0, i, i + 1};
        CHECK(streamed->PlaceOf(ticket) == whole->PlaceOf(ticket));
      }
    }
  }
}

}  // namespace coxswain
