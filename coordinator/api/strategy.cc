// Handles; variables cut into shards or taken from a checkpoint's layout; data sets and functions;
// and from ReadShard on, rows read and written by hand in pieces that a request can carry.
#include "coxswain/strategy.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "coordinator/api/catalog.h"
#include "coordinator/api/function_state.h"
#include "coordinator/api/per_worker_dataset_state.h"
#include "coordinator/api/remote_function_state.h"
#include "coordinator/api/table_words.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"
#include "kernels/compute.h"
#include "kernels/op_util.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/dataset.h"
#include "runtime/data/dataset_options.h"
#include "runtime/graph/serialize.h"
#include "runtime/tensor/limits.h"

namespace coxswain {
namespace {

// Most bytes of a shard in one request.
constexpr int64_t kChunkBytes = 8 << 20;

int64_t RowBytes(const VariableInfo& info) {
  Shape row = info.shape;
  if (row.rank() > 0) row.set_dim(0, 1);
  return std::max<int64_t>(1, row.num_elements() * static_cast<int64_t>(SizeOf(info.dtype)));
}

// What is wrong with the files or the spec is for the user to mend; a disk that fails is not.
absl::Status AsMistake(const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsInternal(status) || GetDetail(status)) return status;
  return WithDetail(status, {ErrorCause::kConfiguration, false, "", 0});
}

Tensor Widened(const Tensor& bf16) {
  Tensor wide(DType::kF32, bf16.shape());
  std::transform(bf16.values<BFloat16>().begin(), bf16.values<BFloat16>().end(),
                 wide.mutable_data<float>(), [](BFloat16 v) { return v.ToFloat(); });
  return wide;
}

int64_t ChunkRows(const VariableInfo& info) {
  return std::max<int64_t>(1, kChunkBytes / RowBytes(info));
}

absl::Status NoWhole(const VariableInfo& info) {
  return absl::InvalidArgumentError(
      absl::StrCat("table '", info.name, "' is a hash table: it is read and written by ids"));
}

uint64_t NextStrategyNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::string StrategyName(uint64_t number) { return absl::StrCat("strategy ", number); }

}  // namespace

const VariableInfo& Variable::info() const { return info_ == nullptr ? NoVariable() : *info_; }
const std::string& Variable::name() const { return info().name; }

const VariableInfo& EmbeddingTable::info() const {
  return info_ == nullptr ? NoVariable() : *info_;
}
const std::string& EmbeddingTable::name() const { return info().name; }
int64_t EmbeddingTable::rows() const { return info_ == nullptr ? 0 : info_->shape.dim(0); }
int64_t EmbeddingTable::dim() const { return info_ == nullptr ? 0 : info_->shape.dim(1); }

absl::Status CheckStrategy(const VariableInfo& info, uint64_t strategy) {
  if (info.owner == strategy) return absl::OkStatus();
  if (info.owner == 0) {
    return absl::InvalidArgumentError("no variable: this handle was not made by a strategy");
  }
  return absl::InvalidArgumentError(absl::StrCat(info.table ? "table '" : "variable '", info.name,
                                                 "' belongs to ", StrategyName(info.owner),
                                                 ", it was given to ", StrategyName(strategy)));
}

struct ParameterServerStrategy::State {
  State(Cluster of, Options given)
      : cluster(std::move(of)), options(std::move(given)), number(NextStrategyNumber()) {}

  absl::Status CheckOwner(const VariableInfo& info) const { return CheckStrategy(info, number); }
  // Also that there is such a shard.
  absl::Status CheckShard(const VariableInfo& info, int shard) const;
  absl::StatusOr<std::shared_ptr<const VariableInfo>> Create(std::shared_ptr<VariableInfo> info,
                                                             const proto::InitializerSpec& init,
                                                             int64_t shards);
  absl::Status CreateShards(VariableInfo* info, const proto::InitializerSpec& init, int64_t shards);
  // Cuts the variable into new shards, or takes those of the layout.
  absl::Status MakeShards(VariableInfo* info, const proto::VariableSpec& spec, int64_t shards);
  absl::Status TakeShards(VariableInfo* info, const proto::VariableSpec& spec,
                          const std::vector<proto::ShardSpec>& saved);
  // On the workers.
  absl::Status RegisterDataset(const PerWorkerDataset::State& dataset);
  FunctionBuilder NewBuilder(const std::string& name) const;
  absl::StatusOr<RemoteFunction> Finish(FunctionBuilder builder, DatasetId dataset);

  Cluster cluster;
  Options options;
  uint64_t number = 0;
  std::vector<std::shared_ptr<const VariableInfo>> variables;
  std::map<std::string, std::vector<proto::ShardSpec>> layout;  // by variable, by index
};

ParameterServerStrategy::ParameterServerStrategy(Cluster cluster, Options options)
    : state_(std::make_shared<State>(std::move(cluster), std::move(options))) {}

const std::vector<std::shared_ptr<const VariableInfo>>& ParameterServerStrategy::variables() const {
  return state_->variables;
}
const Cluster& ParameterServerStrategy::cluster() const { return state_->cluster; }
uint64_t ParameterServerStrategy::number() const { return state_->number; }

absl::Status ParameterServerStrategy::State::CheckShard(const VariableInfo& info, int shard) const {
  RETURN_IF_ERROR(CheckOwner(info));
  const size_t shards = info.shards.size();
  if (shard >= 0 && static_cast<size_t>(shard) < shards) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("variable '", info.name, "': wanted a shard below ", shards, ", found ", shard));
}

absl::Status ParameterServerStrategy::UseLayout(const Manifest& manifest) {
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

absl::Status ParameterServerStrategy::State::MakeShards(VariableInfo* info,
                                                        const proto::VariableSpec& spec,
                                                        int64_t shards) {
  const int64_t rows = info->rows();
  const int64_t most = info->hash() ? std::numeric_limits<int32_t>::max() : rows;
  if (shards < 1 || shards > std::max<int64_t>(1, most)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", info->name, "': a partitioner wants ", shards, " shards of ", rows, " rows"));
  }
  int64_t row_begin = 0;
  for (int64_t s = 0; s < shards; ++s) {
    proto::ShardSpec shard;
    *shard.mutable_variable() = spec;
    shard.set_index(static_cast<int>(s));
    shard.set_count(static_cast<int>(shards));
    shard.set_strategy(info->strategy);
    if (!info->hash()) shard.set_rows(rows / shards + (s < rows % shards ? 1 : 0));
    if (info->strategy == "div") shard.set_row_begin(row_begin);
    row_begin += shard.rows();
    info->shards.push_back(std::move(shard));
  }
  cluster.catalog()->Place(&info->shards);
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::State::TakeShards(
    VariableInfo* info, const proto::VariableSpec& spec,
    const std::vector<proto::ShardSpec>& saved) {
  const proto::VariableSpec& there = saved[0].variable();
  const auto describe = [](const proto::VariableSpec& v) {
    const std::string optimizer = v.optimizer().kind().empty() ? "no" : v.optimizer().kind();
    return absl::StrCat(v.table() ? "a table " : "a variable ",
                        DTypeName(static_cast<DType>(v.dtype())), FromProto(v.shape()).ToString(),
                        " with ", optimizer, " optimizer");
  };
  const std::string wanted = describe(there), found = describe(spec);
  if (wanted != found) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", info->name, "': the checkpoint has ", wanted, ", the program makes ", found));
  }
  info->strategy = saved[0].strategy();
  for (proto::ShardSpec shard : saved) {
    *shard.mutable_variable() = spec;
    shard.set_ps(cluster.catalog()->PsOf(shard.id()));
    info->shards.push_back(std::move(shard));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const VariableInfo>> ParameterServerStrategy::State::Create(
    std::shared_ptr<VariableInfo> info, const proto::InitializerSpec& initializer, int64_t shards) {
  Catalog* const catalog = cluster.catalog();
  RETURN_IF_ERROR(catalog->TakeName(info->name, StrategyName(number)));
  info->owner = number;
  absl::Status status = CreateShards(info.get(), initializer, shards);
  if (!status.ok()) {
    catalog->ReleaseName(info->name);
    if (layout.count(info->name) == 0) catalog->Remove(info->shards);
    return status;
  }
  variables.push_back(info);
  return std::shared_ptr<const VariableInfo>(std::move(info));
}

absl::Status ParameterServerStrategy::State::CreateShards(VariableInfo* info,
                                                          const proto::InitializerSpec& initializer,
                                                          int64_t shards) {
  proto::VariableSpec spec;
  spec.set_name(info->name);
  spec.set_dtype(static_cast<int>(info->dtype));
  *spec.mutable_shape() = ToProto(info->shape);
  *spec.mutable_initializer() = initializer;
  if (initializer.kind().empty()) spec.mutable_initializer()->set_kind("zeros");
  *spec.mutable_optimizer() = info->optimizer;
  spec.set_table(info->table);
  spec.set_rounding(info->rounding);
  if (info->hash()) *spec.mutable_hash() = *info->hash_table;
  const auto saved = layout.find(info->name);
  RETURN_IF_ERROR(saved == layout.end() ? MakeShards(info, spec, shards)
                                        : TakeShards(info, spec, saved->second));
  return WaitForStatus(
      [&](auto done) { cluster.controller()->CreateShards(info->shards, std::move(done)); });
}

absl::StatusOr<Variable> ParameterServerStrategy::CreateVariable(const std::string& name,
                                                                 const VariableOptions& options) {
  if (!options.shape.IsFullyKnown()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", name, "': shape ", options.shape.ToString(), " is not known"));
  }
  auto info = std::make_shared<VariableInfo>();
  info->name = name;
  info->dtype = options.dtype;
  info->shape = options.shape;
  info->optimizer = options.optimizer;
  info->strategy = "div";
  const Partitioner& partitioner =
      options.partitioner ? options.partitioner : state_->options.partitioner;
  const int64_t shards =
      partitioner && info->shape.rank() > 0 ? partitioner(info->dtype, info->shape) : 1;
  ASSIGN_OR_RETURN(auto created, state_->Create(std::move(info), options.initializer, shards));
  return Variable(std::move(created));
}

absl::StatusOr<EmbeddingTable> ParameterServerStrategy::CreateTable(const std::string& name,
                                                                    const TableOptions& options) {
  if (options.dim < 1 || (options.rows < 1 && !options.hash)) {
    return absl::InvalidArgumentError(absl::StrCat("table '", name,
                                                   "': wanted at least one row and "
                                                   "one column, found ",
                                                   options.rows, " x ", options.dim));
  }
  if (options.wire_dtype != DType::kF32 && options.wire_dtype != DType::kBF16) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table '", name, "': rows travel as f32 or bf16, found ", DTypeName(options.wire_dtype)));
  }
  auto info = std::make_shared<VariableInfo>();
  info->name = name;
  info->wire_dtype = options.wire_dtype;
  info->shape = Shape{options.hash ? kUnknownDim : options.rows, options.dim};
  if (options.hash) info->hash_table = ToProto(*options.hash);
  info->optimizer = options.optimizer;
  info->dtype = options.dtype;
  if (options.rounding || info->dtype == DType::kBF16) {
    info->rounding = Word(options.rounding.value_or(Rounding::kStochastic));
  }
  info->table = true;
  info->strategy = options.hash ? "hash" : Word(options.sharding);
  Partitioner partitioner = options.partitioner ? options.partitioner : state_->options.partitioner;
  if (!partitioner) partitioner = FixedShards(state_->cluster.num_ps());
  Shape largest = info->shape;
  if (options.hash && options.hash->max_rows > 0) largest.set_dim(0, options.hash->max_rows);
  const int64_t shards = partitioner(info->dtype, largest);
  ASSIGN_OR_RETURN(auto created, state_->Create(std::move(info), options.initializer, shards));
  return EmbeddingTable(std::move(created));
}

absl::StatusOr<PerWorkerDataset> ParameterServerStrategy::CreatePerWorkerDataset(
    const DatasetOptions& options) {
  if (options.batch_size < 1 || options.epochs < 0) {
    return absl::InvalidArgumentError(absl::StrCat("batch size ", options.batch_size, " and ",
                                                   options.epochs,
                                                   " epochs: wanted at least 1 and 0"));
  }
  auto state = std::make_shared<PerWorkerDataset::State>();
  state->options = options;
  auto data = Dataset::Load(options.spec);
  if (!data.ok()) return AsMistake(data.status());
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

absl::Status ParameterServerStrategy::State::RegisterDataset(
    const PerWorkerDataset::State& dataset) {
  ASSIGN_OR_RETURN(const WorkerDataset remote, WaitForValue<WorkerDataset>([&](auto done) {
                     cluster.controller()->RegisterDataset(dataset.id, dataset.options.spec,
                                                           std::move(done));
                   }));
  if (remote.fingerprint == dataset.data->fingerprint()) return absl::OkStatus();
  return absl::DataLossError(
      "the workers read other data than the coordinator; the files must be the same everywhere");
}

absl::StatusOr<RemoteFunction> ParameterServerStrategy::Define(const std::string& name,
                                                               const Build& build) {
  FunctionBuilder builder = state_->NewBuilder(name);
  build(builder);
  return state_->Finish(std::move(builder), 0);
}

FunctionBuilder ParameterServerStrategy::State::NewBuilder(const std::string& name) const {
  FunctionBuilder builder(name, cluster.registry());
  builder.state_->strategy = number;
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
  for (const ColumnSpec& column : dataset.data().columns(part)) {
    builder.state_->columns[column.name] = column.type;
  }
  build(builder);
  return state_->Finish(std::move(builder), dataset.id());
}

absl::StatusOr<RemoteFunction> ParameterServerStrategy::State::Finish(FunctionBuilder builder,
                                                                      DatasetId dataset) {
  std::vector<proto::ArgumentSource> sources;
  int own_arguments = 0;
  for (const std::string& column : builder.state_->sources) {
    proto::ArgumentSource source;
    source.set_column(column);
    if (column.empty()) source.set_argument(own_arguments++);
    sources.push_back(std::move(source));
  }
  ASSIGN_OR_RETURN(Function function, builder.state_->graph.Finish());
  if (function.results.empty() && function.targets.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", function.name, "' has no effect: wanted a Result, or an update ",
                     "(Minimize, Assign, AssignAdd, ScatterAdd)"));
  }
  SetCompute(options.compute, &function.graph);
  function.device = options.device;
  ASSIGN_OR_RETURN(Partition partition,
                   PartitionFunction(function, cluster.num_ps(), [this](ShardId shard) {
                     return cluster.catalog()->PsOf(shard);
                   }));
  auto state = std::make_shared<RemoteFunction::State>(std::move(partition));
  state->plan = cluster.catalog()->NewPlan();
  state->release = cluster.controller()->PlanReleaser(state->plan);
  state->dataset = dataset;
  state->strategy = number;
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const auto& argument = function.arguments[i];
    const std::string& column = builder.state_->sources[i];
    if (column.empty()) {
      state->arguments.push_back({argument.name, argument.type});
    } else {
      state->column = column;
    }
  }
  RETURN_IF_ERROR(WaitForStatus([&](auto done) {
    cluster.controller()->RegisterPlan(state->plan,
                                       std::make_shared<const Function>(std::move(function)),
                                       std::move(sources), dataset, std::move(done));
  }));
  RemoteFunction remote;
  remote.state_ = std::move(state);
  return remote;
}

absl::StatusOr<Tensor> ParameterServerStrategy::ReadShard(const VariableInfo& info, int shard,
                                                          int64_t begin, int64_t count) {
  RETURN_IF_ERROR(state_->CheckShard(info, shard));
  const proto::ShardSpec& spec = info.shards[shard];
  return WaitForValue<Tensor>([&](auto done) {
    state_->cluster.controller()->ReadRows(spec.id(), begin, count, /*slot=*/0, std::move(done));
  });
}

absl::Status ParameterServerStrategy::WriteShard(const VariableInfo& info, int shard, int64_t begin,
                                                 const Tensor& rows) {
  RETURN_IF_ERROR(state_->CheckShard(info, shard));
  const proto::ShardSpec& spec = info.shards[shard];
  return WaitForStatus([&](auto done) {
    state_->cluster.controller()->WriteRows(spec.id(), begin, /*slot=*/0, rows, std::move(done));
  });
}

absl::StatusOr<ParameterServerStrategy::IdsAndRows> ParameterServerStrategy::ReadIds(
    const VariableInfo& info, int shard, int64_t begin, int64_t count) {
  RETURN_IF_ERROR(state_->CheckShard(info, shard));
  const proto::ShardSpec& spec = info.shards[shard];
  ASSIGN_OR_RETURN(Controller::IdsRead read, WaitForValue<Controller::IdsRead>([&](auto done) {
                     state_->cluster.controller()->ReadIds(spec.id(), begin, count, /*slot=*/0,
                                                           std::move(done));
                   }));
  return IdsAndRows{std::move(read.ids), std::move(read.rows), read.next};
}

absl::Status ParameterServerStrategy::WriteIds(const VariableInfo& info, const Tensor& ids,
                                               const Tensor& rows) {
  RETURN_IF_ERROR(state_->CheckOwner(info));
  if (!info.hash() || ids.dtype() != DType::kI64 || ids.rank() != 1 || rows.rank() < 1 ||
      rows.dim(0) != ids.dim(0) || rows.num_elements() != ids.dim(0) * info.row_elements() ||
      rows.dtype() != info.dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", info.name, "': wanted ids i64[n] and rows of a hash table ",
        DTypeName(info.dtype), info.shape.ToString(), ", found ", DTypeName(ids.dtype()),
        ids.shape().ToString(), " and ", DTypeName(rows.dtype()), rows.shape().ToString()));
  }
  const auto count = static_cast<int64_t>(info.shards.size());
  const size_t row_bytes = static_cast<size_t>(RowBytes(info));
  const int64_t chunk = ChunkRows(info);
  const char* in = static_cast<const char*>(rows.raw());
  std::vector<std::vector<int64_t>> of_shard(info.shards.size());
  const auto flush = [&](int64_t s) -> absl::Status {
    std::vector<int64_t>& at = of_shard[static_cast<size_t>(s)];
    const auto n = static_cast<int64_t>(at.size());
    Shape shape = info.shape;
    shape.set_dim(0, n);
    Tensor some(DType::kI64, Shape{n}), values(info.dtype, shape);
    for (size_t i = 0; i < at.size(); ++i) {
      some.mutable_data<int64_t>()[i] = ids.data<int64_t>()[at[i]];
      std::memcpy(static_cast<char*>(values.mutable_raw()) + i * row_bytes,
                  in + static_cast<size_t>(at[i]) * row_bytes, row_bytes);
    }
    at.clear();
    return WaitForStatus([&](auto done) {
      state_->cluster.controller()->WriteIds(info.shards[s].id(), some, values, /*replace=*/false,
                                             std::move(done));
    });
  };
  for (int64_t i = 0; i < ids.dim(0); ++i) {
    const int64_t s = HashShard(ids.data<int64_t>()[i], count);
    of_shard[static_cast<size_t>(s)].push_back(i);
    if (static_cast<int64_t>(of_shard[static_cast<size_t>(s)].size()) == chunk) {
      RETURN_IF_ERROR(flush(s));
    }
  }
  for (int64_t s = 0; s < count; ++s) {
    if (!of_shard[static_cast<size_t>(s)].empty()) RETURN_IF_ERROR(flush(s));
  }
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::RemoveIds(const VariableInfo& info) {
  RETURN_IF_ERROR(state_->CheckOwner(info));
  if (!info.hash()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", info.name, "' is no hash table: its rows stay"));
  }
  Shape none = info.shape;
  none.set_dim(0, 0);
  for (const proto::ShardSpec& shard : info.shards) {
    RETURN_IF_ERROR(WaitForStatus([&](auto done) {
      state_->cluster.controller()->WriteIds(shard.id(), Tensor(DType::kI64, Shape{0}),
                                             Tensor(info.dtype, none), /*replace=*/true,
                                             std::move(done));
    }));
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<Tensor> ReadAll(ParameterServerStrategy* strategy, const VariableInfo& info) {
  RETURN_IF_ERROR(CheckStrategy(info, strategy->number()));
  if (info.hash()) return NoWhole(info);
  ASSIGN_OR_RETURN(Tensor value, AllocateTensor(info.dtype, info.shape));
  const size_t row_bytes = static_cast<size_t>(RowBytes(info));
  const int64_t chunk = ChunkRows(info);
  char* out = static_cast<char*>(value.mutable_raw());
  for (size_t s = 0; s < info.shards.size(); ++s) {
    const proto::ShardSpec& shard = info.shards[s];
    for (int64_t begin = 0; begin < shard.rows(); begin += chunk) {
      const int64_t count = std::min(chunk, shard.rows() - begin);
      ASSIGN_OR_RETURN(Tensor rows, strategy->ReadShard(info, static_cast<int>(s), begin, count));
      if (rows.bytes() != row_bytes * static_cast<size_t>(count)) {
        return absl::InternalError(absl::StrCat("variable '", info.name, "': a PS sent ",
                                                rows.bytes(), " bytes for ", count, " rows"));
      }
      const char* in = static_cast<const char*>(rows.raw());
      for (int64_t r = 0; r < count; ++r) {
        std::memcpy(
            out + row_bytes * static_cast<size_t>(info.GlobalRow(static_cast<int>(s), begin + r)),
            in + row_bytes * static_cast<size_t>(r), row_bytes);
      }
    }
  }
  return info.dtype == DType::kBF16 ? Widened(value) : value;
}

absl::Status WriteAll(ParameterServerStrategy* strategy, const VariableInfo& info,
                      const Tensor& value) {
  RETURN_IF_ERROR(CheckStrategy(info, strategy->number()));
  if (info.hash()) return NoWhole(info);
  const bool known = value.dtype() == info.dtype || value.dtype() == info.value_dtype();
  if (!known || value.shape() != info.shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", info.name, "': wanted ", DTypeName(info.value_dtype()), info.shape.ToString(),
        ", found ", DTypeName(value.dtype()), value.shape().ToString()));
  }
  const size_t row_bytes = static_cast<size_t>(info.row_elements()) * SizeOf(value.dtype());
  const int64_t chunk = ChunkRows(info);
  const char* in = static_cast<const char*>(value.raw());
  for (size_t s = 0; s < info.shards.size(); ++s) {
    const proto::ShardSpec& shard = info.shards[s];
    for (int64_t begin = 0; begin < shard.rows(); begin += chunk) {
      const int64_t count = std::min(chunk, shard.rows() - begin);
      Shape shape = info.shape;
      if (shape.rank() == 0) {
        shape = Shape{1};
      } else {
        shape.set_dim(0, count);
      }
      Tensor rows(value.dtype(), shape);
      for (int64_t r = 0; r < count; ++r) {
        std::memcpy(
            static_cast<char*>(rows.mutable_raw()) + row_bytes * static_cast<size_t>(r),
            in + row_bytes * static_cast<size_t>(info.GlobalRow(static_cast<int>(s), begin + r)),
            row_bytes);
      }
      RETURN_IF_ERROR(strategy->WriteShard(info, static_cast<int>(s), begin, rows));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> ParameterServerStrategy::Read(const Variable& v) {
  return ReadAll(this, v.info());
}
absl::StatusOr<Tensor> ParameterServerStrategy::Read(const EmbeddingTable& t) {
  return ReadAll(this, t.info());
}
absl::Status ParameterServerStrategy::Assign(const Variable& v, const Tensor& value) {
  return WriteAll(this, v.info(), value);
}
absl::Status ParameterServerStrategy::Assign(const EmbeddingTable& t, const Tensor& value) {
  return WriteAll(this, t.info(), value);
}

}  // namespace coxswain
