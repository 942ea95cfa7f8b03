// The metadata of an export; npz; csv, a file for each variable; replaced directories; and the
// export as a whole.
#include "coordinator/export/export.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/export/csv_writer.h"
#include "coordinator/export/npz_writer.h"
#include "coordinator/export/selected_rows.h"
#include "coordinator/model/visits.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/names.h"
#include "runtime/env/file_system.h"
#include "runtime/env/keep_access.h"
#include "runtime/env/replace_directory.h"

namespace coxswain::exporter {
namespace {

constexpr char kDirectoryFacts[] = "export.json";
constexpr char kFormat[] = "coxswain-export";

// The metadata of an export, as texts.
using Facts = std::map<std::string, std::string>;

Facts FactsOf(const model::SavedSource& source, const model::SavedSource* base) {
  Facts facts = {
      {"format", kFormat}, {"version", kVersion}, {"steps", absl::StrCat(source.steps())}};
  if (source.is_checkpoint()) facts["checkpoint"] = absl::StrCat(source.number());
  if (base == nullptr) return facts;
  facts["base_checkpoint"] = absl::StrCat(base->number());
  facts["base_steps"] = absl::StrCat(base->steps());
  return facts;
}

absl::StatusOr<std::vector<SelectedRows>> Choose(const model::SavedSource& source,
                                                 const ExportOptions& options) {
  std::vector<std::string> names = options.variables;
  if (names.empty()) {
    for (const model::SavedVariable& v : source.variables()) {
      const bool wanted = options.format != ExportFormat::kProjector || v.table;
      if (wanted && !model::IsInternalName(v.name)) names.push_back(v.name);
    }
  }
  std::vector<SelectedRows> chosen;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(model::SavedRows rows, source.Open(name));
    if (options.format == ExportFormat::kProjector && !rows.variable().table) {
      return absl::InvalidArgumentError(
          absl::StrCat(data::Quoted(name), " is no table: the projector shows rows of tables"));
    }
    RETURN_IF_ERROR(rows.Verify());
    std::optional<model::SavedRows> base;
    if (options.base != nullptr && rows.variable().table) {
      ASSIGN_OR_RETURN(base, options.base->Open(name));
      // Training goes on from the newest good checkpoint: if the base is damaged, later checkpoints
      // may not descend from it.
      RETURN_IF_ERROR(base->Verify());
    }
    ASSIGN_OR_RETURN(
        SelectedRows selected,
        SelectedRows::Create(std::move(rows), base ? &*base : nullptr, options.stopped));
    chosen.push_back(std::move(selected));
  }
  return chosen;
}

// Names in the file: a table's rows have the table's name, its ids a name derived from it.
std::string IdsName(const SelectedRows& rows) { return absl::StrCat(rows.variable().name, ".ids"); }
std::string RemovedName(const SelectedRows& rows) {
  return absl::StrCat(rows.variable().name, ".removed");
}

// All arrays of a variable.
std::vector<std::string> NamesOf(const SelectedRows& rows) {
  std::vector<std::string> names = {rows.variable().name};
  if (rows.variable().table) names.push_back(IdsName(rows));
  if (rows.may_remove()) names.push_back(RemovedName(rows));
  return names;
}

absl::Status CheckNames(const std::vector<SelectedRows>& all) {
  std::set<std::string> names;
  for (const SelectedRows& rows : all) {
    for (const std::string& name : NamesOf(rows)) {
      if (names.insert(name).second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("two arrays would have the name ", data::Quoted(name)));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteSafetensors(const std::vector<SelectedRows>& all, const Facts& facts,
                              env::FileSystem* files, const std::string& path) {
  std::vector<checkpoint::SafetensorsEntry> entries;
  for (const SelectedRows& rows : all) {
    if (rows.variable().table) entries.push_back({IdsName(rows), DType::kI64, Shape{rows.rows()}});
    entries.push_back({rows.variable().name, rows.variable().dtype, rows.shape()});
    if (rows.may_remove()) {
      entries.push_back({RemovedName(rows), DType::kI64, Shape{rows.removed()}});
    }
  }
  ASSIGN_OR_RETURN(auto out,
                   checkpoint::SafetensorsWriter::Create(files, path, std::move(entries), facts));
  for (const SelectedRows& rows : all) {
    if (rows.variable().table) {
      RETURN_IF_ERROR(rows.ForEach(false, true, [&](const SelectedBlock& block) {
        return out->Append(block.ids, static_cast<size_t>(block.rows) * sizeof(int64_t));
      }));
    }
    RETURN_IF_ERROR(rows.ForEach(true, false, [&](const SelectedBlock& block) {
      return out->Append(block.values, static_cast<size_t>(block.rows) * rows.saved().row_bytes());
    }));
    RETURN_IF_ERROR(rows.ForEachRemoved([&](absl::Span<const int64_t> ids) {
      return out->Append(ids.data(), ids.size() * sizeof(int64_t));
    }));
  }
  return out->Finish();
}

absl::Status WriteNpzRows(const SelectedRows& rows, NpzWriter* out) {
  if (rows.variable().table) {
    RETURN_IF_ERROR(out->BeginArray(IdsName(rows), DType::kI64, Shape{rows.rows()}));
    RETURN_IF_ERROR(rows.ForEach(false, true, [&](const SelectedBlock& block) {
      return out->Append(block.ids, static_cast<size_t>(block.rows) * sizeof(int64_t));
    }));
    RETURN_IF_ERROR(out->EndArray());
  }
  const bool widen = rows.variable().dtype == DType::kBF16;
  RETURN_IF_ERROR(out->BeginArray(rows.variable().name, widen ? DType::kF32 : rows.variable().dtype,
                                  rows.shape()));
  std::vector<float> wide;
  RETURN_IF_ERROR(rows.ForEach(true, false, [&](const SelectedBlock& block) {
    const size_t bytes = static_cast<size_t>(block.rows) * rows.saved().row_bytes();
    if (!widen) return out->Append(block.values, bytes);
    const auto* narrow = reinterpret_cast<const BFloat16*>(block.values);
    wide.resize(bytes / sizeof(BFloat16));
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = narrow[i].ToFloat();
    return out->Append(wide.data(), wide.size() * sizeof(float));
  }));
  RETURN_IF_ERROR(out->EndArray());
  if (!rows.may_remove()) return absl::OkStatus();
  RETURN_IF_ERROR(out->BeginArray(RemovedName(rows), DType::kI64, Shape{rows.removed()}));
  RETURN_IF_ERROR(rows.ForEachRemoved([&](absl::Span<const int64_t> ids) {
    return out->Append(ids.data(), ids.size() * sizeof(int64_t));
  }));
  return out->EndArray();
}

absl::Status WriteNpz(const std::vector<SelectedRows>& all, const Facts& facts,
                      env::FileSystem* files, const std::string& path) {
  ASSIGN_OR_RETURN(auto out, NpzWriter::Create(files, path));
  for (const SelectedRows& rows : all) RETURN_IF_ERROR(WriteNpzRows(rows, out.get()));
  RETURN_IF_ERROR(out->AddText("__metadata__", nlohmann::json(facts).dump()));
  return out->Finish();
}

// The two files of a table, one and the other.
constexpr char kVectors[] = ".vectors.tsv";
std::string VectorsFile(const std::string& stem) { return stem + kVectors; }
std::string MetadataFile(const std::string& file) {
  return absl::StrCat(file.substr(0, file.rfind(kVectors)), ".metadata.tsv");
}

// The file with the removed ids of a table.
std::string RemovedFile(const std::string& file) {
  return absl::StrCat(file.substr(0, file.rfind('.')), ".removed.csv");
}

// A file, or two, for each variable.
absl::Status WriteDirectory(const model::SavedSource& source, const std::vector<SelectedRows>& all,
                            const Facts& facts, bool projector, env::FileSystem* files,
                            const std::string& path) {
  RETURN_IF_ERROR(files->MakeDirs(path));
  nlohmann::ordered_json manifest = facts;
  manifest["variables"] = nlohmann::ordered_json::array();
  for (const SelectedRows& rows : all) {
    const model::SavedVariable& v = rows.variable();
    const std::string stem = absl::StrReplaceAll(v.name, {{"/", "."}});
    const std::string file = projector ? VectorsFile(stem) : absl::StrCat(stem, ".csv");
    const std::string words = v.vocabulary.empty() || v.hash ? "" : source.WordsPath(v.vocabulary);
    if (projector) {
      RETURN_IF_ERROR(WriteProjector(rows, words, files, absl::StrCat(path, "/", file),
                                     absl::StrCat(path, "/", MetadataFile(file))));
    } else {
      RETURN_IF_ERROR(WriteCsv(rows, words, files, absl::StrCat(path, "/", file)));
    }
    if (rows.may_remove()) {
      RETURN_IF_ERROR(WriteRemovedCsv(rows, files, absl::StrCat(path, "/", RemovedFile(file))));
    }
    const Shape shape = rows.shape();
    manifest["variables"].push_back(
        {{"name", v.name},
         {"dtype", std::string(DTypeName(v.dtype))},
         {"shape", std::vector<int64_t>(shape.dims().begin(), shape.dims().end())},
         {"table", v.table},
         {"file", file}});
  }
  return files->WriteAtomically(
      absl::StrCat(path, "/", kDirectoryFacts),
      manifest.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

absl::Status Write(const model::SavedSource& source, const std::vector<SelectedRows>& all,
                   const ExportOptions& options, env::FileSystem* files, const std::string& path) {
  const Facts facts = FactsOf(source, options.base);
  switch (options.format) {
    case ExportFormat::kSafetensors:
      return WriteSafetensors(all, facts, files, path);
    case ExportFormat::kNpz:
      return WriteNpz(all, facts, files, path);
    case ExportFormat::kCsv:
    case ExportFormat::kProjector:
      return WriteDirectory(source, all, facts, options.format == ExportFormat::kProjector, files,
                            path);
  }
  return absl::OkStatus();
}

// A directory is replaced only if it is an export and holds nothing else, so that no other files
// are lost.
absl::Status CheckReplaced(env::FileSystem* files, const std::string& target) {
  ASSIGN_OR_RETURN(const auto names, files->List(target));
  if (names.empty()) return absl::OkStatus();
  std::set<std::string> known = {kDirectoryFacts};
  const auto text = files->Read(absl::StrCat(target, "/", kDirectoryFacts));
  const auto json =
      nlohmann::json::parse(text.ok() ? *text : "", nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", "") != kFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat(target, " is a directory, and not one that was exported: it stays"));
  }
  if (const auto all = json.find("variables"); all != json.end() && all->is_array()) {
    for (const auto& variable : *all) {
      if (!variable.is_object() || !variable.contains("file")) continue;
      const std::string file = variable.value("file", "");
      known.insert({file, RemovedFile(file)});
      if (absl::EndsWith(file, kVectors)) known.insert(MetadataFile(file));
    }
  }
  for (const std::string& name : names) {
    if (known.count(name) > 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(target, " holds ", name, " beside what was exported: it stays"));
  }
  return absl::OkStatus();
}

bool MakesDirectory(ExportFormat format) {
  return format == ExportFormat::kCsv || format == ExportFormat::kProjector;
}

// Whether `path` is `directory` or in it.
bool LiesIn(const std::string& path, const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(fs::absolute(path, error), error),
                 outer = fs::weakly_canonical(fs::absolute(directory, error), error);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

absl::Status CheckTarget(env::FileSystem* files, const model::SavedSource& source,
                         const std::string& target, const ExportOptions& options) {
  if (target.empty()) return absl::InvalidArgumentError("wanted a path to write to, got none");
  if (LiesIn(target, source.path())) {
    return absl::InvalidArgumentError(
        absl::StrCat(target, " lies in ", source.path(), ", which is read: name another place"));
  }
  if (!files->Exists(target)) return absl::OkStatus();
  if (!options.replace) {
    return absl::AlreadyExistsError(absl::StrCat(target, " is there already; --force replaces it"));
  }
  const bool directory = files->List(target).ok();
  const bool wanted = MakesDirectory(options.format);
  if (directory && wanted) return CheckReplaced(files, target);
  if (directory) {
    return absl::FailedPreconditionError(
        absl::StrCat(target, " is a directory, and not one that was exported: it stays"));
  }
  if (wanted) {
    return absl::FailedPreconditionError(
        absl::StrCat(target, " is a file, and this format makes a directory"));
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(target, error)) {
    return absl::FailedPreconditionError(absl::StrCat(target, " is a device: it stays"));
  }
  return absl::OkStatus();
}

// The old export is removed only when the new one is complete.
absl::Status Publish(env::FileSystem* files, const ExportOptions& options,
                     const std::string& temporary, const std::string& target) {
  if (!MakesDirectory(options.format)) {
    env::KeepAccess(target, temporary);
    return files->Rename(temporary, target);
  }
  return env::ReplaceDirectory(files, temporary, target, [&](const std::string& path) {
    return files->Exists(path) ? CheckReplaced(files, path) : absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<ExportFormat> ParseExportFormat(absl::string_view name) {
  if (name == "safetensors") return ExportFormat::kSafetensors;
  if (name == "csv") return ExportFormat::kCsv;
  if (name == "npz") return ExportFormat::kNpz;
  if (name == "projector") return ExportFormat::kProjector;
  return absl::InvalidArgumentError(
      absl::StrCat("wanted safetensors, csv, npz or projector, got ", data::Quoted(name)));
}

absl::StatusOr<std::vector<ExportedVariable>> Export(const model::SavedSource& source,
                                                     const ExportOptions& options) {
  const auto files = env::NewRealFileSystem();
  std::string target = options.out;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  RETURN_IF_ERROR(CheckTarget(files.get(), source, target, options));
  ASSIGN_OR_RETURN(const std::vector<SelectedRows> all, Choose(source, options));
  RETURN_IF_ERROR(CheckNames(all));
  const std::string temporary = env::NewNameBeside(target);
  absl::Status written = Write(source, all, options, files.get(), temporary);
  if (written.ok()) written = Publish(files.get(), options, temporary, target);
  if (!written.ok()) {
    // The first error is the one to report.
    (void)files->RemoveAll(temporary);
    return written;
  }
  std::vector<ExportedVariable> exported;
  for (const SelectedRows& rows : all) exported.push_back({rows.variable(), rows.rows()});
  return exported;
}

absl::Status ExportFile(const model::SavedSource& source, const ExportOptions& options,
                        absl::string_view content) {
  const auto files = env::NewRealFileSystem();
  RETURN_IF_ERROR(CheckTarget(files.get(), source, options.out, options));
  return files->WriteAtomically(options.out, content);
}

absl::StatusOr<model::SavedSource> OpenBase(const model::SavedSource& source,
                                            const std::string& since) {
  if (!source.is_checkpoint()) {
    return absl::InvalidArgumentError("only a checkpoint tells which rows were updated since");
  }
  std::string directory = source.path();
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  const size_t slash = directory.rfind('/');
  directory = slash == std::string::npos ? "." : directory.substr(0, slash);
  const auto files = env::NewRealFileSystem();
  ASSIGN_OR_RETURN(const auto entries, checkpoint::ListCheckpoints(files.get(), directory));
  int64_t step = -1;
  const auto number = checkpoint::ParseCheckpointName(since);
  if (!number && (!absl::SimpleAtoi(since, &step) || step < 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a step or a checkpoint's name, got ", data::Quoted(since)));
  }
  std::vector<std::string> there;
  for (const checkpoint::CheckpointEntry& entry : entries) {
    if (!entry.manifest.ok() || entry.number >= source.number()) continue;
    if (number ? entry.number == *number : entry.manifest->steps <= step) {
      return model::SavedSource::OpenCheckpoint(entry.path, std::nullopt);
    }
    there.push_back(
        absl::StrCat(checkpoint::CheckpointName(entry.number), " of step ", entry.manifest->steps));
  }
  return absl::NotFoundError(
      absl::StrCat(directory, " has no checkpoint ",
                   number ? std::string(since) : absl::StrCat("of step ", step, " or before"),
                   " older than ", checkpoint::CheckpointName(source.number()),
                   "; there are: ", there.empty() ? "none" : absl::StrJoin(there, ", ")));
}

}  // namespace coxswain::exporter
