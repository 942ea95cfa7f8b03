// Held-out rows of each group in data that is streamed: the parts are those of the data in memory.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/held_out_rows.h"
#include "runtime/data/stream/index_file.h"
#include "tests/testing/changed_files.h"
#include "tests/testing/same_when_streamed.h"
#include "tests/testing/tiny_disk.h"
#include "tests/testing/zstd_bytes.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using proto::FeatureSpec;

// Users of 1 to about 20 rows, whose times are in no order, and not all different.
std::string Csv(int from, int to, int users = 17) {
  std::string csv = "user,item,t,y\n";
  for (int i = from; i < to; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    const uint64_t user = h % 5 == 0 ? static_cast<uint64_t>(i) : h / 7 % users;
    absl::StrAppend(&csv, "u", user, ",i", h % 30, ",", h / 31 % 40, ",", h % 2, "\n");
  }
  return csv;
}

proto::DatasetSpec Spec(const std::string& path) {
  auto spec = CsvSpec(path);
  AddCategorical(&spec, "item")->set_oov_buckets(1);
  AddCategorical(&spec, "user")->set_hash_buckets(50);
  spec.mutable_label()->set_column("y");
  spec.mutable_split()->set_holdout_per("user");
  return spec;
}

void ByTime(proto::DatasetSpec* spec, double validation, double test = 0) {
  spec->mutable_split()->set_by("t");
  spec->mutable_split()->set_holdout_last(test == 0);
  spec->mutable_split()->set_validation_fraction(validation);
  if (test > 0) spec->mutable_split()->set_test_fraction(test);
}

TEST_CASE("held out, streamed: a row of each group that is drawn") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 130)));
  SECTION("of groups with two rows") {}
  SECTION("of groups with five rows, and drawn validation rows") {
    spec.mutable_split()->set_holdout_min(5);
    spec.mutable_split()->set_validation_fraction(0.3);
  }
  SECTION("of no group: none is large enough") { spec.mutable_split()->set_holdout_min(1000); }
  SECTION("of one group: all rows") { spec.set_paths(0, files.Write("a.csv", Csv(0, 60, 1))); }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("held out, streamed: the last row of each group by time") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 130)));
  SECTION("and nothing else") { ByTime(&spec, 0); }
  SECTION("and shares of what is left, by time") { ByTime(&spec, 0.2); }
  SECTION("where times are the same the last in the files") {
    std::string csv = Csv(0, 60);
    for (int i = 0; i < 60; ++i) absl::StrAppend(&csv, "u", i % 5, ",i", i % 7, ",-0,1\n");
    spec.set_paths(0, files.Write("a.csv", csv + "u1,i1,0,1\n"));
    ByTime(&spec, 0.25);
  }
  SECTION("drawn, and shares by time") {
    ByTime(&spec, 0.2);
    spec.mutable_split()->set_holdout_last(false);
  }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("held out, streamed: another row of each group for validation") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 130)));
  spec.mutable_split()->set_holdout_validation(true);
  SECTION("that is drawn") {}
  SECTION("that is drawn, of groups with five rows") { spec.mutable_split()->set_holdout_min(5); }
  SECTION("the one before the last by time") { ByTime(&spec, 0); }
  SECTION("of one group") {
    spec.set_paths(0, files.Write("a.csv", Csv(0, 60, 1)));
    ByTime(&spec, 0);
  }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("held out, streamed: several files, packed ones and empty ones among them") {
  const DataFiles files;
  auto spec = Spec(files.Write("empty.csv", "user,item,t,y\n"));
  spec.add_paths(files.Write("a.csv", Csv(0, 40)));
  spec.add_paths(files.WriteGzip("b.csv.gz", Csv(40, 90)));
  spec.add_paths(files.Write("c.csv", "user,item,t,y\n"));
  spec.add_paths(files.Write("d.csv.zst", ZstdBytes(Csv(90, 120))));
  spec.add_paths(files.Write("e.csv", Csv(0, 20)));
  ByTime(&spec, 0.2);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("held out, streamed: a group's name may be quoted, or of a joined table") {
  const DataFiles files;
  std::string csv = "user,item,t,y\n", users = "user,city\n";
  for (int i = 0; i < 80; ++i) {
    absl::StrAppend(&csv, "\"u,", Mix64(static_cast<uint64_t>(i)) % 20, "\",i", i % 9, ",", i % 7,
                    ",1\n");
  }
  for (int i = 0; i < 15; ++i) absl::StrAppend(&users, "\"u,", i, "\",c", i % 4, "\n");
  auto spec = Spec(files.Write("a.csv", csv));
  spec.mutable_csv()->set_quoting(true);
  SECTION("quoted") {}
  SECTION("joined") {
    proto::JoinSpec* const join = spec.add_joins();
    join->set_path(files.Write("users.csv", users));
    join->mutable_csv()->set_header(true);
    join->mutable_csv()->set_quoting(true);
    join->set_left_on("user");
    spec.mutable_split()->set_holdout_per("city");
  }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("held out, streamed: JSON lines, whose groups are numbers and texts") {
  const DataFiles files;
  std::string text;
  for (uint64_t i = 0; i < 90; ++i) {
    absl::StrAppend(&text,
                    "{\"u\": ", i % 3 == 0 ? absl::StrCat("\"", i % 9, "\"") : absl::StrCat(i % 9),
                    ", \"at\": {\"t\": ", Mix64(i) % 50, "}}\n");
  }
  proto::DatasetSpec spec;
  spec.set_format("jsonl");
  spec.add_paths(files.Write("a.jsonl", text));
  AddCategorical(&spec, "u")->set_oov_buckets(1);
  spec.mutable_split()->set_holdout_per("u");
  spec.mutable_split()->set_holdout_last(true);
  spec.mutable_split()->set_by("at.t");
  CheckSameWhenStreamed(files, spec);
}

// Groups that do not fit into memory, by far.
TEST_CASE("held out, streamed: in little memory the groups are sorted in files") {
  const DataFiles files;
  const auto path = files.Write("a.csv", Csv(0, 60000, 9000));
  for (const double validation : {0.0, 0.1}) {
    auto spec = Spec(path);
    spec.mutable_features(0)->set_hash_buckets(40);
    spec.mutable_features(0)->clear_oov_buckets();
    ByTime(&spec, validation);
    const auto wanted = MustLoad(spec);
    spec = Streamed(files, spec, 900, 1, 40000);
    const auto found = MustLoad(spec);
    for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
      REQUIRE(found->num_examples(part) == wanted->num_examples(part));
      CHECK(Bytes(*found, AllOf(*found, part)) == Bytes(*wanted, AllOf(*wanted, part)));
    }
  }
}

TEST_CASE("held out, streamed: rows that a model was trained on keep their parts") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 60)));
  spec.set_seed(11);
  SECTION("drawn") { spec.mutable_split()->set_validation_fraction(0.2); }
  SECTION("the last ones, and shares by time") { ByTime(&spec, 0.2); }
  SECTION("the last ones, and those before them") {
    ByTime(&spec, 0);
    spec.mutable_split()->set_holdout_validation(true);
  }
  *spec.mutable_trained() = MustLoad(spec)->trained_rows();
  CheckSameWhenStreamed(files, spec);
  spec.set_paths(0, files.Write("b.csv", Csv(0, 110)));
  CHECK(MustLoad(Streamed(files, spec, 100))->since_training() == SinceTraining::kGrown);
  CheckSameWhenStreamed(files, spec);
  spec.set_paths(0, files.Write("c.csv", Csv(1, 100)));
  CHECK(MustLoad(Streamed(files, spec, 100))->since_training() == SinceTraining::kOtherRows);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("held out, streamed: workers that die while the index is made only cost time") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 600)));
  spec.add_paths(files.WriteGzip("b.csv.gz", Csv(0, 700)));
  ByTime(&spec, 0.2);
  spec = CheckSpec(Streamed(files, spec, 400)).value();
  const std::string wanted = BuildIndex(spec).value().ShortDebugString();
  for (int64_t at = 0; at < 48; at += 3) {
    INFO("dies at request " << at);
    PlayedReaders readers(2, [&](int, int64_t asked, const proto::IndexPart&) {
      return asked == at ? PlayedReaders::Lost() : absl::OkStatus();
    });
    CHECK(IndexByWorkers(spec, 800, &readers).value().ShortDebugString() == wanted);
  }
  PlayedReaders none(2,
                     [](int, int64_t, const proto::IndexPart&) { return PlayedReaders::Lost(); });
  CHECK(IndexByWorkers(spec, 800, &none).value().ShortDebugString() == wanted);
}

TEST_CASE("held out, streamed: a file that changes between the passes is an error that names it") {
  const DataFiles files;
  CheckChangesAreTold(files, Csv(0, 600), "u1,i1,1,0\n", 20,
                      [&](const std::string& path) { return Streamed(files, Spec(path), 400); });
}

TEST_CASE("held out, streamed: a column that is not there, a time that is none: as in memory") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 40) + "u1,i1,soon,1\n"));
  ByTime(&spec, 0);
  CHECK_THAT(LoadError(spec), Contains("a.csv:42:7: field 3 (\"t\")"));
  CHECK(LoadError(Streamed(files, spec, 100)) == LoadError(spec));
  spec = Spec(files.Write("a.csv", Csv(0, 40)));
  spec.mutable_split()->set_holdout_per("usr");
  CHECK(LoadError(Streamed(files, spec, 100)) == LoadError(spec));
}

TEST_CASE("held out, streamed: a disk that is full while groups are sorted is told") {
  const DataFiles files;
  const TinyDisk disk(files.Path("cache"), "64k");
  if (!disk.mounted()) return;
  const auto spec = Spec(files.Write("a.csv", Csv(0, 60000, 9000)));
  CHECK_THAT(LoadError(Streamed(files, spec, 900, 1, 40000)), Contains("No space left"));
}

TEST_CASE("held out, streamed: an index with others is refused") {
  const DataFiles files;
  const auto spec = Streamed(files, Spec(files.Write("a.csv", Csv(0, 60))), 100, 1);
  auto index = std::make_shared<proto::DatasetIndex>(BuildIndex(CheckSpec(spec).value()).value());
  REQUIRE(Dataset::OpenStreamed(spec, index, 0, nullptr).ok());
  for (proto::IndexedBlock& block : *index->mutable_blocks()) block.set_held_out("\x80\x80");
  const auto data = Dataset::OpenStreamed(spec, index, 0, nullptr);
  REQUIRE(data.ok());
  CHECK(absl::IsDataLoss((*data)->Read(AllOf(**data, Part::kTest)).status()));
}

TEST_CASE("rows as bytes: any come back, and other bytes are no rows") {
  const std::vector<int64_t> rows = {5, 6, 7, 134, 262, 16777216, int64_t{1} << 50};
  std::vector<int64_t> back;
  REQUIRE(DecodeRows(EncodeRows(rows, 5), 5, int64_t{1} << 51, &back));
  CHECK(back == rows);
  CHECK_FALSE(DecodeRows(EncodeRows(rows, 5), 5, int64_t{1} << 50, &back));
  CHECK(EncodeRows({}, 5).empty());
  for (const std::string& bad : {std::string("\x80"), std::string(12, '\xff')}) {
    CHECK_FALSE(DecodeRows(bad, 0, int64_t{1} << 51, &back));
  }
}

}  // namespace
}  // namespace coxswain::data
