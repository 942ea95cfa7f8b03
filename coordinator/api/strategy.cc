#include "coordinator/api/strategy.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"
#include "kernels/op_util.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/status.h"
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

absl::Status CheckStrategy(const VariableInfo& info, uint64_t strategy) {
  if (info.owner == strategy) return absl::OkStatus();
  if (info.owner == 0) {
    return absl::InvalidArgumentError("no variable: this handle was not made by a strategy");
  }
  return absl::InvalidArgumentError(absl::StrCat(info.table ? "table '" : "variable '", info.name,
                                                 "' belongs to ", StrategyName(info.owner),
                                                 ", it was given to ", StrategyName(strategy)));
}

std::optional<Ticket> PerWorkerDataset::NextTicket() {
  if (data_ == nullptr) return std::nullopt;
  std::optional<Ticket> ticket =
      cursor_->Next(options_.batch_size, data_->num_examples(Part::kTraining), options_.epochs,
                    options_.drop_remainder);
  if (ticket) ticket->dataset = id_;
  return ticket;
}

std::vector<Ticket> PerWorkerDataset::Tickets(Part part, int64_t batch_size,
                                              int64_t max_examples) const {
  int64_t examples = data_ == nullptr || batch_size < 1 ? 0 : data_->num_examples(part);
  if (max_examples > 0) examples = std::min(examples, max_examples);
  std::vector<Ticket> tickets;
  for (int64_t begin = 0; begin < examples; begin += batch_size) {
    tickets.push_back({part, 0, begin, std::min(begin + batch_size, examples), id_});
  }
  return tickets;
}

int64_t PerWorkerDataset::steps_per_epoch() const {
  if (data_ == nullptr) return 0;
  const int64_t examples = data_->num_examples(Part::kTraining), batch = options_.batch_size;
  return options_.drop_remainder ? examples / batch : (examples + batch - 1) / batch;
}

absl::Status RemoteFunction::CheckCall(const Ticket& ticket,
                                       absl::Span<const Tensor> arguments) const {
  if (partition_ == nullptr) {
    return absl::InvalidArgumentError("no function: it was not defined by a strategy");
  }
  const auto who = [this] { return absl::StrCat("function '", name(), "'"); };  // errors only
  if (dataset_ == 0 && ticket.size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        who(), " was defined without a data set, wanted no ticket, found ", ticket.ToString()));
  }
  if (dataset_ != 0 && ticket.dataset != 0 && ticket.dataset != dataset_) {
    return absl::InvalidArgumentError(absl::StrCat(who(), " reads data set ", dataset_,
                                                   ", the ticket is of data set ", ticket.dataset,
                                                   " (", ticket.ToString(), ")"));
  }
  if (!column_.empty() && ticket.size() <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(who(), " reads column '", column_, "' of its data set: wanted a ticket for ",
                     "examples (PerWorkerDataset::NextTicket), found none"));
  }
  if (arguments.size() != arguments_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(who(), ": wanted ", arguments_.size(),
                                                   " arguments, found ", arguments.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& [name, type] = arguments_[i];
    if (arguments[i].dtype() == type.dtype && MergeShapes(type.shape, arguments[i].shape()).ok()) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(who(), ": argument ", i, " ('", name, "'): wanted ", type.ToString(),
                     ", found ", DTypeName(arguments[i].dtype()), arguments[i].shape().ToString()));
  }
  return absl::OkStatus();
}

ParameterServerStrategy::ParameterServerStrategy(Cluster cluster, Options options)
    : cluster_(std::move(cluster)), options_(std::move(options)), number_(NextStrategyNumber()) {}

absl::Status ParameterServerStrategy::CheckOwner(const VariableInfo& info) const {
  return CheckStrategy(info, number_);
}

absl::Status ParameterServerStrategy::CheckShard(const VariableInfo& info, int shard) const {
  RETURN_IF_ERROR(CheckOwner(info));
  const size_t shards = info.shards.size();
  if (shard >= 0 && static_cast<size_t>(shard) < shards) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("variable '", info.name, "': wanted a shard below ", shards, ", found ", shard));
}

absl::Status ParameterServerStrategy::UseLayout(const Manifest& manifest) {
  if (!variables_.empty() || !layout_.empty()) {
    return absl::FailedPreconditionError(
        "a checkpoint's layout must be chosen before the first variable is created");
  }
  RETURN_IF_ERROR(cluster_.catalog()->TakeLayout(manifest, StrategyName(number_)));
  for (const proto::SavedShard& saved : manifest.shards) {
    layout_[saved.shard().variable().name()].push_back(saved.shard());
  }
  for (auto& [name, shards] : layout_) {
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
  for (const auto& [name, shards] : layout_) {
    const bool created = std::any_of(variables_.begin(), variables_.end(),
                                     [&n = name](const auto& v) { return v->name == n; });
    if (!created) names.push_back(name);
  }
  return names;
}

absl::Status ParameterServerStrategy::MakeShards(VariableInfo* info,
                                                 const proto::VariableSpec& spec, int64_t shards) {
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
  cluster_.catalog()->Place(&info->shards);
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::TakeShards(VariableInfo* info,
                                                 const proto::VariableSpec& spec,
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
    shard.set_ps(cluster_.catalog()->PsOf(shard.id()));
    info->shards.push_back(std::move(shard));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const VariableInfo>> ParameterServerStrategy::Create(
    std::shared_ptr<VariableInfo> info, const proto::InitializerSpec& initializer, int64_t shards) {
  Catalog* const catalog = cluster_.catalog();
  RETURN_IF_ERROR(catalog->TakeName(info->name, StrategyName(number_)));
  info->owner = number_;
  absl::Status status = CreateShards(info.get(), initializer, shards);
  if (!status.ok()) {
    catalog->ReleaseName(info->name);
    if (layout_.count(info->name) == 0) catalog->Remove(info->shards);
    return status;
  }
  variables_.push_back(info);
  return std::shared_ptr<const VariableInfo>(std::move(info));
}

absl::Status ParameterServerStrategy::CreateShards(VariableInfo* info,
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
  const auto saved = layout_.find(info->name);
  RETURN_IF_ERROR(saved == layout_.end() ? MakeShards(info, spec, shards)
                                         : TakeShards(info, spec, saved->second));
  return WaitForStatus(
      [&](auto done) { cluster_.controller()->CreateShards(info->shards, std::move(done)); });
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
  const Partitioner& partitioner = options.partitioner ? options.partitioner : options_.partitioner;
  const int64_t shards =
      partitioner && info->shape.rank() > 0 ? partitioner(info->dtype, info->shape) : 1;
  ASSIGN_OR_RETURN(auto created, Create(std::move(info), options.initializer, shards));
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
  if (options.strategy != "mod" && options.strategy != "div" && options.strategy != "hash") {
    return absl::InvalidArgumentError(absl::StrCat(
        "table '", name, "': strategy is mod, div or hash, found '", options.strategy, "'"));
  }
  if (options.wire_dtype != DType::kF32 && options.wire_dtype != DType::kBF16) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table '", name, "': rows travel as f32 or bf16, found ", DTypeName(options.wire_dtype)));
  }
  auto info = std::make_shared<VariableInfo>();
  info->name = name;
  info->wire_dtype = options.wire_dtype;
  info->shape = Shape{options.hash ? kUnknownDim : options.rows, options.dim};
  info->hash_table = options.hash;
  info->optimizer = options.optimizer;
  info->dtype = options.dtype;
  info->rounding = options.rounding;
  if (info->dtype == DType::kBF16 && info->rounding.empty()) info->rounding = "stochastic";
  info->table = true;
  info->strategy = options.hash ? "hash" : options.strategy;
  Partitioner partitioner = options.partitioner ? options.partitioner : options_.partitioner;
  if (!partitioner) partitioner = FixedShards(cluster_.num_ps());
  Shape largest = info->shape;
  if (options.hash && options.hash->max_rows() > 0) largest.set_dim(0, options.hash->max_rows());
  const int64_t shards = partitioner(info->dtype, largest);
  ASSIGN_OR_RETURN(auto created, Create(std::move(info), options.initializer, shards));
  return EmbeddingTable(std::move(created));
}

absl::StatusOr<PerWorkerDataset> ParameterServerStrategy::CreatePerWorkerDataset(
    const DatasetOptions& options) {
  if (options.batch_size < 1 || options.epochs < 0) {
    return absl::InvalidArgumentError(absl::StrCat("batch size ", options.batch_size, " and ",
                                                   options.epochs,
                                                   " epochs: wanted at least 1 and 0"));
  }
  PerWorkerDataset dataset;
  dataset.options_ = options;
  auto data = Dataset::Load(options.spec);
  if (!data.ok()) return AsMistake(data.status());
  dataset.data_ = *std::move(data);
  dataset.strategy_ = number_;
  Catalog* const catalog = cluster_.catalog();
  ASSIGN_OR_RETURN(const Catalog::DatasetPlace place,
                   catalog->AddDataset(dataset.data_->fingerprint()));
  dataset.id_ = place.id;
  dataset.cursor_ = place.cursor;
  if (absl::Status s = RegisterDataset(dataset); !s.ok()) {
    catalog->RemoveDataset(place.id);
    return s;
  }
  return dataset;
}

absl::Status ParameterServerStrategy::RegisterDataset(const PerWorkerDataset& dataset) {
  ASSIGN_OR_RETURN(const WorkerDataset remote, WaitForValue<WorkerDataset>([&](auto done) {
                     cluster_.controller()->RegisterDataset(dataset.id_, dataset.options_.spec,
                                                            std::move(done));
                   }));
  if (remote.fingerprint == dataset.data_->fingerprint()) return absl::OkStatus();
  return absl::DataLossError(
      "the workers read other data than the coordinator; the files must be the same everywhere");
}

absl::StatusOr<RemoteFunction> ParameterServerStrategy::Define(const std::string& name,
                                                               const Build& build) {
  FunctionBuilder builder = NewBuilder(name);
  build(builder);
  return Finish(std::move(builder), 0);
}

FunctionBuilder ParameterServerStrategy::NewBuilder(const std::string& name) const {
  FunctionBuilder builder(name, cluster_.registry());
  builder.strategy_ = number_;
  return builder;
}

absl::StatusOr<RemoteFunction> ParameterServerStrategy::Define(const std::string& name,
                                                               const PerWorkerDataset& dataset,
                                                               const Build& build, Part part) {
  if (dataset.strategy_ != number_) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", name, "': the data set belongs to ",
                     dataset.strategy_ == 0 ? "no strategy" : StrategyName(dataset.strategy_),
                     ", it was given to ", StrategyName(number_)));
  }
  FunctionBuilder builder = NewBuilder(name);
  for (const ColumnSpec& column : dataset.data().columns(part)) {
    builder.columns_[column.name] = column.type;
  }
  build(builder);
  return Finish(std::move(builder), dataset.id());
}

absl::StatusOr<RemoteFunction> ParameterServerStrategy::Finish(FunctionBuilder builder,
                                                               DatasetId dataset) {
  std::vector<proto::ArgumentSource> sources;
  int own_arguments = 0;
  for (const std::string& column : builder.sources_) {
    proto::ArgumentSource source;
    source.set_column(column);
    if (column.empty()) source.set_argument(own_arguments++);
    sources.push_back(std::move(source));
  }
  ASSIGN_OR_RETURN(Function function, builder.graph_.Finish());
  if (function.results.empty() && function.targets.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", function.name, "' has no effect: wanted a Result, or an update ",
                     "(Minimize, Assign, AssignAdd, ScatterAdd)"));
  }
  SetCompute(options_.compute, &function.graph);
  ASSIGN_OR_RETURN(Partition partition,
                   PartitionFunction(function, cluster_.num_ps(), [this](ShardId shard) {
                     return cluster_.catalog()->PsOf(shard);
                   }));
  RemoteFunction remote;
  remote.plan_ = cluster_.catalog()->NewPlan();
  remote.dataset_ = dataset;
  remote.strategy_ = number_;
  // All copies of the handle share it, so the plan goes with the last one.
  remote.partition_ = std::shared_ptr<const Partition>(
      new Partition(std::move(partition)),
      [release = cluster_.controller()->PlanReleaser(remote.plan_)](const Partition* p) {
        delete p;
        release();
      });
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const auto& argument = function.arguments[i];
    const std::string& column = builder.sources_[i];
    if (column.empty()) {
      remote.arguments_.push_back({argument.name, argument.type});
    } else {
      remote.column_ = column;
    }
  }
  RETURN_IF_ERROR(WaitForStatus([&](auto done) {
    cluster_.controller()->RegisterPlan(remote.plan_,
                                        std::make_shared<const Function>(std::move(function)),
                                        std::move(sources), dataset, std::move(done));
  }));
  return remote;
}

absl::StatusOr<Tensor> ParameterServerStrategy::ReadShard(const VariableInfo& info, int shard,
                                                          int64_t begin, int64_t count) {
  RETURN_IF_ERROR(CheckShard(info, shard));
  const proto::ShardSpec& spec = info.shards[shard];
  return WaitForValue<Tensor>([&](auto done) {
    cluster_.controller()->ReadRows(spec.id(), begin, count, /*slot=*/0, std::move(done));
  });
}

absl::Status ParameterServerStrategy::WriteShard(const VariableInfo& info, int shard, int64_t begin,
                                                 const Tensor& rows) {
  RETURN_IF_ERROR(CheckShard(info, shard));
  const proto::ShardSpec& spec = info.shards[shard];
  return WaitForStatus([&](auto done) {
    cluster_.controller()->WriteRows(spec.id(), begin, /*slot=*/0, rows, std::move(done));
  });
}

absl::StatusOr<ParameterServerStrategy::IdsAndRows> ParameterServerStrategy::ReadIds(
    const VariableInfo& info, int shard, int64_t begin, int64_t count) {
  RETURN_IF_ERROR(CheckShard(info, shard));
  const proto::ShardSpec& spec = info.shards[shard];
  ASSIGN_OR_RETURN(Controller::IdsRead read, WaitForValue<Controller::IdsRead>([&](auto done) {
                     cluster_.controller()->ReadIds(spec.id(), begin, count, /*slot=*/0,
                                                    std::move(done));
                   }));
  return IdsAndRows{std::move(read.ids), std::move(read.rows), read.next};
}

absl::Status ParameterServerStrategy::WriteIds(const VariableInfo& info, const Tensor& ids,
                                               const Tensor& rows) {
  RETURN_IF_ERROR(CheckOwner(info));
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
      cluster_.controller()->WriteIds(info.shards[s].id(), some, values, /*replace=*/false,
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
  RETURN_IF_ERROR(CheckOwner(info));
  if (!info.hash()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", info.name, "' is no hash table: its rows stay"));
  }
  Shape none = info.shape;
  none.set_dim(0, 0);
  for (const proto::ShardSpec& shard : info.shards) {
    RETURN_IF_ERROR(WaitForStatus([&](auto done) {
      cluster_.controller()->WriteIds(shard.id(), Tensor(DType::kI64, Shape{0}),
                                      Tensor(info.dtype, none), /*replace=*/true, std::move(done));
    }));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ParameterServerStrategy::ReadAll(const VariableInfo& info) {
  RETURN_IF_ERROR(CheckOwner(info));
  if (info.hash()) return NoWhole(info);
  ASSIGN_OR_RETURN(Tensor value, AllocateTensor(info.dtype, info.shape));
  const size_t row_bytes = static_cast<size_t>(RowBytes(info));
  const int64_t chunk = ChunkRows(info);
  char* out = static_cast<char*>(value.mutable_raw());
  for (size_t s = 0; s < info.shards.size(); ++s) {
    const proto::ShardSpec& shard = info.shards[s];
    for (int64_t begin = 0; begin < shard.rows(); begin += chunk) {
      const int64_t count = std::min(chunk, shard.rows() - begin);
      ASSIGN_OR_RETURN(Tensor rows, ReadShard(info, static_cast<int>(s), begin, count));
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

absl::Status ParameterServerStrategy::WriteAll(const VariableInfo& info, const Tensor& value) {
  RETURN_IF_ERROR(CheckOwner(info));
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
      RETURN_IF_ERROR(WriteShard(info, static_cast<int>(s), begin, rows));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ParameterServerStrategy::Read(const Variable& v) {
  return ReadAll(v.info());
}
absl::StatusOr<Tensor> ParameterServerStrategy::Read(const EmbeddingTable& t) {
  return ReadAll(t.info());
}
absl::Status ParameterServerStrategy::Assign(const Variable& v, const Tensor& value) {
  return WriteAll(v.info(), value);
}
absl::Status ParameterServerStrategy::Assign(const EmbeddingTable& t, const Tensor& value) {
  return WriteAll(t.info(), value);
}

}  // namespace coxswain
