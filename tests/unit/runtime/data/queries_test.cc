// Queries: rows that belong together are one example, in one part and one batch as a whole.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Floats = std::vector<float>;
using Ids = std::vector<int64_t>;
using Offsets = std::vector<int32_t>;

proto::DatasetSpec QuerySpec(const std::string& path) {
  auto spec = CsvSpec(path);
  AddNumeric(&spec, "n");
  spec.set_query("q");
  return spec;
}

// Queries of 1 to 5 rows; n counts rows.
std::string Rows(int queries) {
  std::string text = "q,n\n";
  for (int q = 0, n = 0; q < queries; ++q) {
    for (int i = 0; i <= (q * 7) % 5; ++i) absl::StrAppend(&text, "query ", q, ",", n++, "\n");
  }
  return text;
}

TEST_CASE("queries: tickets count queries, and a batch has all rows of each") {
  const DataFiles files;
  auto spec = QuerySpec(files.Write("a.csv", "q,n\nx,1\nx,2\ny,3\nz,4\nz,5\nz,6\n"));
  spec.set_example_ids(true);
  const auto data = MustLoad(spec);
  REQUIRE(data->num_examples(Part::kTraining) == 3);
  const Ticket two{Part::kTraining, 0, 1, 3};
  CHECK(Values<float>(*data, two, "n") == Floats{3, 4, 5, 6});
  CHECK(Values<int32_t>(*data, two, "query.offsets") == Offsets{0, 1, 4});
  CHECK(Values<int64_t>(*data, two, "query.group") == Ids{1, 2, 2, 2});
  CHECK(Values<int64_t>(*data, two, "example_id") == Ids{1, 2});
  CHECK(*data->PlaceOf(two) == files.Path("a.csv") + ":4");
  const Ticket none{Part::kTraining, 0, 2, 2};
  CHECK(Values<int32_t>(*data, none, "query.offsets") == Offsets{0});
  CHECK(Values<float>(*data, none, "n").empty());
  CHECK_FALSE(data->Read({Part::kTraining, 0, 0, 4}).ok());
}

TEST_CASE("queries: shuffled, each is visited once an epoch, whole and in its own order") {
  const DataFiles files;
  auto spec = QuerySpec(files.Write("a.csv", Rows(60)));
  spec.set_shuffle(true);
  spec.set_seed(3);
  const auto data = MustLoad(spec);
  REQUIRE(data->num_examples(Part::kTraining) == 60);
  std::vector<Floats> orders;
  for (const int64_t epoch : {0, 1}) {
    Floats order;
    for (int64_t begin = 0; begin < 60; begin += 7) {
      const Ticket ticket{Part::kTraining, epoch, begin, std::min<int64_t>(60, begin + 7)};
      const Floats n = Values<float>(*data, ticket, "n");
      const Offsets offsets = Values<int32_t>(*data, ticket, "query.offsets");
      const Ids groups = Values<int64_t>(*data, ticket, "query.group");
      REQUIRE(offsets.back() == static_cast<int32_t>(n.size()));
      for (size_t q = 0; q + 1 < offsets.size(); ++q) {
        const auto first = static_cast<size_t>(offsets[q]);
        const auto last = static_cast<size_t>(offsets[q + 1]);
        CHECK(static_cast<int64_t>(last - first) == groups[first] * 7 % 5 + 1);
        for (size_t i = first + 1; i < last; ++i) {
          CHECK(n[i] == n[i - 1] + 1);
          CHECK(groups[i] == groups[first]);
        }
      }
      order.insert(order.end(), n.begin(), n.end());
    }
    orders.push_back(order);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) CHECK(order[i] == static_cast<float>(i));
  }
  CHECK(orders[0] != orders[1]);
}

TEST_CASE("queries: none is in two parts, and appended ones change the part of no other") {
  const DataFiles files;
  const auto parts = [&](int queries) {
    auto spec = QuerySpec(files.Write(absl::StrCat(queries, ".csv"), Rows(queries)));
    spec.mutable_split()->set_validation_fraction(0.3);
    spec.mutable_split()->set_test_fraction(0.2);
    const auto data = MustLoad(spec);
    std::map<float, Part> of_row;
    for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
      CHECK(data->num_examples(part) > 0);
      for (const float n : Values<float>(*data, AllOf(*data, part), "n")) of_row[n] = part;
    }
    return of_row;
  };
  const auto few = parts(50), many = parts(80);
  int n = 0;
  for (int q = 0; q < 80; ++q) {
    const int size = (q * 7) % 5 + 1;
    for (int i = 1; i < size; ++i) {
      CHECK(many.at(static_cast<float>(n + i)) == many.at(static_cast<float>(n)));
    }
    n += size;
  }
  for (const auto& [row, part] : few) CHECK(many.at(row) == part);
}

TEST_CASE("queries: a file ends them; one that comes again in its file is an error with its line") {
  const DataFiles files;
  auto spec = QuerySpec(files.Write("a.csv", "q,n\nx,1\ny,2\n"));
  spec.add_paths(files.Write("b.csv", "q,n\ny,3\nx,4\n"));
  spec.mutable_split()->add_test_paths(files.Write("c.csv", "q,n\nx,5\nx,6\n"));
  const auto data = MustLoad(spec);
  CHECK(data->num_examples(Part::kTraining) == 4);
  CHECK(data->num_examples(Part::kTest) == 1);
  CHECK(Values<float>(*data, AllOf(*data, Part::kTest), "n") == Floats{5, 6});
  spec.set_paths(1, files.Write("d.csv", "q,n\ny,3\nx,4\ny,5\n"));
  CHECK_THAT(LoadError(spec), Contains("d.csv:4: wanted the rows of a query together") &&
                                  Contains("found \"y\" again"));
}

TEST_CASE("queries: what they cannot go with is told") {
  const DataFiles files;
  const auto with = [&](auto change) {
    auto spec = QuerySpec(files.Write("a.csv", "q,n\nx,1\n"));
    change(&spec);
    return LoadError(spec);
  };
  CHECK_THAT(with([](auto* s) { s->mutable_split()->set_holdout_per("q"); }),
             Contains("parts are drawn by query"));
  CHECK_THAT(with([](auto* s) { s->mutable_split()->set_by("n"); }),
             Contains("parts are drawn by query"));
  CHECK_THAT(with([](auto* s) { s->set_query("nothing"); }), Contains("\"nothing\""));
}

TEST_CASE("queries: libsvm's qid names them") {
  const DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(files.Write("a.svm", "2 qid:7 1:0.5 3:1\n0 qid:7 2:1 # worse\n1 qid:8\n"));
  spec.set_query("qid");
  const auto data = MustLoad(spec);
  CHECK(data->num_examples(Part::kTraining) == 2);
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(Values<float>(*data, all, "label") == Floats{2, 0, 1});
  CHECK(Values<int64_t>(*data, all, "features.values") == Ids{0, 2, 1});
  CHECK(Values<int32_t>(*data, all, "query.offsets") == Offsets{0, 2, 3});
  spec.set_query("");
  CHECK_THAT(LoadError(spec), Contains("a.svm:1:3: wanted index:value, found \"qid:7\"") &&
                                  Contains("dataset.query: qid"));
  spec.set_query("q");
  CHECK_THAT(LoadError(spec), Contains("of libsvm it is \"qid\""));
  spec.set_query("qid");
  spec.set_paths(0, files.Write("b.svm", "2 qid:7 1:0.5\n0 2:1\n"));
  CHECK_THAT(LoadError(spec), Contains("b.svm:2:3: wanted qid: and the query's name, found "));
  spec.set_paths(0, files.Write("b.svm", "2 qid: 1:0.5\n"));
  CHECK_THAT(LoadError(spec), Contains("b.svm:1:3: wanted qid: and the query's name, found "));
  spec.set_paths(0, files.Write("b.svm", "2\n"));
  CHECK_THAT(LoadError(spec), Contains("b.svm:1:2: wanted qid: and the query's name, found "));
}

}  // namespace
}  // namespace coxswain::data
