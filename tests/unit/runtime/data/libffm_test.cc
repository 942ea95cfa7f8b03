#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;

// Field 0: one category; 1: several, weighted; 2: a number.
proto::DatasetSpec Spec(const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format("libffm");
  spec.add_paths(path);
  AddCategorical(&spec, "0")->set_name("user");
  proto::FeatureSpec* const tags = AddCategorical(&spec, "1");
  tags->set_name("tags");
  tags->set_multi_valued(true);
  AddNumeric(&spec, "2")->set_name("price");
  for (proto::FeatureSpec& feature : *spec.mutable_features()) {
    feature.set_column(feature.name() == "user" ? "0" : feature.name() == "tags" ? "1" : "2");
  }
  return spec;
}

std::string Lines(int rows) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, i % 2, " 0:", i % 9, ":1");
    for (int tag = 0; tag < i % 4; ++tag) absl::StrAppend(&text, " 1:", 20 + tag, ":0.", 1 + tag);
    if (i % 5 != 0) absl::StrAppend(&text, "\t2:40:", i, ".5");
    absl::StrAppend(&text, " 7:99:1", i % 8 == 7 ? "\n\n" : "\n");
  }
  return text;
}

TEST_CASE("libffm: fields are columns, with indices, values and weights, streamed or not") {
  DataFiles files;
  auto spec = Spec(files.Write("a.ffm", Lines(100)));
  spec.mutable_split()->set_test_fraction(0.2);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("libffm: a line is a row of its fields") {
  DataFiles files;
  const auto data =
      MustLoad(Spec(files.Write("a.ffm", "1 0:7:1 1:20:0.5 1:21:2 2:9:1.25\n0 0:8:1\n")));
  const auto batch = data->Read({Part::kTraining, 0, 0, 2});
  REQUIRE(batch.ok());
  const auto& columns = data->columns(Part::kTraining);
  const auto column = [&](const std::string& name) -> const Tensor& {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].name == name) return (*batch)[i];
    }
    FAIL("no column " << name);
    return (*batch)[0];
  };
  CHECK(*data->vocabulary("user") == std::vector<std::string>{"7", "8"});
  CHECK(*data->vocabulary("tags") == std::vector<std::string>{"20", "21"});
  CHECK(column("tags.offsets").data<int32_t>()[1] == 2);
  CHECK(column("tags.offsets").data<int32_t>()[2] == 2);
  CHECK(column("tags.weights").data<float>()[0] == 0.5F);
  CHECK(column("tags.weights").data<float>()[1] == 2);
  CHECK(column("price").data<float>()[0] == 1.25F);
  CHECK(column("price").data<float>()[1] == 0);
  CHECK(column("label").data<float>()[0] == 1);
}

TEST_CASE("libffm: what is wrong is told by file, line and column") {
  DataFiles files;
  const auto error = [&](const std::string& line) {
    return LoadError(Spec(files.Write("a.ffm", "1 0:7:1\n" + line + "\n")));
  };
  CHECK_THAT(error("1 0:7"), Contains("a.ffm:2:3: wanted field:index:value, found \"0:7\""));
  CHECK_THAT(error("1 0:7:1 x:1:1"), Contains("a.ffm:2:9: wanted field:index:value"));
  CHECK_THAT(error("1 0:7:1 0:8:1"), Contains("a.ffm:2:1: field 0: wanted one value, found"));
  CHECK_THAT(error("yes 0:7:1"), Contains("a.ffm:2:1: label: wanted "));
  auto spec = Spec(files.Write("b.ffm", "1 0:7:1\n"));
  AddNumeric(&spec, "price of it");
  CHECK_THAT(LoadError(spec), Contains("in libffm a column is a field's number"));
}

}  // namespace
}  // namespace coxswain::data
