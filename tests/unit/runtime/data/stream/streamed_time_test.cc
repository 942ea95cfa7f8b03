// A split by a column that is streamed: the parts are those of the data in memory.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/criteo.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/index_file.h"
#include "tests/testing/changed_files.h"
#include "tests/testing/same_when_streamed.h"
#include "tests/testing/tf_records.h"
#include "tests/testing/zstd_bytes.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using proto::FeatureSpec;
using TimeOf = std::function<std::string(uint64_t row)>;

std::string Csv(int from, int to, const TimeOf& time, const char* header = "x,c,t,y\n") {
  std::string csv = header;
  for (int i = from; i < to; ++i) {
    const auto row = static_cast<uint64_t>(i);
    const uint64_t h = Mix64(row);
    absl::StrAppend(&csv, h % 100, ",c", h % static_cast<uint64_t>(i + 1), ",", time(row), ",",
                    h % 2, "\n");
  }
  return csv;
}

proto::DatasetSpec TimedSpec(const std::string& path) {
  auto spec = CsvSpec(path);
  AddNumeric(&spec, "x")->set_normalization(FeatureSpec::MIN_MAX);
  AddCategorical(&spec, "c")->set_oov_buckets(1);
  spec.mutable_label()->set_column("y");
  spec.mutable_split()->set_by("t");
  spec.mutable_split()->set_validation_fraction(0.2);
  spec.mutable_split()->set_test_fraction(0.1);
  return spec;
}

std::string Drawn(uint64_t row) { return absl::StrCat(1700000000 + Mix64(row) % 1000000); }
std::string Ties(uint64_t row) { return absl::StrCat(Mix64(row) % 3); }
std::string Equal(uint64_t) { return "7"; }
std::string Sorted(uint64_t row) { return absl::StrCat(row / 2); }
std::string Falling(uint64_t row) { return absl::StrCat(-0.5 * static_cast<double>(row)); }
std::string Odd(uint64_t row) {
  const char* const odd[] = {"0", "-0", "1e308", "-1e308", "-1.5", "5e-324", "-5e-324", "3"};
  return odd[Mix64(row) % 8];
}
std::string Date(uint64_t row) {
  const uint64_t h = Mix64(row);
  const std::string day = absl::StrCat("2024-0", 1 + h % 9, "-1", h % 7);
  return row % 3 == 0 ? day : row % 3 == 1 ? day + " 12:30:00" : day + "T12:30:00+02:00";
}

TEST_CASE("streamed by time: parts that begin at values are those in memory") {
  const DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv", Csv(0, 150, Drawn)));
  spec.mutable_split()->clear_validation_fraction();
  spec.mutable_split()->clear_test_fraction();
  const double at = 1700000000 + static_cast<double>(Mix64(70) % 1000000);
  SECTION("test and validation") {
    spec.mutable_split()->set_validation_from(at - 200000);
    spec.mutable_split()->set_test_from(at);  // a row's value
  }
  SECTION("test alone") { spec.mutable_split()->set_test_from(at); }
  SECTION("validation alone") { spec.mutable_split()->set_validation_from(at); }
  SECTION("behind all rows") { spec.mutable_split()->set_test_from(2e9); }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("streamed by time: csv, whatever the times are and however they lie") {
  const DataFiles files;
  for (const TimeOf& time : {TimeOf(Drawn), TimeOf(Ties), TimeOf(Equal), TimeOf(Odd), TimeOf(Date),
                             TimeOf(Sorted), TimeOf(Falling)}) {
    CheckSameWhenStreamed(files, TimedSpec(files.Write("a.csv", Csv(0, 130, time))));
  }
}

TEST_CASE("streamed by time: shares of nothing, and of nearly all") {
  const DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv", Csv(0, 40, Ties)));
  for (const auto& [validation, test] :
       {std::pair(0.0, 0.3), std::pair(0.3, 0.0), std::pair(0.001, 0.001), std::pair(0.49, 0.49)}) {
    spec.mutable_split()->set_validation_fraction(validation);
    spec.mutable_split()->set_test_fraction(test);
    CheckSameWhenStreamed(files, spec);
  }
}

TEST_CASE("streamed by time: several files, packed ones and empty ones among them") {
  const DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv", Csv(0, 50, Drawn)));
  spec.add_paths(files.WriteGzip("b.csv.gz", Csv(50, 90, Drawn)));
  spec.add_paths(files.Write("c.csv", "x,c,t,y\n"));
  spec.add_paths(files.Write("d.csv.zst", ZstdBytes(Csv(90, 120, Drawn))));
  spec.add_paths(files.Write("e.csv", Csv(0, 20, Drawn)));
  SECTION("all parts by time") {}
  SECTION("a test file of its own, whose times do not count") {
    spec.mutable_split()->clear_test_fraction();
    spec.mutable_split()->add_test_paths(files.Write("t.csv", Csv(200, 230, Sorted)));
  }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("streamed by time: the column may be quoted, a feature, or one of a joined table") {
  const DataFiles files;
  const auto quoted = [](uint64_t row) { return absl::StrCat("\"", Ties(row), "\""); };
  auto spec = TimedSpec(files.Write("a.csv", Csv(0, 90, quoted)));
  spec.mutable_csv()->set_quoting(true);
  SECTION("quoted, and a feature") { AddNumeric(&spec, "t"); }
  SECTION("joined") {
    spec.set_paths(0, files.Write("b.csv", Csv(0, 90, Ties, "x,c,k,y\n")));
    proto::JoinSpec* const join = spec.add_joins();
    join->set_path(files.Write("times.csv", "k,t,more\n0,2024-01-03,a\n1,2024-01-01,b\n2,7,c\n"));
    join->mutable_csv()->set_header(true);
    join->set_left_on("k");
    AddCategorical(&spec, "more");
  }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("streamed by time: every format of rows") {
  const DataFiles files;
  proto::DatasetSpec spec;
  std::string text;
  SECTION("JSON lines, with numbers, texts and dates as times") {
    for (uint64_t i = 0; i < 80; ++i) {
      absl::StrAppend(&text, "{\"u\": \"u", i % 9, "\", \"at\": {\"t\": ",
                      i % 3 == 0 ? absl::StrCat("\"", Date(i), "\"") : Drawn(i), "}}\n");
    }
    spec.set_format("jsonl");
    spec.add_paths(files.Write("a.jsonl", text));
    AddCategorical(&spec, "u");
    spec.mutable_split()->set_by("at.t");
  }
  SECTION("TFRecord") {
    for (uint64_t i = 0; i < 80; ++i) {
      text += ExampleBuilder()
                  .Int("u", {static_cast<int64_t>(i % 9)})
                  .Float("t", {static_cast<float>(Mix64(i) % 20) - 10})
                  .Record();
    }
    spec.set_format("tfrecord");
    spec.add_paths(files.Write("a.tfrecord", text));
    AddCategorical(&spec, "u");
    spec.mutable_split()->set_by("t");
  }
  SECTION("criteo's lines") {
    for (uint64_t i = 0; i < 60; ++i) {
      absl::StrAppend(&text, i % 2);
      for (int n = 0; n < kCriteoNumbers; ++n) absl::StrAppend(&text, "\t", Mix64(i) % 11);
      for (int w = 0; w < kCriteoWords; ++w) absl::StrAppend(&text, "\t", absl::Hex(i % 10));
      text += "\n";
    }
    spec.set_format(kCriteoFormat);
    spec.add_paths(files.Write("a.tsv", text));
    spec.mutable_split()->set_by("I2");
  }
  SECTION("libffm") {
    for (uint64_t i = 0; i < 80; ++i) {
      absl::StrAppend(&text, i % 2, " 0:", i % 9, ":1 2:40:", Mix64(i) % 30, "\n");
    }
    spec.set_format("libffm");
    spec.add_paths(files.Write("a.ffm", text));
    AddCategorical(&spec, "0");
    spec.mutable_split()->set_by("0");
  }
  SECTION("labelled lines, whose texts are times") {
    for (uint64_t i = 0; i < 40; ++i) absl::StrAppend(&text, Drawn(i), "\n");
    spec.set_format("labelled_lines");
    spec.add_paths(files.Write("neg.txt", text));
    spec.add_paths(files.Write("pos.txt", text));
    AddCategorical(&spec, "text")->set_oov_buckets(1);
    spec.mutable_split()->set_by("text");
  }
  spec.mutable_split()->set_validation_fraction(0.2);
  spec.mutable_split()->set_test_fraction(0.2);
  for (FeatureSpec& feature : *spec.mutable_features()) {
    if (feature.hash_buckets() == 0 && feature.id().empty()) feature.set_oov_buckets(1);
    if (feature.kind() == FeatureSpec::NUMERIC) feature.clear_oov_buckets();
  }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("streamed by time: in little memory values are counted in several passes") {
  const DataFiles files;
  const auto spec = TimedSpec(files.Write("a.csv", Csv(0, 6000, Drawn)));
  auto whole = spec;
  whole.mutable_stream()->set_mode(proto::StreamOptions::NEVER);
  auto streamed = spec;
  streamed.mutable_features(1)->set_hash_buckets(50);
  streamed.mutable_features(1)->clear_oov_buckets();
  *whole.mutable_features() = streamed.features();
  streamed = Streamed(files, streamed, 300, 1, 4000);
  CheckSameIndex(streamed);
  const auto wanted = MustLoad(whole), found = MustLoad(streamed);
  for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
    CHECK(Bytes(*found, AllOf(*found, part)) == Bytes(*wanted, AllOf(*wanted, part)));
  }
}

TEST_CASE("streamed by time: rows that a model was trained on keep their parts") {
  const DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv", Csv(0, 60, Drawn)));
  spec.set_seed(11);
  *spec.mutable_trained() = MustLoad(spec)->trained_rows();
  CheckSameWhenStreamed(files, spec);
  spec.set_paths(0, files.Write("b.csv", Csv(0, 100, Drawn)));
  CHECK(MustLoad(Streamed(files, spec, 100))->since_training() == SinceTraining::kGrown);
  CheckSameWhenStreamed(files, spec);
  SECTION("with the model's vocabularies and statistics") {
    const auto model = MustLoad(spec);
    *spec.mutable_learned() = {model->learned().begin(), model->learned().end()};
    spec.mutable_learned(1)->set_vocabulary_file(files.Write("words", "c0\nc1\nc2\n"));
    spec.mutable_learned(1)->set_vocabulary_size(3);
    spec.mutable_learned(1)->set_vocabulary_hash(HashText("c0\nc1\nc2\n"));
    CheckSameWhenStreamed(files, spec);
  }
  SECTION("not if other rows came in their places") {
    spec.set_paths(0, files.Write("c.csv", Csv(1, 100, Drawn)));
    CHECK(MustLoad(Streamed(files, spec, 100))->since_training() == SinceTraining::kOtherRows);
    CheckSameWhenStreamed(files, spec);
  }
  SECTION("not if the split is another") {
    spec.mutable_split()->set_test_fraction(0.3);
    CHECK(MustLoad(Streamed(files, spec, 100))->since_training() == SinceTraining::kOtherDraw);
    CheckSameWhenStreamed(files, spec);
  }
}

TEST_CASE("streamed by time: what is no time is told as in memory, by whoever reads it") {
  const DataFiles files;
  for (const char* bad : {"", "31/05/2024", "nan", "inf", "-infinity", "1e999", "infinite-past"}) {
    auto spec = TimedSpec(files.Write("a.csv", Csv(0, 40, Drawn)));
    spec.add_paths(files.Write("b.csv", Csv(0, 9, Drawn) + absl::StrCat("1,c,", bad, ",1\n")));
    const std::string wanted = LoadError(spec);
    CHECK_THAT(wanted, Contains("b.csv:11:5: field 3 (\"t\"): wanted a number, or a date"));
    const auto checked = CheckSpec(Streamed(files, spec, 100)).value();
    CHECK(LoadError(checked) == wanted);
    PlayedReaders readers(2);
    CHECK(IndexByWorkers(checked, 300, &readers).status().message() == wanted);
  }
  auto spec = TimedSpec(files.Write("a.csv", Csv(0, 40, Drawn)));
  spec.mutable_split()->set_by("when");
  CHECK_THAT(LoadError(Streamed(files, spec, 100)), Contains("a.csv: wanted a column \"when\""));
  spec.set_format("libsvm");
  spec.clear_features();
  spec.clear_label();
  spec.set_paths(0, files.Write("a.svm", "1 3:1\n0 4:1\n"));
  CHECK(LoadError(Streamed(files, spec, 100)) == LoadError(spec));
}

TEST_CASE("streamed by time: workers that die while values are counted only cost time") {
  const DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv", Csv(0, 600, Drawn)));
  spec.add_paths(files.WriteGzip("b.csv.gz", Csv(0, 700, Drawn)));
  spec = CheckSpec(Streamed(files, spec, 400)).value();
  const std::string wanted = BuildIndex(spec).value().ShortDebugString();
  for (int64_t at = 0; at < 48; at += 3) {
    INFO("dies at request " << at);
    PlayedReaders readers(2, [&](int, int64_t asked, const proto::IndexPart&) {
      return asked == at ? PlayedReaders::Lost() : absl::OkStatus();
    });
    CHECK(IndexByWorkers(spec, 800, &readers).value().ShortDebugString() == wanted);
    CHECK(readers.asked() > at);
  }
  PlayedReaders none(2,
                     [](int, int64_t, const proto::IndexPart&) { return PlayedReaders::Lost(); });
  CHECK(IndexByWorkers(spec, 800, &none).value().ShortDebugString() == wanted);
}

TEST_CASE("streamed by time: a file that changes between the passes is an error that names it") {
  const DataFiles files;
  CheckChangesAreTold(files, Csv(0, 600, Drawn), "1,c1,1,0\n", 40, [&](const std::string& path) {
    return Streamed(files, TimedSpec(path), 400);
  });
}

TEST_CASE("streamed by time: an index is kept for its column and shares alone") {
  const DataFiles files;
  const auto disk = env::NewRealFileSystem();
  auto spec = Streamed(files, TimedSpec(files.Write("a.csv", Csv(0, 60, Drawn))), 100);
  const auto path = [&] { return IndexPath(CheckSpec(spec).value()); };
  const std::string first = path();
  const auto index = FindOrMakeIndex(CheckSpec(spec).value(), disk.get()).value();
  CHECK(index->has_cuts());
  CHECK(CheckIndex(CheckSpec(spec).value(), *index, true).ok());
  SECTION("another column") { spec.mutable_split()->set_by("x"); }
  SECTION("another share") { spec.mutable_split()->set_test_fraction(0.11); }
  SECTION("none") { spec.mutable_split()->clear_by(); }
  CHECK(path() != first);
  const auto checked = CheckSpec(spec).value();
  CHECK(absl::IsFailedPrecondition(CheckIndex(checked, *index, true)));
  CHECK(FindOrMakeIndex(checked, disk.get()).value()->key() != index->key());
}

TEST_CASE("streamed by time: an index without its cuts, or with others, is refused") {
  const DataFiles files;
  const auto spec = Streamed(files, TimedSpec(files.Write("a.csv", Csv(0, 60, Drawn))), 100, 1);
  auto index = std::make_shared<proto::DatasetIndex>(BuildIndex(CheckSpec(spec).value()).value());
  const auto open = [&] { return Dataset::OpenStreamed(spec, index, 0, nullptr); };
  REQUIRE(open().ok());
  SECTION("without them") {
    index->clear_cuts();
    CHECK_THAT(std::string(open().status().message()),
               EndsWith("the index is not of this data set"));
  }
  SECTION("with others") {
    index->mutable_cuts()->mutable_all()->mutable_test()->set_value(0);
    const auto data = open();
    REQUIRE(data.ok());
    const auto batch = (*data)->Read(AllOf(**data, Part::kTest));
    CHECK(absl::IsDataLoss(batch.status()));
  }
}

}  // namespace
}  // namespace coxswain::data
