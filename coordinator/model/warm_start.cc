// What is read (the model or checkpoint), which features keep their ids, which variable of the
// model fits which of the job's (WarmSource), which row is which row of a table, copying (Taker).
#include "coordinator/model/warm_start.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/model_features.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/model/copy_rows.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/saved_hash.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_learned.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/model/visits.h"
#include "kernels/optimizers/optimizer_info.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/cluster/control.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/data_format.h"
#include "runtime/data/names.h"
#include "runtime/data/spec_check.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {
namespace {

bool IsModel(const std::string& directory) {
  std::error_code error;
  return std::filesystem::exists(directory + "/model.json", error);
}

absl::StatusOr<SavedSource> OpenSource(const std::string& directory) {
  if (IsModel(directory)) return SavedSource::OpenModel(directory);
  auto checkpoint = SavedSource::OpenCheckpoint(directory, std::nullopt);
  if (checkpoint.ok()) {
    RETURN_IF_ERROR(NameRows(directory, &*checkpoint));
    return checkpoint;
  }
  if (!absl::IsNotFound(checkpoint.status())) return checkpoint;
  return absl::NotFoundError(
      absl::StrCat(directory, ": wanted a saved model, or checkpoints, found neither"));
}

// Where a model's features.json and vocabularies are; empty: nowhere.
absl::StatusOr<std::string> LearnedOf(const std::string& directory) {
  if (IsModel(directory)) return directory;
  ASSIGN_OR_RETURN(const SavedSource source, OpenSource(directory));
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::ReadManifest(env::NewRealFileSystem().get(), source.path()));
  std::string inputs = InputsOf(directory);
  const absl::Status fit = CheckInputsFit(inputs, manifest, source.path());
  if (absl::IsNotFound(fit) || absl::IsFailedPrecondition(fit)) return std::string();
  RETURN_IF_ERROR(fit);
  return inputs;
}

// How the numbers of a feature become those of a batch, in words.
std::string NormalizationOf(const proto::FeatureSpec& feature) {
  using proto::FeatureSpec;
  switch (feature.normalization()) {
    case FeatureSpec::STANDARD:
      return "standard";
    case FeatureSpec::MIN_MAX:
      return "min_max";
    case FeatureSpec::LOG1P:
      return "log1p";
    case FeatureSpec::DIVIDE:
      return absl::StrCat("divide by ", feature.divisor());
    default:
      return "none";
  }
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
  if (feature.keep_names()) return !learned.names_file().empty();
  return data::LearnsVocabulary(feature, spec) && !learned.vocabulary_file().empty();
}

}  // namespace

class Taker {
 public:
  Taker(const WarmSource& from, ParameterServerStrategy* strategy)
      : from_(from), source_(from.source_), names_(from.from_.names), strategy_(strategy) {}

  absl::StatusOr<WarmStart> Take();

 private:
  using Info = std::shared_ptr<const VariableInfo>;
  using Match = WarmSource::Match;

  // Each entry of the map stands for a variable of the job and one of the model.
  absl::Status CheckNames() const;
  absl::Status TakeVariable(const Info& info, const Match& match);
  // Where the rows of a table that has no ids, and the elements of a layer come from; nothing: from
  // the same places.
  struct Places {
    std::optional<RowMap> rows;
    std::optional<ElementMap> elements;
  };
  // How rows that were taken had been used.
  absl::Status TakeUses(const Info& info, const SavedRows& rows);
  // What the optimizer keeps of what was taken.
  absl::Status TakeSlots(const Info& info, const Match& match, const Places& places);
  absl::Status CopyPart(const Info& info, const SavedRows& rows, const Places& places,
                        const PartOfRows& part);
  absl::StatusOr<RowMap> MapRows(const VariableInfo& info, const SavedRows& rows) const;
  absl::StatusOr<RowMap> MapWords(const VariableInfo& info, const SavedRows& rows,
                                  const std::vector<std::string>& values) const;

  const WarmSource& from_;
  const SavedSource& source_;
  const NameMap& names_;
  ParameterServerStrategy* const strategy_;
  WarmStart result_;
};

namespace {

// Whether layers are on this feature.
bool IsInput(const job::InputsByVariable& inputs, const std::string& feature) {
  for (const auto& [variable, axes] : inputs) {
    for (const auto* parts : {&axes.rows, &axes.columns}) {
      for (const job::VariablePart& part : *parts) {
        if (std::find(part.of.begin(), part.of.end(), feature) != part.of.end()) return true;
      }
    }
  }
  return false;
}

}  // namespace

absl::Status Taker::CheckNames() const {
  std::vector<bool> in_job(names_.entries().size()), in_model(names_.entries().size());
  std::vector<std::string> there, wanted;
  for (const SavedVariable& saved : source_.variables()) there.push_back(saved.name);
  for (const Info& info : strategy_->variables()) {
    if (IsInternal(*info)) continue;
    wanted.push_back(info->name);
    int used = -1;
    const std::string old_name = names_.OldVariable(*from_.job_, info->name, &used);
    if (used < 0) continue;
    in_job[static_cast<size_t>(used)] = true;
    if (source_.Find(old_name).ok()) in_model[static_cast<size_t>(used)] = true;
  }
  // A number has no table of its own.
  for (size_t i = 0; i < in_job.size(); ++i) {
    const NameMap::Entry& entry = names_.entries()[i];
    in_job[i] = in_job[i] || IsInput(from_.inputs_, entry.new_name);
    in_model[i] = in_model[i] || IsInput(from_.saved_inputs_, entry.old_name) ||
                  (!from_.no_inputs_.empty() && IsInput(from_.inputs_, entry.new_name) &&
                   job::IsNumeric(*from_.job_, entry.new_name));
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
  for (const auto& [name, why] : from_.other_numbers_) {
    result_.other_numbers.push_back(absl::StrCat(name, ": ", why));
  }
  std::set<std::string> used;
  for (const Info& info : strategy_->variables()) {
    if (IsInternal(*info)) continue;
    ASSIGN_OR_RETURN(const Match match, from_.Find(*info, strategy_->ema_decay() > 0));
    if (match.there) used.insert(match.saved);
    if (!match.fresh.empty()) {
      result_.fresh.push_back(absl::StrCat(info->name, ": ", match.fresh));
      continue;
    }
    RETURN_IF_ERROR(
        Annotate(TakeVariable(info, match), absl::StrCat("initial values from ", source_.path())));
  }
  for (const SavedVariable& saved : source_.variables()) {
    if (used.count(saved.name) == 0) result_.left.push_back(saved.name);
  }
  return std::move(result_);
}

absl::Status Taker::TakeVariable(const Info& info, const Match& match) {
  ASSIGN_OR_RETURN(const SavedRows rows, source_.Open(match.saved));
  WarmStart::Rows taken{info->name, match.saved == info->name ? "" : match.saved, 1, 0,
                        match.layer.missing};
  Places places{std::nullopt, match.layer.map};
  if (info->hash()) {
    ASSIGN_OR_RETURN(taken.taken, CopyIds(rows, *info, strategy_));
  } else if (info->table) {
    ASSIGN_OR_RETURN(places.rows, MapRows(*info, rows));
    taken.taken = places.rows->taken();
    taken.fresh = info->rows() - taken.taken;
    RETURN_IF_ERROR(CopyPart(info, rows, places, {}));
  } else {
    RETURN_IF_ERROR(CopyPart(info, rows, places, {}));
  }
  result_.taken.push_back(std::move(taken));
  if (!match.fresh_slots.empty()) result_.fresh_slots[match.fresh_slots].push_back(info->name);
  if (!match.optimizer.empty()) RETURN_IF_ERROR(TakeSlots(info, match, places));
  return TakeUses(info, rows);
}

// At last: whatever is written to a row counts as a use.
absl::Status Taker::TakeUses(const Info& info, const SavedRows& rows) {
  if (!info->hash() || rows.rows() == 0) return absl::OkStatus();
  if (!EvictsRows(info->shards[0].variable().hash())) return absl::OkStatus();
  if (rows.has_uses()) return CopyUses(rows, *info, strategy_);
  LogWarning("rows of ", info->name, " count as used just now: the model does not tell how they ",
             "were used, as of a table that evicted no rows or one of an earlier "
             "version");
  return absl::OkStatus();
}

absl::Status Taker::CopyPart(const Info& info, const SavedRows& rows, const Places& places,
                             const PartOfRows& part) {
  if (info->hash()) return CopyIds(rows, *info, strategy_, part).status();
  if (places.rows) return CopyMapped(rows, *info, *places.rows, strategy_, part);
  if (places.elements) return CopyElements(rows, *info, *places.elements, strategy_, part);
  return CopyDense(rows, info, strategy_, part);
}

absl::Status Taker::TakeSlots(const Info& info, const Match& match, const Places& places) {
  ++result_.with_slots;
  if (match.weights) {
    // With the weights the averages begin anew, so they come behind.
    ASSIGN_OR_RETURN(const SavedRows weights,
                     source_.OpenPart(match.saved, kWeightsPart, /*per_row=*/false));
    RETURN_IF_ERROR(CopyPart(info, weights, places, {}));
    ASSIGN_OR_RETURN(const SavedRows averages, source_.Open(match.saved));
    RETURN_IF_ERROR(CopyPart(info, averages, places, {cluster::kAverages, false}));
  }
  int slot = 0;
  for (const kernels::SlotInfo& of : kernels::SlotsOfKind(match.optimizer)) {
    ASSIGN_OR_RETURN(const SavedRows rows, source_.OpenPart(match.saved, of.name, of.per_row));
    RETURN_IF_ERROR(CopyPart(info, rows, places, {++slot, of.per_row}));
  }
  return absl::OkStatus();
}

absl::StatusOr<RowMap> Taker::MapWords(const VariableInfo& info, const SavedRows& rows,
                                       const std::vector<std::string>& values) const {
  ASSIGN_OR_RETURN(const SavedWords words, source_.Words(rows.variable().vocabulary));
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

absl::StatusOr<RowMap> Taker::MapRows(const VariableInfo& info, const SavedRows& rows) const {
  const std::string feature = VocabularyOf(*from_.job_, info.name);
  if (const std::vector<std::string>* values = from_.data_->vocabulary(feature)) {
    return MapWords(info, rows, *values);
  }
  RowMap map;
  map.same = std::min(rows.rows(), info.rows());
  map.behind.assign(static_cast<size_t>(info.rows() - map.same), -1);
  return map;
}

absl::StatusOr<WarmSource> WarmSource::Open(const InitialModel& from, const job::JobSpec& job,
                                            const data::Dataset& data) {
  ASSIGN_OR_RETURN(SavedSource source, OpenSource(from.directory));
  RETURN_IF_ERROR(VerifySource(source));
  WarmSource opened(from, std::move(source), job, data);
  opened.ReadInputs();
  return opened;
}

void WarmSource::ReadInputs() {
  inputs_ = job_->model->Inputs(*job_);
  const absl::StatusOr<std::string> kept = LearnedOf(from_.directory);
  if (kept.ok() && kept->empty()) {
    no_inputs_ =
        absl::StrCat(InputsOf(source_.path()), " is not there, or is of another job; a saved model",
                     " tells it (--model-dir)");
    CompareClasses("");
    return;
  }
  const ManifestKind& kind = source_.is_checkpoint() ? kSavedInputs : kSavedModel;
  const absl::StatusOr<job::JobSpec> saved =
      kept.ok() ? ReadKeptJob(*kept, kind) : absl::StatusOr<job::JobSpec>(kept.status());
  if (saved.ok()) {
    saved_inputs_ = saved->model->Inputs(*saved);
    CompareNumbers(*saved);
    CompareValues(*saved);
  } else {
    no_inputs_ = std::string(saved.status().message());
  }
  CompareClasses(saved.ok() ? saved->dataset.label().feature() : "");
}

// Class k is the k-th value of the label's feature; of a label that is a column, the number k.
void WarmSource::CompareClasses(const std::string& saved_feature) {
  if (job_->model->classes() < 2) return;
  const std::string& feature = job_->dataset.label().feature();
  if (!no_inputs_.empty()) {
    if (!feature.empty()) other_classes_ = absl::StrCat("nothing tells its classes: ", no_inputs_);
    return;
  }
  if (feature.empty() && saved_feature.empty()) return;
  const std::vector<std::string>* const values = data_->vocabulary(feature);
  const auto saved = source_.Words(saved_feature);
  // The model's may have fewer: new ones come behind.
  if (values != nullptr && saved.ok() && saved->words().size() <= values->size() &&
      std::equal(saved->words().begin(), saved->words().end(), values->begin())) {
    return;
  }
  other_classes_ = "its classes are others than in the model, or in another order";
}

// Weights of a number are for numbers of one scale.
void WarmSource::CompareNumbers(const job::JobSpec& saved) {
  for (const proto::FeatureSpec& feature : job_->dataset.features()) {
    if (feature.kind() == proto::FeatureSpec::CATEGORICAL) continue;
    const proto::FeatureSpec* const old = saved.FindFeature(from_.names.OldFeature(feature.name()));
    if (old == nullptr || old->kind() == proto::FeatureSpec::CATEGORICAL) continue;
    const std::string then = NormalizationOf(*old), now = NormalizationOf(feature);
    if (then == now) continue;
    other_numbers_[feature.name()] =
        absl::StrCat("its normalization differs: ", then, " in the model, ", now, " in the job");
  }
}

// Rows are known by their values' texts or, without a vocabulary, by their ids alone: both may mean
// something else.
void WarmSource::CompareValues(const job::JobSpec& saved) {
  const auto parts_of = [](const auto& parts) {
    return parts.empty() ? "no other features" : absl::StrJoin(parts, ", ");
  };
  const auto time_of = [](const proto::FeatureSpec& feature) {
    return absl::StrCat(feature.calendar().empty() ? "no part of a time" : feature.calendar(),
                        feature.time_zone().empty() ? "" : " in ", feature.time_zone());
  };
  std::vector<std::pair<const proto::FeatureSpec*, const proto::FeatureSpec*>> both;
  for (const proto::FeatureSpec& feature : job_->dataset.features()) {
    const proto::FeatureSpec* const old = saved.FindFeature(from_.names.OldFeature(feature.name()));
    if (old != nullptr) both.emplace_back(&feature, old);
  }
  for (const auto& [feature, old] : both) {
    std::string* const why = &other_values_[feature->name()];
    if (time_of(*feature) != time_of(*old)) {
      *why = absl::StrCat("its values differ: ", time_of(*old), " in the model, ",
                          time_of(*feature), " in the job");
    } else if (!feature->id().empty() && !old->id().empty() && feature->id() != old->id()) {
      *why = absl::StrCat("its ids differ: ", old->id(), " in the model, ", feature->id(),
                          " in the job");
    }
  }
  for (const auto& [feature, old] : both) {
    std::vector<std::string> parts;
    for (const std::string& part : feature->crossed()) {
      parts.push_back(from_.names.OldFeature(part));
      const auto other = other_values_.find(part);
      if (other == other_values_.end() || other->second.empty()) continue;
      other_values_[feature->name()] = absl::StrCat("of ", part, ": ", other->second);
    }
    if (absl::c_equal(parts, old->crossed())) continue;
    other_values_[feature->name()] =
        absl::StrCat("its values are made of ", parts_of(old->crossed()), " in the model, of ",
                     parts_of(feature->crossed()), " in the job");
  }
  std::erase_if(other_values_, [](const auto& entry) { return entry.second.empty(); });
}

std::string WarmSource::OtherNumber(const VariableInfo& info) const {
  for (const auto& [name, why] : other_numbers_) {
    if (WideName(name) == info.name) return why;
  }
  return "";
}

bool WarmSource::OfClasses(const VariableInfo& info) const {
  if (const auto inputs = inputs_.find(info.name); inputs != inputs_.end()) {
    return inputs->second.classes;
  }
  const job::TableSpec* const table = job_->FindTable(info.name);
  return table != nullptr && table->role == job::TableSpec::Role::kLinear;
}

void WarmSource::MatchLayer(const VariableInfo& info, const SavedVariable& saved,
                            Match* match) const {
  const auto wanted = inputs_.find(info.name);
  const auto found = saved_inputs_.find(match->saved);
  if (!no_inputs_.empty()) {
    match->fresh = absl::StrCat("nothing tells which features its rows are of: ", no_inputs_);
    return;
  }
  std::set<std::string> others;
  for (const auto& number : other_numbers_) others.insert(number.first);
  if (wanted != inputs_.end() && found != saved_inputs_.end()) {
    match->layer =
        FitLayer(wanted->second, info.shape, found->second, saved.shape, from_.names, others);
  }
  if (match->layer.fits) return;
  match->fresh =
      saved.shape == info.shape
          ? "its inputs in the job are others than in the model"
          : absl::StrCat("it is ", saved.shape.ToString(), " in the model and ",
                         info.shape.ToString(), " in the job, and none of its inputs fits");
}

std::string WarmSource::OtherColumns(const VariableInfo& info, const std::string& saved) const {
  const auto wanted = inputs_.find(info.name);
  const auto found = saved_inputs_.find(saved);
  if (!no_inputs_.empty()) {
    return absl::StrCat("nothing tells which features its columns are of: ", no_inputs_);
  }
  if (wanted != inputs_.end() && found != saved_inputs_.end()) {
    const Shape row{1, info.row_elements()};
    const LayerFit fit = FitLayer(wanted->second, row, found->second, row, from_.names);
    if (fit.fits && !fit.map && fit.missing.empty()) return "";
  }
  return "its columns are of other features in the job than in the model";
}

std::string WarmSource::OtherRows(const VariableInfo& info, const SavedRows& rows) const {
  const std::string feature = VocabularyOf(*job_, info.name);
  const bool words = !rows.variable().vocabulary.empty();
  if (data_->vocabulary(feature) != nullptr) {
    if (words) return "";
    return source_.is_checkpoint()
               ? absl::StrCat("nothing tells which values its rows are of: ",
                              InputsOf(source_.path()), " is not there, or is of another job; a ",
                              "saved model tells it (--model-dir)")
               : "its rows have no vocabulary in the model";
  }
  // More indices are there (libsvm): the model's are the first.
  const auto& learned = data_->learned();
  const bool of_numbers = std::any_of(learned.begin(), learned.end(), [&](const auto& l) {
    return l.name() == feature && l.numbers() > 0;
  });
  if (!words && (rows.rows() == info.rows() || of_numbers)) return "";
  return absl::StrCat("it has ", rows.rows(), " rows in the model and ", info.rows(),
                      " in the job, which are not of the same values");
}

absl::StatusOr<WarmSource::Match> WarmSource::Find(const VariableInfo& info, bool averages) const {
  Match match;
  int entry = -1;
  match.saved = from_.names.OldVariable(*job_, info.name, &entry);
  const auto saved = source_.Find(match.saved);
  if (absl::IsNotFound(saved.status())) {
    match.fresh = "the model does not have it";
    return match;
  }
  RETURN_IF_ERROR(saved.status());
  match.there = true;
  if (saved->table != info.table || saved->hash != info.hash()) {
    const auto kind = [](bool table, bool hash) {
      return hash ? "a hash table" : table ? "a table" : "a dense variable";
    };
    match.fresh = absl::StrCat("it is ", kind(saved->table, saved->hash), " in the model and ",
                               kind(info.table, info.hash()), " in the job");
    return match;
  }
  ASSIGN_OR_RETURN(const SavedRows rows, source_.Open(saved->name));
  const SavedVariable& there = rows.variable();
  const bool same_dtype =
      there.dtype == info.dtype || (there.begins_in_bf16 && info.dtype == DType::kBF16);
  if (!other_classes_.empty() && OfClasses(info)) {
    match.fresh = other_classes_;
    return match;
  }
  if (match.fresh = OtherNumber(info); !match.fresh.empty()) return match;
  const bool layer = inputs_.count(info.name) > 0 || saved_inputs_.count(match.saved) > 0;
  if (same_dtype && !info.table && layer) {
    MatchLayer(info, there, &match);
    if (match.fresh.empty()) RETURN_IF_ERROR(MatchSlots(info, averages, &match));
    return match;
  }
  if (!same_dtype || rows.row_elements() != info.row_elements() ||
      (!info.table && there.shape != info.shape)) {
    match.fresh =
        absl::StrCat("it is ", DTypeName(there.dtype), there.shape.ToString(), " in the model and ",
                     DTypeName(info.dtype), info.shape.ToString(), " in the job");
    return match;
  }
  if (info.table && layer) match.fresh = OtherColumns(info, match.saved);
  const auto other = other_values_.find(VocabularyOf(*job_, info.name));
  if (info.table && match.fresh.empty() && other != other_values_.end()) {
    match.fresh = other->second;
  }
  if (info.table && !info.hash() && match.fresh.empty()) match.fresh = OtherRows(info, rows);
  if (match.fresh.empty()) RETURN_IF_ERROR(MatchSlots(info, averages, &match));
  return match;
}

absl::Status WarmSource::MatchSlots(const VariableInfo& info, bool averages, Match* match) const {
  const std::string& kind = info.optimizer.kind();
  if (kind.empty() || !from_.slots) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<SavedOptimizer> saved, source_.OptimizerOf(match->saved));
  const bool none = kernels::SlotsOfKind(kind).empty();
  if (!saved) {
    if (!none) {
      match->fresh_slots = source_.is_checkpoint()
                               ? "it was not trained"
                               : "the model was saved without them (--model-slots)";
    }
    return absl::OkStatus();
  }
  if (saved->kind != kind) {
    if (!none) {
      match->fresh_slots = absl::StrCat("they were those of ", saved->kind, ", the job has ", kind);
    }
    return absl::OkStatus();
  }
  match->weights = saved->weights && averages;
  if (none && !match->weights) return absl::OkStatus();
  match->optimizer = kind;
  match->steps = saved->steps;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> WarmSource::EarlierSteps(const VariableInfo& info) const {
  ASSIGN_OR_RETURN(const Match match, Find(info, /*averages=*/false));
  return match.fresh.empty() ? match.steps : 0;
}

absl::StatusOr<WarmStart> WarmSource::TakeOver(ParameterServerStrategy* strategy) const {
  return Taker(*this, strategy).Take();
}

namespace {

std::string SomeOf(const std::vector<std::string>& names) {
  constexpr size_t kNames = 3;
  const size_t shown = std::min(names.size(), kNames), others = names.size() - shown;
  return absl::StrCat(
      absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
      others == 0 ? "" : absl::StrCat(" and ", others, " more"));
}

}  // namespace

std::string WarmStart::ToString() const {
  std::string text = absl::StrCat("initial values from ", from, ":\n");
  int64_t dense = 0;
  for (const Rows& rows : taken) {
    if (rows.taken == 1 && rows.fresh == 0 && rows.old_name.empty() && rows.missing.empty()) {
      ++dense;
      continue;
    }
    const std::string old = rows.old_name.empty() ? "" : absl::StrCat(" from ", rows.old_name);
    absl::StrAppend(&text, "  ", rows.variable, old, ": ");
    if (!rows.missing.empty()) {
      absl::StrAppend(&text, "all but what is on ", SomeOf(rows.missing), ", which is new\n");
      continue;
    }
    absl::StrAppend(&text, rows.taken, rows.taken == 1 ? " row" : " rows");
    if (rows.fresh > 0) absl::StrAppend(&text, ", ", rows.fresh, " new");
    absl::StrAppend(&text, "\n");
  }
  if (dense > 0) {
    absl::StrAppend(&text, "  ", dense, dense == 1 ? " other variable\n" : " other variables\n");
  }
  if (with_slots > 0) {
    absl::StrAppend(&text, "  optimizer slots of ", with_slots,
                    with_slots == 1 ? " variable\n" : " variables\n");
  }
  for (const auto& [why, names] : fresh_slots) {
    absl::StrAppend(&text, "  optimizer slots start over: ", SomeOf(names), ": ", why, "\n");
  }
  for (const auto* const names : {&fresh, &other_numbers}) {
    for (const std::string& name : *names) absl::StrAppend(&text, "  anew: ", name, "\n");
  }
  if (!left.empty()) {
    absl::StrAppend(&text, "  not taken over: ", absl::StrJoin(left, ", "), "\n");
  }
  return text;
}

absl::StatusOr<EarlierModel> KeepIds(const std::string& directory, proto::DatasetSpec* spec,
                                     const NameMap& names) {
  ASSIGN_OR_RETURN(const SavedSource source, OpenSource(directory));
  spec->clear_known();
  spec->clear_trained();
  // Of files that come no part is drawn.
  if (!spec->followed()) spec->mutable_trained();
  EarlierModel earlier{.inputs = {}, .names = names, .trained = {}, .steps = source.all_steps()};
  ASSIGN_OR_RETURN(earlier.inputs, LearnedOf(directory));
  if (earlier.inputs.empty()) return earlier;
  if (source.is_checkpoint()) {
    ASSIGN_OR_RETURN(const nlohmann::json manifest,
                     ReadModelManifest(earlier.inputs, kSavedInputs));
    earlier.steps += EarlierStepsIn(manifest);
  }
  const bool has_rows = data::FormatOf(*spec).has_rows();
  proto::DatasetSpec model;
  const absl::StatusOr<TrainedOn> trained = ReadLearned(earlier.inputs, &model);
  // Words have no ids that stay.
  if (!has_rows && absl::IsFailedPrecondition(trained.status())) return earlier;
  RETURN_IF_ERROR(trained.status());
  earlier.trained = *trained;
  if (!spec->followed()) *spec->mutable_trained() = model.trained();
  if (!has_rows) return earlier;
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
  return earlier;
}

}  // namespace coxswain::model
