#include "coordinator/cli/generate_command.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/generate/generate.h"
#include "runtime/base/status.h"

namespace coxswain::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kLargest = 9007199254740992.0;  // beyond it a double skips integers

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

absl::StatusOr<int64_t> WholeNumber(const char* flag, double value, double least) {
  if (value >= least && value <= kLargest && value == std::floor(value)) {
    return static_cast<int64_t>(value);
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: wanted a whole number of %.0f to %.0f, found %g", flag, least, kLargest, value));
}

// A line on stderr, where that is a terminal, at most every half second.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (any_) std::fprintf(stderr, "\r\033[K");
  }
  void Show(int64_t rows, int64_t all) {
    if (!shown_ || SecondsSince(last_) < 0.5) return;
    last_ = Clock::now();
    any_ = true;
    std::fprintf(stderr, "\r\033[K%s of %s rows", WithCommas(rows).c_str(),
                 WithCommas(all).c_str());
  }

 private:
  const bool shown_;
  bool any_ = false;
  Clock::time_point last_ = Clock::now();
};

absl::Status CheckOut(const GenerateFlags& flags) {
  if (flags.out == "-") {
    return absl::InvalidArgumentError(
        "--out: wanted a file's name, found '-': data is not generated to the standard output, as "
        "a file beside it tells the truth");
  }
  if (IsStandardStream(flags.out)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: wanted a file's name, found ", flags.out,
                     ", where the output of the command goes: it stays"));
  }
  const OutputKind kind = flags.force ? OutputKind::kForced : OutputKind::kNew;
  for (const std::string& path : {flags.out, generate::TruthPath(flags.out)}) {
    RETURN_IF_ERROR(CheckOutsideSaved({"--out", path}));
    RETURN_IF_ERROR(CheckOutputFile("--out", path, kind, {}));
  }
  return absl::OkStatus();
}

absl::Status Write(const generate::PlantedData& data, const GenerateFlags& flags, int64_t rows) {
  RETURN_IF_ERROR(CheckOut(flags));
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = flags.threads > 0 ? flags.threads : std::max(1, cores);
  const auto pool = env::NewComputePool(threads);
  const auto files = env::NewRealFileSystem();
  std::atomic<bool> interrupted{false};
  InterruptScope interrupts([&] { interrupted = true; });
  const auto start = Clock::now();
  generate::GenerateOptions options;
  options.path = flags.out;
  options.rows = rows;
  options.force = flags.force;
  absl::StatusOr<generate::Generated> generated;
  {
    ProgressLine line(flags.quiet);
    options.progress = [&](int64_t done) {
      line.Show(done, rows);
      return !interrupted;
    };
    generated = generate::Generate(data, options, pool.get(), files.get());
  }
  RETURN_IF_ERROR(generated.status());
  if (flags.quiet) return absl::OkStatus();
  const double seconds = SecondsSince(start);
  std::printf("%s: %s rows, %.1f MB in %.1f s (%s rows/s)\n", flags.out.c_str(),
              WithCommas(rows).c_str(), static_cast<double>(generated->bytes) / 1e6, seconds,
              WithCommas(static_cast<int64_t>(static_cast<double>(rows) / seconds)).c_str());
  std::printf("the truth, better than which no model is: %s (%s)\n",
              data.Summary(generated->truth).c_str(), generated->truth_path.c_str());
  return absl::OkStatus();
}

using Planted = absl::StatusOr<std::unique_ptr<generate::PlantedData>>;

Planted MakeCriteo(const GenerateFlags& flags) {
  generate::CriteoOptions options;
  ASSIGN_OR_RETURN(const int64_t seed, WholeNumber("--seed", flags.seed, 0));
  options.seed = static_cast<uint64_t>(seed);
  options.zipf = flags.zipf;
  ASSIGN_OR_RETURN(options.ids, WholeNumber("--ids", flags.ids, 1));
  return generate::NewPlantedCriteo(options);
}

Planted MakeRatings(const GenerateFlags& flags) {
  generate::RatingsOptions options;
  ASSIGN_OR_RETURN(const int64_t seed, WholeNumber("--seed", flags.seed, 0));
  options.seed = static_cast<uint64_t>(seed);
  options.zipf = flags.zipf;
  ASSIGN_OR_RETURN(options.users, WholeNumber("--users", flags.users, 1));
  ASSIGN_OR_RETURN(options.items, WholeNumber("--items", flags.items, 1));
  options.dim = flags.dim;
  options.noise = flags.noise;
  return generate::NewPlantedRatings(options);
}

int Run(const GenerateFlags& flags, Planted (*make)(const GenerateFlags&)) {
  const auto rows = WholeNumber("--rows", flags.rows, 1);
  if (!rows.ok()) return Complain(AsConfiguration(rows.status()));
  const auto data = make(flags);
  if (!data.ok()) return Complain(AsConfiguration(data.status()));
  const absl::Status status = Write(**data, flags, *rows);
  if (absl::IsCancelled(status)) {
    std::fprintf(stderr, "interrupted; what was begun is removed\n");
    return kExitInterrupted;
  }
  return status.ok() ? kExitDone : Complain(AsUsersMistake(status));
}

}  // namespace

int GenerateCriteo(const GenerateFlags& flags) { return Run(flags, MakeCriteo); }

int GenerateRatings(const GenerateFlags& flags) { return Run(flags, MakeRatings); }

}  // namespace coxswain::cli
