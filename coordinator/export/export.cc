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
#include "coordinator/export/hnsw_writer.h"
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

// Vectors with their names, of tables only.
bool OfTables(ExportFormat format) {
  return format == ExportFormat::kProjector || format == ExportFormat::kHnsw;
}

absl::StatusOr<std::vector<SelectedRows>> Choose(const model::SavedSource& source,
                                                 const ExportOptions& options) {
  std::vector<std::string> names = options.variables;
  if (names.empty()) {
    for (const model::SavedVariable& v : source.variables()) {
      const bool wanted = !OfTables(options.format) || v.table;
      if (wanted && !model::IsInternalName(v.name)) names.push_back(v.name);
    }
  }
  std::vector<SelectedRows> chosen;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(model::SavedRows rows, source.Open(name));
    if (OfTables(options.format) && !rows.variable().table) {
      return absl::InvalidArgumentError(absl::StrCat(
          data::Quoted(name), " is no table: ",
          options.format == ExportFormat::kHnsw ? "an index is of" : "the projector shows",
          " rows of tables"));
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
  RETURN_IF_ERROR(out->AddText(
      "__metadata__",
      nlohmann::json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return out->Finish();
}

// The endings of a variable's first file. Those of tables with names have a second one.
constexpr char kVectors[] = ".vectors.tsv", kIndex[] = ".hnsw", kTable[] = ".csv";
const char* EndingOf(ExportFormat format) {
  return format == ExportFormat::kProjector ? kVectors
         : format == ExportFormat::kHnsw    ? kIndex
                                            : kTable;
}
bool HasMetadata(const std::string& file) {
  return absl::EndsWith(file, kVectors) || absl::EndsWith(file, kIndex);
}
std::string MetadataFile(const std::string& file) {
  const char* const ending = absl::EndsWith(file, kVectors) ? kVectors : kIndex;
  return absl::StrCat(file.substr(0, file.rfind(ending)), ".metadata.tsv");
}

// The file with the removed ids of a table.
std::string RemovedFile(const std::string& file) {
  return absl::StrCat(file.substr(0, file.rfind('.')), ".removed.csv");
}

// A file, or two, for each variable.
absl::Status WriteDirectory(const model::SavedSource& source, const std::vector<SelectedRows>& all,
                            const Facts& facts, ExportFormat format, env::FileSystem* files,
                            const std::string& path) {
  RETURN_IF_ERROR(files->MakeDirs(path));
  nlohmann::ordered_json manifest = facts;
  manifest["variables"] = nlohmann::ordered_json::array();
  for (const SelectedRows& rows : all) {
    const model::SavedVariable& v = rows.variable();
    const std::string stem = absl::StrReplaceAll(v.name, {{"/", "."}});
    const std::string file = absl::StrCat(stem, EndingOf(format));
    ASSIGN_OR_RETURN(const WordOf words, WordsOf(source, v));
    const std::string target = absl::StrCat(path, "/", file);
    const std::string metadata = absl::StrCat(path, "/", MetadataFile(file));
    if (format == ExportFormat::kProjector) {
      RETURN_IF_ERROR(WriteProjector(rows, words, files, target, metadata));
    } else if (format == ExportFormat::kHnsw) {
      RETURN_IF_ERROR(WriteHnsw(rows, files, target));
      RETURN_IF_ERROR(WriteLabels(rows, words, files, metadata));
    } else {
      RETURN_IF_ERROR(WriteCsv(rows, words, files, target));
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
    case ExportFormat::kHnsw:
      return WriteDirectory(source, all, facts, options.format, files, path);
  }
  return absl::OkStatus();
}

// The text at `key`; empty: there is none, or something else.
std::string TextIn(const nlohmann::json& json, const char* key) {
  if (!json.is_object()) return "";
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
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
  if (TextIn(json, "format") != kFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat(target, " is a directory, and not one that was exported: it stays"));
  }
  if (const auto all = json.find("variables"); all != json.end() && all->is_array()) {
    for (const auto& variable : *all) {
      const std::string file = TextIn(variable, "file");
      if (file.empty()) continue;
      known.insert({file, RemovedFile(file)});
      if (HasMetadata(file)) known.insert(MetadataFile(file));
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
  return format == ExportFormat::kCsv || OfTables(format);
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
  if (!files->Exists(target)) {
    std::error_code error;
    if (!std::filesystem::is_symlink(target, error)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(target, " is a link to nothing, which stays: name another place"));
  }
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

absl::Status WriteOnnxData(const std::vector<Tensor>& data, env::FileSystem* files,
                           const std::string& path) {
  ASSIGN_OR_RETURN(const auto out, files->Create(path));
  const std::string zeros(kOnnxAlignment, '\0');
  for (const Tensor& value : data) {
    RETURN_IF_ERROR(out->Append(value.raw(), value.bytes()));
    const size_t past = value.bytes() % kOnnxAlignment;
    if (past > 0) RETURN_IF_ERROR(out->Append(zeros.data(), kOnnxAlignment - past));
  }
  RETURN_IF_ERROR(out->Sync());
  return out->Close();
}

// Files of data of the model that was at `target`: the names have its name and a checksum.
absl::Status RemoveOlderData(env::FileSystem* files, const std::string& target,
                             const std::string& keep) {
  const std::filesystem::path path(target);
  const std::string directory = path.has_parent_path() ? path.parent_path().string() : ".";
  const std::string name = path.filename().string();
  ASSIGN_OR_RETURN(const auto names, files->List(directory));
  for (const std::string& other : names) {
    const std::string checksum =
        other.size() > name.size() + 9 ? other.substr(name.size() + 1, 8) : "";
    const bool digits = checksum.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (checksum.empty() || !digits || other != OnnxDataName(name, checksum)) continue;
    const std::string data = OnnxDataName(target, checksum);
    if (data != keep) RETURN_IF_ERROR(files->RemoveAll(data));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExportFormat> ParseExportFormat(absl::string_view name) {
  if (name == "safetensors") return ExportFormat::kSafetensors;
  if (name == "csv") return ExportFormat::kCsv;
  if (name == "npz") return ExportFormat::kNpz;
  if (name == "projector") return ExportFormat::kProjector;
  if (name == "hnsw") return ExportFormat::kHnsw;
  return absl::InvalidArgumentError(
      absl::StrCat("wanted safetensors, csv, npz, projector or hnsw, got ", data::Quoted(name)));
}

absl::StatusOr<std::vector<ExportedVariable>> Export(const model::SavedSource& source,
                                                     const ExportOptions& options) {
  const auto files = env::NewRealFileSystem();
  std::string target = options.out;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  RETURN_IF_ERROR(CheckTarget(files.get(), source, target, options));
  target = env::BehindLinks(target);
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

absl::Status ExportOnnx(const model::SavedSource& source, const ExportOptions& options,
                        const OnnxFile& file) {
  const auto files = env::NewRealFileSystem();
  RETURN_IF_ERROR(CheckTarget(files.get(), source, options.out, options));
  std::string data;
  bool older = false;
  if (!file.checksum.empty()) {
    data = OnnxDataName(options.out, file.checksum);
    older = files->Exists(data);
    if (older && !options.replace) {
      return absl::AlreadyExistsError(absl::StrCat(data, " is there already; --force replaces it"));
    }
    const std::string temporary = env::NewNameBeside(data);
    absl::Status written = WriteOnnxData(file.data, files.get(), temporary);
    // The data of a private model is private, also where it had another name.
    env::KeepAccess(older ? data : options.out, temporary);
    if (written.ok()) written = files->Rename(temporary, data);
    if (!written.ok()) {
      (void)files->RemoveAll(temporary);  // the first error is the one to report
      return written;
    }
  }
  const absl::Status written = files->WriteAtomically(env::BehindLinks(options.out), file.model);
  if (!written.ok()) {
    if (!data.empty() && !older) (void)files->RemoveAll(data);
    return written;
  }
  return options.replace ? RemoveOlderData(files.get(), options.out, data) : absl::OkStatus();
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
