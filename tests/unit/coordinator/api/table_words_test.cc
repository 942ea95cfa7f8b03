#include "coordinator/api/table_words.h"

#include <catch2/catch.hpp>

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("options of tables have the words of jobs and of the wire, there and back", "[api]") {
  for (const char* word : {"mod", "div", "hash"})
    CHECK(Word(ParseSharding(word).value()) == std::string(word));
  for (const char* word : {"stochastic", "nearest"}) {
    CHECK(Word(ParseRounding(word).value()) == std::string(word));
  }
  for (const char* word : {"sum", "mean", "sqrtn"})
    CHECK(Word(ParseCombiner(word).value()) == std::string(word));
  const absl::Status status = ParseSharding("diagonal").status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()),
             Contains("sharding: wanted one of mod, div, hash, found 'diagonal'"));
}

TEST_CASE("a hash table's options are the same there and back", "[api]") {
  proto::HashTableSpec spec;
  CHECK(ToProto(FromProto(spec)).SerializeAsString() == spec.SerializeAsString());
  spec.set_min_count(3);
  spec.set_admission_probability(0.5);
  spec.set_ttl_steps(7);
  spec.set_ttl_seconds(1.5);
  spec.set_max_rows(100);
  for (const char* evict : {"recency", "frequency", ""}) {
    spec.set_evict(evict);
    CHECK(ToProto(FromProto(spec)).SerializeAsString() == spec.SerializeAsString());
  }
}

}  // namespace
}  // namespace coxswain
