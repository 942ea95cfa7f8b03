// The metadata of an export; a file for each variable; replaced directories; and the export as a
// whole. How variables are written is in formats/.
#include "coordinator/export/export.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/export/csv_writer.h"
#include "coordinator/export/export_format.h"
#include "coordinator/export/selected_rows.h"
#include "coordinator/model/visits.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/names.h"
#include "runtime/env/file_system.h"
#include "runtime/env/keep_access.h"
#include "runtime/env/replace_directory.h"
#include "runtime/env/unfinished_files.h"

namespace coxswain::exporter {
namespace {

constexpr char kDirectoryFacts[] = "export.json";
constexpr char kFormat[] = "coxswain-export";
constexpr char kLabelsEnding[] = ".metadata.tsv", kRemovedEnding[] = ".removed.csv";

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
                                                 const ExportOptions& options,
                                                 const ExportFormat& format) {
  std::vector<std::string> names = options.variables;
  if (names.empty()) {
    for (const model::SavedVariable& v : source.variables()) {
      const bool wanted = format.only_tables == nullptr || v.table;
      if (wanted && !model::IsInternalName(v.name)) names.push_back(v.name);
    }
  }
  std::vector<SelectedRows> chosen;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(model::SavedRows rows, source.Open(name));
    if (format.only_tables != nullptr && !rows.variable().table) {
      return absl::InvalidArgumentError(
          absl::StrCat(data::Quoted(name), " is no table: ", format.only_tables));
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

// The second file of a variable's, with the names of its rows; empty: its format has none.
std::string LabelsFile(const std::string& file) {
  for (const ExportFormat* format : ExportFormats()) {
    absl::string_view stem = file;
    if (format->labels && absl::ConsumeSuffix(&stem, format->ending)) {
      return absl::StrCat(stem, kLabelsEnding);
    }
  }
  return "";
}

// The file with the removed ids of a table.
std::string RemovedFile(const std::string& file) {
  return absl::StrCat(file.substr(0, file.rfind('.')), kRemovedEnding);
}

// A file, or two, for each variable.
absl::Status WriteDirectory(const model::SavedSource& source, const std::vector<SelectedRows>& all,
                            const Facts& facts, const ExportFormat& format, env::FileSystem* files,
                            const std::string& path) {
  nlohmann::ordered_json manifest = facts;
  manifest["variables"] = nlohmann::ordered_json::array();
  for (const SelectedRows& rows : all) {
    const model::SavedVariable& v = rows.variable();
    const std::string file = absl::StrCat(absl::StrReplaceAll(v.name, {{"/", "."}}), format.ending);
    ASSIGN_OR_RETURN(const WordOf words, WordsOf(source, v));
    RETURN_IF_ERROR(format.write_variable(rows, words, files, absl::StrCat(path, "/", file)));
    if (format.labels) {
      const std::string labels = absl::StrCat(path, "/", LabelsFile(file));
      RETURN_IF_ERROR(WriteLabels(rows, words, files, labels));
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
      known.insert({file, RemovedFile(file), LabelsFile(file)});
    }
  }
  for (const std::string& name : names) {
    if (known.count(name) > 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(target, " holds ", name, " beside what was exported: it stays"));
  }
  return absl::OkStatus();
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
                         const std::string& target, bool replace, bool makes_directory) {
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
  if (!replace) {
    return absl::AlreadyExistsError(absl::StrCat(target, " is there already; --force replaces it"));
  }
  const bool directory = files->List(target).ok();
  if (directory && makes_directory) return CheckReplaced(files, target);
  if (directory) {
    return absl::FailedPreconditionError(
        absl::StrCat(target, " is a directory, and not one that was exported: it stays"));
  }
  if (makes_directory) {
    return absl::FailedPreconditionError(
        absl::StrCat(target, " is a file, and this format makes a directory"));
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(target, error)) {
    return absl::FailedPreconditionError(absl::StrCat(target, " is a device: it stays"));
  }
  return absl::OkStatus();
}

// Whether an export into a directory makes a file of this name.
bool IsExportedFile(const std::string& name) {
  if (name == kDirectoryFacts) return true;
  const auto ends = [&](const ExportFormat* format) {
    return format->makes_directory() && absl::EndsWith(name, format->ending);
  };
  return absl::c_any_of(ExportFormats(), ends) || absl::EndsWith(name, kLabelsEnding) ||
         absl::EndsWith(name, kRemovedEnding);
}

// The old export is removed only when the new one is complete. What is left of one that was killed
// goes when the next one begins.
absl::Status ExportFile(const model::SavedSource& source, const std::vector<SelectedRows>& all,
                        const ExportOptions& options, const ExportFormat& format,
                        env::FileSystem* files, const std::string& target) {
  env::RemoveUnfinished(target);
  ASSIGN_OR_RETURN(env::UnfinishedFile made, env::UnfinishedFile::Beside(target));
  RETURN_IF_ERROR(format.write_all(all, FactsOf(source, options.base), files, made.path()));
  env::KeepAccess(target, made.path());
  return made.MoveTo(files, target);
}

absl::Status ExportDirectory(const model::SavedSource& source, const std::vector<SelectedRows>& all,
                             const ExportOptions& options, const ExportFormat& format,
                             env::FileSystem* files, const std::string& target) {
  ASSIGN_OR_RETURN(env::NewDirectory made, env::MakeDirectoryBeside(files, target, IsExportedFile));
  const std::string path = made.path;
  absl::Status written =
      WriteDirectory(source, all, FactsOf(source, options.base), format, files, path);
  const auto may_go = [files](const std::string& old) {
    return files->Exists(old) ? CheckReplaced(files, old) : absl::OkStatus();
  };
  if (written.ok()) written = env::ReplaceDirectory(files, std::move(made), target, may_go);
  if (!written.ok()) (void)files->RemoveAll(path);  // the first error is the one to report
  return written;
}

// Else what was updated cannot be told by counts: some were given out twice.
absl::Status CheckGoesOnFrom(const model::SavedSource& source, const model::SavedSource* base) {
  if (base == nullptr || source.GoesOnFrom(base->number())) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      base->path(), ": ", checkpoint::CheckpointName(source.number()), " does not go on from ",
      checkpoint::CheckpointName(base->number()), ": training went back behind it when it was ",
      "written, as where a parameter server is lost; export all rows, without --since"));
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

absl::StatusOr<std::vector<ExportedVariable>> Export(const model::SavedSource& source,
                                                     const ExportOptions& options) {
  ASSIGN_OR_RETURN(const ExportFormat* const format, FindExportFormat(options.format));
  const auto files = env::NewRealFileSystem();
  std::string target = options.out;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  RETURN_IF_ERROR(
      CheckTarget(files.get(), source, target, options.replace, format->makes_directory()));
  target = env::BehindLinks(target);
  RETURN_IF_ERROR(CheckGoesOnFrom(source, options.base));
  ASSIGN_OR_RETURN(const std::vector<SelectedRows> all, Choose(source, options, *format));
  RETURN_IF_ERROR(CheckNames(all));
  const auto write = format->makes_directory() ? ExportDirectory : ExportFile;
  RETURN_IF_ERROR(write(source, all, options, *format, files.get(), target));
  std::vector<ExportedVariable> exported;
  for (const SelectedRows& rows : all) exported.push_back({rows.variable(), rows.rows()});
  return exported;
}

absl::Status ExportOnnx(const model::SavedSource& source, const ExportOptions& options,
                        const OnnxFile& file) {
  const auto files = env::NewRealFileSystem();
  RETURN_IF_ERROR(
      CheckTarget(files.get(), source, options.out, options.replace, /*makes_directory=*/false));
  std::string data;
  bool older = false;
  if (!file.checksum.empty()) {
    data = OnnxDataName(options.out, file.checksum);
    older = files->Exists(data);
    if (older && !options.replace) {
      return absl::AlreadyExistsError(absl::StrCat(data, " is there already; --force replaces it"));
    }
    env::RemoveUnfinished(data);
    ASSIGN_OR_RETURN(env::UnfinishedFile made, env::UnfinishedFile::Beside(data));
    RETURN_IF_ERROR(WriteOnnxData(file.data, files.get(), made.path()));
    // The data of a private model is private, also where it had another name.
    env::KeepAccess(older ? data : options.out, made.path());
    RETURN_IF_ERROR(made.MoveTo(files.get(), data));
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
    if (number ? entry.number == *number : entry.manifest->steps_done() <= step) {
      return model::SavedSource::OpenCheckpoint(entry.path, std::nullopt);
    }
    there.push_back(absl::StrCat(checkpoint::CheckpointName(entry.number), " of step ",
                                 entry.manifest->steps_done()));
  }
  return absl::NotFoundError(
      absl::StrCat(directory, " has no checkpoint ",
                   number ? std::string(since) : absl::StrCat("of step ", step, " or before"),
                   " older than ", checkpoint::CheckpointName(source.number()),
                   "; there are: ", there.empty() ? "none" : absl::StrJoin(there, ", ")));
}

}  // namespace coxswain::exporter
