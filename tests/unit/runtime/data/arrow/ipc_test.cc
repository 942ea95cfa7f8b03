// Arrow's own files (IPC, Feather) give the data set that Parquet files of the same rows give.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;

const std::vector<std::string> kTypes = {"n:f32",    "c:text", "d:category", "l:texts",
                                         "t:time_s", "u:u32",  "y:bool"};

std::string Csv(int rows) {
  std::string text = "n,c,d,l,t,u,y\n";
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, i % 7 == 0 ? "" : absl::StrCat(i, ".25"), ",c", i % 9, ",", "d", i % 4,
                    ",", i % 3 == 0 ? "" : absl::StrCat("a|b", i % 5),
                    ",1970-01-01 00:00:", 10 + i % 50, ",", i, ",", i % 2 == 0 ? "true" : "false",
                    "\n");
  }
  return text;
}

proto::DatasetSpec Spec(const std::string& format, const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format(format);
  spec.add_paths(path);
  AddNumeric(&spec, "n");
  AddCategorical(&spec, "c");
  AddCategorical(&spec, "d");
  AddCategorical(&spec, "l")->set_multi_valued(true);
  AddNumeric(&spec, "t");
  AddCategorical(&spec, "u")->set_hash_buckets(50);
  spec.mutable_label()->set_column("y");
  spec.mutable_split()->set_test_fraction(0.2);
  return spec;
}

TEST_CASE("arrow: the same batches as of Parquet, compressed or not", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", Csv(300));
  const auto wanted = MustLoad(Spec("parquet", WriteParquet(files, csv, "a.parquet", 50, kTypes)));
  for (const bool plain : {false, true}) {
    std::vector<std::string> types = kTypes;
    if (plain) types.insert(types.begin(), "plain");
    const auto found = MustLoad(Spec("arrow", WriteParquet(files, csv, "a.arrow", 70, types)));
    for (const Part part : {Part::kTraining, Part::kTest}) {
      CHECK(Bytes(*found, AllOf(*found, part)) == Bytes(*wanted, AllOf(*wanted, part)));
    }
    CHECK(found->trained_rows().hash() == wanted->trained_rows().hash());
  }
}

TEST_CASE("arrow: streamed by batches, as in memory", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", Csv(90));
  CheckSameWhenStreamed(files, Spec("arrow", WriteParquet(files, csv, "a.arrow", 40, kTypes)));
}

TEST_CASE("arrow: what is no whole file, or is another one by now, is an error", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", Csv(900));
  const std::string path = WriteParquet(files, csv, "a.arrow", 100, kTypes);
  const auto size = std::filesystem::file_size(path);
  const auto spec = Spec("arrow", path);
  const auto data = MustLoad(Streamed(files, spec, 1000, 1, 16 << 10));
  SECTION("another one") {
    files.Write("a.arrow", std::string(size, 'x'));
    const auto batch = data->Read({Part::kTraining, 0, 500, 510});
    CHECK_THAT(std::string(batch.status().message()), Contains("a.arrow: changed since"));
  }
  SECTION("cut") {
    for (const auto bytes : {size - 1, size / 2, uintmax_t{20}, uintmax_t{0}}) {
      std::filesystem::resize_file(path, bytes);
      CHECK_THAT(LoadError(spec), Contains("a.arrow: wanted an Arrow IPC file, found"));
    }
  }
}

TEST_CASE("arrow: files that differ only in a dictionary are different data", "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  // The same numbers in all batches, for other texts of the same lengths.
  std::string other = Csv(300);
  for (size_t at = 0; (at = other.find(",d", at)) != std::string::npos; ++at) {
    if (at + 2 < other.size() && other[at + 2] >= '0' && other[at + 2] <= '9') other[at + 1] = 'e';
  }
  std::vector<std::string> types = kTypes;
  types.insert(types.begin(), "plain");
  const std::string first =
      WriteParquet(files, files.Write("a.csv", Csv(300)), "a.arrow", 100, types);
  const std::string second =
      WriteParquet(files, files.Write("b.csv", other), "b.arrow", 100, types);
  REQUIRE(std::filesystem::file_size(first) == std::filesystem::file_size(second));
  const auto a = MustLoad(Spec("arrow", first)), b = MustLoad(Spec("arrow", second));
  CHECK(a->fingerprint() != b->fingerprint());
  const auto data = MustLoad(Streamed(files, Spec("arrow", first), 1000, 1, 64 << 10));
  REQUIRE(data->Read({Part::kTraining, 0, 0, 10}).ok());
  std::filesystem::rename(second, first);
  const auto batch = data->Read({Part::kTraining, 0, 200, 210});
  CHECK(absl::IsFailedPrecondition(batch.status()));
  CHECK_THAT(std::string(batch.status().message()), Contains("a.arrow: changed since"));
}

TEST_CASE("arrow: bytes that are changed anywhere end in an error or in data, never in a crash",
          "[arrow]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", Csv(200));
  for (const bool plain : {false, true}) {
    std::vector<std::string> types = kTypes;
    if (plain) types.insert(types.begin(), "plain");
    const std::string path = WriteParquet(files, csv, "a.arrow", 60, types);
    const Process::Result result =
        Run({ArrowProgram("load_columns"), "mutate", path, "300"}, {}, absl::Seconds(120));
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.out, Contains(" loaded, ") && !Contains(" 0 errors"));
  }
}

}  // namespace
}  // namespace coxswain::data
