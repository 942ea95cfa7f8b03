// Tables whose rows begin as those of a file.
#include "coordinator/model/initial_rows.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/model/npz_reader.h"
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
  CHECK(taken[0].unused == 1);
  CHECK(taken[0].repeated == 1);
  CHECK_THAT(taken[0].ToString(),
             Catch::Matchers::EndsWith("1 of its words have no row; 1 of its words come again, and "
                                       "the first of each counts"));
  CHECK(taken[1].taken == 4);  // a hash table takes all, and of equal ones the first
  CHECK(taken[1].unused == 0);
  CHECK(taken[1].repeated == 1);
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

TEST_CASE("initial rows: those behind the words are those of unknown values, as a model has them") {
  Fixture f("{kind: file, path: v.safetensors, words: w.txt}");
  for (job::TableSpec& table : f.job.tables) {
    if (table.name == "key") table.rows_file.reset();
  }
  const std::string path =
      f.files.Write("v.safetensors", Safetensors("emb", 4, {1, 2, 3, 4, 5, 6, 7, 8}));
  f.SetFile({path, f.files.Write("w.txt", "c d\nnobody\nb\n"), ""});
  const InitialRows taken = Must(TakeRowsOfFiles(f.job, *f.data, &f.strategy))[0];
  CHECK(f.Words() == std::vector<float>{5, 6, 0, 0, 1, 2, 7, 8});
  CHECK(taken.taken == 2);
  CHECK(taken.buckets == 1);
  CHECK_THAT(taken.ToString(), Contains(", and 1 of unknown values"));
  // The table has room for one.
  f.SetFile({path, f.files.Write("w.txt", "c d\nb\n"), ""});
  CHECK_THAT(f.Error(), Contains("wanted a word for each of the 4 rows of \"emb\"") &&
                            Contains("or for all but the last 1, found 2"));
}

// As numpy's savez and savez_compressed write an array `emb` of shape (3, 2), in hexadecimal.
const std::map<std::string, std::string>& NpzFiles() {
  static const auto* const files = new std::map<std::string, std::string>{
      {"stored, f4",
       "504b03042d000000000000002100ffbf4235ffffffffffffffff07001400656d622e6e707901"
       "00100098000000000000009800000000000000934e554d5059010076007b276465736372273a"
       "20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065"
       "273a2028332c2032292c207d2020202020202020202020202020202020202020202020202020"
       "20202020202020202020202020202020202020202020202020202020202020200a0000803f00"
       "00004000004040000080400000a0400000c040504b01022d032d000000000000002100ffbf42"
       "359800000098000000070000000000000000000000800100000000656d622e6e7079504b0506"
       "000000000100010035000000d10000000000"},
      {"deflated, f4",
       "504b03042d000000080000002100ffbf4235ffffffffffffffff07001400656d622e6e707901"
       "001000980000000000000058000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46e"
       "a5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a"
       "c63a0a469a3a0ab50a64032e0686067b060606072002e206205e00c4071c00504b01022d032d"
       "000000080000002100ffbf423558000000980000000700000000000000000000008001000000"
       "00656d622e6e7079504b0506000000000100010035000000910000000000"},
      {"deflated, f8",
       "504b03042d00000008000000210047afe6a8ffffffffffffffff07001400656d622e6e707901"
       "001000b0000000000000005a000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46e"
       "a5a06e9366a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a"
       "c63a0a469a3a0ab50a64032e0630f8600fa1191c201407941680d222505ac20100504b01022d"
       "032d00000008000000210047afe6a85a000000b0000000070000000000000000000000800100"
       "000000656d622e6e7079504b0506000000000100010035000000930000000000"},
  };
  return *files;
}

TEST_CASE("initial rows: those of numpy's npz, compressed or not, in f4 or f8") {
  Fixture f("{kind: file, path: v.npz, words: w.txt}");
  const std::string words = f.files.Write("w.txt", "c d\nnobody\nb\n");
  for (const auto& [name, hex] : NpzFiles()) {
    INFO(name);
    const std::string bytes = absl::HexStringToBytes(hex);
    f.SetFile({f.files.Write("v.npz", bytes), words, ""});
    CHECK(Must(TakeRowsOfFiles(f.job, *f.data, &f.strategy))[0].taken == 2);
    CHECK(f.Words() == std::vector<float>{5, 6, 0, 0, 1, 2, 0, 0});
    for (const size_t size : {size_t{0}, size_t{21}, bytes.size() / 2, bytes.size() - 1}) {
      f.SetFile({f.files.Write("v.npz", bytes.substr(0, size)), words, ""});
      CHECK_THAT(f.Error(), Contains("v.npz"));
    }
  }
}

TEST_CASE("npz: whatever byte is another one, there is an array or an error") {
  DataFiles files;
  for (const auto& [name, hex] : NpzFiles()) {
    const std::string bytes = absl::HexStringToBytes(hex);
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ 0x55);
      const std::string path = files.Write("v.npz", flipped);
      const auto array = ReadNpz(path, "emb");
      INFO(name << ", byte " << i);
      if (array.ok()) CHECK(array->num_elements() == 6);
      if (!array.ok()) CHECK_THAT(std::string(array.status().message()), Contains("v.npz"));
    }
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
