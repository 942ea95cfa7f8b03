// What an error of a gradient says about the examples of its step.
#include "worker_server/blame.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/base/not_finite.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

absl::Status OfVariable() {
  return WithNotFinite(absl::InvalidArgumentError("no number"), {"w", std::nullopt});
}

// A step whose arguments are all columns of a ticket.
struct Step {
  Step(const proto::DatasetSpec& spec, Ticket ticket)
      : data(MustLoad(spec)), examples(ticket), arguments(data->Read(ticket).value()) {
    for (const ColumnSpec& column : data->columns(ticket.part)) {
      sources.emplace_back().set_column(column.name);
    }
  }
  std::string Told(const absl::Status& status) const {
    return std::string(
        NameExamples(status, {component, sources, arguments, data.get(), examples}).message());
  }

  Function component;
  std::unique_ptr<Dataset> data;
  Ticket examples;
  Batch arguments;
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

}  // namespace
}  // namespace coxswain
