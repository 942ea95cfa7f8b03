#include "runtime/data/dataset.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using proto::FeatureSpec;
using Floats = std::vector<float>;
using Ids = std::vector<int64_t>;
using Offsets = std::vector<int32_t>;

constexpr Part kTraining = Part::kTraining;

TEST_CASE("data set: numbers, ids and labels come as columns in the order of the spec") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "age,city,y\n30,rome,1\n,oslo,0\n2.5,rome,1\n"));
  AddNumeric(&spec, "age")->set_missing_value(-1);
  AddCategorical(&spec, "town")->set_column("city");
  spec.mutable_label()->set_column("y");
  const auto data = MustLoad(spec);
  REQUIRE(data->num_examples(kTraining) == 3);
  CHECK(data->num_examples(Part::kTest) == 0);
  std::vector<std::string> names;
  for (const ColumnSpec& column : data->columns(kTraining)) names.push_back(column.name);
  CHECK(names == std::vector<std::string>{"age", "town", "label"});
  const Ticket all = AllOf(*data, kTraining);
  CHECK(Values<float>(*data, all, "age") == Floats{30, -1, 2.5});
  CHECK(Values<int64_t>(*data, all, "town") == Ids{0, 1, 0});
  CHECK(Values<float>(*data, all, "label") == Floats{1, 0, 1});
  CHECK(Values<float>(*data, {kTraining, 0, 1, 2}, "age") == Floats{-1});
  CHECK(Values<float>(*data, {kTraining, 9, 2, 2}, "age").empty());
}

TEST_CASE("data set: multi-valued fields become values and offsets") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "tags,words\na|b,to be\n,\nb||c,  or   not to\n"));
  FeatureSpec* tags = AddCategorical(&spec, "tags");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  AddCategorical(&spec, "words")->set_multi_valued(true);  // no separator: white space
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, kTraining);
  CHECK(*data->vocabulary("tags") == std::vector<std::string>{"b", "a", "c"});
  CHECK(Values<int64_t>(*data, all, "tags.values") == Ids{1, 0, 0, 2});
  CHECK(Values<int32_t>(*data, all, "tags.offsets") == Offsets{0, 2, 2, 4});
  CHECK(*data->vocabulary("words") == std::vector<std::string>{"to", "be", "or", "not"});
  CHECK(Values<int64_t>(*data, all, "words.values") == Ids{0, 1, 2, 3, 0});
  CHECK(Values<int32_t>(*data, {kTraining, 0, 1, 3}, "words.offsets") == Offsets{0, 0, 3});
  CHECK(data->training_counts("words") == Ids{2, 1, 1, 1});
}

TEST_CASE(
    "data set: of too many values a sample is drawn, the same for the same position and epoch") {
  DataFiles files;
  std::string text = "tags\n";
  for (int row = 0; row < 50; ++row) {
    for (int i = 0; i < 100; ++i) absl::StrAppend(&text, i == 0 ? "" : " ", i);
    text += "\n";
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  FeatureSpec* tags = AddCategorical(&spec, "tags");
  tags->set_multi_valued(true);
  tags->set_max_values(10);
  const auto data = MustLoad(spec);
  const Ids first = Values<int64_t>(*data, {kTraining, 0, 0, 50}, "tags.values");
  REQUIRE(first.size() == 500);
  std::set<int64_t> everything;
  for (size_t row = 0; row < 50; ++row) {
    const std::set<int64_t> one(first.begin() + row * 10, first.begin() + row * 10 + 10);
    REQUIRE(one.size() == 10);
    everything.insert(one.begin(), one.end());
  }
  CHECK(everything.size() > 90);
  CHECK(Values<int64_t>(*data, {kTraining, 0, 0, 50}, "tags.values") == first);
  CHECK(Values<int64_t>(*data, {kTraining, 0, 20, 30}, "tags.values") ==
        Ids(first.begin() + 200, first.begin() + 300));
  CHECK(Values<int64_t>(*data, {kTraining, 1, 0, 50}, "tags.values") != first);
}

TEST_CASE("data set: normalisation uses the training part's statistics in double precision") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "t,r,l,c\n964982703,0,-9,5\n964982705,4,0,5\n"));
  spec.mutable_split()->add_test_paths(files.Write("b.csv", "t,r,l,c\n964982704,8,99,6\n"));
  AddNumeric(&spec, "t")->set_normalization(FeatureSpec::STANDARD);
  AddNumeric(&spec, "r")->set_normalization(FeatureSpec::MIN_MAX);
  AddNumeric(&spec, "l")->set_normalization(FeatureSpec::LOG1P);
  AddNumeric(&spec, "c")->set_normalization(FeatureSpec::STANDARD);
  const auto data = MustLoad(spec);
  const Ticket train = AllOf(*data, kTraining);
  const Ticket test = AllOf(*data, Part::kTest);
  CHECK(Values<float>(*data, train, "t") == Floats{-1, 1});
  CHECK(Values<float>(*data, test, "t") == Floats{0});
  CHECK(Values<float>(*data, train, "r") == Floats{0, 1});
  CHECK(Values<float>(*data, test, "r") == Floats{2});
  CHECK(Values<float>(*data, train, "l") == Floats{-std::log1p(9.0f), 0});
  CHECK(Values<float>(*data, test, "l")[0] == Approx(std::log(100.0)));
  CHECK(Values<float>(*data, train, "c") == Floats{0, 0});
  REQUIRE(data->transform("t") != nullptr);
  CHECK(data->transform("t")->shift == 964982704);
  CHECK(data->transform("nothing") == nullptr);
}

TEST_CASE("data set: what a mean is rounded by does not become the scale of a constant column") {
  DataFiles files;
  std::string text = "c\n";
  for (int i = 0; i < 5000; ++i) text += "0.1\n";  // in binary, of which no sum is exact
  auto spec = CsvSpec(files.Write("a.csv", text));
  spec.mutable_split()->add_test_paths(files.Write("b.csv", "c\n0.2\n"));
  AddNumeric(&spec, "c")->set_normalization(FeatureSpec::STANDARD);
  const auto data = MustLoad(spec);
  CHECK(data->transform("c")->scale == 1);
  CHECK(Values<float>(*data, AllOf(*data, Part::kTest), "c")[0] == Approx(0.1));
}

TEST_CASE("data set: labels by comparison, by values, as numbers, or a feature") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "r,s\n3.5,yes\n4,no\n5,maybe\n"));
  AddCategorical(&spec, "s");
  spec.mutable_label()->set_column("r");
  const auto labels = [&spec] {
    const auto data = MustLoad(spec);
    return Values<float>(*data, AllOf(*data, kTraining), "label");
  };
  CHECK(labels() == Floats{3.5, 4, 5});
  spec.mutable_label()->set_positive_threshold(4);
  const std::vector<std::pair<std::string, Floats>> comparisons = {
      {">", {0, 0, 1}},  {">=", {0, 1, 1}}, {"<", {1, 0, 0}},
      {"<=", {1, 1, 0}}, {"==", {0, 1, 0}}, {"!=", {1, 0, 1}}};
  for (const auto& [comparison, wanted] : comparisons) {
    spec.mutable_label()->set_positive_comparison(comparison);
    CHECK(labels() == wanted);
  }
  spec.mutable_label()->Clear();
  spec.mutable_label()->set_column("s");
  spec.mutable_label()->add_positive_values("yes");
  spec.mutable_label()->add_positive_values("maybe");
  CHECK(labels() == Floats{1, 0, 1});
  spec.mutable_label()->Clear();
  spec.mutable_label()->set_feature("s");
  CHECK(MustLoad(spec)->columns(kTraining).size() == 1);
}

TEST_CASE(
    "data set: the order of an epoch is a permutation, another in each epoch, the same again") {
  DataFiles files;
  std::string text = "x\n";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&text, i, "\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "x");
  spec.set_shuffle(true);
  spec.set_seed(3);
  spec.mutable_split()->set_validation_fraction(0.2);
  const auto data = MustLoad(spec);
  const Floats first = Values<float>(*data, AllOf(*data, kTraining, 0), "x");
  const Floats second = Values<float>(*data, AllOf(*data, kTraining, 1), "x");
  CHECK(first != second);
  Floats sorted = first;
  std::sort(sorted.begin(), sorted.end());
  CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
  CHECK(std::is_permutation(first.begin(), first.end(), second.begin(), second.end()));
  // In pieces, and from another instance.
  const auto again = MustLoad(spec);
  Floats pieces;
  for (int64_t begin = 0; begin < data->num_examples(kTraining); begin += 37) {
    const int64_t end = std::min(begin + 37, data->num_examples(kTraining));
    const Floats piece = Values<float>(*again, {kTraining, 0, begin, end}, "x");
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  CHECK(pieces == first);
  spec.set_seed(4);
  CHECK(Values<float>(*MustLoad(spec), {kTraining, 0, 0, 100}, "x") !=
        Floats(first.begin(), first.begin() + 100));
}

TEST_CASE(
    "data set: held-out parts are in the order of the file, and in drawn ones, from epoch 1 on") {
  DataFiles files;
  std::string csv = "x\n";
  for (int i = 0; i < 500; ++i) absl::StrAppend(&csv, i, "\n");
  auto spec = CsvSpec(files.Write("a.csv", csv));
  AddNumeric(&spec, "x");
  spec.mutable_split()->set_validation_fraction(0.4);
  spec.set_seed(3);
  const auto read = [&spec](int64_t epoch, uint64_t reader = 0) {
    const auto data = Dataset::Load(spec, reader).value();
    return Values<float>(*data, AllOf(*data, Part::kValidation, epoch), "x");
  };
  const Floats in_order = read(0);
  CHECK(std::is_sorted(in_order.begin(), in_order.end()));
  const Floats drawn = read(1);
  CHECK(drawn != in_order);
  Floats sorted = drawn;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == in_order);
  CHECK(read(2) != drawn);
  // Whatever is said of the order of training.
  spec.set_shuffle(true);
  CHECK(read(0) == in_order);
  CHECK(read(1) == drawn);
  spec.set_per_worker(true);
  CHECK(read(1, 7) == drawn);
  // The first tenth is from everywhere.
  const Floats some(drawn.begin(), drawn.begin() + 20);
  CHECK(*std::min_element(some.begin(), some.end()) < 150);
  CHECK(*std::max_element(some.begin(), some.end()) > 350);
}

TEST_CASE("data set: a batch has all columns of one example in one place") {
  DataFiles files;
  std::string text = "x,c,m\n";
  for (int i = 0; i < 500; ++i) absl::StrAppend(&text, i, ",c", i, ",m", i, " n", i, "\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "x");
  AddCategorical(&spec, "c");
  AddCategorical(&spec, "m")->set_multi_valued(true);
  spec.mutable_label()->set_column("x");
  spec.set_shuffle(true);
  const auto data = MustLoad(spec);
  const Ticket ticket{kTraining, 2, 100, 300};
  const Floats x = Values<float>(*data, ticket, "x");
  const Ids c = Values<int64_t>(*data, ticket, "c");
  const Ids m = Values<int64_t>(*data, ticket, "m.values");
  CHECK(Values<float>(*data, ticket, "label") == x);
  for (size_t i = 0; i < x.size(); ++i) {
    const std::string number = absl::StrCat(static_cast<int>(x[i]));
    REQUIRE((*data->vocabulary("c"))[static_cast<size_t>(c[i])] == "c" + number);
    REQUIRE((*data->vocabulary("m"))[static_cast<size_t>(m[2 * i])] == "m" + number);
    REQUIRE((*data->vocabulary("m"))[static_cast<size_t>(m[2 * i + 1])] == "n" + number);
  }
}

TEST_CASE("data set: a ticket outside its part is out of range") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x\n1\n2\n"));
  AddNumeric(&spec, "x");
  const auto data = MustLoad(spec);
  for (const Ticket& ticket :
       {Ticket{kTraining, 0, 0, 3}, Ticket{kTraining, 0, -1, 1}, Ticket{kTraining, 0, 2, 1},
        Ticket{kTraining, -1, 0, 1}, Ticket{Part::kTest, 0, 0, 1},
        Ticket{static_cast<Part>(3), 0, 0, 0}, Ticket{static_cast<Part>(-1), 0, 0, 0}}) {
    CHECK(data->Read(ticket).status().code() == absl::StatusCode::kOutOfRange);
  }
  CHECK(data->Read({kTraining, 0, 2, 2}).ok());
}

TEST_CASE("data set: the fingerprint is of the data and of what batches depend on") {
  DataFiles files;
  const std::string text = "x,c\n1,a\n2,b\n";
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "x");
  AddCategorical(&spec, "c");
  const uint64_t print = MustLoad(spec)->fingerprint();
  CHECK(MustLoad(spec)->fingerprint() == print);
  auto other = spec;
  other.set_paths(0, files.Write("elsewhere.csv", text));
  other.mutable_features(1)->set_dim(64);
  CHECK(MustLoad(other)->fingerprint() == print);
  other.set_paths(0, files.WriteGzip("a.csv.gz", text));
  CHECK(MustLoad(other)->fingerprint() == print);
  other.set_paths(0, files.Write("b.csv", "x,c\n1,a\n3,b\n"));
  CHECK(MustLoad(other)->fingerprint() != print);
  other = spec;
  other.set_seed(1);
  CHECK(MustLoad(other)->fingerprint() != print);
  other = spec;
  const std::string copy = spec.paths(0) + ".copy";
  std::filesystem::copy_file(spec.paths(0), copy);
  other.add_paths(copy);
  const uint64_t twice = MustLoad(other)->fingerprint();
  CHECK(twice != print);
  other.mutable_paths()->RemoveLast();
  other.mutable_split()->add_test_paths(copy);
  CHECK(MustLoad(other)->fingerprint() != twice);
}

TEST_CASE("data set: libsvm gives features with weights and a label; indices are the ids") {
  DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(files.Write("a.txt", "1 2:0.5 4:1\n-1\n1 1:3\n"));
  spec.set_libsvm_features(5);
  auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, kTraining);
  CHECK(Values<int64_t>(*data, all, "features.values") == Ids{1, 3, 0});
  CHECK(Values<int32_t>(*data, all, "features.offsets") == Offsets{0, 2, 2, 3});
  CHECK(Values<float>(*data, all, "features.weights") == Floats{0.5, 1, 3});
  CHECK(Values<float>(*data, all, "label") == Floats{1, -1, 1});
  CHECK(data->vocabulary_size("features") == 5);
  CHECK(data->vocabulary("features") == nullptr);
  CHECK(data->Lookup("features", "4") == 3);
  CHECK_FALSE(data->Lookup("features", "6").has_value());
  CHECK_FALSE(data->Lookup("features", "x").has_value());
  CHECK(data->training_counts("features") == Ids{1, 1, 0, 1, 0});
  // As many features as there are; the label a class; weights sampled along with values.
  spec.set_libsvm_features(0);
  AddCategorical(&spec, "class")->set_column("label");
  AddCategorical(&spec, "f")->set_column("features");
  spec.mutable_features(1)->set_max_values(1);
  spec.mutable_label()->set_feature("class");
  data = MustLoad(spec);
  CHECK(data->vocabulary_size("f") == 4);
  CHECK(Values<int64_t>(*data, all, "class") == Ids{0, 1, 0});
  CHECK(Values<int32_t>(*data, all, "f.offsets") == Offsets{0, 1, 1, 2});
  const bool half = Values<int64_t>(*data, all, "f.values")[0] == 1;
  CHECK(Values<float>(*data, all, "f.weights")[0] == (half ? 0.5f : 1.0f));
  spec.mutable_features(0)->set_column("nothing");
  CHECK_THAT(LoadError(spec), Contains("there are: label, features"));
}

TEST_CASE("data set: the largest f32 may be written with as many digits as tell it from others") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,y\n1,3.4028235e38\n2,-3.4028235e38\n"));
  AddNumeric(&spec, "y");
  const auto data = MustLoad(spec);
  constexpr float kLargest = std::numeric_limits<float>::max();
  CHECK(Values<float>(*data, AllOf(*data, Part::kTraining), "y") ==
        std::vector<float>{kLargest, -kLargest});
  spec.set_paths(0, files.Write("b.csv", "x,y\n1,3.4028236e38\n"));
  CHECK_THAT(LoadError(spec), Contains("found \"3.4028236e38\""));
}

TEST_CASE("data set: a field that is not a number names file, line, column, field and text") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,y\n1,2\n3,four\n"));
  AddNumeric(&spec, "y");
  CHECK_THAT(LoadError(spec),
             EndsWith("a.csv:3:3: field 2 (\"y\"): wanted a finite number (f32), found \"four\""));
  spec.set_paths(0, files.Write("b.csv", "x,y\n1,1e39\n"));
  CHECK_THAT(LoadError(spec), Contains("wanted a finite number (f32), found \"1e39\""));
  spec.mutable_features(0)->set_column("x");
  spec.mutable_label()->set_column("y");
  spec.set_paths(0, files.Write("c.csv", "x,y\n1,\n"));
  CHECK_THAT(LoadError(spec), EndsWith("c.csv:2:3: field 2 (\"y\"): wanted a finite number (f32), "
                                       "found \"\""));
}

TEST_CASE("data set: a column that is missing from any file names that file") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x,rating\n1,2\n"));
  AddNumeric(&spec, "rating");
  spec.add_paths(files.Write("b.csv", "ratings,x\n1,2\n"));
  CHECK_THAT(LoadError(spec), Contains("b.csv: wanted a column \"rating\"") &&
                                  Contains("did you mean \"ratings\"?"));
  spec.set_paths(1, files.Write("b.csv", "rating,x\n8,9\n"));  // another order is fine
  const auto data = MustLoad(spec);
  CHECK(Values<float>(*data, AllOf(*data, kTraining), "rating") == Floats{2, 8});
  spec.set_paths(1, files.Path("none.csv"));
  CHECK(Dataset::Load(spec).status().code() == absl::StatusCode::kNotFound);
  spec.mutable_paths()->RemoveLast();
  spec.set_paths(0, files.Write("empty.csv", "x,rating\n"));
  CHECK_THAT(LoadError(spec), Contains("wanted at least one row, found none"));
}

TEST_CASE("data set: batches can be read from many threads at once") {
  DataFiles files;
  std::string text = "x,u\n";
  for (int i = 0; i < 2000; ++i) absl::StrAppend(&text, "v", i * i % 97, ",u", i % 11, "\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddCategorical(&spec, "x");
  FeatureSpec* history = AddCategorical(&spec, "history");
  history->set_history_of("x");
  history->set_group_by("u");
  history->set_max_values(8);
  spec.set_shuffle(true);
  const auto data = MustLoad(spec);
  const Ids wanted = Values<int64_t>(*data, {kTraining, 1, 0, 500}, "history.values");
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        auto batch = data->Read({kTraining, 1, 0, 500});
        if (!batch.ok()) return;
        const absl::Span<const int64_t> values = (*batch)[1].values<int64_t>();
        if (Ids(values.begin(), values.end()) == wanted) ++equal[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(equal == std::vector<int>(4, 50));
}

TEST_CASE("ticket: survives the wire, and a wrong one from there is refused") {
  const Ticket ticket{Part::kValidation, 3, 512, 1024};
  const auto back = FromProto(ToProto(ticket));
  REQUIRE(back.ok());
  CHECK(*back == ticket);
  CHECK(ticket.ToString() == "validation epoch 3 [512, 1024)");
  proto::TicketProto wrong = ToProto(ticket);
  wrong.set_part(3);
  CHECK(FromProto(wrong).status().code() == absl::StatusCode::kInvalidArgument);
  wrong = ToProto(ticket);
  wrong.set_end(511);
  CHECK(FromProto(wrong).status().code() == absl::StatusCode::kInvalidArgument);
  wrong = ToProto(ticket);
  wrong.set_epoch(-1);
  CHECK_FALSE(FromProto(wrong).ok());
}

}  // namespace
}  // namespace coxswain::data
