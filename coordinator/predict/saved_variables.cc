// One stored variable: its rows by id, in any order and type of storage; then all variables.
#include "coordinator/predict/saved_variables.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/checkpoint_tables.h"
#include "coordinator/model/table_version.h"
#include "kernels/cpu/bf16.h"
#include "runtime/base/row_mix.h"
#include "runtime/base/status.h"
#include "runtime/graph/serialize.h"
#include "runtime/tensor/initializer.h"

namespace coxswain::predict {
namespace {

constexpr int64_t kAhead = 8;  // rows that are fetched before they are copied

// The description for a handle: one shard with all rows in order.
std::shared_ptr<VariableInfo> InfoOf(const model::SavedVariable& saved, ShardId shard,
                                     DType wire_dtype) {
  auto info = std::make_shared<VariableInfo>();
  info->name = saved.name;
  info->dtype = saved.dtype;
  info->wire_dtype = wire_dtype;
  info->shape = saved.shape;
  info->table = saved.table;
  info->strategy = saved.hash ? "hash" : "div";
  if (saved.hash) {
    info->shape.set_dim(0, kUnknownDim);
    info->hash_table.emplace();
  }
  proto::ShardSpec spec;
  spec.set_id(shard);
  spec.mutable_variable()->set_name(saved.name);
  if (saved.hash) *spec.mutable_variable()->mutable_hash() = *info->hash_table;
  *spec.mutable_variable()->mutable_shape() = graph::ToProto(info->shape);
  spec.set_count(1);
  spec.set_strategy(info->strategy);
  if (!saved.hash) spec.set_rows(info->rows());
  info->shards.push_back(std::move(spec));
  return info;
}

}  // namespace

class SavedVariables::Stored {
 public:
  static absl::StatusOr<std::unique_ptr<Stored>> Create(model::SavedTensors saved,
                                                        const proto::InitializerSpec& initializer) {
    std::unique_ptr<Stored> stored(new Stored(std::move(saved)));
    const model::SavedVariable& variable = stored->saved_.variable;
    if (!variable.hash) return stored;
    Shape shape = variable.shape;
    shape.set_dim(0, kUnknownDim);
    ASSIGN_OR_RETURN(stored->initializer_,
                     Initializer::Create(initializer, variable.name, shape, variable.dtype));
    if (stored->saved_.rows != nullptr) return stored;
    const auto ids = stored->saved_.ids.values<int64_t>();
    stored->places_.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      stored->places_.emplace(ids[i], static_cast<int64_t>(i));
    }
    stored->saved_.ids = Tensor();  // only the index is needed from here on
    return stored;
  }

  const model::SavedVariable& variable() const { return saved_.variable; }

  absl::StatusOr<Tensor> Whole() {
    if (saved_.variable.hash) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", saved_.variable.name, "' is a hash table: it has no whole"));
    }
    const bool as_it_is =
        !saved_.mixed && saved_.rows == nullptr && saved_.variable.dtype != DType::kBF16;
    if (as_it_is) return saved_.values;
    absl::call_once(whole_once_, [this] {
      whole_ = NewRows(rows());
      for (int64_t row = 0; row < rows(); ++row) Copy(RowOf(row), row, &whole_);
    });
    return whole_;
  }

  absl::StatusOr<Tensor> Rows(const Tensor& ids) const {
    const int64_t n = ids.num_elements();
    const int64_t* const id = ids.data<int64_t>();
    std::vector<const char*> found(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      if (!saved_.variable.hash && static_cast<uint64_t>(id[i]) >= static_cast<uint64_t>(rows())) {
        return absl::InvalidArgumentError(absl::StrCat("'", saved_.variable.name, "': id ", id[i],
                                                       ", wanted 0 <= id < ", rows()));
      }
      found[static_cast<size_t>(i)] = RowOf(id[i]);
    }
    Tensor out = NewRows(n);
    for (int64_t i = 0; i < n; ++i) {
      if (i + kAhead < n) __builtin_prefetch(found[static_cast<size_t>(i + kAhead)]);
      const char* const row = found[static_cast<size_t>(i)];
      if (row != nullptr) {
        Copy(row, i, &out);
      } else {
        FillInitial(id[i], i, &out);
      }
    }
    return out;
  }

 private:
  explicit Stored(model::SavedTensors saved) : saved_(std::move(saved)) {
    const Shape& shape = saved_.variable.shape;
    for (int i = 1; i < shape.rank(); ++i) width_ *= shape.dim(i);
    row_bytes_ = static_cast<size_t>(width_) * SizeOf(saved_.variable.dtype);
    if (saved_.rows == nullptr) base_ = static_cast<const char*>(saved_.values.raw());
    if (saved_.mixed) mix_.emplace(rows());
  }

  int64_t rows() const {
    return saved_.variable.shape.rank() == 0 ? 1 : saved_.variable.shape.dim(0);
  }

  // Null: a hash table has no row for the id.
  const char* RowOf(int64_t id) const {
    if (saved_.rows != nullptr) {
      return saved_.variable.hash ? saved_.rows->RowOfId(id) : saved_.rows->Row(id);
    }
    int64_t place = id;
    if (mix_) {
      place = mix_->Place(id);
    } else if (saved_.variable.hash) {
      const auto found = places_.find(id);
      if (found == places_.end()) return nullptr;
      place = found->second;
    }
    return base_ + static_cast<size_t>(place) * row_bytes_;
  }

  // bf16 rows are widened.
  Tensor NewRows(int64_t n) const {
    Shape shape = saved_.variable.shape;
    shape.set_dim(0, n);
    const DType dtype = saved_.variable.dtype;
    return Tensor(dtype == DType::kBF16 ? DType::kF32 : dtype, shape);
  }

  void Copy(const char* from, int64_t row, Tensor* out) const {
    if (saved_.variable.dtype == DType::kBF16) {
      kernels::FromBf16(reinterpret_cast<const BFloat16*>(from), width_,
                        out->mutable_data<float>() + row * width_);
      return;
    }
    std::memcpy(static_cast<char*>(out->mutable_raw()) + static_cast<size_t>(row) * row_bytes_,
                from, row_bytes_);
  }

  void FillInitial(int64_t id, int64_t row, Tensor* out) const {
    const auto to =
        absl::MakeSpan(out->mutable_data<float>() + row * width_, static_cast<size_t>(width_));
    initializer_->FillRow(id, to);
    const model::SavedVariable& variable = saved_.variable;
    if (variable.dtype != DType::kBF16 && !variable.begins_in_bf16) return;
    for (float& value : to) value = BFloat16::FromFloat(value).ToFloat();
  }

  // Keeps a handle, so that no run takes over the memory as its only owner.
  model::SavedTensors saved_;
  int64_t width_ = 1;
  size_t row_bytes_ = 0;
  const char* base_ = nullptr;
  std::optional<RowMix> mix_;
  absl::flat_hash_map<int64_t, int64_t> places_;  // of a hash table's ids, in a saved model
  std::optional<Initializer> initializer_;        // the same
  absl::once_flag whole_once_;
  Tensor whole_;
};

SavedVariables::SavedVariables(model::SavedSource source,
                               std::shared_ptr<model::CheckpointTables> tables)
    : source_(std::move(source)),
      tables_(tables != nullptr ? std::move(tables) : std::make_shared<model::CheckpointTables>()) {
}
SavedVariables::~SavedVariables() = default;

absl::StatusOr<EmbeddingTable> SavedVariables::MakeTable(const std::string& name,
                                                         const TableOptions& options) {
  ASSIGN_OR_RETURN(const model::SavedVariable found, source_.Find(name));
  const bool in_shards = source_.is_checkpoint() && found.table;
  ASSIGN_OR_RETURN(model::SavedTensors saved,
                   in_shards ? source_.LoadTable(name, tables_.get()) : source_.Load(name));
  const model::SavedVariable& variable = saved.variable;
  const bool hash = options.hash.has_value();
  if (!variable.table || variable.shape.rank() != 2 || variable.shape.dim(1) != options.dim ||
      variable.hash != hash || (variable.dtype != DType::kF32 && variable.dtype != DType::kBF16)) {
    return absl::InvalidArgumentError(absl::StrCat(
        source_.path(), " does not fit the job: wanted a ", hash ? "hash table" : "table", " '",
        name, "' of rows of ", options.dim, ", found ", DTypeName(variable.dtype),
        variable.shape.ToString(), variable.hash ? " of a hash table" : ""));
  }
  const auto shard = static_cast<ShardId>(stored_.size());
  auto info = InfoOf(variable, shard, options.wire_dtype);
  ASSIGN_OR_RETURN(auto stored, Stored::Create(std::move(saved), options.initializer));
  stored_.push_back(std::move(stored));
  return EmbeddingTable(std::move(info));
}

absl::StatusOr<Variable> SavedVariables::MakeVariable(const std::string& name,
                                                      const VariableOptions& options) {
  ASSIGN_OR_RETURN(model::SavedTensors saved, source_.Load(name));
  if (saved.variable.hash || saved.variable.dtype != options.dtype ||
      saved.variable.shape != options.shape) {
    return absl::InvalidArgumentError(
        absl::StrCat(source_.path(), " does not fit the job: wanted a variable '", name, "' ",
                     DTypeName(options.dtype), options.shape.ToString(), ", found ",
                     DTypeName(saved.variable.dtype), saved.variable.shape.ToString()));
  }
  const auto shard = static_cast<ShardId>(stored_.size());
  auto info = InfoOf(saved.variable, shard, options.wire_dtype);
  ASSIGN_OR_RETURN(auto stored, Stored::Create(std::move(saved), Zeros()));
  stored_.push_back(std::move(stored));
  return Variable(std::move(info));
}

absl::StatusOr<Tensor> SavedVariables::Read(ShardId shard) {
  if (shard >= stored_.size()) return absl::NotFoundError(absl::StrCat("no shard ", shard));
  return stored_[shard]->Whole();
}

absl::StatusOr<Tensor> SavedVariables::Gather(ShardId shard, const Tensor& ids) {
  if (shard >= stored_.size()) return absl::NotFoundError(absl::StrCat("no shard ", shard));
  return stored_[shard]->Rows(ids);
}

absl::Status SavedVariables::Stage(graph::Update) {
  return absl::FailedPreconditionError("a saved model is read only");
}

}  // namespace coxswain::predict
