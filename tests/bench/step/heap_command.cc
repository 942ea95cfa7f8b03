#include "tests/bench/step/heap_command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "tests/bench/step/measure.h"

namespace coxswain {
namespace {

constexpr int64_t kTimes = 4;
// Loops that many threads share take one allocation for each piece of about a hundred rows. A row
// that took one of its own would cost 1.
constexpr double kMostPerId = 0.05;
constexpr double kSlack = 16;  // a step in which more closures overlap, a pool that grows

int64_t Ids(const StepShape& shape) {
  int64_t ids = 0;
  for (const TableShape& table : shape.tables) ids += shape.batch * table.slots;
  return ids;
}

void PrintLine(const Figures& f) {
  std::fputs(absl::StrFormat("%-10s %8d %8d %12.1f %12.1f %14.1f\n", f.shape.name, f.shape.batch,
                             Ids(f.shape), f.heap_allocations, f.heap_bytes / 1024,
                             (f.bytes_to_ps + f.bytes_from_ps) / 1024)
                 .c_str(),
             stdout);
  std::fflush(stdout);
}

}  // namespace

CLI::App* AddHeapCommand(CLI::App* app, HeapFlags* flags) {
  CLI::App* command = app->add_subcommand(
      "heap", "Counts what a step asks of the heap, in one process, with more and more rows");
  command->add_option("SHAPE", flags->shapes, "which");
  command->add_option("--seconds", flags->seconds, "of each line")->check(CLI::PositiveNumber);
  return command;
}

absl::Status RunHeap(const HeapFlags& flags) {
  std::fputs(
      "                                    operator new      KB of      KB of frames\n"
      "shape      examples      ids        a step         a step   with PS a step\n",
      stdout);
  const ClusterShape in_process{true, 1, 1};
  MeasureOptions options;
  options.seconds = flags.seconds;
  for (const std::string& name : flags.shapes) {
    ASSIGN_OR_RETURN(StepShape shape, FindStepShape(name));
    ASSIGN_OR_RETURN(const Figures once, MeasureStep(shape, in_process, options));
    PrintLine(once);
    shape.batch *= kTimes;
    ASSIGN_OR_RETURN(const Figures more, MeasureStep(shape, in_process, options));
    PrintLine(more);
    const int64_t ids = Ids(more.shape) - Ids(once.shape);
    const double per_id =
        ids == 0 ? 0 : (more.heap_allocations - once.heap_allocations) / static_cast<double>(ids);
    std::fputs(
        absl::StrFormat("%-10s %.5f more allocations for each further id\n", "", per_id).c_str(),
        stdout);
    if (per_id * static_cast<double>(ids) > kSlack + kMostPerId * static_cast<double>(ids)) {
      return absl::InternalError(absl::StrCat(name, ": a row costs ", per_id, " allocations"));
    }
    // Protobuf, and whoever copies tensors into containers, takes memory by operator new.
    if (more.heap_bytes > (more.bytes_to_ps + more.bytes_from_ps) / 2) {
      return absl::InternalError(absl::StrCat(name, ": ", more.heap_bytes,
                                              " bytes of the heap a step could hold tensors"));
    }
  }
  return absl::OkStatus();
}

}  // namespace coxswain
