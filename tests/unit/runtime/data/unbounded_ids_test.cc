#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "runtime/data/hash.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Ids = std::vector<int64_t>;

constexpr Part kTraining = Part::kTraining;

TEST_CASE("unbounded ids: id raw takes the integers of the file, whatever they are") {
  DataFiles files;
  auto spec = CsvSpec(files.Write(
      "a.csv", "x,tags\n-5,7 8\n9223372036854775807,\n3,-1\n-9223372036854775808,3000000000\n"));
  AddCategorical(&spec, "x")->set_id("raw");
  auto* tags = AddCategorical(&spec, "tags");
  tags->set_id("raw");
  tags->set_multi_valued(true);
  const auto data = MustLoad(spec);
  CHECK(Values<int64_t>(*data, AllOf(*data, kTraining), "x") ==
        Ids{-5, std::numeric_limits<int64_t>::max(), 3, std::numeric_limits<int64_t>::min()});
  CHECK(Values<int64_t>(*data, AllOf(*data, kTraining), "tags.values") ==
        Ids{7, 8, -1, 3000000000});
  CHECK(Values<int32_t>(*data, AllOf(*data, kTraining), "tags.offsets") ==
        std::vector<int32_t>{0, 2, 2, 3, 4});
  CHECK(data->vocabulary_size("x") == 0);
  CHECK(data->vocabulary("x") == nullptr);
  CHECK(data->training_counts("x").empty());
  CHECK(data->Lookup("x", "-77") == -77);
  CHECK_FALSE(data->Lookup("x", "seven").has_value());
}

TEST_CASE("unbounded ids: id hash takes the 64-bit hash of each text, in lists too") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,tags\nann,a b\n,\nbob,b\n"));
  AddCategorical(&spec, "x")->set_id("hash");
  auto* tags = AddCategorical(&spec, "tags");
  tags->set_id("hash");
  tags->set_multi_valued(true);
  const auto data = MustLoad(spec);
  const auto id = [](const char* text) { return static_cast<int64_t>(HashText(text)); };
  CHECK(Values<int64_t>(*data, AllOf(*data, kTraining), "x") == Ids{id("ann"), id(""), id("bob")});
  CHECK(Values<int64_t>(*data, AllOf(*data, kTraining), "tags.values") ==
        Ids{id("a"), id("b"), id("b")});
  CHECK(data->Lookup("x", "never seen") == id("never seen"));
}

TEST_CASE("unbounded ids: a field that is no integer is named, and so are keys that contradict") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,tags\n5,1\n5.5,1 y\n"));
  auto* x = AddCategorical(&spec, "x");
  x->set_id("raw");
  CHECK_THAT(LoadError(spec),
             Contains(":3:1:") && Contains("an integer of 64 bits") && Contains("\"5.5\""));
  x->set_id("hash");
  auto* tags = AddCategorical(&spec, "tags");
  tags->set_id("raw");
  tags->set_multi_valued(true);
  CHECK_THAT(LoadError(spec), Contains("an integer of 64 bits") && Contains("\"1 y\""));
  tags->set_id("hash");
  x->set_id("text");
  CHECK_THAT(LoadError(spec), Contains("wanted the id \"raw\" or \"hash\", found \"text\""));
  x->set_id("raw");
  x->set_min_count(2);
  CHECK_THAT(LoadError(spec), Contains("at most one of id, hash_buckets"));
  x->set_min_count(0);
  x->set_oov_buckets(2);
  CHECK_THAT(LoadError(spec), Contains("oov_buckets need a vocabulary"));
  x->set_oov_buckets(0);
  spec.mutable_label()->set_feature("x");
  CHECK_THAT(LoadError(spec), Contains("label: wanted a feature with a vocabulary"));
}

}  // namespace
}  // namespace coxswain::data
