#include "runtime/checkpoint/checkpoint_lock.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

std::string FileOf(const std::string& directory) { return absl::StrCat(directory, "/.lock"); }

std::string ToJson(const CheckpointHolder& holder) {
  const Json json = {
      {"host", holder.host},
      {"pid", holder.pid},
      {"job", holder.job},
      {"cluster", holder.cluster},
      {"since", absl::FormatTime(absl::RFC3339_sec, holder.since, absl::UTCTimeZone())}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Text(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

absl::StatusOr<std::shared_ptr<env::FileLock>> Finish(
    absl::StatusOr<std::unique_ptr<env::FileLock>> lock) {
  if (lock.ok()) return std::shared_ptr<env::FileLock>(*std::move(lock));
  if (!absl::IsUnimplemented(lock.status())) return lock.status();
  LogWarning(lock.status().message(), ": another job may write checkpoints there, too");
  return std::shared_ptr<env::FileLock>();
}

}  // namespace

absl::StatusOr<std::shared_ptr<env::FileLock>> LockCheckpoints(env::FileSystem* files,
                                                               const std::string& directory,
                                                               const CheckpointHolder& me) {
  auto lock = files->Lock(FileOf(directory), ToJson(me));
  if (!absl::IsUnavailable(lock.status())) return Finish(std::move(lock));
  return WithDetail(absl::UnavailableError(absl::StrCat(
                        "the checkpoints in ", directory, " belong to ",
                        ToString(ReadCheckpointHolder(files, directory)),
                        ", which is running: wait for its end, or name another directory")),
                    {ErrorCause::kClusterHeld, false, "", 0});
}

absl::StatusOr<std::shared_ptr<env::FileLock>> TakeCheckpoints(env::FileSystem* files,
                                                               const std::string& directory,
                                                               const CheckpointHolder& me) {
  return Finish(files->TakeLock(FileOf(directory), ToJson(me)));
}

CheckpointHolder ReadCheckpointHolder(env::FileSystem* files, const std::string& directory) {
  CheckpointHolder holder;
  const auto text = files->Read(FileOf(directory));
  if (!text.ok()) return holder;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return holder;
  holder.host = Text(json, "host");
  holder.job = Text(json, "job");
  holder.cluster = Text(json, "cluster");
  if (const auto pid = json.find("pid"); pid != json.end() && pid->is_number_integer()) {
    holder.pid = pid->get<int64_t>();
  }
  std::string error;
  absl::ParseTime(absl::RFC3339_sec, Text(json, "since"), &holder.since, &error);
  return holder;
}

std::string ToString(const CheckpointHolder& holder) {
  if (holder.pid == 0) return "another job";
  return absl::StrCat(holder.job.empty() ? "a job" : absl::StrCat("job '", holder.job, "'"),
                      " (process ", holder.pid, " on ", holder.host, ", since ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S", holder.since, absl::LocalTimeZone()),
                      ")");
}

}  // namespace coxswain::checkpoint
