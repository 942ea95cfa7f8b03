// A data set much larger than the memory that it may take.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/multiversion.h"
#include "runtime/data/hash.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A sanitizer keeps what is freed for a while.
#ifdef COX_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// In bytes; -1 where the system does not tell.
int64_t PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    absl::string_view text = line;
    int64_t kib = 0;
    if (absl::ConsumePrefix(&text, "VmHWM:") && absl::ConsumeSuffix(&text, " kB") &&
        absl::SimpleAtoi(text, &kib)) {
      return kib << 10;
    }
  }
  return -1;
}

// From here on the peak is counted anew. False where the system cannot do that.
bool ForgetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.flush();
  return file.good();
}

TEST_CASE("streaming: 20 times the memory that it may take is read within that memory") {
  DataFiles files;
  constexpr int64_t kMemory = 2 * kMiB;
  int64_t rows = 0;
  {
    std::ofstream out(files.Path("a.csv"));
    out << "id,a,b,y\n";
    for (int64_t bytes = 0; bytes < 20 * kMemory; ++rows) {
      const uint64_t h = Mix64(static_cast<uint64_t>(rows));
      const std::string line =
          absl::StrCat("user", h % 5000, ",", h % 1000, ".25,", h % 77, ",", h % 2, "\n");
      bytes += static_cast<int64_t>(line.size());
      out << line;
    }
  }
  auto spec = CsvSpec(files.Path("a.csv"));
  AddCategorical(&spec, "id")->set_oov_buckets(1);
  AddNumeric(&spec, "a")->set_normalization(proto::FeatureSpec::STANDARD);
  AddNumeric(&spec, "b");
  spec.mutable_label()->set_column("y");
  spec.set_shuffle(true);
  spec.set_example_ids(true);
  spec.mutable_stream()->set_memory(kMemory);
  spec.mutable_stream()->set_cache_directory(files.Path("cache"));
  const bool measured = ForgetPeak();
  const int64_t before = PeakMemory();
  const auto data = MustLoad(spec);
  REQUIRE(data->index() != nullptr);
  REQUIRE(data->num_examples(Part::kTraining) == rows);
  std::vector<bool> seen(static_cast<size_t>(rows));
  int64_t count = 0;
  for (int64_t begin = 0; begin < rows; begin += 512) {
    const auto batch = data->Read({Part::kTraining, 0, begin, std::min(begin + 512, rows)});
    REQUIRE(batch.ok());
    for (const int64_t id : batch->back().values<int64_t>()) {
      count += seen[static_cast<size_t>(id)] ? 0 : 1;
      seen[static_cast<size_t>(id)] = true;
    }
  }
  CHECK(count == rows);
  // The blocks, and what reading a file, parsing a block and the vocabulary take.
  const int64_t grown = PeakMemory() - before;
  INFO("grown by " << grown << " bytes");
  if (measured && before > 0 && !kSanitized) {
    CHECK(grown < kMemory + 8 * kMiB);
  } else {
    WARN("the peak of memory is not known here: only the rows were checked");
  }
}

// As many groups as make their records several times the memory, too.
TEST_CASE("streaming: histories and held-out rows of much more data than fits are within memory") {
  DataFiles files;
  constexpr int64_t kMemory = 2 * kMiB, kRows = 1000000;
  {
    std::ofstream out(files.Path("a.csv"));
    out << "user,item,t\n";
    for (int64_t row = 0; row < kRows; ++row) {
      const uint64_t h = Mix64(static_cast<uint64_t>(row));
      out << absl::StrCat("u", h % 50000, ",item", h / 50000 % 900, ",", h >> 40, "\n");
    }
  }
  auto spec = CsvSpec(files.Path("a.csv"));
  AddCategorical(&spec, "item")->set_oov_buckets(1);
  proto::FeatureSpec* const history = AddCategorical(&spec, "seen");
  history->set_history_of("item");
  history->set_group_by("user");
  history->set_by("t");
  history->set_max_values(10);
  spec.mutable_split()->set_holdout_per("user");
  spec.mutable_split()->set_by("t");
  spec.mutable_split()->set_holdout_last(true);
  spec.set_shuffle(true);
  spec.mutable_stream()->set_memory(kMemory);
  spec.mutable_stream()->set_cache_directory(files.Path("cache"));
  const bool measured = ForgetPeak();
  const int64_t before = PeakMemory();
  const auto data = MustLoad(spec);
  REQUIRE(data->index() != nullptr);
  const int64_t training = data->num_examples(Part::kTraining);
  REQUIRE(training + data->num_examples(Part::kTest) == kRows);
  int64_t full = 0;
  for (int64_t begin = 0; begin < training; begin += 512) {
    const int64_t end = std::min(begin + 512, training);
    const auto batch = data->Read({Part::kTraining, 0, begin, end});
    REQUIRE(batch.ok());
    const absl::Span<const int32_t> offsets = (*batch)[2].values<int32_t>();
    for (int64_t i = 0; i < end - begin; ++i) {
      const auto at = static_cast<size_t>(i);
      full += offsets[at + 1] - offsets[at] == 10 ? 1 : 0;
    }
  }
  CHECK(full > training / 4);  // of 20 rows of each user those behind the first ten
  const int64_t grown = PeakMemory() - before;
  INFO("grown by " << grown << " bytes");
  if (measured && before > 0 && !kSanitized) {
    CHECK(grown < kMemory + 10 * kMiB);
  } else {
    WARN("the peak of memory is not known here: only the rows were checked");
  }
}

}  // namespace
}  // namespace coxswain::data
