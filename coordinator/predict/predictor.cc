// Loading: the job with its vocabularies and statistics, and functions on the saved variables.
// Then predictions, and the best choices.
#include "coordinator/predict/predictor.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/local_function.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/model/chosen_checkpoint.h"
#include "coordinator/model/item_model.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_learned.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_side_tables.h"
#include "coordinator/model/unreplaced.h"
#include "coordinator/predict/rows_to_predict.h"
#include "kernels/register.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/data_format.h"
#include "runtime/env/file_system.h"

namespace coxswain::predict {
namespace {

constexpr int64_t kBatchRows = 1024;
// Scores of one batch, in numbers.
constexpr int64_t kBatchScores = int64_t{4} << 20;

absl::Status CheckTables(const model::SavedSource& source) {
  for (const model::SavedVariable& variable : source.variables()) {
    ASSIGN_OR_RETURN(const model::SavedRows rows, source.Open(variable.name));
    RETURN_IF_ERROR(rows.Verify());
  }
  return absl::OkStatus();
}

// Of the file that lists the inputs; they are replaced as a whole. Empty when it is not there.
std::string IdentityOf(const std::string& inputs, const std::string& side_tables,
                       const std::string& row_format) {
  const std::string file = model::FileIdentity(absl::StrCat(inputs, "/", model::kSavedInputs.file));
  return file.empty() ? file : absl::StrCat(file, " ", side_tables, " ", row_format);
}

// Whether `a` is the better choice: NaN is the worst.
bool Better(const Choice& a, const Choice& b) {
  if (a.score != b.score && !(a.score != a.score && b.score != b.score)) {
    return a.score > b.score || b.score != b.score;
  }
  return a.id < b.id;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::Load(const std::string& directory,
                                                           const LoadOptions& options) {
  return model::ReadUnreplaced(directory, model::kSavedModel.file,
                               [&] { return LoadOnce(directory, options); });
}

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::LoadOnce(const std::string& directory,
                                                               const LoadOptions& options) {
  std::unique_ptr<Predictor> predictor(new Predictor);
  RETURN_IF_ERROR(predictor->ReadJob(directory, model::kSavedModel, ""));
  ASSIGN_OR_RETURN(model::SavedSource source, model::SavedSource::OpenModel(directory));
  if (options.verify) RETURN_IF_ERROR(CheckTables(source));
  RETURN_IF_ERROR(
      predictor->Build(std::move(source), nullptr, options.row_format, options.open_cluster));
  return predictor;
}

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::LoadCheckpoint(const CheckpointPlace& place) {
  if (place.number) return LoadOneCheckpoint(place);
  const auto note = [](const std::string& text) { LogWarning(text); };
  return model::ReadChosen(place.directory, model::Verify::kBytes, note,
                           [&place](std::optional<uint64_t> number) {
                             CheckpointPlace one = place;
                             one.number = number;
                             one.verified = number.has_value();
                             return LoadOneCheckpoint(one);
                           });
}

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::LoadOneCheckpoint(
    const CheckpointPlace& place) {
  ASSIGN_OR_RETURN(model::SavedSource source,
                   model::SavedSource::OpenCheckpoint(place.directory, place.number));
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::ReadManifest(env::NewRealFileSystem().get(), source.path()));
  const std::string inputs = model::InputsOf(place.directory);
  RETURN_IF_ERROR(model::CheckInputsFit(inputs, manifest, source.path()));
  // Else each file is verified as it is read.
  if (place.open_cluster != nullptr && !place.verified) {
    RETURN_IF_ERROR(
        checkpoint::VerifyCheckpoint(env::NewRealFileSystem().get(), source.path(), manifest));
  }
  std::unique_ptr<Predictor> predictor(new Predictor);
  const std::string tables = model::SideTablesOf(manifest);
  const std::string identity = IdentityOf(inputs, tables, place.row_format);
  const bool known =
      place.inputs != nullptr && !identity.empty() && place.inputs->identity == identity;
  if (known) {
    predictor->UseJob(inputs, place.inputs->job);
    predictor->data_ = place.inputs->data;
  } else {
    // A job that follows adds tables to them, and removes others.
    RETURN_IF_ERROR(model::ReadUnreplaced(inputs, model::kSavedInputs.file, [&] {
      return predictor->ReadJob(inputs, model::kSavedInputs, tables);
    }));
  }
  RETURN_IF_ERROR(
      predictor->Build(std::move(source), place.tables, place.row_format, place.open_cluster));
  // A directory that was replaced meanwhile is read anew next time.
  if (!known && place.inputs != nullptr &&
      IdentityOf(inputs, tables, place.row_format) == identity) {
    *place.inputs = {identity, predictor->job_, predictor->data_};
  }
  return predictor;
}

absl::Status Predictor::Build(model::SavedSource source,
                              std::shared_ptr<model::CheckpointTables> tables,
                              const std::string& row_format, const OpenCluster& open_cluster) {
  const job::ModelKind& kind = job::KindOf(*job_.model);
  if (kind.predicts == job::Predicts::kNeighbours) {
    return absl::FailedPreconditionError(
        absl::StrCat(source.path(), ": a model of kind ", kind.name,
                     " predicts nothing of rows; `coxswain nearest` asks it for words"));
  }
  steps_ = source.steps();
  ASSIGN_OR_RETURN(const proto::DatasetSpec spec, MakeData(row_format));
  if (open_cluster == nullptr) {
    variables_ = std::make_unique<SavedVariables>(std::move(source), std::move(tables));
  } else {
    ASSIGN_OR_RETURN(Cluster cluster, open_cluster(job_));
    ASSIGN_OR_RETURN(remote_, RemoteModel::Create(std::move(cluster), job_, *data_, source));
  }
  RETURN_IF_ERROR(BuildFunctions(spec));
  NameChoices();
  return absl::OkStatus();
}

absl::Status Predictor::ReadJob(const std::string& directory, const model::ManifestKind& kind,
                                std::string side_tables) {
  ASSIGN_OR_RETURN(const nlohmann::json manifest, model::ReadModelManifest(directory, kind));
  RETURN_IF_ERROR(model::CheckModelFiles(directory, manifest, kind));
  ASSIGN_OR_RETURN(job::JobSpec job, model::ReadKeptJob(directory, kind));
  RETURN_IF_ERROR(model::ReadLearned(directory, &job.dataset).status());
  // A checkpoint that does not say which was written before there were several.
  if (side_tables.empty()) side_tables = model::SideTablesOf(manifest);
  RETURN_IF_ERROR(model::UseSavedSideTables(directory, side_tables, &job.dataset));
  UseJob(directory, std::move(job));
  return absl::OkStatus();
}

void Predictor::UseJob(const std::string& directory, job::JobSpec job) {
  directory_ = directory;
  job_ = std::move(job);
  says_ = job::KindOf(*job_.loss).prediction;
}

absl::StatusOr<proto::DatasetSpec> Predictor::MakeData(const std::string& row_format) {
  const std::string& of_job = job_.dataset.format();
  if (!row_format.empty() && of_job != row_format &&
      !data::FormatOf(job_.dataset).names_columns()) {
    return absl::InvalidArgumentError(absl::StrCat("rows of a job of format ", of_job,
                                                   " have no columns that ", row_format,
                                                   " could name: they are wanted as ", of_job));
  }
  proto::DatasetSpec spec = RowsToPredict(job_, row_format);
  if (data_ == nullptr) {
    ASSIGN_OR_RETURN(data_, data::Dataset::WithoutRows(spec));
  }
  return spec;
}

absl::StatusOr<graph::Function> Predictor::BuildOne(const char* name,
                                                    const BuildGraph& build) const {
  return BuildLocalFunction(name, &registry_, data_->columns(Part::kTraining), job_.train.compute,
                            build);
}

absl::Status Predictor::BuildFunctions(const proto::DatasetSpec& spec) {
  kernels::RegisterAllOps(&registry_);
  std::optional<model::ModelParts> here;
  if (!remote()) {
    here.emplace(variables_.get(), job_, *data_);
    RETURN_IF_ERROR(here->CreateTables());
    RETURN_IF_ERROR(job_.model->CreateVariables(&*here));
  }
  const model::ModelParts& parts = remote() ? remote_->parts() : *here;
  BuildGraph predict = [&](FunctionBuilder& f) { job_.model->Predict(f, parts); };
  product_ = dynamic_cast<const model::ProductModel*>(job_.model.get());
  // Ids of any kind are no list of items.
  if (product_ != nullptr && !says_items() && VocabularyOf(item()) == nullptr) product_ = nullptr;
  if (product_ != nullptr && !remote()) {
    ASSIGN_OR_RETURN(graph::Function items, BuildOne("items", [&](FunctionBuilder& f) {
                       product_->PredictItems(f, parts);
                     }));
    ASSIGN_OR_RETURN(items_.function, function::CompiledFunction::Compile(std::move(items)));
    // What items are made of is put together once, and not again for each batch.
    const auto* const ranks = dynamic_cast<const model::ItemModel*>(job_.model.get());
    if (ranks != nullptr && ranks->in_pieces()) {
      ASSIGN_OR_RETURN(const ItemVectors known, AllItems());
      predict = [ranks, known, &parts](FunctionBuilder& f) {
        const bool biased = known.bias.dtype() == DType::kF32;
        f.Result("score", model::ItemModel::ScoresOfVectors(
                              f, parts, ranks->User(f, parts), f.Constant(known.vectors),
                              biased ? f.Constant(known.bias) : Output()));
      };
    }
  }
  ASSIGN_OR_RETURN(graph::Function built, BuildOne("predict", predict));
  ASSIGN_OR_RETURN(data::RowReader reader, ReaderOf(spec, built));
  reader_ = std::make_unique<data::RowReader>(std::move(reader));
  newest_ = NewestValues(job_, reader_->columns());
  if (!remote() || says_ != job::PredictionKind::kRank) {
    ASSIGN_OR_RETURN(scores_, OnRows(std::move(built), predict, *reader_));
  }
  return BuildItemFunctions(spec, parts);
}

absl::Status Predictor::BuildItemFunctions(const proto::DatasetSpec& spec,
                                           const model::ModelParts& parts) {
  if (product_ == nullptr) return absl::OkStatus();
  const auto of_users = [&](FunctionBuilder& f) { product_->PredictUser(f, parts); };
  ASSIGN_OR_RETURN(graph::Function users, BuildOne("users", of_users));
  // A model of labels reads the item with the user; here there is none yet.
  if (!says_items()) {
    ASSIGN_OR_RETURN(data::RowReader reader, ReaderOf(spec, users));
    user_reader_ = std::make_unique<data::RowReader>(std::move(reader));
  }
  ASSIGN_OR_RETURN(users_, OnRows(std::move(users), of_users, user_rows()));
  if (remote() || says_items()) return absl::OkStatus();
  const auto scores = [&](FunctionBuilder& f) { product_->PredictScores(f, parts); };
  ASSIGN_OR_RETURN(graph::Function built, BuildOne("item_scores", scores));
  ASSIGN_OR_RETURN(item_scores_, OnRows(std::move(built), scores, user_rows()));
  return absl::OkStatus();
}

absl::StatusOr<data::RowReader> Predictor::ReaderOf(const proto::DatasetSpec& spec,
                                                    const graph::Function& function) const {
  std::vector<std::string> columns;
  for (const graph::Function::Argument& argument : function.arguments) {
    columns.push_back(argument.name);
  }
  return data::RowReader::Create(spec, *data_, columns);
}

absl::StatusOr<Predictor::OnBatches> Predictor::OnRows(graph::Function built,
                                                       const BuildGraph& build,
                                                       const data::RowReader& rows) const {
  OnBatches f;
  for (const graph::Function::Argument& argument : built.arguments) {
    size_t at = 0;
    while (at < rows.columns().size() && rows.columns()[at].name != argument.name) ++at;
    if (at == rows.columns().size()) {
      return absl::InternalError(absl::StrCat("rows have no column '", argument.name, "'"));
    }
    f.arguments.push_back(at);
  }
  if (remote()) {
    ASSIGN_OR_RETURN(f.on_cluster, remote_->Define(built, build));
  } else {
    ASSIGN_OR_RETURN(f.function, function::CompiledFunction::Compile(std::move(built)));
  }
  return f;
}

void Predictor::NameChoices() {
  const std::string item = product_ != nullptr ? this->item() : job_.model->item();
  const std::string& feature = item.empty() ? job_.dataset.label().feature() : item;
  if (!feature.empty()) names_ = VocabularyOf(feature);
  if (says_ == job::PredictionKind::kClasses) {
    choices_ = job_.model->classes();
  } else if (says_items() || product_ != nullptr) {
    // Buckets of unknown values are left out.
    choices_ = names_ == nullptr ? data_->vocabulary_size(item)
                                 : static_cast<int64_t>(names_->texts()->size());
  }
  // Of items only the best are scored on a cluster.
  const auto rows = [](int64_t scores) {
    return std::clamp<int64_t>(kBatchScores / std::max<int64_t>(1, scores), 1, kBatchRows);
  };
  user_batch_rows_ = rows(remote() ? 1 : choices_);
  batch_rows_ = says_items() ? user_batch_rows_ : rows(chooses() ? choices_ : 1);
}

absl::StatusOr<std::vector<Tensor>> Predictor::Run(const OnBatches& f,
                                                   const data::Batch& batch) const {
  std::vector<Tensor> arguments;
  arguments.reserve(f.arguments.size());
  for (const size_t at : f.arguments) {
    if (at >= batch.size()) break;
    arguments.push_back(batch[at]);
  }
  if (remote()) return remote_->Run(f.on_cluster, std::move(arguments));
  RETURN_IF_ERROR(f.function->CheckArguments(arguments));
  function::RunOptions options;
  options.pool = pool_.get();
  options.variables = variables_.get();
  return f.function->Run(std::move(arguments), options);
}

absl::StatusOr<UserVectors> Predictor::VectorsOf(const data::Batch& batch) const {
  // Only a model that ranks items looks at histories.
  ASSIGN_OR_RETURN(std::vector<Tensor> results,
                   Run(users_, says_items() ? newest_.Of(batch) : batch));
  if (results.empty()) return absl::InternalError("a closure returned no users");
  return UserVectors{std::move(results[0]), results.size() > 1 ? std::move(results[1]) : Tensor()};
}

absl::StatusOr<ItemVectors> Predictor::AllItems() const {
  ASSIGN_OR_RETURN(std::vector<Tensor> results, Run(items_, {}));
  return ItemVectors{std::move(results[0]), results.size() > 1 ? std::move(results[1]) : Tensor()};
}

absl::StatusOr<Scores> Predictor::SearchItems(const data::Batch& batch, int64_t top) const {
  ASSIGN_OR_RETURN(const UserVectors users, VectorsOf(batch));
  const int64_t k = std::clamp<int64_t>(top, 1, std::max<int64_t>(1, choices_));
  ASSIGN_OR_RETURN(model::BestItems best, remote_->Best(users.vectors, k));
  if (users.offset.dtype() == DType::kF32) {
    float* const score = best.scores.mutable_data<float>();
    for (int64_t i = 0; i < best.scores.num_elements(); ++i) {
      score[i] += users.offset.data<float>()[i / k];
    }
  }
  Scores scores;
  scores.score = std::move(best.scores);
  scores.ids = std::move(best.ids);
  return scores;
}

absl::StatusOr<Scores> Predictor::ScoreItems(const data::Batch& batch, int64_t top) const {
  if (product_ == nullptr) return absl::FailedPreconditionError("the model suggests no items");
  if (says_items()) return Predict(batch, top);
  if (remote()) return SearchItems(batch, top);
  ASSIGN_OR_RETURN(std::vector<Tensor> results, Run(item_scores_, batch));
  Scores scores;
  scores.score = std::move(results[0]);
  return scores;
}

absl::StatusOr<Scores> Predictor::Predict(const data::Batch& batch, int64_t top) const {
  if (batch.size() != reader_->columns().size()) {
    return absl::InvalidArgumentError(absl::StrCat("wanted a batch of ", reader_->columns().size(),
                                                   " columns, found ", batch.size()));
  }
  const data::Batch seen = newest_.Of(batch);
  if (remote() && says_items()) return SearchItems(seen, top);
  ASSIGN_OR_RETURN(std::vector<Tensor> results, Run(scores_, seen));
  const bool item = says_ == job::PredictionKind::kRank;
  const bool several = chooses() || says_ == job::PredictionKind::kTasks;
  if (results.size() != (item ? 1 : 2) || results[0].dtype() != DType::kF32 ||
      results[0].shape().rank() != (several ? 2 : 1)) {
    return absl::InternalError("a prediction has other results than the model promises");
  }
  Scores scores;
  scores.score = std::move(results[0]);
  if (!item) scores.prediction = std::move(results[1]);
  return scores;
}

std::shared_ptr<const data::Vocabulary> Predictor::VocabularyOf(const std::string& feature) const {
  auto values = IdsOf(feature);
  return values != nullptr && values->texts() != nullptr ? values : nullptr;
}

std::string Predictor::NameOf(int64_t id) const {
  if (names_ != nullptr && id >= 0 && id < static_cast<int64_t>(names_->texts()->size())) {
    return (*names_->texts())[static_cast<size_t>(id)];
  }
  return absl::StrCat(id);
}

std::optional<int64_t> Predictor::IdOf(absl::string_view name) const {
  if (names_ == nullptr) return std::nullopt;
  const std::optional<int64_t> id = names_->Find(name);
  return id && *id < static_cast<int64_t>(names_->texts()->size()) ? id : std::nullopt;
}

std::vector<Choice> Predictor::Best(const Scores& scores, int64_t row, int64_t top,
                                    absl::Span<const int64_t> left_out) const {
  const int64_t width = scores.score.dim(1);
  if (scores.ids.dtype() == DType::kI64) {  // they are in their order
    std::vector<Choice> best;
    for (int64_t i = row * width; i < (row + 1) * width; ++i) {
      const int64_t id = scores.ids.data<int64_t>()[i];
      if (static_cast<int64_t>(best.size()) == top || id < 0) break;
      if (std::binary_search(left_out.begin(), left_out.end(), id)) continue;
      best.push_back({id, scores.score.data<float>()[i], 0});
    }
    return best;
  }
  const int64_t count = std::min(choices_, width);
  const float* const score = scores.score.data<float>() + row * width;
  const float* const chance = scores.prediction.dtype() == DType::kF32
                                  ? scores.prediction.data<float>() + row * width
                                  : nullptr;
  std::vector<Choice> best;
  best.reserve(static_cast<size_t>(std::min(top, count)) + 1);
  for (int64_t id = 0; id < count; ++id) {
    const Choice choice{id, score[id], chance == nullptr ? 0 : chance[id]};
    if (static_cast<int64_t>(best.size()) >= top && !Better(choice, best.front())) continue;
    if (std::binary_search(left_out.begin(), left_out.end(), id)) continue;
    best.push_back(choice);
    std::push_heap(best.begin(), best.end(), Better);  // the worst of the best comes first
    if (static_cast<int64_t>(best.size()) <= top) continue;
    std::pop_heap(best.begin(), best.end(), Better);
    best.pop_back();
  }
  std::sort_heap(best.begin(), best.end(), Better);
  return best;
}

}  // namespace coxswain::predict
