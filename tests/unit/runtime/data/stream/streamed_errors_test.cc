// What a user is told where streaming cannot be done, or is no longer possible.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/index_builder.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

std::string Rows(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) absl::StrAppend(&text, i, ",", i % 2, "\n");
  return text;
}

proto::DatasetSpec TwoColumns(const std::string& path) {
  auto spec = CsvSpec(path);
  AddNumeric(&spec, "x");
  spec.mutable_label()->set_column("y");
  return spec;
}

std::string ReadError(const Dataset& data, const Ticket& ticket) {
  const auto batch = data.Read(ticket);
  REQUIRE_FALSE(batch.ok());
  return std::string(batch.status().message());
}

TEST_CASE("streaming: a wrong line is told by file, line and column, whatever its block") {
  DataFiles files;
  const std::string path = files.Write("a.csv", "x,y\n" + Rows(0, 50) + "7,1,9\n" + Rows(51, 60));
  for (const int64_t block : {1, 30, 10000}) {
    CHECK_THAT(LoadError(Streamed(files, TwoColumns(path), block)),
               Contains("a.csv:52:5: wanted 2 fields (x, y), found 3"));
  }
  const std::string open = files.Write("b.csv", "x,y\n" + Rows(0, 50) + "\"7,1\n");
  auto quoted = TwoColumns(open);
  quoted.mutable_csv()->set_quoting(true);
  CHECK_THAT(LoadError(Streamed(files, quoted, 16)),
             Contains("b.csv:52:1: wanted a closing quote"));
}

TEST_CASE("streaming: the line of an example is known in any block") {
  DataFiles files;
  const auto data = MustLoad(Streamed(
      files, TwoColumns(files.Write("a.csv", "x,y\n" + Rows(0, 9) + "\n\n" + Rows(9, 40))), 20));
  CHECK_THAT(*data->PlaceOf({Part::kTraining, 0, 3, 5}), EndsWith("a.csv:5"));
  CHECK_THAT(*data->PlaceOf({Part::kTraining, 0, 30, 31}), EndsWith("a.csv:34"));
}

TEST_CASE("streaming: a file that changes, shrinks or goes is an error that names it") {
  DataFiles files;
  const std::string path = files.Write("a.csv", "x,y\n" + Rows(0, 3000));
  const auto spec = Streamed(files, TwoColumns(path), 100, 1, 4 << 10);
  const auto data = MustLoad(spec);
  const Ticket late{Part::kTraining, 0, 2000, 2010};
  CHECK(data->Read(late).ok());
  const auto size = std::filesystem::file_size(path);
  const Ticket later{Part::kTraining, 0, 2500, 2510};
  SECTION("other bytes") {
    std::string text = "x,y\n" + Rows(0, 3000);
    text[text.find("2503,") + 3] = '9';
    files.Write("a.csv", text);
    CHECK_THAT(ReadError(*data, later), Contains("a.csv: changed since it was indexed: wanted ") &&
                                            Contains("other content"));
    CHECK(data->Read({Part::kTraining, 0, 100, 110}).ok());  // these are as they were
  }
  SECTION("fewer bytes") {
    std::filesystem::resize_file(path, size / 2);
    CHECK_THAT(ReadError(*data, later), Contains(absl::StrCat("wanted ", size, " bytes of ")) &&
                                            Contains(absl::StrCat("found ", size / 2, " bytes")));
  }
  SECTION("it is gone") {
    std::filesystem::remove(path);
    CHECK_THAT(ReadError(*data, later), Contains("a.csv") && Contains("No such file"));
    files.Write("a.csv", "x,y\n" + Rows(0, 3000));
    CHECK(data->Read(later).ok());
  }
  SECTION("another reader finds that it is another one") {
    files.Write("a.csv", "x,y\n" + Rows(1, 3001));
    const auto opened = Dataset::OpenStreamed(spec, data->index(), 1, nullptr);
    CHECK(absl::IsFailedPrecondition(opened.status()));
    CHECK_THAT(std::string(opened.status().message()), Contains("a.csv: changed since"));
  }
}

TEST_CASE("streaming: what cannot be streamed is refused, with the key and what to do") {
  DataFiles files;
  // Columns without names.
  auto spec = CsvSpec(files.Write("a.csv", "a,1,1\na,2,0\nb,3,1\n"));
  spec.mutable_csv()->set_header(false);
  AddCategorical(&spec, "x")->set_column("2");
  spec.mutable_features(0)->set_oov_buckets(1);
  SECTION("it is to be streamed") {
    CHECK_THAT(LoadError(Streamed(files, spec, 10)),
               Contains("dataset.streaming is true") && Contains("dataset.columns"));
  }
  SECTION("it is too large for memory, which decides by itself") {
    spec.mutable_stream()->set_memory(10);
    CHECK_THAT(LoadError(spec), Contains("18 bytes, more than dataset.memory (10 bytes)") &&
                                    Contains("dataset.streaming: false"));
    spec.mutable_stream()->set_mode(proto::StreamOptions::NEVER);
    CHECK(MustLoad(spec)->index() == nullptr);
  }
}

TEST_CASE("streaming: data that fits memory is held there, larger data is streamed") {
  DataFiles files;
  auto spec = TwoColumns(files.Write("a.csv", "x,y\n" + Rows(0, 10000)));
  spec.mutable_stream()->set_cache_directory(files.Path("cache"));
  CHECK(MustLoad(spec)->index() == nullptr);
  spec.mutable_stream()->set_memory(60000);
  CHECK(MustLoad(spec)->index() != nullptr);
}

TEST_CASE("streaming: a vocabulary that does not fit says that hash tables are for this") {
  DataFiles files;
  std::string text = "id,y\n";
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&text, "user-with-a-long-name-", i, ",1\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddCategorical(&spec, "id");
  CHECK_THAT(LoadError(Streamed(files, spec, 1000, 0, 100 << 10)),
             Contains("feature \"id\"") && Contains("vocabulary has") && Contains("id: hash"));
  spec.mutable_features(0)->set_id("hash");
  CHECK(MustLoad(Streamed(files, spec, 1000, 0, 100 << 10))->index() != nullptr);
}

TEST_CASE("streaming: an index that is too large for a message is refused with what would do") {
  DataFiles files;
  const auto spec = CheckSpec(TwoColumns(files.Write("a.csv", "x,y\n" + Rows(0, 2000)))).value();
  IndexOptions options;
  const int64_t bytes = static_cast<int64_t>(BuildIndex(spec, options).value().ByteSizeLong());
  options.most_bytes = bytes;
  CHECK(BuildIndex(spec, options).ok());
  options.most_bytes = bytes - 1;
  const absl::Status status = BuildIndex(spec, options).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Contains("id: hash") && Contains("block_bytes"));
}

TEST_CASE("streaming: blocks and windows that do not fit memory are refused with what would") {
  DataFiles files;
  const auto spec = TwoColumns(files.Write("a.csv", "x,y\n" + Rows(0, 2000)));
  CHECK_THAT(LoadError(Streamed(files, spec, 1000, 50, 64 << 10)),
             Contains("shuffle_window: 50 blocks") && Contains("wanted at most"));
  CHECK_THAT(LoadError(Streamed(files, spec, 100000, 0, 10 << 10)),
             Contains("dataset.block_bytes"));
}

TEST_CASE("streaming: blocks cut elsewhere are another data set, also if there are as many") {
  DataFiles files;
  const auto spec = TwoColumns(files.Write("a.csv", "x,y\n" + Rows(0, 10)));
  const auto five = MustLoad(Streamed(files, spec, 20, 1)),
             six = MustLoad(Streamed(files, spec, 24, 1));
  REQUIRE(five->index()->blocks_size() == 2);
  REQUIRE(six->index()->blocks_size() == 2);
  REQUIRE(five->index()->window() == six->index()->window());
  CHECK(five->fingerprint() != six->fingerprint());
  CHECK(five->fingerprint() == MustLoad(Streamed(files, spec, 20, 1))->fingerprint());
}

TEST_CASE("streaming: an id that training has not is the same error as in memory") {
  DataFiles files;
  std::string text = "c\n";
  for (int i = 0; i < 40; ++i) absl::StrAppend(&text, "v", i, "\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddCategorical(&spec, "c");
  spec.mutable_split()->set_test_fraction(0.3);
  CHECK(LoadError(Streamed(files, spec, 10)) == LoadError(spec));
}

}  // namespace
}  // namespace coxswain::data
