#include "coordinator/cli/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "coordinator/cli/outputs.h"
#include "runtime/base/status.h"
#include "runtime/data/tfrecord_writer.h"
#include "runtime/env/file_system.h"
#include "runtime/env/system_error.h"
#include "runtime/env/this_process.h"

namespace coxswain::cli {
namespace {

constexpr char kBegin[] = "events.out.tfevents.";
constexpr char kVersion[] = "brain.Event:2";
constexpr size_t kDigits = 10;  // of the seconds; so names are sorted as these are
constexpr int64_t kMostSeconds = 9'999'999'999;

// In the name of an event file; 0: it is none, or has another form.
int64_t SecondsOf(absl::string_view name) {
  int64_t seconds = 0;
  if (!absl::ConsumePrefix(&name, kBegin) || name.size() <= kDigits || name[kDigits] != '.' ||
      !absl::SimpleAtoi(name.substr(0, kDigits), &seconds)) {
    return 0;
  }
  return seconds;
}

std::string HostForName() {
  std::string host = env::HostName();
  std::replace(host.begin(), host.end(), '/', '_');
  return host.empty() ? "localhost" : host;
}

}  // namespace

absl::StatusOr<EventFile> EventFile::Create(const std::string& directory, absl::Time now) {
  ASSIGN_OR_RETURN(const auto names, env::NewRealFileSystem()->List(directory));
  int64_t seconds = absl::ToUnixSeconds(now);
  for (const std::string& name : names) seconds = std::max(seconds, SecondsOf(name) + 1);
  for (; seconds <= kMostSeconds; ++seconds) {
    const std::string path = absl::StrFormat("%s/%s%010d.%s.%d.coxswain", directory, kBegin,
                                             seconds, HostForName(), getpid());
    net::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!fd.valid() && errno == EEXIST) continue;
    if (!fd.valid()) return env::SystemError(errno, "create", path);
    EventFile file(path, std::move(fd));
    proto::TfEvent version;
    version.set_wall_time(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
    version.set_file_version(kVersion);
    const absl::Status written = file.Append({version});
    if (written.ok()) return file;
    unlink(path.c_str());
    return written;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(directory, " has an event file whose name says ", kMostSeconds,
                   " seconds: no name comes behind it"));
}

absl::Status EventFile::Append(const std::vector<proto::TfEvent>& events) {
  std::string records;
  for (const proto::TfEvent& event : events) {
    data::AppendTfRecord(event.SerializeAsString(), &records);
  }
  const absl::Status written = WriteAll(fd_.get(), records, path_);
  if (written.ok()) {
    bytes_ += static_cast<int64_t>(records.size());
  } else {
    [[maybe_unused]] const int cut = ftruncate(fd_.get(), bytes_);
  }
  return written;
}

}  // namespace coxswain::cli
