// What is read (the model or checkpoint), which features keep their ids, which row of the model is
// which row of a table (RowMap), and copying: dense variables, hash tables, tables.
#include "coordinator/model/warm_start.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/copy_rows.h"
#include "coordinator/model/saved_learned.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/model/visits.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/data_format.h"
#include "runtime/data/names.h"
#include "runtime/data/spec_check.h"
#include "runtime/tensor/limits.h"

namespace coxswain::model {
namespace {

bool IsModel(const std::string& directory) {
  std::error_code error;
  return std::filesystem::exists(directory + "/model.json", error);
}

absl::StatusOr<SavedSource> OpenSource(const std::string& directory) {
  if (IsModel(directory)) return SavedSource::OpenModel(directory);
  auto checkpoint = SavedSource::OpenCheckpoint(directory, std::nullopt);
  if (!absl::IsNotFound(checkpoint.status())) return checkpoint;
  return absl::NotFoundError(
      absl::StrCat(directory, ": wanted a saved model, or checkpoints, found neither"));
}

// Whether the job would learn the same kind of thing of the feature.
bool LearnsAlike(const proto::DatasetSpec& spec, const proto::FeatureSpec& feature,
                 const proto::LearnedFeature& learned) {
  if (feature.kind() == proto::FeatureSpec::NUMERIC) {
    return learned.scale() != 0 && learned.normalization() == feature.normalization() &&
           (feature.normalization() == proto::FeatureSpec::STANDARD ||
            feature.normalization() == proto::FeatureSpec::MIN_MAX);
  }
  if (data::FormatOf(spec).HasIndices(feature)) return learned.numbers() > 0;
  return data::LearnsVocabulary(feature, spec) && !learned.vocabulary_file().empty();
}

// The model's row for each row of a table; -1: it has none.
struct RowMap {
  int64_t same = 0;  // the first rows, which are the model's
  std::vector<int64_t> behind;

  int64_t taken() const {
    return same + std::count_if(behind.begin(), behind.end(), [](int64_t row) { return row >= 0; });
  }
};

class Taker {
 public:
  Taker(const SavedSource& source, const job::JobSpec& job, const data::Dataset& data,
        ParameterServerStrategy* strategy, const NameMap& names)
      : source_(source), job_(job), data_(data), strategy_(strategy), names_(names) {}

  absl::StatusOr<WarmStart> Take();

 private:
  using Info = std::shared_ptr<const VariableInfo>;

  // Each entry of the map stands for a variable of the job and one of the model.
  absl::Status CheckNames() const;
  absl::Status TakeVariable(const Info& info, const SavedVariable& saved);
  absl::Status TakeDense(const Info& info, const SavedRows& rows);
  absl::Status TakeHash(const Info& info, const SavedRows& rows);
  absl::Status TakeTable(const Info& info, const SavedRows& rows);
  // Nothing, with the reason in result_.fresh, where rows stand for other things.
  absl::StatusOr<std::optional<RowMap>> MapRows(const VariableInfo& info, const SavedRows& rows);
  absl::StatusOr<RowMap> MapWords(const VariableInfo& info, const SavedRows& rows,
                                  const std::vector<std::string>& values);
  absl::Status CopyMapped(const Info& info, const SavedRows& rows, const RowMap& map);
  absl::Status CopyBehind(const VariableInfo& info, const SavedRows& rows, const RowMap& map);
  void Taken(const VariableInfo& info, const SavedRows& rows, int64_t taken, int64_t fresh) {
    const std::string& name = rows.variable().name;
    result_.taken.push_back({info.name, name == info.name ? "" : name, taken, fresh});
  }
  void Fresh(const VariableInfo& info, absl::string_view why) {
    result_.fresh.push_back(absl::StrCat(info.name, ": ", why));
  }

  const SavedSource& source_;
  const job::JobSpec& job_;
  const data::Dataset& data_;
  ParameterServerStrategy* const strategy_;
  const NameMap& names_;
  WarmStart result_;
};

absl::Status Taker::CheckNames() const {
  std::vector<bool> in_job(names_.entries().size()), in_model(names_.entries().size());
  std::vector<std::string> there, wanted;
  for (const SavedVariable& saved : source_.variables()) there.push_back(saved.name);
  for (const Info& info : strategy_->variables()) {
    if (IsInternal(*info)) continue;
    wanted.push_back(info->name);
    int used = -1;
    const std::string old_name = names_.OldVariable(job_, info->name, &used);
    if (used < 0) continue;
    in_job[static_cast<size_t>(used)] = true;
    if (source_.Find(old_name).ok()) in_model[static_cast<size_t>(used)] = true;
  }
  for (size_t i = 0; i < in_job.size(); ++i) {
    const NameMap::Entry& entry = names_.entries()[i];
    if (in_job[i] && in_model[i]) continue;
    const std::string& name = in_job[i] ? entry.old_name : entry.new_name;
    return config::ConfigurationError(absl::StrCat(
        "--init-map ", entry.old_name, "=", entry.new_name,
        ": wanted a feature, a variable or what ", "stands before names of variables; ",
        in_job[i] ? source_.path() : "the job", " has no ", data::Quoted(name), "; ",
        data::Alternatives(name, in_job[i] ? there : wanted)));
  }
  return absl::OkStatus();
}

absl::StatusOr<WarmStart> Taker::Take() {
  RETURN_IF_ERROR(CheckNames());
  result_.from = source_.path();
  std::set<std::string> used;
  for (const Info& info : strategy_->variables()) {
    if (IsInternal(*info)) continue;
    int entry = -1;
    const auto saved = source_.Find(names_.OldVariable(job_, info->name, &entry));
    if (absl::IsNotFound(saved.status())) {
      Fresh(*info, "the model does not have it");
      continue;
    }
    RETURN_IF_ERROR(saved.status());
    used.insert(saved->name);
    RETURN_IF_ERROR(
        Annotate(TakeVariable(info, *saved), absl::StrCat("initial values from ", source_.path())));
  }
  for (const SavedVariable& saved : source_.variables()) {
    if (used.count(saved.name) == 0) result_.left.push_back(saved.name);
  }
  return std::move(result_);
}

absl::Status Taker::TakeVariable(const Info& info, const SavedVariable& saved) {
  if (saved.table != info->table || saved.hash != info->hash()) {
    const auto kind = [](bool table, bool hash) {
      return hash ? "a hash table" : table ? "a table" : "a dense variable";
    };
    Fresh(*info, absl::StrCat("it is ", kind(saved.table, saved.hash), " in the model and ",
                              kind(info->table, info->hash()), " in the job"));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const SavedRows rows, source_.Open(saved.name));
  const Shape& shape = rows.variable().shape;
  const bool same_rows = info->table || shape == info->shape;
  if (rows.variable().dtype != info->dtype || rows.row_elements() != info->row_elements() ||
      !same_rows) {
    Fresh(*info, absl::StrCat("it is ", DTypeName(rows.variable().dtype), shape.ToString(),
                              " in the model and ", DTypeName(info->dtype), info->shape.ToString(),
                              " in the job"));
    return absl::OkStatus();
  }
  if (info->hash()) return TakeHash(info, rows);
  return info->table ? TakeTable(info, rows) : TakeDense(info, rows);
}

absl::Status Taker::TakeDense(const Info& info, const SavedRows& rows) {
  RETURN_IF_ERROR(CopyDense(rows, info, strategy_));
  Taken(*info, rows, 1, 0);
  return absl::OkStatus();
}

absl::Status Taker::TakeHash(const Info& info, const SavedRows& rows) {
  ASSIGN_OR_RETURN(const int64_t taken, CopyIds(rows, *info, strategy_));
  Taken(*info, rows, taken, 0);
  return absl::OkStatus();
}

absl::StatusOr<RowMap> Taker::MapWords(const VariableInfo& info, const SavedRows& rows,
                                       const std::vector<std::string>& values) {
  ASSIGN_OR_RETURN(const SavedWords words,
                   SavedWords::Load(source_.WordsPath(rows.variable().vocabulary)));
  const auto known = static_cast<int64_t>(words.words().size());
  const auto count = static_cast<int64_t>(values.size());
  RowMap map;
  while (map.same < std::min(known, count) &&
         values[static_cast<size_t>(map.same)] == words.words()[static_cast<size_t>(map.same)]) {
    ++map.same;
  }
  for (int64_t i = map.same; i < count; ++i) {
    map.behind.push_back(words.Find(values[static_cast<size_t>(i)]).value_or(-1));
  }
  // Buckets mean the same only where there are as many.
  const int64_t buckets = info.rows() - count, model_buckets = rows.rows() - known;
  for (int64_t i = 0; i < buckets; ++i) {
    map.behind.push_back(buckets == model_buckets ? known + i : -1);
  }
  return map;
}

absl::StatusOr<std::optional<RowMap>> Taker::MapRows(const VariableInfo& info,
                                                     const SavedRows& rows) {
  const std::string feature = VocabularyOf(job_, info.name);
  if (const std::vector<std::string>* values = data_.vocabulary(feature)) {
    if (!rows.variable().vocabulary.empty()) return MapWords(info, rows, *values);
    Fresh(info, source_.is_checkpoint()
                    ? "a checkpoint does not tell which values its rows are of; the saved model "
                      "does (--model-dir)"
                    : "its rows have no vocabulary in the model");
    return std::nullopt;
  }
  RowMap map;
  map.same = std::min(rows.rows(), info.rows());
  // More indices are there (libsvm): the model's are the first.
  const auto& learned = data_.learned();
  const bool of_numbers = std::any_of(learned.begin(), learned.end(), [&](const auto& l) {
    return l.name() == feature && l.numbers() > 0;
  });
  if (rows.variable().vocabulary.empty() && (rows.rows() == info.rows() || of_numbers)) {
    map.behind.assign(static_cast<size_t>(info.rows() - map.same), -1);
    return map;
  }
  Fresh(info, absl::StrCat("it has ", rows.rows(), " rows in the model and ", info.rows(),
                           " in the job, which are not of the same values"));
  return std::nullopt;
}

absl::Status Taker::TakeTable(const Info& info, const SavedRows& rows) {
  ASSIGN_OR_RETURN(const std::optional<RowMap> map, MapRows(*info, rows));
  if (!map || rows.row_bytes() == 0) return absl::OkStatus();
  constexpr int64_t kFew = 4096;
  const int64_t moved = map->taken() - map->same;
  if (info->strategy == "hash" || moved > kFew) {
    RETURN_IF_ERROR(CopyMapped(info, rows, *map));
  } else {
    RETURN_IF_ERROR(CopyFirstRows(rows, *info, map->same, strategy_));
    RETURN_IF_ERROR(CopyBehind(*info, rows, *map));
  }
  const int64_t taken = map->taken();
  Taken(*info, rows, taken, info->rows() - taken);
  return absl::OkStatus();
}

absl::Status Taker::CopyBehind(const VariableInfo& info, const SavedRows& rows, const RowMap& map) {
  std::string row(rows.row_bytes(), '\0');
  for (size_t i = 0; i < map.behind.size(); ++i) {
    if (map.behind[i] < 0) continue;
    RETURN_IF_ERROR(rows.Read(map.behind[i], 1, row.data()));
    const int64_t at = map.same + static_cast<int64_t>(i);
    RETURN_IF_ERROR(WriteSpan(info, at, at + 1, rows.variable().dtype, row.data(), strategy_));
  }
  return absl::OkStatus();
}

// In memory: rows go anywhere.
absl::Status Taker::CopyMapped(const Info& info, const SavedRows& rows, const RowMap& map) {
  const size_t width = rows.row_bytes();
  ASSIGN_OR_RETURN(Tensor model, AllocateTensor(rows.variable().dtype, rows.variable().shape));
  RETURN_IF_ERROR(rows.Read(0, rows.rows(), model.mutable_raw()));
  ASSIGN_OR_RETURN(Tensor value, strategy_->Read(EmbeddingTable(info)));
  if (value.dtype() != info->dtype || value.shape() != info->shape) {
    return absl::InternalError(absl::StrCat("variable '", info->name, "' was read as ",
                                            DTypeName(value.dtype()), value.shape().ToString()));
  }
  auto* const out = static_cast<char*>(value.mutable_raw());
  const auto* const in = static_cast<const char*>(model.raw());
  std::memcpy(out, in, static_cast<size_t>(map.same) * width);
  for (size_t i = 0; i < map.behind.size(); ++i) {
    if (map.behind[i] < 0) continue;
    std::memcpy(out + (static_cast<size_t>(map.same) + i) * width,
                in + static_cast<size_t>(map.behind[i]) * width, width);
  }
  return strategy_->Assign(EmbeddingTable(info), value);
}

}  // namespace

std::string WarmStart::ToString() const {
  std::string text = absl::StrCat("initial values from ", from, ":\n");
  int64_t dense = 0;
  for (const Rows& rows : taken) {
    if (rows.taken == 1 && rows.fresh == 0 && rows.old_name.empty()) {
      ++dense;
      continue;
    }
    const std::string old = rows.old_name.empty() ? "" : absl::StrCat(" from ", rows.old_name);
    absl::StrAppend(&text, "  ", rows.variable, old, ": ", rows.taken,
                    rows.taken == 1 ? " row" : " rows");
    if (rows.fresh > 0) absl::StrAppend(&text, ", ", rows.fresh, " new");
    absl::StrAppend(&text, "\n");
  }
  if (dense > 0) {
    absl::StrAppend(&text, "  ", dense, dense == 1 ? " other variable\n" : " other variables\n");
  }
  for (const std::string& name : fresh) absl::StrAppend(&text, "  anew: ", name, "\n");
  if (!left.empty()) {
    absl::StrAppend(&text, "  not taken over: ", absl::StrJoin(left, ", "), "\n");
  }
  return text;
}

absl::Status KeepIds(const std::string& directory, proto::DatasetSpec* spec, const NameMap& names) {
  RETURN_IF_ERROR(OpenSource(directory).status());
  spec->clear_known();
  if (!IsModel(directory) || !data::FormatOf(*spec).has_rows()) return absl::OkStatus();
  proto::DatasetSpec model;
  RETURN_IF_ERROR(ReadLearned(directory, &model).status());
  for (const proto::FeatureSpec& feature : spec->features()) {
    for (const proto::LearnedFeature& learned : model.learned()) {
      if (learned.name() != names.OldFeature(feature.name())) continue;
      if (!LearnsAlike(*spec, feature, learned)) continue;
      proto::LearnedFeature* const known = spec->add_known();
      *known = learned;
      known->set_name(feature.name());
      break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<WarmStart> TakeOver(const std::string& directory, const job::JobSpec& job,
                                   const data::Dataset& data, ParameterServerStrategy* strategy,
                                   const NameMap& names) {
  ASSIGN_OR_RETURN(const SavedSource source, OpenSource(directory));
  return Taker(source, job, data, strategy, names).Take();
}

}  // namespace coxswain::model
