// In the order of a function's life: inputs, reading variables whole, products with them, lookups,
// writes by hand, order, and Minimize, which turns gradients into updates of shards. What a program
// does with gradients itself is in gradients.cc.
#include "coxswain/function_builder.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/api/function_state.h"
#include "coordinator/api/table_words.h"
#include "coordinator/api/variable_info.h"
#include "kernels/shard_target.h"
#include "kernels/validate.h"
#include "runtime/base/status.h"
#include "runtime/function/partition.h"

namespace coxswain {

Attrs ShardAttrs(const proto::ShardSpec& shard) {
  std::string label = shard.variable().name();
  if (shard.count() > 1) absl::StrAppend(&label, "/part_", shard.index());
  return {{"shard", static_cast<int64_t>(shard.id())}, {"variable", label}};
}

Attrs ReadAttrs(const VariableInfo& info, int shard) {
  Attrs attrs = ShardAttrs(info.shards[shard]);
  attrs["dtype"] = info.value_dtype();
  attrs["shape"] = info.ShardShape(shard);
  return attrs;
}

namespace {

// Gradients by variable. Each element points to an output, which is replaced by the clipped one.
using GradientsOf = std::map<std::string, std::vector<Output*>>;

Output As(FunctionBuilder* f, Output x, DType dtype) {
  return f->type(x).dtype == dtype ? x : f->Cast(x, dtype);
}

// In which a gradient is clipped: bf16 is too coarse, and f64 must lose nothing.
DType WorkDType(FunctionBuilder* f, Output gradient) {
  return f->type(gradient).dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

Output ScalarOf(FunctionBuilder* f, double value, DType dtype) {
  return dtype == DType::kF64 ? f->Constant(Tensor::Scalar<double>(value))
                              : f->Scalar(static_cast<float>(value));
}

// The sum of the squares of all gradients, in f64 where one of them is.
Output SquaredNorm(FunctionBuilder* f, const std::vector<Output*>& gradients) {
  std::vector<Output> sums;
  DType dtype = DType::kF32;
  for (const Output* gradient : gradients) {
    const DType own = WorkDType(f, *gradient);
    sums.push_back(f->Sum(f->Square(As(f, *gradient, own))));
    if (own == DType::kF64) dtype = own;
  }
  for (Output& sum : sums) sum = As(f, sum, dtype);
  return sums.size() == 1 ? sums[0] : f->Op("AddN", sums);
}

// Multiplies by limit / max(norm, limit), which is 1 where nothing is to be clipped. Gradients that
// are sent as bf16 stay bf16. Squares of finite numbers above 1.8e19 are infinite in f32, and the
// factor would be 0: that is an error.
void ScaleToNorm(FunctionBuilder* f, const std::vector<Output*>& gradients, float limit,
                 const std::string& of) {
  const Output norm =
      f->Op("CheckGradient", {f->Sqrt(SquaredNorm(f, gradients))}, {{"variable", of}});
  const Output most = ScalarOf(f, limit, f->type(norm).dtype);
  const Output factor = f->Div(most, f->Op("Maximum", {norm, most}));
  for (Output* gradient : gradients) {
    const DType dtype = f->type(*gradient).dtype, work = WorkDType(f, *gradient);
    *gradient = As(f, f->Mul(As(f, *gradient, work), As(f, factor, work)), dtype);
  }
}

void Clip(FunctionBuilder* f, const GradientClip& clip, const GradientsOf& gradients) {
  std::vector<Output*> all;
  for (const auto& [name, of_variable] : gradients) {
    if (clip.by == GradientClip::By::kNorm) ScaleToNorm(f, of_variable, clip.limit, name);
    all.insert(all.end(), of_variable.begin(), of_variable.end());
  }
  if (clip.by == GradientClip::By::kGlobalNorm) {
    ScaleToNorm(f, all, clip.limit, "(the norm of all of them)");
  }
  if (clip.by != GradientClip::By::kValue) return;
  for (Output* gradient : all) {
    const DType dtype = f->type(*gradient).dtype, work = WorkDType(f, *gradient);
    const Output least = ScalarOf(f, -clip.limit, work), most = ScalarOf(f, clip.limit, work);
    const Output low = f->Op("Maximum", {As(f, *gradient, work), least});
    *gradient = As(f, f->Op("Minimum", {low, most}), dtype);
  }
}

}  // namespace

std::vector<Output> FunctionBuilder::State::MergedRows(FunctionBuilder* f,
                                                       const std::vector<Output>& all_ids,
                                                       const std::vector<Output>& gradients) {
  if (all_ids.size() == 1) return {all_ids[0], gradients[0]};
  const std::vector<Output> unique = f->graph().OpN("Unique", {f->Concat(all_ids, 0)}, {}, 2);
  const DType wire = f->type(gradients[0]).dtype;
  const Output as_sent = f->Concat(gradients, 0);
  const Output all_rows = wire == DType::kBF16 ? f->Cast(as_sent, DType::kF32) : as_sent;
  // Only the shape of `like` matters: one row for each distinct id.
  const Output like = f->Gather(all_rows, f->Op("ZerosLike", {unique[0]}));
  Output rows = f->Op("SegmentSumLike", {all_rows, unique[1], like});
  if (wire == DType::kBF16) rows = f->Cast(rows, wire);
  return {unique[0], rows};
}

Output FunctionBuilder::State::CheckedRows(FunctionBuilder* f, const proto::ShardSpec& shard,
                                           Output ids, Output rows) {
  const proto::VariableSpec& variable = shard.variable();
  return f->Op("CheckGradient", {rows, ids},
               {{"variable", variable.name()},
                {"strategy", shard.strategy()},
                {"index", static_cast<int64_t>(shard.index())},
                {"count", static_cast<int64_t>(shard.count())},
                {"rows", variable.has_hash() ? int64_t{-1} : variable.shape().dims(0)},
                {"row_begin", shard.row_begin()}});
}

FunctionBuilder::FunctionBuilder(const std::string& name, const graph::OpRegistry* registry)
    : state_(std::make_unique<State>(name, registry)) {}
FunctionBuilder::FunctionBuilder(FunctionBuilder&&) noexcept = default;
FunctionBuilder::~FunctionBuilder() = default;

Output FunctionBuilder::Constant(Tensor value) { return state_->graph.Constant(std::move(value)); }

Attrs FunctionBuilder::State::Seeded(const std::string& op, Attrs attrs) {
  // Nodes with one seed would draw the same numbers. The program's own seeds are small numbers.
  if (attrs.find("seed") == attrs.end() && Takes(op, "seed")) attrs["seed"] = unseeded++ << 32;
  return attrs;
}

Output FunctionBuilder::Op(const std::string& op, const std::vector<Output>& inputs, Attrs attrs) {
  return state_->graph.Op(op, inputs, state_->Seeded(op, std::move(attrs)));
}

std::vector<Output> FunctionBuilder::OpN(const std::string& op, const std::vector<Output>& inputs,
                                         Attrs attrs, int count) {
  return state_->graph.OpN(op, inputs, state_->Seeded(op, std::move(attrs)), std::max(0, count));
}

std::vector<Output> FunctionBuilder::Gradients(const std::vector<Output>& ys,
                                               const std::vector<Output>& xs) {
  return state_->graph.Gradients(ys, xs);
}

void FunctionBuilder::Result(const std::string& name, Output output) {
  state_->graph.Result(name, output);
}
const TensorType& FunctionBuilder::type(Output output) const { return state_->graph.type(output); }
void FunctionBuilder::Fail(absl::Status status) { state_->graph.Fail(std::move(status)); }
graph::GraphBuilder& FunctionBuilder::graph() { return state_->graph; }
double FunctionBuilder::learning_rate_factor() const { return state_->learning_rate_factor; }
void FunctionBuilder::set_learning_rate_factor(double factor) {
  state_->learning_rate_factor = factor;
}

Output FunctionBuilder::Argument(const std::string& name, DType dtype, Shape shape) {
  Output argument = state_->graph.Argument(name, dtype, std::move(shape));
  if (argument.valid()) state_->sources.emplace_back();
  return argument;
}

Output FunctionBuilder::Column(const std::string& name) {
  // Without a data set an argument may stand for a column.
  const bool stands_in = state_->columns.empty() || state_->IsColumn(name);
  if (const Output found = state_->graph.FindArgument(name); found.valid() && stands_in) {
    return found;
  }
  if (state_->columns.empty()) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("wanted a data set with a column '", name,
                     "', found none: the function is defined without a data set")));
    return {};
  }
  const auto it = state_->columns.find(name);
  if (it == state_->columns.end()) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "the data set has no column '", name,
        "'; it has: ", absl::StrJoin(state_->columns, ", ", [](std::string* out, const auto& c) {
          absl::StrAppend(out, c.first);
        }))));
    return {};
  }
  Output argument = state_->graph.Argument(name, it->second.dtype, it->second.shape);
  if (argument.valid()) state_->sources.push_back({.column = name});
  return argument;
}

bool FunctionBuilder::State::Takes(const std::string& op, absl::string_view attr) const {
  const graph::OpSchema* const schema = graph.function().graph.registry()->Find(op);
  return schema != nullptr &&
         std::find(schema->attrs.begin(), schema->attrs.end(), attr) != schema->attrs.end();
}

bool FunctionBuilder::State::IsColumn(const std::string& name) const {
  return std::any_of(sources.begin(), sources.end(),
                     [&](const Source& source) { return source.column == name; });
}

bool FunctionBuilder::State::Owns(const VariableInfo& info) {
  absl::Status status = strategy == 0 ? absl::OkStatus() : CheckStrategy(info, strategy);
  if (!status.ok()) {
    graph.Fail(Annotate(status, absl::StrCat("function '", graph.function().name, "'")));
  }
  return !graph.failed();
}

Output FunctionBuilder::State::ReadWhole(FunctionBuilder* f, const VariableInfo& info) {
  if (!Owns(info)) return {};
  // In a control scope it is to be read anew.
  const bool anew = graph.in_control_scope();
  if (const auto it = whole.find(info.name); it != whole.end() && !anew) return it->second;
  std::vector<Output> parts;
  const bool narrow = !info.table && info.wire_dtype == DType::kBF16;
  for (size_t s = 0; s < info.shards.size(); ++s) {
    Attrs attrs = ReadAttrs(info, static_cast<int>(s));
    if (narrow) attrs["wire_dtype"] = info.wire_dtype;
    Output part = f->Op("ReadVariable", {}, std::move(attrs));
    parts.push_back(part);
    reads.push_back({.shard = info.shards[s],
                     .info = &info,
                     .value = part,
                     .trainable = !info.optimizer.kind().empty()});
  }
  Output all = parts.size() == 1 ? parts[0] : f->Concat(parts, 0);
  if (narrow) all = f->Cast(all, info.value_dtype());  // whose gradient narrows the gradients
  if (!anew) whole[info.name] = all;
  return all;
}

void FunctionBuilder::ReadAverages() { state_->averages = true; }

Output FunctionBuilder::Read(const Variable& variable) {
  return state_->ReadWhole(this, variable.info());
}

// Shards by "mod" and "hash" interleave the rows of a table: the position of each row in their
// concatenation.
Output FunctionBuilder::State::RowPlaces(FunctionBuilder* f, const VariableInfo& info) {
  std::vector<int64_t> place(static_cast<size_t>(info.rows()));
  int64_t begin = 0;
  for (size_t s = 0; s < info.shards.size(); ++s) {
    for (int64_t r = 0; r < info.shards[s].rows(); ++r) {
      place[static_cast<size_t>(info.GlobalRow(static_cast<int>(s), r))] = begin + r;
    }
    begin += info.shards[s].rows();
  }
  return f->Constant(Tensor::FromVector<int64_t>(place));
}

Output FunctionBuilder::Read(const EmbeddingTable& table) {
  const VariableInfo& info = table.info();
  if (!state_->Owns(info)) return {};
  if (info.hash()) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "Read: table '", info.name, "' is a hash table: it has no whole, look rows up by id")));
    return {};
  }
  if (info.in_row_order()) return state_->ReadWhole(this, info);
  const std::string key = absl::StrCat(info.name, "/interleaved");
  const bool anew = state_->graph.in_control_scope();
  if (const auto it = state_->whole.find(key); it != state_->whole.end() && !anew) {
    return it->second;
  }
  Output rows = Gather(state_->ReadWhole(this, info), state_->RowPlaces(this, info));
  if (!anew) state_->whole[key] = rows;
  return rows;
}

Output FunctionBuilder::State::MatMulOnPs(FunctionBuilder* f, Output x, const VariableInfo& info,
                                          bool transpose) {
  if (!Owns(info)) return {};
  const size_t shards = info.shards.size();
  const bool interleaved = !info.hash() && !info.in_row_order();
  if (info.shape.rank() != 2 || info.hash() || (interleaved && !transpose)) {
    f->Fail(absl::InvalidArgumentError(absl::StrCat(
        "MatMul: wanted ", transpose ? "" : "consecutive rows of ", "a matrix, found '", info.name,
        "' ", info.shape.ToString(), info.hash() ? ", a hash table" : "",
        interleaved ? absl::StrCat(", ", shards, " shards by ", info.strategy) : "")));
    return {};
  }
  std::vector<Output> parts(shards, x), products;
  if (!transpose && shards > 1) {
    std::vector<int64_t> sizes;
    for (const proto::ShardSpec& shard : info.shards) sizes.push_back(shard.rows());
    parts = graph.OpN("Split", {x}, {{"axis", 1}, {"sizes", sizes}}, static_cast<int>(shards));
  }
  for (size_t s = 0; s < shards; ++s) {
    ShardRead read{
        .shard = info.shards[s], .info = &info, .trainable = !info.optimizer.kind().empty()};
    read.attrs = ReadAttrs(info, static_cast<int>(s));
    Attrs attrs = read.attrs;
    attrs["transpose_b"] = transpose;
    read.value = f->Op("MatMulShard", {parts[s]}, std::move(attrs));
    read.x = parts[s];
    read.transposed = transpose;
    products.push_back(read.value);
    reads.push_back(std::move(read));
  }
  if (!transpose) return shards == 1 ? products[0] : f->Op("AddN", products);
  const Output columns = shards == 1 ? products[0] : f->Concat(products, 1);
  if (!interleaved) return columns;
  return f->Transpose(f->Gather(f->Transpose(columns, {1, 0}), RowPlaces(f, info)), {1, 0});
}

Output FunctionBuilder::State::GatherUnique(FunctionBuilder* f, const EmbeddingTable& table,
                                            const std::vector<Output>& ids,
                                            std::vector<Output>* inverse, bool exact) {
  const VariableInfo& info = table.info();
  const int lists = static_cast<int>(ids.size());
  if (!Owns(info)) {
    inverse->assign(lists, Output{});
    return {};
  }
  const int shards = static_cast<int>(info.shards.size());
  std::vector<Output> unique = graph.OpN(
      "UniqueShards", ids, {{"shards", shards}, {"rows", info.rows()}, {"strategy", info.strategy}},
      shards + lists);
  const bool narrow = !exact && info.wire_dtype != info.value_dtype();
  std::vector<Output> rows;
  for (int s = 0; s < shards; ++s) {
    Attrs attrs = ReadAttrs(info, s);
    if (narrow) attrs["wire_dtype"] = info.wire_dtype;
    if (!narrow && info.on_gpu()) attrs[function::kOnGpuAttr] = true;
    Output part = f->Op("GatherShard", {unique[s]}, std::move(attrs));
    rows.push_back(part);
    reads.push_back({.shard = info.shards[s],
                     .info = &info,
                     .value = part,
                     .ids = unique[s],
                     .trainable = !info.optimizer.kind().empty()});
  }
  inverse->assign(unique.begin() + shards, unique.end());
  const Output all = shards == 1 ? rows[0] : f->Concat(rows, 0);
  return narrow ? f->Cast(all, info.value_dtype()) : all;  // whose gradient narrows the gradients
}

Output FunctionBuilder::LookupUnique(const EmbeddingTable& table, const std::vector<Output>& ids,
                                     std::vector<Output>* places) {
  return state_->GatherUnique(this, table, ids, places);
}

Output FunctionBuilder::MatMul(Output x, const Variable& w, bool transpose_w) {
  return state_->MatMulOnPs(this, x, w.info(), transpose_w);
}

Output FunctionBuilder::MatMul(Output x, const EmbeddingTable& table, bool transpose_table) {
  return state_->MatMulOnPs(this, x, table.info(), transpose_table);
}

std::vector<Output> FunctionBuilder::Lookup(const EmbeddingTable& table,
                                            const std::vector<Output>& ids) {
  std::vector<Output> inverse, results;
  Output rows = state_->GatherUnique(this, table, ids, &inverse);
  for (Output i : inverse) results.push_back(Gather(rows, i));
  return results;
}

Output FunctionBuilder::Lookup(const EmbeddingTable& table, Output ids) {
  return Lookup(table, std::vector<Output>{ids})[0];
}

Output FunctionBuilder::LookupBag(const EmbeddingTable& table, Output values, Output offsets,
                                  Combiner combiner, Output weights) {
  std::vector<Output> inverse;
  Output rows = state_->GatherUnique(this, table, {values}, &inverse);
  std::vector<Output> inputs = {rows, inverse[0], offsets};
  if (weights.valid()) inputs.push_back(weights);
  return Op("EmbeddingBag", inputs, {{"combiner", Word(combiner)}});
}

bool FunctionBuilder::State::CheckOneShard(const VariableInfo& info, const char* what) {
  if (!Owns(info)) return false;
  if (info.shards.size() == 1) return true;
  graph.Fail(absl::InvalidArgumentError(absl::StrCat(what, ": variable '", info.name, "' has ",
                                                     info.shards.size(), " shards, wanted 1")));
  return false;
}

// Where rows are in the memory of a GPU, gradients of rows are the only updates.
bool FunctionBuilder::State::CheckOnHost(const VariableInfo& info, const char* what) {
  if (!info.on_gpu()) return true;
  graph.Fail(absl::InvalidArgumentError(
      absl::StrCat(what, ": table '", info.name, "' is in the memory of GPUs (device: gpu), where ",
                   "gradients of rows that are looked up are the only updates")));
  return false;
}

std::vector<Output> FunctionBuilder::State::PartsOf(const VariableInfo& info, Output whole) {
  if (info.shards.size() == 1) return {whole};
  std::vector<int64_t> sizes;
  for (const proto::ShardSpec& shard : info.shards) sizes.push_back(shard.rows());
  return graph.OpN("Split", {whole}, {{"axis", 0}, {"sizes", sizes}},
                   static_cast<int>(sizes.size()));
}

void FunctionBuilder::State::WriteWhole(const std::string& op, const VariableInfo& info,
                                        Output value, const Attrs& more) {
  if (!Owns(info)) return;
  const TensorType& found = graph.type(value);
  const bool fits =
      found.dtype == info.value_dtype() && kernels::MergeShapes(found.shape, info.shape).ok();
  if (found.dtype != DType::kInvalid && !fits) {  // of no output of this function Target tells
    graph.Fail(absl::InvalidArgumentError(absl::StrCat(
        op, ": wanted ", DTypeName(info.value_dtype()), info.shape.ToString(), " for variable '",
        info.name, "', found ", DTypeName(found.dtype), found.shape.ToString())));
    return;
  }
  const std::vector<Output> parts = PartsOf(info, value);
  for (size_t s = 0; s < info.shards.size(); ++s) {
    Attrs attrs = ShardAttrs(info.shards[s]);
    attrs.insert(more.begin(), more.end());
    graph.Target(op, {parts[s]}, std::move(attrs));
  }
}

Operation FunctionBuilder::Updates(const std::function<void()>& add) {
  const size_t before = state_->updates();
  add();
  Operation operation;
  operation.nodes_ = state_->UpdatesSince(before);
  return operation;
}

Operation FunctionBuilder::Assign(const Variable& variable, Output value) {
  return Updates([&] { state_->WriteWhole("AssignVariable", variable.info(), value); });
}

Operation FunctionBuilder::AssignAdd(const Variable& variable, Output value) {
  return Updates([&] { state_->WriteWhole("AssignAddVariable", variable.info(), value); });
}

Operation FunctionBuilder::AssignMovingAverage(const Variable& variable, Output value,
                                               double decay) {
  if (!(decay >= 0 && decay < 1)) {
    Fail(absl::InvalidArgumentError(absl::StrCat("AssignMovingAverage of '", variable.info().name,
                                                 "': wanted 0 <= decay < 1, found ", decay)));
    return {};
  }
  return Updates([&] {
    state_->WriteWhole("AssignMovingAverageVariable", variable.info(), value,
                       {{"rate", 1 - decay}});
  });
}

Output FunctionBuilder::FetchAdd(const Variable& variable, Output value) {
  const VariableInfo& info = variable.info();
  if (!state_->CheckOneShard(info, "FetchAdd")) return {};
  if (info.shape.num_elements() != 1 || !state_->fetched.insert(info.name).second) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("FetchAdd: wanted a variable of one number, once in a function, found '",
                     info.name, "' ", info.shape.ToString())));
    return {};
  }
  const Output before = Op("FetchAddVariable", {value}, ReadAttrs(info, 0));
  state_->graph.AddTarget(before);
  return before;
}

void FunctionBuilder::ControlDependencies(const std::vector<Operation>& after,
                                          const std::function<void()>& body) {
  if (body == nullptr) {
    Fail(absl::InvalidArgumentError("ControlDependencies: wanted a function, found none"));
    return;
  }
  std::vector<Output> nodes;
  for (const Operation& operation : after) {
    nodes.insert(nodes.end(), operation.nodes_.begin(), operation.nodes_.end());
  }
  const graph::GraphBuilder::ControlScope scope(&state_->graph, nodes);
  body();
}

void FunctionBuilder::Device(const std::string& device, const std::function<void()>& body) {
  const auto spec = ParseDevice(device);
  const bool known = spec.ok() && spec->job.empty() && spec->task < 0 &&
                     (spec->device.type == DeviceType::kGpu || spec->device.index == 0);
  if (!known || body == nullptr) {
    Fail(absl::InvalidArgumentError(
        known
            ? "Device: wanted a function, found none"
            : absl::StrCat("Device: wanted \"/device:CPU:0\", \"/device:GPU:N\" or \"\", found \"",
                           absl::CEscape(device), "\"")));
    return;
  }
  const graph::GraphBuilder::DeviceScope scope(&state_->graph, device, /*if_possible=*/true);
  body();
}

Operation FunctionBuilder::ScatterAdd(const EmbeddingTable& table, Output ids, Output rows) {
  return Updates([&] {
    if (!state_->CheckOneShard(table.info(), "ScatterAdd")) return;
    if (!state_->CheckOnHost(table.info(), "ScatterAdd")) return;
    state_->graph.Target("ScatterAddVariable", {ids, rows}, ShardAttrs(table.info().shards[0]));
  });
}

Attrs FunctionBuilder::State::WithRate(Attrs attrs) const {
  if (learning_rate_factor != 1) attrs[kernels::kRateAttr] = learning_rate_factor;
  return attrs;
}

// `sent`: the ids, and the rows of their gradients.
void FunctionBuilder::State::UpdateRows(const std::vector<const ShardRead*>& reads,
                                        const std::vector<Output>& sent) {
  std::vector<Output> inputs = sent;
  if (rate.valid()) inputs.push_back(rate);
  Attrs attrs = WithRate(ShardAttrs(reads[0]->shard));
  if (reads[0]->info->on_gpu()) attrs[function::kOnGpuAttr] = true;
  graph.Target("ApplySparse", std::move(inputs), std::move(attrs));
}

// All uses of a shard as a whole become one update. Gradients of products are computed on the PS;
// several of them become one product with a longer inner dimension.
void FunctionBuilder::State::UpdateWhole(FunctionBuilder* f,
                                         const std::vector<const ShardRead*>& reads,
                                         const std::vector<Output>& gradients) {
  if (!CheckOnHost(*reads[0]->info, "a gradient of all rows")) return;
  Output whole;
  std::vector<Output> left, right;
  const ShardRead* product = nullptr;
  const auto checked = [&](Output gradient) {
    return f->Op("CheckGradient", {gradient}, {{"variable", reads[0]->shard.variable().name()}});
  };
  for (size_t i = 0; i < reads.size(); ++i) {
    const ShardRead& read = *reads[i];
    if (!read.x.valid()) {
      whole = checked(gradients[i]);
      continue;
    }
    product = &read;
    left.push_back(read.transposed ? checked(gradients[i]) : read.x);
    right.push_back(read.transposed ? read.x : checked(gradients[i]));
  }
  if (product == nullptr) {
    std::vector<Output> inputs = {whole};
    if (rate.valid()) inputs.push_back(rate);
    graph.Target("ApplyDense", std::move(inputs), WithRate(ShardAttrs(reads[0]->shard)));
    return;
  }
  if (rate.valid()) {
    f->Fail(absl::UnimplementedError(
        absl::StrCat("LearningRate: '", reads[0]->shard.variable().name(),
                     "' is multiplied on parameter servers, which take the optimizer's own")));
    return;
  }
  const auto joined = [f](const std::vector<Output>& parts) {
    return parts.size() == 1 ? parts[0] : f->Concat(parts, 0);
  };
  std::vector<Output> inputs = {joined(left), joined(right)};
  if (whole.valid()) inputs.push_back(f->Cast(whole, DType::kF32));
  graph.Target("ApplyMatMul", std::move(inputs), WithRate(product->attrs));
}

void FunctionBuilder::LearningRate(Output rate) {
  if (state_->graph.failed()) return;
  const TensorType& found = type(rate);
  if (found.dtype != DType::kF32 || !found.shape.IsFullyKnown() ||
      found.shape.num_elements() != 1) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("LearningRate: wanted one f32, found ", found.ToString())));
    return;
  }
  state_->rate = rate;
}

Operation FunctionBuilder::Minimize(Output loss, GradientClip clip) {
  return Updates([&] { AddUpdates(loss, clip); });
}

// Several reads of a shard as a whole, one before and one after an update, say, have one gradient.
void FunctionBuilder::State::SumWholes(std::vector<const ShardRead*>* reads,
                                       std::vector<Output>* gradients) {
  std::vector<const ShardRead*> others;
  std::vector<Output> of_others, wholes;
  const ShardRead* whole = nullptr;
  for (size_t i = 0; i < reads->size(); ++i) {
    if ((*reads)[i]->x.valid()) {
      others.push_back((*reads)[i]);
      of_others.push_back((*gradients)[i]);
    } else {
      whole = (*reads)[i];
      wholes.push_back((*gradients)[i]);
    }
  }
  if (wholes.size() < 2) return;
  others.push_back(whole);
  of_others.push_back(graph.Op("AddN", wholes));
  *reads = std::move(others);
  *gradients = std::move(of_others);
}

void FunctionBuilder::AddUpdates(Output loss, const GradientClip& clip) {
  if (state_->graph.failed()) return;
  const bool clips = clip.by != GradientClip::By::kNothing;
  if (clips && !(clip.limit > 0 && std::isfinite(clip.limit))) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("Minimize: wanted a finite limit > 0 to clip by, found ", clip.limit)));
    return;
  }
  std::vector<const State::ShardRead*> reads;
  std::vector<Output> xs;
  for (const State::ShardRead& read : state_->reads) {
    if (!read.trainable) continue;
    reads.push_back(&read);
    xs.push_back(read.value);
  }
  const std::vector<Output> gradients = state_->graph.Gradients({loss}, xs);
  using Group = std::pair<std::vector<const State::ShardRead*>, std::vector<Output>>;
  std::map<uint32_t, Group> sparse, whole;  // by shard
  for (size_t i = 0; i < reads.size(); ++i) {
    if (!gradients[i].valid()) continue;
    Group& group = (reads[i]->ids.valid() ? sparse : whole)[reads[i]->shard.id()];
    group.first.push_back(reads[i]);
    group.second.push_back(gradients[i]);
  }
  for (auto& [id, group] : whole) state_->SumWholes(&group.first, &group.second);
  // Rows are looked at first: what is wrong with them tells more.
  for (auto& [id, group] : sparse) {
    std::vector<Output> ids;
    for (const State::ShardRead* read : group.first) ids.push_back(read->ids);
    group.second = State::MergedRows(this, ids, group.second);
    group.second[1] =
        State::CheckedRows(this, group.first[0]->shard, group.second[0], group.second[1]);
  }
  if (clips) {
    GradientsOf of_variables;
    for (auto& [id, group] : sparse) {
      of_variables[group.first[0]->shard.variable().name()].push_back(&group.second[1]);
    }
    for (auto& [id, group] : whole) {
      for (size_t i = 0; i < group.first.size(); ++i) {
        const std::string& name = group.first[i]->shard.variable().name();
        if (group.first[i]->x.valid()) {
          Fail(absl::UnimplementedError(
              absl::StrCat("Minimize: the gradient of '", name,
                           "' is made on parameter servers, and cannot be clipped on a worker")));
          return;
        }
        // A factor of something that is not finite would spoil the rows, which are looked at by
        // now.
        group.second[i] = Op("CheckGradient", {group.second[i]}, {{"variable", name}});
        of_variables[name].push_back(&group.second[i]);
      }
    }
    Clip(this, clip, of_variables);
  }
  for (const auto& [id, group] : whole) state_->UpdateWhole(this, group.first, group.second);
  for (const auto& [id, group] : sparse) state_->UpdateRows(group.first, group.second);
  if (sparse.empty() && whole.empty()) {
    Fail(absl::InvalidArgumentError(
        "Minimize: the loss depends on no variable or table that has an optimizer"));
  }
}

}  // namespace coxswain
