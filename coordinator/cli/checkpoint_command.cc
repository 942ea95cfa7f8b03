// How entries, variables and closures of a checkpoint are shown; then list, verify and inspect.
#include "coordinator/cli/checkpoint_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coxswain/tensor.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/file_system.h"

namespace coxswain::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShownClosures = 20;

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return ToExitCode(status);
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

absl::Status NoManifest(const std::string& directory) {
  return absl::DataLossError(
      absl::StrCat("no checkpoint in ", directory, " has a manifest that can be read"));
}

std::string LocalTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone());
}

// The last name of a path: "checkpoint-000042" of "dir/checkpoint-000042/".
std::string LastName(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

// Newest first; one entry when the directory is itself a checkpoint.
absl::StatusOr<std::vector<checkpoint::CheckpointEntry>> Open(env::FileSystem* files,
                                                              const std::string& directory) {
  if (!files->Exists(directory)) {
    return config::ConfigurationError(absl::StrCat(directory, ": no such directory"));
  }
  if (auto names = files->List(directory); !names.ok()) {
    return config::ConfigurationError(names.status().message());
  }
  const auto number = checkpoint::ParseCheckpointName(LastName(directory));
  if (!number && !files->Exists(absl::StrCat(directory, "/manifest.json"))) {
    return checkpoint::ListCheckpoints(files, directory);
  }
  checkpoint::CheckpointEntry entry;
  entry.path = directory;
  entry.manifest = checkpoint::ReadManifest(files, directory);
  entry.number = number ? *number : entry.manifest.ok() ? entry.manifest->number : 0;
  std::vector<checkpoint::CheckpointEntry> entries;
  entries.push_back(std::move(entry));
  return entries;
}

ordered_json ToJson(const checkpoint::CheckpointEntry& entry, const absl::Status& state) {
  ordered_json json = {{"checkpoint", LastName(entry.path)},
                       {"number", entry.number},
                       {"path", entry.path},
                       {"ok", state.ok()},
                       {"error", Message(state)}};
  if (!entry.manifest.ok()) return json;
  const checkpoint::Manifest& m = *entry.manifest;
  json["job"] = m.job;
  json["written"] = absl::FormatTime(absl::RFC3339_sec, m.written, absl::UTCTimeZone());
  json["steps"] = m.steps_done();
  json["shards"] = m.shards.size();
  json["bytes"] = m.bytes();
  json["bytes_written"] = m.written_bytes();
  json["pending_closures"] = m.closures.size();
  return json;
}

void PrintJson(const ordered_json& json) {
  std::printf("%s\n", json.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

// What inspect says of one variable: its shards together.
struct VariableRow {
  const proto::ShardSpec* spec = nullptr;
  size_t shards = 0;
  uint64_t bytes = 0, written = 0;
  int64_t least_applied = 0, most_applied = 0;
  size_t ledger_bytes = 0;
};

std::vector<VariableRow> Variables(const checkpoint::Manifest& manifest) {
  std::vector<VariableRow> rows;
  for (const proto::SavedShard& saved : manifest.shards) {
    const std::string& name = saved.shard().variable().name();
    auto row = std::find_if(rows.begin(), rows.end(), [&name](const VariableRow& r) {
      return r.spec->variable().name() == name;
    });
    if (row == rows.end()) {
      row = rows.insert(rows.end(), VariableRow{&saved.shard()});
      row->least_applied = row->most_applied = saved.applied();
    }
    row->shards += 1;
    for (const checkpoint::ShardFile& file : checkpoint::FilesOf(saved)) row->bytes += file.bytes;
    row->written += saved.bytes_written();
    row->least_applied = std::min(row->least_applied, saved.applied());
    row->most_applied = std::max(row->most_applied, saved.applied());
    row->ledger_bytes += saved.ledger().size();
  }
  return rows;
}

void PrintVariables(const checkpoint::Manifest& manifest) {
  const std::vector<VariableRow> rows = Variables(manifest);
  size_t width = 8;
  for (const VariableRow& r : rows) width = std::max(width, r.spec->variable().name().size());
  const int name_width = static_cast<int>(std::min<size_t>(width, 60));
  std::printf("\n%-*s  %-16s %-5s %-10s %7s %15s %15s %10s  %s\n", name_width, "variable", "shape",
              "dtype", "optimizer", "shards", "bytes", "new", "ledger", "updates applied");
  for (const VariableRow& r : rows) {
    const proto::VariableSpec& v = r.spec->variable();
    const Shape shape(
        absl::MakeConstSpan(v.shape().dims().data(), static_cast<size_t>(v.shape().dims_size())));
    std::string applied = WithCommas(r.least_applied);
    if (r.most_applied != r.least_applied) {
      absl::StrAppend(&applied, " to ", WithCommas(r.most_applied), " by shard");
    }
    std::printf("%-*s  %-16s %-5s %-10s %7zu %15s %15s %10s  %s\n", name_width, v.name().c_str(),
                shape.ToString().c_str(),
                std::string(DTypeName(static_cast<DType>(v.dtype()))).c_str(),
                v.optimizer().kind().empty() ? "-" : v.optimizer().kind().c_str(), r.shards,
                WithCommas(static_cast<int64_t>(r.bytes)).c_str(),
                WithCommas(static_cast<int64_t>(r.written)).c_str(),
                WithCommas(static_cast<int64_t>(r.ledger_bytes)).c_str(), applied.c_str());
  }
}

void PrintClosures(const checkpoint::Manifest& manifest) {
  if (manifest.closures.empty()) return;
  std::printf("\n%-12s %8s %12s  %-20s %s\n", "closure", "steps", "after", "function", "ticket");
  for (size_t i = 0; i < std::min(manifest.closures.size(), kShownClosures); ++i) {
    const checkpoint::CheckpointClosure& c = manifest.closures[i];
    std::printf("%-12llu %8u %12llu  %-20s %s\n", static_cast<unsigned long long>(c.id), c.steps,
                static_cast<unsigned long long>(c.after), c.function.c_str(),
                c.has_ticket ? c.ticket.ToString().c_str() : "-");
  }
  if (manifest.closures.size() > kShownClosures) {
    std::printf("and %zu more\n", manifest.closures.size() - kShownClosures);
  }
}

void PrintManifest(const std::string& path, const checkpoint::Manifest& manifest) {
  int64_t ledgers = 0, deltas = 0;
  for (const proto::SavedShard& s : manifest.shards) {
    deltas += s.deltas_size();
    ledgers += static_cast<int64_t>(s.ledger().size());
  }
  std::printf("%s\n", path.c_str());
  const auto line = [](const char* what, const std::string& value) {
    std::printf("  %-10s %s\n", what, value.c_str());
  };
  if (!manifest.job.empty()) line("job", manifest.job);
  line("number", absl::StrCat(manifest.number, ", of session epoch ", manifest.epoch));
  line("written", LocalTime(manifest.written));
  line("steps", WithCommas(manifest.steps_done()));
  line("closures",
       absl::StrCat("all below ", manifest.low_water, " are in every shard; ",
                    manifest.closures.size(), " pending; the next is ", manifest.next_closure));
  line("files",
       absl::StrCat(WithCommas(static_cast<int64_t>(manifest.shards.size())), " shards, ",
                    deltas == 0 ? "" : absl::StrCat(WithCommas(deltas), " deltas to them, "),
                    WithCommas(manifest.bytes()), " bytes, ", WithCommas(manifest.written_bytes()),
                    " of them new"));
  line("ledgers", absl::StrCat(WithCommas(ledgers), " bytes"));
  PrintVariables(manifest);
  PrintClosures(manifest);
  const auto state = ordered_json::parse(manifest.job_state, nullptr, false);
  if (state.is_object() && state.empty()) return;
  std::printf("\njob state, with the data position\n%s\n",
              state.is_discarded() ? manifest.job_state.c_str() : state.dump(2).c_str());
}

}  // namespace

namespace {

// The job that writes them has removed it meanwhile: what is wrong with it is no damage.
bool HasGone(env::FileSystem* files, const checkpoint::CheckpointEntry& entry,
             const absl::Status& state) {
  return !state.ok() && !files->Exists(entry.path);
}

}  // namespace

int ListCheckpointsCommand(const CheckpointFlags& flags) {
  const auto files = env::NewRealFileSystem();
  auto entries = Open(files.get(), flags.directory);
  if (!entries.ok()) return Complain(entries.status());
  ordered_json json = ordered_json::array();
  if (!flags.json && entries->empty()) {
    std::printf("%s holds no checkpoint\n", flags.directory.c_str());
    return kExitDone;
  }
  if (!flags.json) {
    std::printf("%8s  %-19s %12s %7s %15s %15s %8s  %s\n", "number", "when", "steps", "shards",
                "bytes", "new", "pending", "state");
  }
  for (const checkpoint::CheckpointEntry& entry : *entries) {
    const auto& m = entry.manifest;
    const absl::Status state =
        m.ok() ? checkpoint::CheckSizes(files.get(), entry.path, *m) : m.status();
    if (HasGone(files.get(), entry, state)) continue;
    if (flags.json) {
      json.push_back(ToJson(entry, state));
      continue;
    }
    const std::string number = absl::StrCat(entry.number);
    const std::string said = state.ok() ? "ok" : Message(state);
    if (!m.ok()) {
      std::printf("%8s  %-19s %12s %7s %15s %15s %8s  %s\n", number.c_str(), "-", "-", "-", "-",
                  "-", "-", said.c_str());
      continue;
    }
    std::printf("%8s  %-19s %12s %7zu %15s %15s %8zu  %s\n", number.c_str(),
                LocalTime(m->written).c_str(), WithCommas(m->steps_done()).c_str(),
                m->shards.size(), WithCommas(m->bytes()).c_str(),
                WithCommas(m->written_bytes()).c_str(), m->closures.size(), said.c_str());
  }
  if (flags.json) PrintJson(json);
  const bool none = std::none_of(entries->begin(), entries->end(),
                                 [](const auto& entry) { return entry.manifest.ok(); });
  return none && !entries->empty() ? Complain(NoManifest(flags.directory))
                                   : static_cast<int>(kExitDone);
}

namespace {

constexpr int kMostLooks = 5;

// Nothing: all that were there have gone meanwhile.
std::optional<int> VerifyOnce(const CheckpointFlags& flags) {
  const auto files = env::NewRealFileSystem();
  auto entries = Open(files.get(), flags.directory);
  if (!entries.ok()) return Complain(entries.status());
  ordered_json json = ordered_json::array();
  const checkpoint::CheckpointEntry *good = nullptr, *newest = nullptr;  // the newest ones
  for (const checkpoint::CheckpointEntry& entry : *entries) {
    const auto& m = entry.manifest;
    const absl::Status state =
        m.ok() ? checkpoint::VerifyCheckpoint(files.get(), entry.path, *m) : m.status();
    if (HasGone(files.get(), entry, state)) continue;
    if (newest == nullptr) newest = &entry;
    if (state.ok() && good == nullptr) good = &entry;
    if (flags.json) {
      json.push_back(ToJson(entry, state));
    } else if (state.ok()) {
      size_t in = 0;
      for (const proto::SavedShard& shard : m->shards) in += checkpoint::FilesOf(shard).size();
      std::printf("%s  ok, %s bytes in %zu files\n", LastName(entry.path).c_str(),
                  WithCommas(m->bytes()).c_str(), in);
    } else {
      std::printf("%s  damaged: %s\n", LastName(entry.path).c_str(), Message(state).c_str());
    }
    std::fflush(stdout);  // a large one takes its time
  }
  if (newest == nullptr && !entries->empty()) return std::nullopt;
  if (flags.json) PrintJson(json);
  if (good != nullptr && good == newest) return kExitDone;
  if (newest == nullptr) {
    return Complain(absl::NotFoundError(absl::StrCat(flags.directory, " holds no checkpoint")));
  }
  return Complain(absl::DataLossError(
      good == nullptr
          ? absl::StrCat("no checkpoint in ", flags.directory, " is good")
          : absl::StrCat("the newest checkpoint, ", LastName(newest->path), ", is damaged; ",
                         LastName(good->path), " is the newest good one")));
}

}  // namespace

int VerifyCheckpointsCommand(const CheckpointFlags& flags) {
  for (int look = 0; look < kMostLooks; ++look) {
    if (const std::optional<int> code = VerifyOnce(flags)) return *code;
  }
  return Complain(absl::UnavailableError(
      absl::StrCat(flags.directory, ": its checkpoints are removed faster than they are read")));
}

int InspectCheckpointCommand(const CheckpointFlags& flags) {
  const auto files = env::NewRealFileSystem();
  auto entries = Open(files.get(), flags.directory);
  if (!entries.ok()) return Complain(entries.status());
  if (entries->empty()) {
    return Complain(absl::NotFoundError(absl::StrCat(flags.directory, " holds no checkpoint")));
  }
  for (const checkpoint::CheckpointEntry& entry : *entries) {
    if (entry.manifest.ok()) {
      PrintManifest(entry.path, *entry.manifest);
      return kExitDone;
    }
    std::fprintf(stderr, "%s: %s\n", entries->size() == 1 ? "error" : "warning",
                 Message(entry.manifest.status()).c_str());
  }
  if (entries->size() == 1) return kExitJobFailed;  // said already
  return Complain(NoManifest(flags.directory));
}

}  // namespace coxswain::cli
