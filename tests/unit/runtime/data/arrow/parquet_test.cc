// Parquet files give the data set that CSV files of the same rows give; all types; streamed, too.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using proto::FeatureSpec;

constexpr char kHeader[] = "n,i,c,d,l,h,b,y\n";

// Numbers, integers, texts, a category, lists, large integers, booleans and labels; some missing.
std::string Rows(int from, int to) {
  std::string csv;
  for (int i = from; i < to; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&csv, i % 5 == 0 ? "" : absl::StrCat(h % 1000, ".5"), ",", h % 90, ",",
                    i % 11 == 0 ? "" : absl::StrCat("c", h % 7), ",d", h % 3, ",");
    for (uint64_t v = 0; v < h % 4; ++v) {
      absl::StrAppend(&csv, v > 0 ? "|" : "", "v", (h + v) % 13);
    }
    absl::StrAppend(&csv, ",", h >> 1, ",", h % 5 < 2 ? "true" : "false", ",", h % 2, "\n");
  }
  return csv;
}

const std::vector<std::string> kTypes = {"n:f64",   "i:i32", "c:text", "d:category",
                                         "l:texts", "h:i64", "b:bool", "y:i8"};

// The features of these columns, in a spec that has its paths.
void AddFeatures(proto::DatasetSpec* spec) {
  AddNumeric(spec, "n")->set_normalization(FeatureSpec::STANDARD);
  AddNumeric(spec, "i2")->set_column("i");
  AddCategorical(spec, "i")->set_min_count(2);
  spec->mutable_features()->rbegin()->set_oov_buckets(2);
  AddCategorical(spec, "c")->set_oov_buckets(1);
  AddCategorical(spec, "d")->set_oov_buckets(1);
  FeatureSpec* list = AddCategorical(spec, "l");
  list->set_multi_valued(true);
  list->set_value_separator("|");
  FeatureSpec* words = AddCategorical(spec, "w");  // of all texts of a list
  words->set_column("l");
  words->set_multi_valued(true);
  words->set_tokens("words");
  AddCategorical(spec, "h")->set_hash_buckets(1000);
  FeatureSpec* raw = AddCategorical(spec, "raw");
  raw->set_column("h");
  raw->set_id("raw");
  AddCategorical(spec, "b")->set_oov_buckets(1);
  spec->mutable_label()->set_column("y");
  spec->mutable_split()->set_validation_fraction(0.2);
  spec->set_seed(11);
  spec->set_shuffle(true);
}

void CheckSameBatches(const Dataset& found, const Dataset& wanted) {
  for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
    REQUIRE(found.num_examples(part) == wanted.num_examples(part));
    for (int64_t begin = 0; begin < wanted.num_examples(part); begin += 50) {
      const Ticket ticket{part, 3, begin, std::min(begin + 50, wanted.num_examples(part))};
      REQUIRE(Bytes(found, ticket) == Bytes(wanted, ticket));
    }
  }
}

TEST_CASE("parquet: the same ids, parts, order and batches as of CSV", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", kHeader + Rows(0, 700));
  const std::string test = files.Write("t.csv", kHeader + Rows(700, 800));
  auto text = CsvSpec(csv);
  AddFeatures(&text);
  text.mutable_split()->add_test_paths(test);
  const auto wanted = MustLoad(text);
  for (const int group : {1, 64, 10000}) {
    for (const bool plain : {false, true}) {
      INFO("groups of " << group << " rows" << (plain ? ", plain" : ""));
      std::vector<std::string> types = kTypes;
      if (plain) types.insert(types.begin(), "plain");
      auto spec = ParquetSpec(WriteParquet(files, csv, "a.parquet", group, types));
      AddFeatures(&spec);
      spec.mutable_split()->add_test_paths(WriteParquet(files, test, "t.parquet", group, types));
      const auto found = MustLoad(spec);
      CheckSameBatches(*found, *wanted);
      for (const FeatureSpec& feature : spec.features()) {
        CHECK(found->training_counts(feature.name()) == wanted->training_counts(feature.name()));
        REQUIRE((found->vocabulary(feature.name()) == nullptr) ==
                (wanted->vocabulary(feature.name()) == nullptr));
        if (found->vocabulary(feature.name()) == nullptr) continue;
        CHECK(*found->vocabulary(feature.name()) == *wanted->vocabulary(feature.name()));
      }
      CHECK(found->transform("n")->shift == wanted->transform("n")->shift);
      CHECK(found->transform("n")->scale == wanted->transform("n")->scale);
    }
  }
}

TEST_CASE("parquet: streamed by row groups and parts of them, as in memory", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", kHeader + Rows(0, 90));
  const std::string more = files.Write("b.csv", kHeader + Rows(90, 130));
  auto spec = ParquetSpec(WriteParquet(files, csv, "a.parquet", 40, kTypes));
  spec.add_paths(WriteParquet(files, more, "b.parquet", 7, kTypes));
  AddFeatures(&spec);
  spec.mutable_features(0)->set_normalization(FeatureSpec::MIN_MAX);
  spec.set_shuffle(false);
  SECTION("parts drawn from the rows") { spec.mutable_split()->set_test_fraction(0.1); }
  SECTION("a test file of its own") {
    const std::string test = files.Write("t.csv", kHeader + Rows(200, 230));
    spec.mutable_split()->add_test_paths(WriteParquet(files, test, "t.parquet", 8, kTypes));
  }
  SECTION("parts by the values of a column, many of which are equal") {
    spec.mutable_split()->set_test_fraction(0.1);
    spec.mutable_split()->set_by("i");
  }
  SECTION("a row of each group held out, and a history") {
    spec.mutable_split()->set_holdout_per("d");
    proto::FeatureSpec* const history = spec.add_features();
    history->set_name("seen");
    history->set_history_of("c");
    history->set_group_by("d");
    SECTION("of all rows") {}
    SECTION("of those before") {
      history->set_max_values(3);
      history->set_by("i");
    }
  }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("parquet: what rows hash to does not depend on how groups cut them", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", kHeader + Rows(0, 90));
  std::vector<std::string> hashes;
  for (const int group : {1, 13, 100}) {
    auto spec = ParquetSpec(WriteParquet(files, csv, "a.parquet", group, kTypes));
    AddFeatures(&spec);
    hashes.push_back(MustLoad(spec)->trained_rows().SerializeAsString());
  }
  CHECK(hashes[0] == hashes[1]);
  CHECK(hashes[0] == hashes[2]);
}

TEST_CASE("parquet: every type is a number, a text, or both", "[arrow]") {
  if (!HasArrow()) return;
  struct Case {
    const char* type;
    const char* text;  // in the CSV file that is written as Parquet
    double number;
    const char* value;
  };
  const Case cases[] = {
      {"i8", "-7", -7, "-7"},
      {"i16", "300", 300, "300"},
      {"i64", "-9007199254740993", -9007199254740992.0, "-9007199254740993"},
      {"u8", "200", 200, "200"},
      {"u32", "4294967295", 4294967295.0, "4294967295"},
      {"u64", "18446744073709551615", 18446744073709551616.0, "18446744073709551615"},
      {"f32", "0.5", 0.5, "0.5"},
      {"f64", "0.1", 0.1, "0.1"},
      {"bool", "true", 1, "true"},
      {"text", "12.5", 12.5, "12.5"},
      {"large_text", "12.5", 12.5, "12.5"},
      {"bytes", "12.5", 12.5, "12.5"},
      {"category", "12.5", 12.5, "12.5"},
      {"decimal", "12.50", 12.5, "12.5"},
      {"decimal", "-0.05", -0.05, "-0.05"},
      {"decimal", "700.00", 700, "700"},
      {"wide_decimal", "9007199254740993", 9007199254740992.0, "9007199254740993"},
      {"date", "1970-01-03", 172800, "172800"},
      {"time_s", "1970-01-01 00:01:01", 61, "61"},
      {"time_us", "1970-01-01 00:01:01.5Z", 61.5, "61.5"},
  };
  for (const Case& c : cases) {
    INFO(c.type);
    DataFiles files;
    const std::string csv = files.Write("a.csv", absl::StrCat("x,k\n", c.text, ",1\n,1\n"));
    auto spec = ParquetSpec(
        WriteParquet(files, csv, "a.parquet", 10, {absl::StrCat("x:", c.type), "k:i8"}));
    AddNumeric(&spec, "number")->set_column("x");
    spec.mutable_features(0)->set_missing_value(-1);
    AddCategorical(&spec, "text")->set_column("x");
    const auto data = MustLoad(spec);
    CHECK(Values<float>(*data, AllOf(*data, Part::kTraining), "number") ==
          std::vector<float>{static_cast<float>(c.number), -1});
    CHECK(*data->vocabulary("text") == std::vector<std::string>{c.value, ""});
  }
}

TEST_CASE("parquet: lists of texts, integers and fixed size; missing values are left out",
          "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv =
      files.Write("a.csv", "t,i,p\na|b|null,7|8|7,1|2\n,,0.5|3\nb|null|a,8|null,2|2\n");
  auto spec =
      ParquetSpec(WriteParquet(files, csv, "a.parquet", 2, {"t:texts", "i:integers", "p:pair"}));
  for (const char* name : {"t", "i", "p"}) AddCategorical(&spec, name)->set_multi_valued(true);
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(*data->vocabulary("t") == std::vector<std::string>{"a", "b"});
  CHECK(Values<int64_t>(*data, all, "t.values") == std::vector<int64_t>{0, 1, 1, 0});
  CHECK(Values<int32_t>(*data, all, "t.offsets") == std::vector<int32_t>{0, 2, 2, 4});
  CHECK(*data->vocabulary("i") == std::vector<std::string>{"7", "8"});
  CHECK(Values<int64_t>(*data, all, "i.values") == std::vector<int64_t>{0, 1, 0, 1});
  CHECK(*data->vocabulary("p") == std::vector<std::string>{"2", "1", "0.5", "3"});
  CHECK(Values<int32_t>(*data, all, "p.offsets") == std::vector<int32_t>{0, 2, 4, 6});
}

TEST_CASE("parquet: of columns that the job does not name no byte is used", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  std::string text = "x,other,y\n";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, i, ",NOTREAD", i, ",", i % 2, "\n");
  const std::string csv = files.Write("a.csv", text);
  const std::string path =
      WriteParquet(files, csv, "a.parquet", 30, {"plain", "x:f64", "other:text", "y:i8"});
  auto spec = ParquetSpec(path);
  AddNumeric(&spec, "x");
  spec.mutable_label()->set_column("y");
  const auto wanted = MustLoad(spec);
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  int broken = 0;
  for (size_t at = 0; (at = bytes.find("NOTREAD", at)) != std::string::npos; ++broken) {
    bytes.replace(at - 4, 11, 11, '\xff');  // with its length
  }
  REQUIRE(broken == 100);
  files.Write("a.parquet", bytes);
  const auto found = MustLoad(spec);
  CheckSameBatches(*found, *wanted);
  CHECK(found->fingerprint() == wanted->fingerprint());
  const auto streamed = MustLoad(Streamed(files, spec, 100));
  CHECK(streamed->num_examples(Part::kTraining) == 100);
  spec.mutable_features()->Clear();
  AddCategorical(&spec, "other");
  CHECK_THAT(LoadError(spec), Contains("a.parquet: "));
}

}  // namespace
}  // namespace coxswain::data
