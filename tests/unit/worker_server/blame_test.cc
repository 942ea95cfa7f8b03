// What an error of a gradient says about the examples of its step.
#include "worker_server/blame.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/not_finite.h"
#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/registry.h"

namespace coxswain::worker {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using testing::ClusterOps;

absl::Status OfVariable() {
  return WithNotFinite(absl::InvalidArgumentError("no number"), {"w", std::nullopt});
}

// A step whose arguments are all columns of a ticket. Column 'x', if there is one with ids, is the
// gradient of the rows of these ids of table 't'.
struct Step {
  Step(const proto::DatasetSpec& spec, Ticket ticket)
      : component("step", &ClusterOps()),
        data(MustLoad(spec)),
        examples(ticket),
        arguments(data->Read(ticket).value()) {
    graph::GraphBuilder b("step", &ClusterOps());
    std::map<std::string, Output> columns;
    for (const data::ColumnSpec& column : data->columns(ticket.part)) {
      sources.emplace_back().set_column(column.name);
      columns[column.name] = b.Argument(column.name, column.type.dtype, column.type.shape);
    }
    if (columns.contains("ids")) {
      const Attrs attrs = {{"variable", "t"}, {"strategy", "div"}, {"index", 0},
                           {"count", 1},      {"rows", 100},       {"row_begin", 0}};
      b.Target("CheckGradient", {columns["x"], columns["ids"]}, attrs);
    }
    auto finished = b.Finish();
    INFO(finished.status().ToString());
    REQUIRE(finished.ok());
    component = *std::move(finished);
  }
  std::string Told(const absl::Status& status) const {
    return std::string(
        NameExamples(status, {component, sources, arguments, data.get(), examples}).message());
  }

  graph::Function component;
  std::unique_ptr<data::Dataset> data;
  Ticket examples;
  data::Batch arguments;
  std::vector<proto::ArgumentSource> sources;
};

TEST_CASE("blame: of a variable's gradient the largest number of the batch is named, with its line",
          "[blame]") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,y\n1,2\n3,4\n5,-2e30\n7,8\n"));
  AddNumeric(&spec, "x");
  AddNumeric(&spec, "y");
  CHECK_THAT(Step(spec, {Part::kTraining, 0, 1, 4}).Told(OfVariable()),
             EndsWith("no number; the largest number of the batch is -2e+30, in column 'y' of "
                      "example 2 of training epoch 0, counted from 0: " +
                      files.Path("a.csv:4")));
  // Numbers that are as they should be are no reason.
  CHECK(Step(spec, {Part::kTraining, 0, 0, 2}).Told(OfVariable()) == "no number");
  // Other errors are none of its business.
  CHECK(Step(spec, {Part::kTraining, 0, 1, 4}).Told(absl::InternalError("other")) == "other");
}

TEST_CASE("blame: a weight in a list is found in the example whose list it is", "[blame]") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "tags\na:1|b:1\n\"\"\nc:1|a:1e20|b:1\nb:1\n"));
  spec.mutable_csv()->set_quoting(true);
  proto::FeatureSpec* tags = AddCategorical(&spec, "tags");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  tags->set_weight_separator(":");
  CHECK_THAT(Step(spec, {Part::kTraining, 0, 0, 4}).Told(OfVariable()),
             Contains("1e+20, in column 'tags.weights' of example 2 ") && EndsWith("a.csv:4"));
}

TEST_CASE("blame: of the examples that have a row's id, the one with the largest number is named",
          "[blame]") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "ids,x\n7,1\n8,5e30\n7,-4e20\n9,1\n7,2\n"));
  AddCategorical(&spec, "ids")->set_id("raw");
  AddNumeric(&spec, "x");
  const Step step(spec, {Part::kTraining, 2, 0, 5});
  const auto told = [&](int64_t id) {
    return step.Told(WithNotFinite(absl::InvalidArgumentError("no number"), {"t", id}));
  };
  const std::string a = files.Path("a.csv");
  CHECK(told(7) == absl::StrCat("no number; the id is in examples 0, 2, 4 of training epoch 2, "
                                "counted from 0: ",
                                a, ":2, ", a, ":4, ", a,
                                ":6; the largest number of these is -4e+20, in column 'x' of "
                                "example 2 of training epoch 2, counted from 0: ",
                                a, ":4"));
  CHECK(told(8) == absl::StrCat("no number; the id is in example 1 of training epoch 2, counted "
                                "from 0: ",
                                a, ":3"));
}

}  // namespace
}  // namespace coxswain::worker
