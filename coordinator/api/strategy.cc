// Handles, the layout of a checkpoint, data sets and functions.
#include "coxswain/strategy.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/api/catalog.h"
#include "coordinator/api/check_consistency.h"
#include "coordinator/api/function_state.h"
#include "coordinator/api/index_workers.h"
#include "coordinator/api/remote_function_state.h"
#include "coordinator/api/strategy_state.h"
#include "coordinator/api/wait.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "kernels/compute.h"
#include "kernels/fuse_layers.h"
#include "kernels/read_averages.h"
#include "runtime/base/mistake.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/dataset.h"
#include "runtime/data/dataset_options.h"
#include "runtime/data/file_list.h"
#include "runtime/data/load_dataset.h"
#include "runtime/data/names.h"
#include "runtime/data/stream/index_file.h"
#include "runtime/data/utf8.h"

namespace coxswain {
uint64_t NextStrategyNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::string StrategyName(uint64_t number) { return absl::StrCat("strategy ", number); }

const VariableInfo& Variable::info() const { return info_ == nullptr ? NoVariable() : *info_; }
const std::string& Variable::name() const { return info().name; }

const VariableInfo& EmbeddingTable::info() const {
  return info_ == nullptr ? NoVariable() : *info_;
}
const std::string& EmbeddingTable::name() const { return info().name; }
int64_t EmbeddingTable::rows() const { return info_ == nullptr ? 0 : info_->shape.dim(0); }
int64_t EmbeddingTable::dim() const { return info_ == nullptr ? 0 : info_->shape.dim(1); }
int EmbeddingTable::num_shards() const { return static_cast<int>(info().shards.size()); }

absl::Status CheckStrategy(const VariableInfo& info, uint64_t strategy) {
  if (info.owner == strategy) return absl::OkStatus();
  if (info.owner == 0) {
    return absl::InvalidArgumentError("no variable: this handle was not made by a strategy");
  }
  return absl::InvalidArgumentError(absl::StrCat(info.table ? "table '" : "variable '", info.name,
                                                 "' belongs to ", StrategyName(info.owner),
                                                 ", it was given to ", StrategyName(strategy)));
}

absl::Status CheckName(absl::string_view what, const std::string& name) {
  if (name.empty()) return absl::InvalidArgumentError(absl::StrCat(what, ": wanted a name"));
  if (data::IsUtf8(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": wanted a name in UTF-8, found ", data::Quoted(name)));
}

ParameterServerStrategy::ParameterServerStrategy(Cluster cluster, Options options)
    : state_(std::make_shared<State>(std::move(cluster), std::move(options))) {}

const std::vector<std::shared_ptr<const VariableInfo>>& ParameterServerStrategy::variables() const {
  return state_->variables;
}
const Cluster& ParameterServerStrategy::cluster() const { return state_->cluster; }
const Consistency& ParameterServerStrategy::consistency() const {
  return state_->options.consistency;
}

double ParameterServerStrategy::ema_decay() const { return state_->options.ema_decay; }
uint64_t ParameterServerStrategy::number() const { return state_->number; }

absl::Status ParameterServerStrategy::UseLayout(const checkpoint::Manifest& manifest) {
  if (!state_->variables.empty() || !state_->layout.empty()) {
    return absl::FailedPreconditionError(
        "a checkpoint's layout must be chosen before the first variable is created");
  }
  RETURN_IF_ERROR(state_->cluster.catalog()->TakeLayout(manifest, StrategyName(state_->number)));
  for (const proto::SavedShard& saved : manifest.shards) {
    state_->layout[saved.shard().variable().name()].push_back(saved.shard());
  }
  for (auto& [name, shards] : state_->layout) {
    std::sort(shards.begin(), shards.end(),
              [](const auto& a, const auto& b) { return a.index() < b.index(); });
    for (size_t s = 0; s < shards.size(); ++s) {
      if (shards[s].index() == static_cast<int>(s) &&
          shards[s].count() == static_cast<int>(shards.size())) {
        continue;
      }
      return absl::DataLossError(absl::StrCat("checkpoint ", manifest.number, " has ",
                                              shards.size(), " of ", shards[s].count(),
                                              " shards of variable '", name, "'"));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> ParameterServerStrategy::LayoutLeftOver() const {
  std::vector<std::string> names;
  for (const auto& [name, shards] : state_->layout) {
    const bool created = std::any_of(state_->variables.begin(), state_->variables.end(),
                                     [&n = name](const auto& v) { return v->name == n; });
    if (!created) names.push_back(name);
  }
  return names;
}

absl::StatusOr<PerWorkerDataset> ParameterServerStrategy::CreatePerWorkerDataset(
    const data::DatasetOptions& options) {
  if (options.batch_size < 1 || options.epochs < 0) {
    return absl::InvalidArgumentError(absl::StrCat("batch size ", options.batch_size, " and ",
                                                   options.epochs,
                                                   " epochs: wanted at least 1 and 0"));
  }
  auto state = std::make_shared<PerWorkerDataset::State>();
  state->options = options;
  state->options.on_index = nullptr;  // it may refer to what is gone later
  auto listed = data::WithFiles(options.spec);
  if (!listed.ok()) return AsMistake(listed.status());
  state->options.spec = *std::move(listed);
  state->options.spec.mutable_stream()->set_batch(options.batch_size);
  IndexWorkers workers(state_->cluster.controller(), NextStrategyNumber());
  auto data = data::LoadDataset(state->options.spec, /*reader=*/0, options.on_index, &workers);
  if (!data.ok()) return AsMistake(data.status());
  data::LogBadRows((*data)->bad_rows());
  state->data = *std::move(data);
  state->strategy = number();
  Catalog* const catalog = state_->cluster.catalog();
  ASSIGN_OR_RETURN(const Catalog::DatasetPlace place,
                   catalog->AddDataset(state->data->fingerprint()));
  state->id = place.id;
  state->cursor = place.cursor;
  if (absl::Status s = state_->RegisterDataset(*state); !s.ok()) {
    catalog->RemoveDataset(place.id);
    return s;
  }
  PerWorkerDataset dataset;
  dataset.state_ = std::move(state);
  return dataset;
}

void ParameterServerStrategy::Release(const PerWorkerDataset& dataset) {
  if (dataset.state_ == nullptr || dataset.state_->strategy != number()) return;
  dataset.state_->options.epochs = 0;
  state_->cluster.catalog()->ReleaseDataset(dataset.state_->id);
  state_->cluster.controller()->DatasetReleaser(dataset.state_->id)();
}

void ParameterServerStrategy::ReleaseOthers() {
  state_->cluster.controller()->ForgetProgress(state_->cluster.catalog()->TakeUnclaimed());
}

absl::Status ParameterServerStrategy::State::RegisterDataset(
    const PerWorkerDataset::State& dataset) {
  return WaitForStatus(
      [&](auto done) {
        cluster.controller()->RegisterDataset(dataset.id,
                                              {.spec = dataset.options.spec,
                                               .index = data::ForWorkers(dataset.data->index()),
                                               .fingerprint = dataset.data->fingerprint()},
                                              std::move(done));
      },
      WaitReporter(cluster).For("workers to load the data set"));
}

namespace {

absl::Status Call(const std::string& name, const ParameterServerStrategy::Build& build,
                  FunctionBuilder* builder) {
  if (build == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", name, "': wanted what builds it, found none"));
  }
  build(*builder);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RemoteFunction> ParameterServerStrategy::Define(const std::string& name,
                                                               const Build& build) {
  FunctionBuilder builder = state_->NewBuilder(name);
  RETURN_IF_ERROR(Call(name, build, &builder));
  return state_->Finish(std::move(builder), nullptr);
}

void ParameterServerStrategy::set_learning_rate_factor(double factor) {
  state_->learning_rate_factor = factor;
}

FunctionBuilder ParameterServerStrategy::State::NewBuilder(const std::string& name) const {
  FunctionBuilder builder(name, cluster.registry());
  builder.state_->strategy = number;
  builder.state_->learning_rate_factor = learning_rate_factor;
  return builder;
}

absl::StatusOr<RemoteFunction> ParameterServerStrategy::Define(const std::string& name,
                                                               const PerWorkerDataset& dataset,
                                                               const Build& build, Part part) {
  const uint64_t owner = dataset.state_ == nullptr ? 0 : dataset.state_->strategy;
  if (owner != number()) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", name, "': the data set belongs to ",
                     owner == 0 ? "no strategy" : StrategyName(owner), ", it was given to ",
                     StrategyName(state_->number)));
  }
  FunctionBuilder builder = state_->NewBuilder(name);
  for (const data::ColumnSpec& column : dataset.data().columns(part)) {
    builder.state_->columns[column.name] = column.type;
  }
  RETURN_IF_ERROR(Call(name, build, &builder));
  return state_->Finish(std::move(builder), dataset.state_.get());
}

namespace {

// Whether it gives gradients to optimizers: then how many batches make an update matters.
bool Trains(const graph::Function& function) {
  static const std::set<std::string>* const ops =
      new std::set<std::string>{"ApplyDense", "ApplySparse", "ApplyMatMul"};
  return std::any_of(function.targets.begin(), function.targets.end(),
                     [&](int target) { return ops->count(function.graph.node(target).op) > 0; });
}

}  // namespace

absl::StatusOr<RemoteFunction> ParameterServerStrategy::State::Finish(
    FunctionBuilder builder, const PerWorkerDataset::State* dataset) {
  RETURN_IF_ERROR(CheckConsistency(options.consistency));
  std::vector<proto::ArgumentSource> sources;
  int own_arguments = 0;
  for (const auto& [column, values, result] : builder.state_->sources) {
    proto::ArgumentSource source;
    source.set_column(column);
    source.set_values(values);
    source.set_result(result);
    if (column.empty() && values == 0) source.set_argument(own_arguments++);
    sources.push_back(std::move(source));
  }
  ASSIGN_OR_RETURN(graph::Function function, builder.state_->graph.Finish());
  RETURN_IF_ERROR(CheckName("function", function.name));
  for (const auto& argument : function.arguments) {
    RETURN_IF_ERROR(CheckName("argument", argument.name));
  }
  for (const auto& result : function.results) RETURN_IF_ERROR(CheckName("result", result.name));
  if (function.results.empty() && function.targets.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", function.name, "' has no effect: wanted a Result, or an update ",
                     "(Minimize, Assign, AssignAdd, ScatterAdd)"));
  }
  function = kernels::FuseLayers(function);
  kernels::SetCompute(options.compute, options.deterministic_ops, &function.graph);
  if (builder.state_->averages) kernels::ReadAverages(&function.graph);
  function.device = options.device;
  ASSIGN_OR_RETURN(function::Partition partition,
                   function::PartitionFunction(function, cluster.num_ps(), [this](ShardId shard) {
                     return cluster.catalog()->PsOf(shard);
                   }));
  auto state = std::make_shared<RemoteFunction::State>(std::move(partition));
  state->plan = cluster.catalog()->NewPlan();
  state->release = cluster.controller()->PlanReleaser(state->plan);
  if (dataset != nullptr) {
    state->dataset = dataset->id;
    state->data = dataset->data;
  }
  state->strategy = number;
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const auto& argument = function.arguments[i];
    const auto& [column, values, result] = builder.state_->sources[i];
    if (!column.empty()) state->column = column;
    if (column.empty() && values == 0) state->arguments.push_back({argument.name, argument.type});
  }
  if (!builder.state_->fetched.empty()) state->fetched = *builder.state_->fetched.begin();
  state->trains = Trains(function);
  state->keeps = std::move(builder.state_->keeps);
  const auto still_waiting =
      WaitReporter(cluster).For(absl::StrCat("tasks to take function '", function.name, "'"));
  RETURN_IF_ERROR(WaitForStatus(
      [&](auto done) {
        cluster.controller()->RegisterPlan(
            state->plan, std::make_shared<const graph::Function>(std::move(function)),
            std::move(sources), state->dataset, std::move(done));
      },
      still_waiting));
  RemoteFunction remote;
  remote.state_ = std::move(state);
  return remote;
}

}  // namespace coxswain
