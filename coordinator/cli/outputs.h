// The files that a command writes. A mistake in a flag must cost nobody a file, and must be told
// before hours of training: so an output replaces only what an earlier run wrote, never what the
// command reads, and whether it can be written is tried first.
//
// All errors have the cause kConfiguration and name the flag, but for those of WriteReport.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/job/job_spec.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::cli {

// What a command reads; `what` names it: "the job file". A directory or a pattern is all files that
// it has, those that come later too.
struct CommandInput {
  std::string what, path;
};
// The job file and all that it names.
std::vector<CommandInput> InputsOf(const job::JobSpec& job);

// Reports are of training, under faults too, or of an evaluation. kNew: a file that is not there
// yet, or empty; kForced: any that is no input.
enum class OutputKind : uint8_t { kTrainingReport, kEvaluationReport, kTrace, kNew, kForced };

// Whether `flag`'s file can be written, and replaces nothing but what its kind may replace: an
// earlier one of the same kind; and whether it would be none of the inputs afterwards. It may be a
// device or a pipe. Inputs are known by device and inode, whatever they are called. Nothing is
// checked of an empty path.
absl::Status CheckOutputFile(absl::string_view flag, const std::string& path, OutputKind kind,
                             const std::vector<CommandInput>& inputs);

// Whether `path` is no address in an object store, of which a directory "s3:" would be made here,
// or waited for.
absl::Status CheckOfThisMachine(absl::string_view flag, const std::string& path);

// A directory or a file that a flag names.
struct NamedPath {
  absl::string_view flag;
  std::string path;  // empty: the flag is not given
};
// Whether no one of them is the other or lies in it.
absl::Status CheckApart(const NamedPath& a, const NamedPath& b);
// Whether `path`, or a directory that it lies in, is no part of a saved model, a checkpoint or what
// a job keeps beside its checkpoints: these are replaced and removed as a whole, and must hold
// nothing else. Nor may it have a name that a job gives to such a thing among its checkpoints.
absl::Status CheckOutsideSaved(const NamedPath& path);
// The same of a directory for a model: it may be a saved model itself, which is replaced.
absl::Status CheckModelOutsideSaved(const NamedPath& directory);
// Whether `file` does not lie in the directory that will be replaced.
absl::Status CheckOutside(const NamedPath& file, const NamedPath& directory);
// Whether `directory` neither is what will be a file nor lies in it.
absl::Status CheckNotUnderFile(const NamedPath& directory, const NamedPath& file);
// Whether a directory that will be replaced is none of data, which may be empty as yet.
absl::Status CheckNoInput(const NamedPath& directory, const std::vector<CommandInput>& inputs);

// Whether files can be made in `flag`'s directory; it is made with those above it, as it will be.
absl::Status CheckOutputDirectory(absl::string_view flag, const std::string& path);
// The same for a directory of checkpoints; but that its disk is full, or a quota reached, is no
// error: a job goes on without newer ones, and room may be made meanwhile. It is a warning, which
// is returned; else the text is empty.
absl::StatusOr<std::string> CheckCheckpointDirectory(absl::string_view flag,
                                                     const std::string& path);

// Where `path` is a device, a pipe, or what stdout or stderr go to, under whatever name: it is
// written into as it is, from where it stands, and never replaced. Else nullopt. Waits for somebody
// who reads a named pipe. Errors: Aborted for one that nobody reads when a signal comes.
absl::StatusOr<std::optional<net::UniqueFd>> OpenIfStream(const std::string& path);
// Whether stdout or stderr go there, as to /dev/stdout.
bool IsStandardStream(const std::string& path);

// All of it, also where one write takes only a part; `name` is for the error.
absl::Status WriteAll(int fd, const std::string& text, const std::string& name);

// Whole or not at all, but into a device or a pipe; does nothing for an empty path.
absl::Status WriteReport(const std::string& path, const std::string& text);

}  // namespace coxswain::cli
