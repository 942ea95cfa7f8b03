// A job whose data is more than 20 times what it may hold, in processes that cannot get the memory
// for all of it.
//
// What bounds them is RLIMIT_DATA, which the kernel enforces on private memory that can be written;
// RLIMIT_AS would count what is only reserved, too, and a cgroup is not to be had everywhere. How
// much the programs take by themselves depends on the machine's cores, so it is measured first,
// with data that fits. And that the bound is one is tried, too: the job with its data in memory
// fails.
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "runtime/base/multiversion.h"
#include "runtime/data/hash.h"
#include "tests/integration/jobs.h"
#include "tests/testing/arrow_specs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;

constexpr int64_t kMemory = 4 << 20;  // dataset.memory
// Each row has as many numbers, of 2 bytes in csv and of 4 in memory.
constexpr int kNumbers = 20, kRowsOfFile = 50'000, kFiles = 42;
// Beyond what the programs take with a file that fits: dataset.memory, and what parsing, threads
// that come later and the index take. All rows take more than twice as much.
constexpr int64_t kMore = 64 << 20;
static_assert(int64_t{kFiles} * kRowsOfFile * (kNumbers * 2 + 2) > 20 * kMemory);
static_assert(int64_t{kFiles} * kRowsOfFile * kNumbers * 4 > 2 * kMore);

std::string WriteNumbers(const DataFiles& files) {
  std::string csv;
  for (int i = 0; i < kNumbers; ++i) absl::StrAppend(&csv, "n", i, ",");
  csv += "y\n";
  for (uint64_t row = 0; row < kRowsOfFile; ++row) {
    const uint64_t bits = Mix64(row);
    for (int i = 0; i < kNumbers; ++i) {
      csv += static_cast<char>('0' + (bits >> (3 * i) & 7));
      csv += ',';
    }
    csv += (bits & 7) > 3 ? "1\n" : "0\n";
  }
  return files.Write("numbers.csv", csv);
}

// A directory of so many copies of this file.
std::string Repeat(const DataFiles& files, const std::string& path, int count) {
  const std::filesystem::path from = path;
  const std::filesystem::path to = files.Path(absl::StrCat("times", count));
  std::filesystem::create_directory(to);
  for (int i = 0; i < count; ++i) {
    std::filesystem::copy_file(from, to / absl::StrCat(i, from.extension().string()));
  }
  return to.string();
}

std::string WriteJob(const DataFiles& files, const std::string& format) {
  std::string job =
      absl::StrCat("name: numbers\ndataset: {path: data, format: ", format,
                   ", streaming: true, memory: 4MiB, cache_directory: cache}\nfeatures:\n");
  for (int i = 0; i < kNumbers; ++i) {
    absl::StrAppend(&job, "  - {name: n", i, ", kind: numeric}\n");
  }
  job += R"(label: {column: y}
model: {kind: mlp, hidden: [4]}
train: {epochs: 1, batch_size: 4096}
)";
  return files.Write("job.yaml", job);
}

// Private memory that can be written, in KiB: what RLIMIT_DATA bounds.
int64_t DataOf(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    absl::string_view text = line;
    int64_t kib = 0;
    if (absl::ConsumePrefix(&text, "VmData:") && absl::ConsumeSuffix(&text, " kB") &&
        absl::SimpleAtoi(text, &kib)) {
      return kib;
    }
  }
  return -1;
}

// In KiB, by "worker", "ps" and "coordinator"; -1 where the system does not tell.
using Sizes = std::map<std::string, int64_t>;

// Of the programs in a run on little data that goes on, after some epochs.
Sizes MeasureSizes(const DataFiles& files, const Strings& train) {
  Daemons daemons(files, 1, 2);
  Strings command = CoxswainCommand(train);
  command.insert(command.end(),
                 {"--cluster", daemons.cluster_file(), "--set", "train.epochs=1000000",
                  "--checkpoint-dir", files.Path("checkpoints"), "--checkpoint-every", "1"});
  Process coordinator(command);
  const bool runs = coordinator.WaitForOutput("examples/s");
  CAPTURE(coordinator.out(), coordinator.err());
  REQUIRE(runs);
  // Threads that come late make the bound no tighter.
  REQUIRE(coordinator.WaitForError("checkpoint 2 "));
  Sizes sizes = {{"coordinator", DataOf(coordinator.pid())}, {"ps", DataOf(daemons.ps(0).pid())}};
  sizes["worker"] = std::max(DataOf(daemons.worker(0).pid()), DataOf(daemons.worker(1).pid()));
  coordinator.Kill(SIGKILL);
  coordinator.Wait();
  return sizes;
}

// In front of a command: it gets at most this much, and no more than kMore above that.
Strings Bounded(int64_t kib) {
  return {"/bin/sh", "-c",
          absl::StrCat("ulimit -c 0 && ulimit -d ", kib + (kMore >> 10), " && exec \"$0\" \"$@\"")};
}

Process::Result TrainBounded(const DataFiles& files, const Sizes& sizes, const Strings& train) {
  Daemons daemons(files, 1, 2, [&](const std::string& job, int) {
    return Daemons::Launch{Bounded(sizes.at(job)), {}};
  });
  Strings command = Bounded(sizes.at("coordinator"));
  for (const std::string& part : CoxswainCommand(train)) command.push_back(part);
  command.insert(command.end(), {"--cluster", daemons.cluster_file()});
  return Run(command, {}, absl::Seconds(200));
}

TEST_CASE("20 times the data that fits is trained by processes that cannot hold it",
          "[streamed][memory]") {
#ifdef COX_SANITIZED
  WARN("skipped: a sanitizer's own memory cannot be told apart");
  return;
#endif
  const std::string format = GENERATE("csv", "parquet");
  if (format == "parquet" && !HasArrow()) return;
  // Its own allocator takes a gibibyte at once, in which it would not be bounded.
  setenv("ARROW_DEFAULT_MEMORY_POOL", "system", 1);
  const DataFiles files;
  std::string file = WriteNumbers(files);
  if (format == "parquet") {
    Strings columns;
    for (int i = 0; i < kNumbers; ++i) columns.push_back(absl::StrCat("n", i, ":i8"));
    columns.push_back("y:i8");
    file = WriteParquet(files, file, "numbers.parquet", 5'000, columns);
  }
  const std::string little = Repeat(files, file, 1), much = Repeat(files, file, kFiles);
  const std::string report = files.Path("report.json");
  const Strings train = {"train", WriteJob(files, format), "--count-visits", "--report", report};
  const auto on = [&](const std::string& path, Strings more) {
    more.insert(more.begin(), train.begin(), train.end());
    more.insert(more.end(), {"--set", "dataset.path=" + path});
    return more;
  };
  const Sizes sizes = MeasureSizes(files, on(little, {}));
  if (sizes.at("coordinator") <= 0) {
    WARN("skipped: the system does not tell how much memory a process has");
    return;
  }
  const auto streamed = TrainBounded(files, sizes, on(much, {}));
  CAPTURE(streamed.out, streamed.err);
  REQUIRE(streamed.code == 0);
  const nlohmann::json json = ReadJson(report);
  CHECK(json["visitation"]["missing"] == 0);
  CHECK(json["visitation"]["repeated"] == 0);
  CHECK(json["visitation"]["examples"] == int64_t{kFiles} * kRowsOfFile);
  // If this went well, nothing would have been bounded above.
  const auto held = TrainBounded(files, sizes, on(much, {"--set", "dataset.streaming=false"}));
  CAPTURE(held.out, held.err);
  CHECK(held.code != 0);
  CHECK_THAT(held.err, Contains("bad_alloc") || Contains("out of memory"));
}

}  // namespace
}  // namespace coxswain
