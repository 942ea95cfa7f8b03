// Histories beside queries: compared with a plain computation, and streamed with those in memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/same_queries_when_streamed.h"

namespace coxswain::data {
namespace {

using Ids = std::vector<int64_t>;

struct Row {
  int query = 0, user = 0, item = 0, time = 0;
};

// Queries of 1 to 6 rows, one of 40, whose times are in no order and overlap. Most have rows of one
// user.
std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (int query = 0; query < 70; ++query) {
    const int size = query == 17 ? 40 : query * 7 % 6 + 1;
    for (int i = 0; i < size; ++i) {
      const uint64_t h = Mix64(rows.size());
      Row& row = rows.emplace_back();
      row.query = query;
      row.user = h % 9 == 0 ? 3 : query % 5;
      row.item = static_cast<int>(h / 9 % 12);
      row.time = query + static_cast<int>(h / 200 % 8);
    }
  }
  return rows;
}

std::string Csv(const std::vector<Row>& rows) {
  std::string csv = "q,n,user,item,t,y\n";
  for (size_t n = 0; n < rows.size(); ++n) {
    const Row& row = rows[n];
    absl::StrAppend(&csv, "q", row.query, ",", n, ",u", row.user, ",i", row.item, ",", row.time,
                    ",", n % 3, "\n");
  }
  return csv;
}

void Describe(const std::string& by, int64_t most, proto::DatasetSpec* spec) {
  spec->set_query("q");
  AddNumeric(spec, "n");
  AddCategorical(spec, "item")->set_oov_buckets(1);
  proto::FeatureSpec* const history = AddCategorical(spec, "seen");
  history->set_history_of("item");
  history->set_group_by("user");
  history->set_by(by);
  history->set_max_values(most);
  spec->mutable_label()->set_column("y");
  spec->mutable_split()->set_validation_fraction(0.1);
  spec->mutable_split()->set_test_fraction(0.2);
}

// What a row's history is, from the definition of it. `training`: the rows of that part.
Ids PastOf(const std::vector<Row>& rows, const std::vector<size_t>& training, size_t at,
           bool in_training, bool ordered, int64_t most, const Dataset& data) {
  int begin = rows[at].time;
  Ids own;
  for (const Row& row : rows) {
    if (row.query != rows[at].query) continue;
    begin = std::min(begin, row.time);
    own.push_back(row.item);
  }
  std::vector<std::tuple<int64_t, size_t, int64_t>> found;
  for (const size_t other : training) {
    const Row& row = rows[other];
    if (row.user != rows[at].user || (ordered && row.time >= begin)) continue;
    if (!ordered && in_training && std::count(own.begin(), own.end(), row.item) > 0) continue;
    const int64_t id = data.Lookup("item", absl::StrCat("i", row.item)).value();
    found.emplace_back(ordered ? row.time : id, other, id);
  }
  std::sort(found.begin(), found.end());
  Ids past;
  for (const auto& [order, row, id] : found) past.push_back(id);
  if (most > 0 && past.size() > static_cast<size_t>(most))
    past.erase(past.begin(), past.end() - most);
  return past;
}

// Each row's history is that of the definition.
void CheckPasts(const Dataset& data, bool ordered, int64_t most) {
  const std::vector<Row> rows = Rows();
  std::vector<size_t> training;
  for (const float n : Values<float>(data, AllOf(data, Part::kTraining), "n")) {
    training.push_back(static_cast<size_t>(n));
  }
  size_t longest = 0;
  for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
    const Ticket all = AllOf(data, part);
    const auto numbers = Values<float>(data, all, "n");
    const Ids values = Values<int64_t>(data, all, "seen.values");
    const auto offsets = Values<int32_t>(data, all, "seen.offsets");
    REQUIRE(numbers.size() + 1 == offsets.size());
    REQUIRE(numbers.size() > 10);
    for (size_t i = 0; i < numbers.size(); ++i) {
      INFO("row " << numbers[i]);
      const Ids past = PastOf(rows, training, static_cast<size_t>(numbers[i]),
                              part == Part::kTraining, ordered, most, data);
      REQUIRE(Ids(values.begin() + offsets[i], values.begin() + offsets[i + 1]) == past);
      longest = std::max(longest, past.size());
    }
  }
  CHECK(longest > 2);
}

TEST_CASE(
    "a history beside queries: rows of a query see what came before it, or all others' values") {
  const DataFiles files;
  const auto [by, most] =
      GENERATE(std::pair<std::string, int64_t>("t", 0), std::pair<std::string, int64_t>("t", 4),
               std::pair<std::string, int64_t>("", 0));
  INFO("by '" << by << "', at most " << most);
  proto::DatasetSpec spec = CsvSpec(files.Write("a.csv", Csv(Rows())));
  Describe(by, most, &spec);
  spec.set_shuffle(true);
  CheckPasts(*MustLoad(spec), !by.empty(), most);
  CheckPasts(*MustLoad(Streamed(files, spec, 60, 2)), !by.empty(), most);
}

TEST_CASE(
    "a history beside queries: streamed it is that in memory, samples too, wherever blocks end") {
  const DataFiles files;
  const std::string csv = files.Write("a.csv", Csv(Rows()));
  const auto [by, most] =
      GENERATE(std::pair<std::string, int64_t>("t", 0), std::pair<std::string, int64_t>("t", 3),
               std::pair<std::string, int64_t>("", 0), std::pair<std::string, int64_t>("", 3));
  INFO("by '" << by << "', at most " << most);
  SECTION("csv") {
    proto::DatasetSpec spec = CsvSpec(csv);
    // A query of the same name as the last one of the file in front, and a part of its own.
    spec.add_paths(files.Write("b.csv", "q,n,user,item,t,y\nq69,1,u1,i2,9,0\nx,2,u1,i3,70,1\n"));
    spec.mutable_split()->add_test_paths(
        files.WriteGzip("c.csv.gz", "q,n,user,item,t,y\nx,2,u1,i3,71,1\nx,2,u1,i4,70,0\n"));
    Describe(by, most, &spec);
    spec.mutable_split()->clear_test_fraction();
    CheckQueriesWhenStreamed(files, spec);
  }
  SECTION("Parquet") {
    if (!HasArrow()) return;
    proto::DatasetSpec spec =
        ParquetSpec(WriteParquet(files, csv, "a.parquet", 7,
                                 {"q:text", "n:f64", "user:text", "item:text", "t:f64", "y:i8"}));
    Describe(by, most, &spec);
    CheckQueriesWhenStreamed(files, spec);
  }
}

TEST_CASE("a history beside queries: a ticket that is read again, by whomever, gives the same") {
  const DataFiles files;
  proto::DatasetSpec spec = CsvSpec(files.Write("a.csv", Csv(Rows())));
  Describe(GENERATE("t", ""), 2, &spec);
  spec.set_shuffle(true);
  spec = Streamed(files, spec, 80, 2);
  const auto first = MustLoad(spec), second = MustLoad(spec);
  const Ticket ticket{Part::kTraining, 1, 5, 17};
  const auto wanted = Bytes(*first, ticket);
  Bytes(*first, AllOf(*first, Part::kTest));
  first->DropBlocks();
  CHECK(Bytes(*first, ticket) == wanted);
  CHECK(Bytes(*second, ticket) == wanted);
}

}  // namespace
}  // namespace coxswain::data
