// Tables whose rows begin as those of a file.
#include "coordinator/model/initial_rows.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/rows_file.h"
#include "runtime/data/hash.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/job_texts.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::Must;

job::JobSpec Job(const std::string& initializer) {
  return testing::MustParse(absl::StrCat(R"(
dataset: {path: a.csv, columns: [word, key, y]}
features:
  - {name: word, kind: categorical, dim: 2, oov_buckets: 1}
  - {name: key, kind: categorical, dim: 2, id: hash}
label: {column: y}
model: {kind: mlp, hidden: [4]}
tables:
  word: {initializer: )",
                                         initializer, "}\n  key: {initializer: ", initializer,
                                         "}\n"));
}

struct Fixture {
  explicit Fixture(const std::string& initializer)
      : job(Job(initializer)), strategy(testing::MustStart(2, 1, 1)) {
    job.dataset.clear_paths();
    job.dataset.add_paths(files.Write("a.csv", "b,x,1\nb,y,0\na,x,1\nc d,x,0\n"));
    data = MustLoad(job.dataset);
    TableOptions words;
    words.rows = 4;
    words.dim = 2;
    words.partitioner = FixedShards(3);
    tables["word"] = Must(strategy.CreateTable("word", words));
    TableOptions keys;
    keys.dim = 2;
    keys.hash = HashTableOptions{};
    tables["key"] = Must(strategy.CreateTable("key", keys));
  }
  void SetFile(const job::TableSpec::RowsFile& file) {
    for (job::TableSpec& table : job.tables) {
      if (table.rows_file) table.rows_file = file;
    }
  }
  std::string Error() {
    const auto taken = TakeRowsOfFiles(job, *data, &strategy);
    REQUIRE_FALSE(taken.ok());
    return std::string(taken.status().message());
  }
  std::vector<float> Words() {
    const Tensor rows = Must(strategy.Read(tables["word"]));
    return {rows.data<float>(), rows.data<float>() + rows.num_elements()};
  }

  DataFiles files;
  job::JobSpec job;
  ParameterServerStrategy strategy;
  std::unique_ptr<data::Dataset> data;
  std::map<std::string, EmbeddingTable> tables;
};

// Names, in the header's order, and rows in f32.
std::string Safetensors(const std::string& name, int rows, const std::vector<float>& values) {
  const std::string header =
      absl::StrCat("{\"", name, "\":{\"dtype\":\"F32\",\"shape\":[", rows, ",",
                   values.size() / static_cast<size_t>(rows), "],\"data_offsets\":[0,",
                   values.size() * sizeof(float), "]}}");
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 255);
  file += header;
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return file;
}

constexpr char kText[] = "{kind: file, path: v.txt}";

TEST_CASE("initial rows: those of word2vec's text format, by value; others begin as they would") {
  const std::string header = GENERATE("", "4 2\n");
  Fixture f(kText);
  f.SetFile(
      {f.files.Write("v.txt", header + "a 1 2\nnobody 3 4\nc d 5 -6e-1\nb 7 8 \na 9 9\n"), "", ""});
  const auto taken = Must(TakeRowsOfFiles(f.job, *f.data, &f.strategy));
  REQUIRE(*f.data->vocabulary("word") == std::vector<std::string>{"b", "a", "c d"});
  CHECK(f.Words() == std::vector<float>{7, 8, 1, 2, 5, -0.6F, 0, 0});
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].taken == 3);
  CHECK(taken[0].missing == 0);
  CHECK(taken[0].unused == 2);
  CHECK(taken[1].taken == 4);  // a hash table takes all, and of equal ones the first
  CHECK(taken[1].unused == 1);
}

TEST_CASE("initial rows: what the file lacks is counted, and told") {
  Fixture f(kText);
  f.SetFile({f.files.Write("v.txt", "a 1 2\n"), "", ""});
  const auto taken = Must(TakeRowsOfFiles(f.job, *f.data, &f.strategy));
  CHECK(f.Words() == std::vector<float>{0, 0, 1, 2, 0, 0, 0, 0});
  CHECK(taken[0].missing == 2);
  CHECK_THAT(taken[0].ToString(), Contains("initial rows of word from ") &&
                                      Contains("v.txt: 1, and 2 values that it lacks"));
}

TEST_CASE("initial rows: those of a safetensors file, with their words beside it") {
  Fixture f("{kind: file, path: v.safetensors, words: w.txt}");
  const std::string path =
      f.files.Write("v.safetensors", Safetensors("emb", 3, {1, 2, 3, 4, 5, 6}));
  f.SetFile({path, f.files.Write("w.txt", "c d\nnobody\nb\n"), "emb"});
  CHECK(Must(TakeRowsOfFiles(f.job, *f.data, &f.strategy))[0].missing == 1);
  CHECK(f.Words() == std::vector<float>{5, 6, 0, 0, 1, 2, 0, 0});
  SECTION("fewer words than rows") {
    f.SetFile({path, f.files.Write("w.txt", "c d\n"), ""});
    CHECK_THAT(f.Error(), Contains("w.txt: wanted a word for each of the 3 rows of \"emb\""));
  }
  SECTION("more") {
    f.SetFile({path, f.files.Write("w.txt", "1\n2\n3\n4\n"), ""});
    CHECK_THAT(f.Error(), Contains("found more"));
  }
  SECTION("another tensor") {
    f.SetFile({path, f.files.Write("w.txt", "1\n2\n3\n"), "weights"});
    CHECK_THAT(f.Error(), Contains("wanted a tensor \"weights\"") && Contains("emb"));
  }
  SECTION("rows of another width") {
    f.SetFile({f.files.Write("v.safetensors", Safetensors("emb", 2, {1, 2, 3, 4, 5, 6})),
               f.files.Write("w.txt", "1\n2\n"), ""});
    CHECK_THAT(f.Error(), Contains("wanted rows of 2 numbers in f32") && Contains("[2,3]"));
  }
}

TEST_CASE("initial rows: what is wrong in a file is told by file, line and column") {
  Fixture f(kText);
  const auto error = [&](const std::string& text) {
    f.SetFile({f.files.Write("v.txt", text), "", ""});
    return f.Error();
  };
  CHECK_THAT(error("a 1 2\nb 1 x\n"), Contains("v.txt:2:5: wanted a word and 2 finite numbers"));
  CHECK_THAT(error("a 1 2\nb\n"), Contains("v.txt:2:1: wanted a word and 2 finite numbers"));
  CHECK_THAT(error("3 300\na 1 2\n"), Contains("v.txt:1:3: wanted rows of 2 numbers"));
  CHECK_THAT(error("a 1 1e39\n"), Contains("v.txt:1:5"));
}

}  // namespace
}  // namespace coxswain::model
