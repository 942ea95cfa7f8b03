// Records that are sorted in more memory and in less.
#include "runtime/data/stream/external_sort.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/hash.h"
#include "tests/testing/data_files.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;

proto::StreamOptions In(const DataFiles& files, int64_t cache_bytes = 0) {
  proto::StreamOptions options;
  options.set_cache_directory(files.Path("cache"));
  options.set_cache_bytes(cache_bytes);
  return options;
}

absl::Status SortNumbers(ScratchSpace* space, int64_t count, int64_t memory,
                         std::vector<uint64_t>* sorted) {
  ExternalSort<uint64_t> sort(space, memory);
  for (int64_t i = 0; i < count; ++i) RETURN_IF_ERROR(sort.Add(Mix64(static_cast<uint64_t>(i))));
  RETURN_IF_ERROR(sort.Sort());
  for (int pass = 0; pass < 2; ++pass) {
    sorted->clear();
    auto reader = sort.Read();
    uint64_t number = 0;
    while (true) {
      ASSIGN_OR_RETURN(const bool more, reader.Next(&number));
      if (!more) break;
      sorted->push_back(number);
    }
  }
  return absl::OkStatus();
}

TEST_CASE("external sort: any number of records, in memory or not, and twice the same") {
  const DataFiles files;
  ScratchSpace space(In(files));
  for (const int64_t count : {0, 1, 15, 16, 17, 1000, 100000}) {
    std::vector<uint64_t> wanted;
    for (int64_t i = 0; i < count; ++i) wanted.push_back(Mix64(static_cast<uint64_t>(i)));
    std::sort(wanted.begin(), wanted.end());
    for (const int64_t memory : {1, 8000, 1 << 20}) {
      INFO(count << " in " << memory << " bytes");
      std::vector<uint64_t> sorted;
      REQUIRE(SortNumbers(&space, count, memory, &sorted).ok());
      CHECK(sorted == wanted);
    }
  }
  // Scratch files have no names.
  CHECK(std::filesystem::is_empty(files.Path("cache/unpacked")));
}

TEST_CASE("external sort: what fits into memory needs no directory; what does not says so") {
  const DataFiles files;
  proto::StreamOptions nowhere;
  nowhere.set_cache_directory(files.Write("file", "no directory") + "/cache");
  ScratchSpace space(nowhere);
  std::vector<uint64_t> sorted;
  CHECK(SortNumbers(&space, 1000, 1 << 20, &sorted).ok());
  CHECK(sorted.size() == 1000);
  CHECK_FALSE(SortNumbers(&space, 100000, 1 << 10, &sorted).ok());
}

TEST_CASE("external sort: scratch files take no more than dataset.cache_size") {
  const DataFiles files;
  ScratchSpace space(In(files, 600000));
  std::vector<uint64_t> sorted;
  const absl::Status full = SortNumbers(&space, 200000, 1 << 10, &sorted);
  CHECK(absl::IsResourceExhausted(full));
  CHECK_THAT(std::string(full.message()), Contains("wanted a larger dataset.cache_size"));
  // What it took is there again.
  CHECK(SortNumbers(&space, 50000, 1 << 10, &sorted).ok());
}

TEST_CASE("external sort: a full disk is told") {
  const DataFiles files;
  const TinyDisk disk(files.Path("cache"), "64k");
  if (!disk.mounted()) return;
  ScratchSpace space(In(files));
  std::vector<uint64_t> sorted;
  const absl::Status full = SortNumbers(&space, 200000, 1 << 10, &sorted);
  CHECK(absl::IsResourceExhausted(full));
  CHECK_THAT(std::string(full.message()), Contains("No space left"));
}

}  // namespace
}  // namespace coxswain::data
