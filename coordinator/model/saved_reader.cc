// The variables in the manifest of a model or a checkpoint; then the files and bytes of their rows.
#include "coordinator/model/saved_reader.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/model/hashed_names.h"
#include "coordinator/model/model_directory.h"
#include "coordinator/model/saved_manifest.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "nlohmann/json.hpp"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/data/names.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {
namespace {

using nlohmann::json;

// Names of tensors: in a model's files, and in a checkpoint's shards.
constexpr char kValues[] = "values", kRows[] = "rows", kIds[] = "ids";
constexpr char kAverages[] = "ema", kShardIds[] = "id";
// What rows stand for: a vocabulary, and the names of hashed values.
constexpr char kVocabularies[] = "vocabulary/", kWordsEnding[] = ".txt", kNamesEnding[] = ".names";
constexpr int64_t kMostSteps = int64_t{1} << 53;

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

std::string StringOf(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// One entry of a model's manifest.
absl::StatusOr<SavedVariable> ParseVariable(const json& entry, const std::string& path) {
  SavedVariable variable;
  if (!entry.is_object()) return Damaged(path, "a variable is not described by an object");
  variable.name = StringOf(entry, "name");
  const auto bad = [&](absl::string_view what) {
    return Damaged(path, absl::StrCat("variable ", data::Quoted(variable.name), ": ", what));
  };
  if (variable.name.empty()) return bad("it has no name");
  auto dtype = ParseDType(StringOf(entry, "dtype"));
  if (!dtype.ok()) return bad(dtype.status().message());
  variable.dtype = *dtype;
  const auto flag = [&entry](const char* key) {
    const auto it = entry.find(key);
    return it != entry.end() && it->is_boolean() && it->get<bool>();
  };
  variable.table = flag("table");
  variable.hash = flag("hash");
  variable.vocabulary = StringOf(entry, "vocabulary");
  if (absl::StrContains(variable.vocabulary, '/')) return bad("its vocabulary is no file's name");
  variable.names = StringOf(entry, "names");
  if (absl::StrContains(variable.names, '/')) return bad("its names are in no file of the model");
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array()) return bad("it has no shape");
  for (const json& dim : *shape) {
    const bool open = variable.hash && variable.shape.rank() == 0;
    if (!dim.is_number_integer() || (dim.get<int64_t>() < 0 && !open)) {
      return bad(absl::StrCat("its shape is ", shape->dump()));
    }
    variable.shape.Append(dim.get<int64_t>());
  }
  if (variable.table && variable.shape.rank() < 1) return bad("a table without rows");
  return variable;
}

// The file of `entry`, with its bytes and its checksum where it tells them.
void ReadFile(const json& entry, checkpoint::RowFiles::File* file) {
  const auto bytes = entry.find("bytes"), crc32 = entry.find("crc32");
  file->has_crc32 = bytes != entry.end() && bytes->is_number_unsigned() && crc32 != entry.end() &&
                    crc32->is_number_unsigned();
  if (!file->has_crc32) return;
  file->bytes = bytes->get<uint64_t>();
  file->crc32 = crc32->get<uint32_t>();
}

bool IsFileName(const std::string& name) { return !name.empty() && !absl::StrContains(name, '/'); }

bool IsSlotsFile(absl::string_view name) {
  return absl::ConsumePrefix(&name, kSlotsFolder) && IsFileName(std::string(name));
}

// What a variable's entry says of its slots.
absl::StatusOr<SavedOptimizer> ParseSlots(const json& slots, const std::string& variable,
                                          const std::string& path, std::string* file) {
  SavedOptimizer optimizer;
  if (slots.is_object()) {
    optimizer.kind = StringOf(slots, "optimizer");
    const auto steps = slots.find("steps"), weights = slots.find("weights");
    if (steps != slots.end() && steps->is_number_integer()) optimizer.steps = steps->get<int64_t>();
    optimizer.weights = weights != slots.end() && weights->is_boolean() && weights->get<bool>();
    *file = StringOf(slots, "file");
  }
  const bool good = !optimizer.kind.empty() && optimizer.steps >= 0 &&
                    optimizer.steps <= kMostSteps && (file->empty() || IsSlotsFile(*file));
  if (good) return optimizer;
  return Damaged(path, absl::StrCat("variable ", data::Quoted(variable),
                                    ": its slots are not described by optimizer, steps and file"));
}

// What a shard says of the optimizer of its variable.
void NoteOptimizer(const proto::SavedShard& saved, std::optional<SavedOptimizer>* optimizer) {
  const proto::OptimizerSpec& spec = saved.shard().variable().optimizer();
  if (spec.kind().empty()) return;
  if (!optimizer->has_value()) {
    *optimizer = SavedOptimizer{spec.kind(), 0, /*weights=*/spec.ema_decay() > 0};
  }
  const int64_t steps = std::min(kMostSteps, saved.gradient_steps()) + kernels::EarlierSteps(spec);
  (*optimizer)->steps = std::max((*optimizer)->steps, std::min(kMostSteps, steps));
}

absl::Status CheckVariables(const json& manifest, const std::string& path) {
  const auto variables = manifest.find("variables");
  if (variables == manifest.end() || !variables->is_array()) {
    return Damaged(path, "it has no list of variables");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SavedSource> SavedSource::OpenModel(const std::string& directory) {
  ASSIGN_OR_RETURN(const json manifest, ReadModelManifest(directory));
  SavedSource source;
  source.path_ = directory;
  const std::string path = absl::StrCat(directory, "/", kModelManifest);
  RETURN_IF_ERROR(CheckVariables(manifest, path));
  if (manifest.contains("steps") && manifest["steps"].is_number_integer()) {
    source.steps_ = manifest["steps"].get<int64_t>();
  }
  source.earlier_steps_ = EarlierStepsIn(manifest);
  for (const json& entry : manifest["variables"]) {
    ASSIGN_OR_RETURN(SavedVariable variable, ParseVariable(entry, path));
    const std::string name = StringOf(entry, "file");
    if (!IsFileName(name)) {
      return Damaged(path, absl::StrCat("variable ", data::Quoted(variable.name), ": file ",
                                        data::Quoted(name), " is no file's name"));
    }
    Piece piece;
    checkpoint::RowFiles::File& file = piece.whole;
    file.path = absl::StrCat(directory, "/", name);
    if (variable.shape.rank() > 0) piece.rows = std::max<int64_t>(0, variable.shape.dim(0));
    ReadFile(entry, &file);
    source.variables_.push_back(std::move(variable));
    const std::string order = StringOf(entry, "row_order");
    if (!order.empty() && order != "hash") {
      return Damaged(path, absl::StrCat("variable ", data::Quoted(source.variables_.back().name),
                                        ": its row_order is ", data::Quoted(order)));
    }
    Pieces pieces{order.empty() ? "div" : order, {std::move(piece)}};
    if (const auto slots = entry.find("slots"); slots != entry.end()) {
      std::string file_name;
      ASSIGN_OR_RETURN(pieces.optimizer,
                       ParseSlots(*slots, source.variables_.back().name, path, &file_name));
      if (!file_name.empty()) pieces.slots.path = absl::StrCat(directory, "/", file_name);
      ReadFile(*slots, &pieces.slots);
    }
    source.pieces_.push_back(std::move(pieces));
  }
  source.manifest_ = std::make_shared<const json>(manifest);
  return source;
}

absl::Status SavedSource::VerifyModel() const {
  const auto verify = [](const checkpoint::RowFiles::File& file) -> absl::Status {
    if (!file.has_crc32) return absl::OkStatus();
    const auto reader = checkpoint::SafetensorsReader::Open(file.path);
    if (absl::IsNotFound(reader.status())) return absl::DataLossError(reader.status().message());
    RETURN_IF_ERROR(reader.status());
    return reader->Verify(file.bytes, file.crc32);
  };
  for (const Pieces& of : pieces_) {
    for (const Piece& piece : of.pieces) RETURN_IF_ERROR(verify(piece.whole));
    RETURN_IF_ERROR(verify(of.slots));
  }
  return absl::OkStatus();
}

absl::StatusOr<SavedSource> SavedSource::OpenCheckpoint(const std::string& directory,
                                                        std::optional<uint64_t> number) {
  const auto files = env::NewRealFileSystem();
  SavedSource source;
  source.checkpoint_ = true;
  source.path_ = directory;
  if (!files->Exists(directory)) {
    return absl::NotFoundError(absl::StrCat(directory, ": no such directory"));
  }
  absl::StatusOr<checkpoint::Manifest> manifest = absl::NotFoundError("");
  if (!number && files->Exists(absl::StrCat(directory, "/manifest.json"))) {
    manifest = checkpoint::ReadManifest(files.get(), directory);
  } else if (number) {
    source.path_ = absl::StrCat(directory, "/", checkpoint::CheckpointName(*number));
    if (!files->Exists(source.path_)) {
      return absl::NotFoundError(absl::StrCat(source.path_, ": no such checkpoint"));
    }
    manifest = checkpoint::ReadManifest(files.get(), source.path_);
  } else {
    ASSIGN_OR_RETURN(auto entries, checkpoint::ListCheckpoints(files.get(), directory));
    if (entries.empty()) {
      return absl::NotFoundError(absl::StrCat(directory, " holds no checkpoint"));
    }
    const auto good =
        std::find_if(entries.begin(), entries.end(),
                     [](const checkpoint::CheckpointEntry& e) { return e.manifest.ok(); });
    for (auto skipped = entries.begin(); good != entries.end() && skipped != good; ++skipped) {
      LogWarning("not used: ", skipped->manifest.status().message());
    }
    const checkpoint::CheckpointEntry& entry = good == entries.end() ? entries[0] : *good;
    source.path_ = entry.path;
    manifest = entry.manifest;
  }
  if (!manifest.ok()) return manifest.status();
  source.number_ = manifest->number;
  source.abandoned_ = manifest->abandoned;
  source.steps_ = manifest->steps_done();
  for (const proto::SavedShard& saved : manifest->shards) {
    const proto::VariableSpec& spec = saved.shard().variable();
    auto it = std::find_if(source.variables_.begin(), source.variables_.end(),
                           [&spec](const SavedVariable& v) { return v.name == spec.name(); });
    if (it == source.variables_.end()) {
      SavedVariable variable;
      variable.name = spec.name();
      variable.dtype = static_cast<DType>(spec.dtype());
      variable.table = spec.table();
      variable.hash = spec.has_hash();
      variable.averages = spec.optimizer().ema_decay() > 0;
      variable.begins_in_bf16 = variable.averages && variable.dtype == DType::kBF16;
      if (variable.begins_in_bf16) variable.dtype = DType::kF32;
      for (int64_t dim : spec.shape().dims()) variable.shape.Append(dim);
      it = source.variables_.insert(it, std::move(variable));
      source.pieces_.push_back({saved.shard().strategy(), {}});
    }
    const auto at = static_cast<size_t>(it - source.variables_.begin());
    const auto dtype = static_cast<DType>(spec.dtype());
    const bool averages = spec.optimizer().ema_decay() > 0;
    const bool same_dtype = it->dtype == dtype || (averages && dtype == DType::kBF16);
    if (source.pieces_[at].strategy != saved.shard().strategy() || !same_dtype ||
        it->averages != averages || it->table != spec.table() ||
        it->shape.dims() != absl::MakeConstSpan(spec.shape().dims().data(),
                                                static_cast<size_t>(spec.shape().dims_size()))) {
      return Damaged(source.path_, absl::StrCat("the shards of variable ",
                                                data::Quoted(spec.name()), " disagree"));
    }
    Piece piece;
    for (const checkpoint::ShardFile& file : checkpoint::FilesOf(saved)) {
      piece.deltas.push_back(
          {absl::StrCat(source.path_, "/", file.file), file.bytes, file.crc32, true, file.rows});
    }
    piece.whole = piece.deltas.front();
    piece.deltas.erase(piece.deltas.begin());
    piece.index = saved.shard().index();
    piece.row_begin = saved.shard().row_begin();
    piece.rows = saved.shard().rows();
    piece.places = saved.has_hash() ? saved.hash().places() : piece.rows;
    piece.applied = saved.applied();
    NoteOptimizer(saved, &source.pieces_[at].optimizer);
    source.pieces_[at].pieces.push_back(std::move(piece));
  }
  return source;
}

absl::StatusOr<SavedVariable> SavedSource::Find(const std::string& name) const {
  for (const SavedVariable& variable : variables_) {
    if (variable.name == name) return variable;
  }
  std::vector<std::string> names;
  for (const SavedVariable& variable : variables_) names.push_back(variable.name);
  return absl::NotFoundError(absl::StrCat(path_, " has no variable ", data::Quoted(name), "; ",
                                          data::Alternatives(name, names)));
}

size_t SavedSource::IndexOf(const std::string& name) const {
  size_t at = 0;
  while (variables_[at].name != name) ++at;
  return at;
}

absl::StatusOr<SavedRows> SavedSource::Open(const std::string& name) const {
  SavedRows rows;
  ASSIGN_OR_RETURN(rows.variable_, Find(name));
  rows.values_ = checkpoint_ ? (rows.variable_.averages ? kAverages : kWeightsPart)
                             : (rows.variable_.hash ? kRows : kValues);
  return OpenFiles(std::move(rows), pieces_[IndexOf(name)]);
}

absl::StatusOr<std::optional<SavedOptimizer>> SavedSource::OptimizerOf(
    const std::string& name) const {
  RETURN_IF_ERROR(Find(name).status());
  return pieces_[IndexOf(name)].optimizer;
}

absl::StatusOr<SavedRows> SavedSource::OpenPart(const std::string& name, const std::string& part,
                                                bool per_row) const {
  SavedRows rows;
  ASSIGN_OR_RETURN(rows.variable_, Find(name));
  Pieces of = pieces_[IndexOf(name)];
  if (!of.optimizer || (!checkpoint_ && of.slots.path.empty())) {
    return Damaged(path_, absl::StrCat("variable ", data::Quoted(name), " has no ", part));
  }
  SavedVariable& variable = rows.variable_;
  if (part != kWeightsPart && variable.dtype == DType::kBF16) variable.dtype = DType::kF32;
  if (part == kWeightsPart && variable.begins_in_bf16) variable.dtype = DType::kBF16;
  const bool scalar = variable.shape.rank() == 0;
  if (per_row) variable.shape = Shape{scalar ? 1 : variable.shape.dim(0)};
  rows.values_ = part;
  if (!checkpoint_) {
    of.pieces[0].whole = of.slots;
    if (scalar) of.pieces[0].rows = 1;
  }
  return OpenFiles(std::move(rows), of);
}

absl::StatusOr<SavedRows> SavedSource::OpenFiles(SavedRows rows, const Pieces& of) const {
  const std::string& name = rows.variable_.name;
  const bool mixed = of.strategy == "hash" && !rows.variable_.hash;
  if (mixed && rows.variable_.shape.rank() > 0) rows.mix_.emplace(rows.variable_.shape.dim(0));
  rows.interleaved_ = (of.strategy == "mod" || mixed) && of.pieces.size() > 1;
  rows.ids_ = checkpoint_ ? kShardIds : kIds;
  rows.has_free_rows_ = checkpoint_ && rows.variable_.hash;
  std::vector<Piece> pieces = of.pieces;
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.index < b.index; });
  int64_t row = 0;
  const auto count = static_cast<int64_t>(pieces.size());
  for (int64_t i = 0; i < count; ++i) {
    const Piece& piece = pieces[static_cast<size_t>(i)];
    const int64_t total = rows.variable_.shape.rank() == 0 ? 1 : rows.variable_.shape.dim(0);
    const int64_t wanted =
        rows.interleaved_ ? std::max<int64_t>(0, (total - i + count - 1) / count) : piece.rows;
    if (checkpoint_ && (piece.index != i || piece.rows != wanted ||
                        (of.strategy != "mod" && of.strategy != "hash" &&
                         rows.variable_.shape.rank() > 0 && piece.row_begin != row))) {
      return Damaged(path_, absl::StrCat("the shards of variable ", data::Quoted(name),
                                         " do not make up its rows"));
    }
    row += piece.rows;
    auto opened = checkpoint::RowFiles::Open(piece.whole, piece.deltas, piece.places);
    if (absl::IsNotFound(opened.status())) return absl::DataLossError(opened.status().message());
    ASSIGN_OR_RETURN(checkpoint::RowFiles files, std::move(opened));
    rows.pieces_.push_back({std::make_shared<const checkpoint::RowFiles>(std::move(files)), 0,
                            piece.rows, piece.applied});
  }
  RETURN_IF_ERROR(rows.Finish(path_));
  return rows;
}

std::string SavedSource::PathOf(const std::string& name) const {
  return absl::StrCat(words_.empty() ? path_ : words_, "/", kVocabularies, name);
}

absl::StatusOr<std::string> SavedSource::VerifiedFile(const std::string& name) const {
  const bool model = words_.empty();
  ASSIGN_OR_RETURN(const auto manifest, manifest_);
  if (manifest != nullptr) {
    RETURN_IF_ERROR(CheckModelFile(model ? path_ : words_, *manifest,
                                   absl::StrCat(kVocabularies, name),
                                   model ? kSavedModel : kSavedInputs));
  }
  return PathOf(name);
}

absl::StatusOr<std::string> SavedSource::WordsFile(const std::string& vocabulary) const {
  return VerifiedFile(absl::StrCat(vocabulary, kWordsEnding));
}

absl::StatusOr<SavedWords> SavedSource::Words(const std::string& vocabulary) const {
  ASSIGN_OR_RETURN(const std::string path, WordsFile(vocabulary));
  return SavedWords::Load(path);
}

absl::StatusOr<HashedNames> SavedSource::Names(const SavedVariable& variable) const {
  ASSIGN_OR_RETURN(const std::string path,
                   VerifiedFile(absl::StrCat(variable.names, kNamesEnding)));
  return HashedNames::Load(path, variable.hash ? 0 : variable.shape.dim(0));
}

void SavedSource::UseVocabularies(const std::string& directory,
                                  const std::function<std::string(const std::string& table)>& of) {
  words_ = directory;
  manifest_ = [&]() -> decltype(manifest_) {
    ASSIGN_OR_RETURN(json manifest, ReadModelManifest(directory, kSavedInputs));
    return std::make_shared<const json>(std::move(manifest));
  }();
  // Those that there should be: one that is missing is an error where somebody asks for names.
  const std::set<std::string> files =
      FilesOfModel(env::NewRealFileSystem().get(), directory, kSavedInputs);
  const auto listed = [&files](const std::string& name) {
    return files.count(absl::StrCat(kVocabularies, name)) > 0;
  };
  for (SavedVariable& variable : variables_) {
    const std::string feature = variable.table ? of(variable.name) : "";
    if (feature.empty() || absl::StrContains(feature, '/')) continue;
    if (listed(feature + kWordsEnding)) variable.vocabulary = feature;
    if (listed(feature + kNamesEnding)) variable.names = feature;
  }
}

}  // namespace coxswain::model
