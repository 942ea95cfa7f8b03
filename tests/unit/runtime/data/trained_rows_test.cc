// What a model keeps of the rows that it was trained on, and what a data set says of its own beside
// them: whether a row that was trained on may be in another part now.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/data/text_parts.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using proto::DatasetSpec;

constexpr char kHeader[] = "user,item,stars\n";

std::string Rows(int from, int to) {
  std::string csv;
  for (int i = from; i < to; ++i) absl::StrAppend(&csv, "u", i % 7, ",i", i, ",", i % 5, "\n");
  return csv;
}

DatasetSpec Ratings(const std::string& path) {
  DatasetSpec spec = CsvSpec(path);
  AddCategorical(&spec, "user")->set_oov_buckets(1);
  AddCategorical(&spec, "item")->set_oov_buckets(1);
  spec.mutable_label()->set_column("stars");
  spec.set_seed(3);
  return spec;
}

uint64_t HashOf(const DatasetSpec& spec) { return MustLoad(spec)->trained_rows().hash(); }

DatasetSpec AfterTraining(DatasetSpec spec) {
  *spec.mutable_trained() = MustLoad(spec)->trained_rows();
  return spec;
}

TEST_CASE("trained rows: the hash is of the content in order, not of how files hold it") {
  const DataFiles files;
  const std::string rows = Rows(0, 200);
  const DatasetSpec spec = Ratings(files.Write("a.csv", kHeader + rows));
  const uint64_t hash = HashOf(spec);
  CHECK(MustLoad(spec)->trained_rows().rows() == 200);
  const auto of_file = [&](const std::string& content) {
    return HashOf(Ratings(files.Write("b.csv", content)));
  };
  CHECK(of_file(kHeader + rows) == hash);
  CHECK(of_file(absl::StrReplaceAll(kHeader + rows, {{"\n", "\r\n"}})) == hash);
  CHECK(of_file(absl::StrReplaceAll(kHeader + rows, {{"\n", "\n\n"}})) == hash);
  CHECK(HashOf(Ratings(files.WriteGzip("a.csv.gz", kHeader + rows))) == hash);
  // Columns that nobody reads, in another order; quotes that change no field.
  std::string other = "stars,note,item,user\n";
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&other, i % 5, ",n,\"i", i, "\",u", i % 7, "\n");
  }
  DatasetSpec wider = Ratings(files.Write("c.csv", other));
  wider.mutable_csv()->set_quoting(true);
  CHECK(HashOf(wider) == hash);
  // Features of the job in another order, split and seed: they are compared by themselves.
  DatasetSpec reordered = spec;
  reordered.mutable_features()->SwapElements(0, 1);
  reordered.mutable_split()->set_test_fraction(0.3);
  reordered.set_seed(9);
  CHECK(HashOf(reordered) == hash);
  // The same rows in two files; a test part of its own does not belong to them.
  DatasetSpec cut = Ratings(files.Write("d.csv", kHeader + Rows(0, 120)));
  cut.add_paths(files.Write("e.csv", kHeader + Rows(120, 200)));
  cut.mutable_split()->add_test_paths(files.Write("f.csv", kHeader + Rows(0, 5)));
  CHECK(HashOf(cut) == hash);
  cut.mutable_paths()->SwapElements(0, 1);
  CHECK(HashOf(cut) != hash);
}

TEST_CASE("trained rows: any change of a row or of the order has another hash") {
  const DataFiles files;
  const uint64_t hash = HashOf(Ratings(files.Write("a.csv", kHeader + Rows(0, 50))));
  std::set<uint64_t> hashes = {hash};
  size_t cases = 1;
  for (const std::string& rows :
       {Rows(0, 49), Rows(0, 51), Rows(1, 50) + Rows(0, 1), Rows(0, 1) + Rows(0, 49),
        absl::StrReplaceAll(Rows(0, 50), {{"u1,i1,1", "u1,i1,2"}}),
        absl::StrReplaceAll(Rows(0, 50), {{"u1,i1,1", "u1,i11,1"}}),
        absl::StrReplaceAll(Rows(0, 50), {{"u1,i1,1", "u1i,1,1"}}),
        Rows(0, 10) + Rows(11, 12) + Rows(10, 11) + Rows(12, 50)}) {
    CAPTURE(rows);
    hashes.insert(HashOf(Ratings(files.Write("a.csv", kHeader + rows))));
    CHECK(hashes.size() == ++cases);
  }
}

TEST_CASE("trained rows: a data set says whether its rows are those of training") {
  const DataFiles files;
  const std::string path = files.Write("a.csv", kHeader + Rows(0, 100));
  DatasetSpec spec = Ratings(path);
  CHECK(MustLoad(spec)->since_training() == SinceTraining::kUnknown);
  spec.mutable_split()->set_test_fraction(0.2);
  spec = AfterTraining(spec);
  const auto since = [&spec] { return MustLoad(spec)->since_training(); };
  CHECK(since() == SinceTraining::kSame);
  files.Write("a.csv", kHeader + Rows(0, 130));
  CHECK(since() == SinceTraining::kGrown);
  files.Write("a.csv", kHeader + Rows(0, 99));
  CHECK(since() == SinceTraining::kOtherRows);
  files.Write("a.csv", kHeader + Rows(50, 100) + Rows(0, 50));
  CHECK(since() == SinceTraining::kOtherRows);
  files.Write("a.csv", kHeader + Rows(0, 100));
  CHECK(DrawChange(spec).empty());
  spec.set_seed(4);
  CHECK(since() == SinceTraining::kOtherDraw);
  CHECK_THAT(DrawChange(spec), Contains("train.seed was 3 and is 4"));
  spec.set_seed(3);
  spec.mutable_split()->set_test_fraction(0.4);
  CHECK(since() == SinceTraining::kOtherDraw);
  CHECK_THAT(DrawChange(spec), Contains("split.test was 0.2 and is 0.4"));
  spec.mutable_split()->set_test_fraction(0.2);
  spec.mutable_trained()->set_rows(-1);  // of a damaged file
  CHECK(since() == SinceTraining::kUnknown);
}

// The items of a part.
std::set<std::string> Items(const Dataset& data, Part part) {
  std::set<std::string> items;
  for (const int64_t id : Values<int64_t>(data, AllOf(data, part), "item")) {
    items.insert(data.vocabulary("item")->at(static_cast<size_t>(id)));
  }
  return items;
}

TEST_CASE("trained rows: no row of training is held out because its group has more rows now") {
  const DataFiles files;
  // Groups with one row, too few to hold one out, and with three.
  std::string rows;
  for (int g = 0; g < 60; ++g) {
    for (int i = 0; i < (g % 2 == 0 ? 1 : 3); ++i) {
      absl::StrAppend(&rows, "u", g, ",i", g, "-", i, ",1\n");
    }
  }
  DatasetSpec spec = CsvSpec(files.Write("a.csv", kHeader + rows));
  AddCategorical(&spec, "item");
  for (int g = 0; g < 60; ++g) {
    for (int i = 0; i < 5; ++i) {
      spec.mutable_features(0)->add_vocabulary(absl::StrCat("i", g, "-", i));
    }
  }
  spec.mutable_split()->set_holdout_per("user");
  spec.mutable_split()->set_holdout_min(2);
  const std::set<std::string> trained = Items(*MustLoad(spec), Part::kTraining);
  const std::set<std::string> tested = Items(*MustLoad(spec), Part::kTest);
  REQUIRE(tested.size() == 30);
  const DatasetSpec saved = AfterTraining(spec);
  for (int g = 0; g < 60; ++g) {
    absl::StrAppend(&rows, "u", g, ",i", g, "-3,1\nu", g, ",i", g, "-4,1\n");
  }
  files.Write("a.csv", kHeader + rows);
  const auto both = [](const std::set<std::string>& a, const std::set<std::string>& b) {
    return std::count_if(a.begin(), a.end(), [&](const auto& item) { return b.count(item) > 0; });
  };
  // As it would be for a new model: rows of training are among what is held out.
  CHECK(both(Items(*MustLoad(spec), Part::kTest), trained) > 0);
  const std::set<std::string> now = Items(*MustLoad(saved), Part::kTest);
  CHECK(both(now, trained) == 0);
  CHECK(both(now, tested) == 30);
  CHECK(now.size() > 30);  // new rows are held out, too
}

TEST_CASE("trained rows: a text is known by its words, and what is appended moves no run") {
  const DataFiles files;
  std::string text;
  for (int i = 0; i < 3 * kTextRun + 100; ++i) {
    absl::StrAppend(&text, "w", i * i % 97, i % 16 == 15 ? "\n" : " ");
  }
  DatasetSpec spec;
  spec.set_format("text");
  spec.add_paths(files.Write("a.txt", text));
  spec.mutable_split()->set_validation_fraction(0.1);
  spec = AfterTraining(spec);
  CHECK(spec.trained().rows() == 3 * kTextRun + 100);
  const auto since = [&](const std::string& content) {
    files.Write("a.txt", content);
    return MustLoad(spec)->since_training();
  };
  CHECK(since(text) == SinceTraining::kSame);
  CHECK(since(absl::StrReplaceAll(text, {{"\n", " "}})) == SinceTraining::kSame);
  CHECK(since(text + "more words") == SinceTraining::kGrown);
  CHECK(since("more " + text) == SinceTraining::kOtherRows);
  CHECK(since(text.substr(text.size() / 2) + " " + text.substr(0, text.size() / 2)) ==
        SinceTraining::kOtherRows);
  // Of a text of few runs one is drawn by their number: it would be another one.
  const auto runs = [](int64_t words, uint64_t seed, int64_t kept) {
    auto held_out = HoldOutRuns(words, 0.01, seed, kept);
    REQUIRE(held_out.ok());
    return *held_out;
  };
  bool moved = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<bool> before = runs(4 * kTextRun, seed, 0);
    const auto front = [&](const std::vector<bool>& all) {
      return std::vector<bool>(all.begin(), all.begin() + 4);
    };
    moved = moved || front(runs(40 * kTextRun, seed, 0)) != before;
    CHECK(front(runs(40 * kTextRun, seed, 4 * kTextRun)) == before);
  }
  CHECK(moved);
}

TEST_CASE("trained rows: rows of libsvm have their labels, indices and values in the hash") {
  const DataFiles files;
  const auto hash = [&](const std::string& lines) {
    DatasetSpec spec;
    spec.set_format("libsvm");
    spec.add_paths(files.Write("a.svm", lines));
    proto::FeatureSpec* features = AddCategorical(&spec, "features");
    features->set_multi_valued(true);
    spec.mutable_label()->set_column("label");
    return HashOf(spec);
  };
  const uint64_t whole = hash("1 1:2 3:4\n0 2:1\n");
  CHECK(hash("1 1:2 3:4  # a comment\n\n0 2:1.0\n") == whole);
  std::set<uint64_t> others = {whole};
  size_t cases = 1;
  for (const char* lines : {"0 2:1\n1 1:2 3:4\n", "0 1:2 3:4\n0 2:1\n", "1 1:2 3:5\n0 2:1\n",
                            "1 1:2 4:4\n0 2:1\n", "1 1:2\n0 3:4 2:1\n"}) {
    CAPTURE(lines);
    others.insert(hash(lines));
    CHECK(others.size() == ++cases);
  }
}

TEST_CASE("trained rows: the hash is the same in every release") {
  const DataFiles files;
  CHECK(HashOf(Ratings(files.Write("a.csv", kHeader + Rows(0, 10)))) == 553896994325578952u);
}

}  // namespace
}  // namespace coxswain::data
