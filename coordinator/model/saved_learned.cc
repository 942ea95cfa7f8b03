#include "coordinator/model/saved_learned.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_manifest.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/message_json.h"
#include "runtime/data/dataset_keys.h"
#include "runtime/data/hash.h"
#include "runtime/data/vocabulary_file.h"

namespace coxswain::model {
namespace {

constexpr char kFile[] = "features.json";
constexpr char kFormat[] = "coxswain-features";
constexpr int64_t kFormatVersion = 1;
// Of HashText and Bounded (runtime/data/hash.h), which make buckets and 64-bit ids of values.
constexpr int64_t kHashVersion = 1;
constexpr char kFolder[] = "vocabulary";
constexpr char kDrawnFrom[] = "drawn_from";  // the rows that the parts are of
constexpr char kSplitAs[] = "split_as";      // TrainedOn::split_as, where these are others
constexpr char kDoubtful[] = "doubtful";

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

// A name of a file in the vocabularies' folder becomes its path; nothing else is let through.
absl::Status Resolve(const std::string& directory, const std::string& path, std::string* file) {
  if (file->empty()) return absl::OkStatus();
  const std::string folder = absl::StrCat(kFolder, "/");
  const bool inside = absl::StartsWith(*file, folder) &&
                      file->find('/', folder.size()) == std::string::npos &&
                      *file != absl::StrCat(folder, "..");
  if (!inside) return Damaged(path, absl::StrCat("'", *file, "' is no file of the model"));
  *file = absl::StrCat(directory, "/", *file);
  return absl::OkStatus();
}

absl::Status CheckVersion(const checkpoint::Json& json, const std::string& path, const char* key,
                          int64_t known) {
  int64_t found = 0;
  if (!json.contains(key) || !checkpoint::ReadInteger(json[key], &found)) {
    return Damaged(path, absl::StrCat("'", key, "' is no number"));
  }
  if (found == known) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": '", key, "' is ", found, ", this program knows ", known,
                   ": use the version of coxswain that saved the model"));
}

bool SameRows(const proto::TrainedRows& a, const proto::TrainedRows& b) {
  if (a.rows() != b.rows()) return false;
  // Of a text: the one that it has in memory and streamed.
  const bool words = a.words_hash() != 0 && b.words_hash() != 0;
  return words ? a.words_hash() == b.words_hash() : a.hash() == b.hash();
}

// What is kept of the rows, beside their numbers.
void DescribeRows(const data::Dataset& data, const TrainedOn* earlier, checkpoint::Json* examples) {
  (*examples)[kDrawnFrom] = checkpoint::MessageToJson(data.trained_rows());
  if (earlier == nullptr) return;
  const bool keeps = KeepsParts(*earlier, data);
  if (earlier->doubtful || !keeps) (*examples)[kDoubtful] = true;
  const bool grown = keeps && data.since_training() == data::SinceTraining::kGrown;
  if (grown && data::PartsDependOnOthers(data.trained_rows().split(), data.is_text())) {
    (*examples)[kSplitAs] = checkpoint::MessageToJson(earlier->split_as);
  }
}

}  // namespace

bool KeepsParts(const TrainedOn& trained, const data::Dataset& data) {
  const data::SinceTraining since = data.since_training();
  if (since != data::SinceTraining::kSame && since != data::SinceTraining::kGrown) return false;
  // Those behind split_as had parts that others behind them would change.
  return SameRows(trained.split_as, trained.rows) || SameRows(trained.rows, data.trained_rows());
}

absl::Status WriteLearned(const data::Dataset& data, env::FileSystem* files,
                          const std::string& directory, const TrainedOn* earlier) {
  RETURN_IF_ERROR(files->MakeDirs(absl::StrCat(directory, "/", kFolder)));
  const auto write = [&](const std::string& name, const std::string& content) {
    return files->WriteAtomically(absl::StrCat(directory, "/", name), content);
  };
  checkpoint::Json features = checkpoint::Json::array();
  for (proto::LearnedFeature learned : data.learned()) {
    if (const std::vector<std::string>* words = data.vocabulary(learned.name())) {
      const std::string content = data::VocabularyLines(*words);
      learned.set_vocabulary_file(absl::StrCat(kFolder, "/", learned.name(), ".txt"));
      learned.set_vocabulary_hash(data::HashText(content));
      RETURN_IF_ERROR(write(learned.vocabulary_file(), content));
    }
    if (const auto names = data.names(learned.name())) {
      const std::string content = data::VocabularyLines(*names);
      learned.set_names_file(absl::StrCat(kFolder, "/", learned.name(), ".names"));
      learned.set_names_hash(data::HashText(content));
      RETURN_IF_ERROR(write(learned.names_file(), content));
    }
    if (data.is_text()) {
      const std::string content = data::CountLines(data.training_counts(learned.name()));
      learned.set_counts_file(absl::StrCat(kFolder, "/", learned.name(), ".counts"));
      learned.set_counts_hash(data::HashText(content));
      RETURN_IF_ERROR(write(learned.counts_file(), content));
    }
    features.push_back(checkpoint::MessageToJson(learned));
  }
  checkpoint::Json json;
  json["format"] = kFormat;
  json["version"] = kFormatVersion;
  json["hash"] = kHashVersion;
  json["examples"] = {{"training", data.part_size(Part::kTraining)},
                      {"validation", data.num_examples(Part::kValidation)},
                      {"test", data.num_examples(Part::kTest)}};
  DescribeRows(data, earlier, &json["examples"]);
  json["features"] = std::move(features);
  return write(kFile, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

absl::StatusOr<TrainedOn> ReadLearned(const std::string& directory, proto::DatasetSpec* spec) {
  const auto files = env::NewRealFileSystem();
  std::error_code ignored;
  // Workers may run in other directories.
  const std::string absolute = std::filesystem::absolute(directory, ignored).string();
  const std::string path = absl::StrCat(directory, "/", kFile);
  auto text = files->Read(path);
  if (absl::IsNotFound(text.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory, " has no ", kFile, ", which says how values become ids and numbers: ",
        "it was removed, or an earlier version of coxswain saved the model. Train it ", "again"));
  }
  RETURN_IF_ERROR(text.status());
  for (const ManifestKind& kind : {kSavedModel, kSavedInputs}) {
    if (!files->Exists(absl::StrCat(directory, "/", kind.file))) continue;
    RETURN_IF_ERROR(CheckModelFile(directory, kFile, kind));
  }
  const checkpoint::Json json = checkpoint::ParseJson(*text);
  if (!json.is_object() || json.value("format", checkpoint::Json()) != checkpoint::Json(kFormat)) {
    return Damaged(path, "not what a model knows of its features");
  }
  RETURN_IF_ERROR(CheckVersion(json, path, "version", kFormatVersion));
  RETURN_IF_ERROR(CheckVersion(json, path, "hash", kHashVersion));
  if (!json.contains("features") || !json["features"].is_array()) {
    return Damaged(path, "it has no list of features");
  }
  spec->clear_learned();
  spec->clear_trained();
  for (const checkpoint::Json& entry : json["features"]) {
    proto::LearnedFeature* learned = spec->add_learned();
    if (absl::Status s = checkpoint::MessageFromJson(entry, learned); !s.ok()) {
      return Damaged(path, s.message());
    }
    RETURN_IF_ERROR(Resolve(absolute, path, learned->mutable_vocabulary_file()));
    RETURN_IF_ERROR(Resolve(absolute, path, learned->mutable_counts_file()));
    RETURN_IF_ERROR(Resolve(absolute, path, learned->mutable_names_file()));
  }
  if (spec->learned().empty()) return Damaged(path, "it knows no feature");
  TrainedOn trained;
  if (json.contains("examples") && json["examples"].is_object()) {
    const checkpoint::Json& examples = json["examples"];
    if (examples.contains("training"))
      checkpoint::ReadInteger(examples["training"], &trained.training);
    if (examples.contains("validation"))
      checkpoint::ReadInteger(examples["validation"], &trained.validation);
    if (examples.contains("test")) checkpoint::ReadInteger(examples["test"], &trained.test);
    if (examples.contains(kDrawnFrom)) {
      const absl::Status s = checkpoint::MessageFromJson(examples[kDrawnFrom], &trained.rows);
      if (!s.ok()) return Damaged(path, s.message());
      trained.split_as = trained.rows;
    }
    if (examples.contains(kSplitAs)) {
      trained.split_as.Clear();
      const absl::Status s = checkpoint::MessageFromJson(examples[kSplitAs], &trained.split_as);
      if (!s.ok()) return Damaged(path, s.message());
    }
    trained.doubtful = examples.value(kDoubtful, checkpoint::Json()) == checkpoint::Json(true);
    if (examples.contains(kDrawnFrom)) *spec->mutable_trained() = trained.split_as;
  }
  return trained;
}

}  // namespace coxswain::model
