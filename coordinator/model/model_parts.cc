// First the creation of tables and layers; then the nodes for a batch: labels, features side by
// side or as vectors, the linear part.
#include "coordinator/model/model_parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/table_words.h"
#include "coordinator/job/model_features.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/job/regularization.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/shard_counts.h"
#include "coxswain/optimizers.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/hash.h"
#include "runtime/data/queries.h"
#include "runtime/data/spec_check.h"

namespace coxswain::model {
namespace {

// The number of rows that training uses; 0: not known, as for hash buckets, of which there may be
// too many to count.
int64_t UsedRows(const data::Dataset& data, const std::string& feature) {
  if (data.vocabulary(feature) == nullptr) return 0;
  const std::vector<int64_t> counts = data.training_counts(feature);
  auto used = static_cast<int64_t>(counts.size());
  while (used > 0 && counts[static_cast<size_t>(used) - 1] == 0) --used;
  return used;
}

std::string ScaleName(const std::string& layers, size_t i) {
  return absl::StrCat(layers, "/layer_", i, "/norm_scale");
}
std::string ShiftName(const std::string& layers, size_t i) {
  return absl::StrCat(layers, "/layer_", i, "/norm_shift");
}

std::string MeanName(const std::string& layers, size_t i) {
  return absl::StrCat(layers, "/layer_", i, "/running_mean");
}
std::string VarianceName(const std::string& layers, size_t i) {
  return absl::StrCat(layers, "/layer_", i, "/running_variance");
}

// Of each example's numbers: (x - mean) / sqrt(variance + epsilon) (Ba et al., 2016).
Output OverRow(FunctionBuilder& f, Output x) {
  constexpr float kEpsilon = 1e-5f;
  const Attrs of_rows = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", true}};
  const Output centered = f.Sub(x, f.Op("ReduceMean", {x}, of_rows));
  const Output variance = f.Op("ReduceMean", {f.Square(centered)}, of_rows);
  return f.Mul(centered, f.Op("Rsqrt", {f.Add(variance, f.Scalar(kEpsilon))}));
}

GradientClip ClipOf(const job::JobSpec& job) {
  GradientClip clip;
  if (!job.train.clip) return clip;
  clip.limit = static_cast<float>(job.train.clip->limit);
  switch (job.train.clip->kind) {
    case job::ClipKind::kValue:
      clip.by = GradientClip::By::kValue;
      break;
    case job::ClipKind::kNorm:
      clip.by = GradientClip::By::kNorm;
      break;
    case job::ClipKind::kGlobalNorm:
      clip.by = GradientClip::By::kGlobalNorm;
      break;
  }
  return clip;
}

// A batch of what a layer makes, too, has to fit into what a tensor may be.
absl::Status CheckSize(const job::JobSpec& job, const std::string& name, const Shape& shape) {
  const auto wrong = [&job](const char* key, const auto&... what) {
    return config::ConfigurationError(absl::StrCat(job.Where(key), ": ", key, ": ", what...,
                                                   "; wanted at most ", job::kMostNumbers,
                                                   " numbers"));
  };
  int64_t numbers = 1;
  for (const int64_t dim : shape.dims()) {
    if (__builtin_mul_overflow(numbers, dim, &numbers) || numbers > job::kMostNumbers) {
      return wrong("model", "the variable '", name, "' would be ", shape.ToString());
    }
    const int64_t examples = std::max(job.train.batch_size, job.evaluate.batch_size);
    if (dim <= job::kMostNumbers / std::max<int64_t>(1, examples)) continue;
    return wrong(examples == job.train.batch_size ? "train.batch_size" : "evaluate.batch_size",
                 "batches of ", examples, " times the ", dim, " of the variable '", name, "'");
  }
  return absl::OkStatus();
}

// The values of examples whose weight is above 0, and 0 of the others.
Output OfWeighted(FunctionBuilder& f, Output values, Output weights) {
  return f.Op("Select",
              {f.Op("Greater", {weights, f.Scalar(0)}), values, f.Op("ZerosLike", {values})});
}

const char* ActivationOp(Activation activation) {
  switch (activation) {
    case Activation::kTanh:
      return "Tanh";
    case Activation::kSigmoid:
      return "Sigmoid";
    case Activation::kRelu:
      break;
  }
  return "Relu";
}

}  // namespace

std::string KernelName(const std::string& layers, size_t i) {
  return absl::StrCat(layers, "/layer_", i, "/kernel");
}
std::string BiasName(const std::string& layers, size_t i) {
  return absl::StrCat(layers, "/layer_", i, "/bias");
}
std::string WideName(const std::string& feature) { return absl::StrCat("wide/", feature); }

absl::Status ModelParts::CreateTables() {
  // What must not depend on the machines does not depend on their threads.
  const int threads = job_.train.deterministic ? 1 : variables_->ps_threads();
  const Partitioner partitioner = MakePartitioner(job_.partitioner, variables_->num_ps(), threads);
  for (const job::TableSpec& spec : job_.tables) {
    TableOptions options;
    options.rows = data().vocabulary_size(spec.feature);
    if (spec.hash) options.hash = FromProto(*spec.hash);
    if (options.rows < 1 && !options.hash) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", spec.feature, "' has no values in the data set"));
    }
    options.dim = spec.dim;
    if (spec.trainable) options.optimizer = spec.optimizer;
    proto::InitializerSpec initializer = spec.initializer;
    initializer.set_zero_rows_from(UsedRows(data(), spec.feature));
    options.initializer = initializer;
    options.dtype = spec.dtype;
    if (!spec.rounding.empty()) {
      ASSIGN_OR_RETURN(options.rounding, ParseRounding(spec.rounding));
    }
    options.wire_dtype = spec.wire_dtype;
    ASSIGN_OR_RETURN(options.device, ParseTableDevice(spec.device));
    options.partitioner = partitioner;
    // A GPU updates all rows of a shard at the same time: more shards make no use of more lanes.
    if (options.device == TableDevice::kGpu) {
      options.partitioner = MakePartitioner(job_.partitioner, variables_->num_ps(), 1);
    }
    if (spec.shards > 0) options.partitioner = FixedShards(spec.shards);
    ASSIGN_OR_RETURN(options.sharding, ParseSharding(spec.sharding));
    ASSIGN_OR_RETURN(tables_[spec.name], variables_->MakeTable(spec.name, options));
  }
  return absl::OkStatus();
}

absl::Status ModelParts::CreateDense(const std::string& name, Shape shape,
                                     proto::InitializerSpec initializer) {
  RETURN_IF_ERROR(CheckSize(job_, name, shape));
  VariableOptions options;
  options.shape = std::move(shape);
  options.initializer = std::move(initializer);
  options.optimizer = job::OptimizerOf(job_, name);
  options.wire_dtype = job_.parameter_servers.dense_wire_dtype;
  // One shard: a step reads the whole variable anyway, and a shard is one tensor in the frame.
  options.partitioner = FixedShards(1);
  ASSIGN_OR_RETURN(dense_[name], variables_->MakeVariable(name, options));
  return absl::OkStatus();
}

absl::Status ModelParts::CreateState(const std::string& name, Shape shape,
                                     proto::InitializerSpec initializer) {
  VariableOptions options;
  options.shape = std::move(shape);
  options.initializer = std::move(initializer);
  options.partitioner = FixedShards(1);
  ASSIGN_OR_RETURN(dense_[name], variables_->MakeVariable(name, options));
  return absl::OkStatus();
}

absl::Status ModelParts::CreateLayer(const std::string& name, size_t i, int64_t inputs,
                                     int64_t outputs, double bias) {
  RETURN_IF_ERROR(
      CreateDense(KernelName(name, i), {inputs, outputs}, GlorotUniform(job_.train.seed)));
  return CreateDense(BiasName(name, i), {outputs}, ConstantInit(bias));
}

absl::Status ModelParts::CreateHidden(const std::string& name, int64_t inputs,
                                      const std::vector<int64_t>& widths, const LayerStyle& style) {
  for (size_t i = 0; i < widths.size(); ++i) {
    RETURN_IF_ERROR(CreateLayer(name, i, inputs, widths[i]));
    if (style.normalizes()) {
      RETURN_IF_ERROR(CreateDense(ScaleName(name, i), {widths[i]}, Ones()));
      RETURN_IF_ERROR(CreateDense(ShiftName(name, i), {widths[i]}, Zeros()));
    }
    if (style.batch_norm) {
      RETURN_IF_ERROR(CreateState(MeanName(name, i), {widths[i]}, Zeros()));
      RETURN_IF_ERROR(CreateState(VarianceName(name, i), {widths[i]}, Ones()));
    }
    inputs = widths[i];
  }
  return absl::OkStatus();
}

absl::Status ModelParts::CreateLayers(const std::string& name, int64_t inputs,
                                      const std::vector<int64_t>& hidden, int64_t outputs,
                                      const LayerStyle& style) {
  RETURN_IF_ERROR(CreateHidden(name, inputs, hidden, style));
  return CreateLayer(name, hidden.size(), hidden.empty() ? inputs : hidden.back(), outputs);
}

absl::Status ModelParts::CreateScore(const std::string& name, int64_t inputs,
                                     const std::vector<int64_t>& hidden, const LayerStyle& style,
                                     const job::TaskSpec* task) {
  RETURN_IF_ERROR(CreateHidden(name, inputs, hidden, style));
  return CreateLayer(name, hidden.size(), hidden.empty() ? inputs : hidden.back(), 1,
                     FirstScore(task));
}

double ModelParts::FirstScore(const job::TaskSpec* task) const {
  // A model that training goes on from has it, perhaps in a bias of another name.
  if (job_.dataset.has_trained()) return 0;
  const std::string label = task == nullptr ? "" : task->name;
  const data::LabelSummary labels = data().label_summary(Part::kTraining, label);
  const job::LossSpec* const loss = task == nullptr ? job_.loss.get() : task->loss.get();
  return loss == nullptr || labels.count == 0 ? 0 : loss->FirstScore(labels.weighted_mean());
}

absl::Status ModelParts::CreateLinear(const Names& features, int64_t outputs) {
  for (const std::string& name : NumericNames(features)) {
    const proto::FeatureSpec& feature = *job_.FindFeature(name);
    const bool vector = feature.kind() == proto::FeatureSpec::VECTOR;
    RETURN_IF_ERROR(CreateDense(
        WideName(name), vector ? Shape{feature.width(), outputs} : Shape{outputs}, Zeros()));
  }
  return CreateDense(kWideBias, {outputs}, ConstantInit(outputs == 1 ? FirstScore() : 0));
}

void ModelParts::Minimize(FunctionBuilder& f, Output loss) const { f.Minimize(loss, ClipOf(job_)); }

Output ModelParts::DenseValue(FunctionBuilder& f, const std::string& name) const {
  const auto it = dense_.find(name);
  if (it == dense_.end()) {
    f.Fail(absl::InternalError(absl::StrCat("the model has no variable '", name, "'")));
    return {};
  }
  return f.Read(it->second);
}

Output ModelParts::Label(FunctionBuilder& f) const {
  const std::string& feature = job_.dataset.label().feature();
  return f.Column(feature.empty() ? "label" : feature);
}

Output ModelParts::Weights(FunctionBuilder& f) const {
  if (job_.dataset.label().weight().empty()) return {};
  return f.Column(data::kWeightColumn);
}

Output ModelParts::MeanOf(FunctionBuilder& f, Output losses, Output weights) {
  if (!weights.valid()) return f.Mean(losses);
  // A batch whose weights are all 0 has no loss and no gradient.
  constexpr float kTiny = 1e-30f;
  const Output all = f.Op("Maximum", {f.Sum(weights), f.Scalar(kTiny)});
  // 0 times a loss that is infinite would be no number.
  return f.Div(f.Sum(f.Mul(weights, OfWeighted(f, losses, weights))), all);
}

Output ModelParts::CountedLabels(FunctionBuilder& f, Output labels, Output weights) {
  return weights.valid() ? OfWeighted(f, labels, weights) : labels;
}

Output ModelParts::Rank(FunctionBuilder& f, const std::string& item, Output scores) const {
  return f.Op("MaskedRank",
              {scores, f.Column(item), f.Column("known.values"), f.Column("known.offsets")},
              {{"candidates", Candidates(item)}});
}

Output ModelParts::FactorizedRank(FunctionBuilder& f, const std::string& item, Output x,
                                  CandidateOptions scored) const {
  scored.count = Candidates(item);
  scored.exclude_values = f.Column("known.values");
  scored.exclude_offsets = f.Column("known.offsets");
  return f.FactorizedRank(x, table(item), f.Column(item), scored);
}

int64_t ModelParts::Candidates(const std::string& item) const {
  const std::vector<std::string>* values = data().vocabulary(item);
  return values == nullptr ? data().vocabulary_size(item) : static_cast<int64_t>(values->size());
}

void ModelParts::ResultExamples(FunctionBuilder& f) const {
  for (size_t i = 0; i < job_.evaluate.slices.size(); ++i) {
    f.Result(absl::StrCat("slice.", i), f.Column(job_.evaluate.slices[i]));
  }
  if (job::MeasuresGroups(job_)) {
    f.Result("group", f.Column(job::MeasuresRanks(job_)        ? "known.group"
                               : !job_.dataset.query().empty() ? data::kQueryGroup
                                                               : job_.evaluate.group));
    if (job::MeasuresRanks(job_) && !job_.dataset.known_items().held_out()) {
      f.Result("unseen", f.Column("known.unseen"));
    }
  }
  const Output weights = Weights(f);
  if (weights.valid()) f.Result("weight", weights);
}

ModelParts::FeatureInput ModelParts::Input(FunctionBuilder& f,
                                           const proto::FeatureSpec& feature) const {
  const std::string& name = feature.name();
  const auto& columns = data().columns(Part::kTraining);
  const auto has = [&](const std::string& column) {
    for (const data::ColumnSpec& c : columns) {
      if (c.name == column) return true;
    }
    return false;
  };
  FeatureInput input;
  if (!has(absl::StrCat(name, ".offsets"))) {
    input.values = f.Column(name);
    return input;
  }
  input.values = f.Column(absl::StrCat(name, ".values"));
  input.offsets = f.Column(absl::StrCat(name, ".offsets"));
  if (has(absl::StrCat(name, ".weights"))) input.weights = f.Column(absl::StrCat(name, ".weights"));
  return input;
}

Output ModelParts::Embed(FunctionBuilder& f, const std::string& table,
                         const proto::FeatureSpec& feature, const FeatureInput& input) const {
  const EmbeddingTable& t = tables_.at(table);
  if (!input.offsets.valid()) return f.Lookup(t, input.values);
  const auto combiner = ParseCombiner(feature.combiner().empty() ? "mean" : feature.combiner());
  if (!combiner.ok()) {
    f.Fail(combiner.status());
    return {};
  }
  return f.LookupBag(t, input.values, input.offsets, *combiner, input.weights);
}

Output ModelParts::Embed(FunctionBuilder& f, const std::string& table,
                         const std::string& feature) const {
  const proto::FeatureSpec& spec = *job_.FindFeature(feature);
  return Embed(f, table, spec, Input(f, spec));
}

int64_t ModelParts::InputWidth(const Names& features) const {
  int64_t width = 0;
  for (const std::string& name : features) {
    const auto table = tables_.find(name);
    width += table == tables_.end() ? job::NumberWidth(job_, name) : table->second.dim();
  }
  return width;
}

std::vector<Output> ModelParts::Features(FunctionBuilder& f, const Names& features) const {
  std::vector<Output> parts;
  for (const std::string& name : features) {
    parts.push_back(job::IsNumeric(job_, name) ? Number(f, name) : Embed(f, name, name));
  }
  return parts;
}

Output ModelParts::SideBySide(FunctionBuilder& f, const Names& features) const {
  const std::vector<Output> parts = Features(f, features);
  return parts.size() == 1 ? parts[0] : f.Concat(parts, 1);
}

Output ModelParts::Sum(FunctionBuilder& f, const Names& features) const {
  const std::vector<Output> parts = Features(f, features);
  return parts.size() == 1 ? parts[0] : f.Op("AddN", parts);
}

ModelParts::Names ModelParts::NumericNames(const Names& features) const {
  Names names;
  for (const std::string& name : features) {
    if (job::IsNumeric(job_, name)) names.push_back(name);
  }
  return names;
}

int64_t ModelParts::NumbersWidth(const Names& features) const {
  int64_t width = 0;
  for (const std::string& name : NumericNames(features)) width += job::NumberWidth(job_, name);
  return width;
}

Output ModelParts::Number(FunctionBuilder& f, const std::string& name) const {
  const Output column = f.Column(name);
  const bool vector = job_.FindFeature(name)->kind() == proto::FeatureSpec::VECTOR;
  return vector ? column : f.Reshape(column, {-1, 1});
}

Output ModelParts::Numbers(FunctionBuilder& f, const Names& features) const {
  std::vector<Output> columns;
  for (const std::string& name : NumericNames(features)) {
    columns.push_back(Number(f, name));
  }
  if (columns.empty()) return {};
  return columns.size() == 1 ? columns[0] : f.Concat(columns, 1);
}

std::vector<Output> ModelParts::Vectors(FunctionBuilder& f, const Names& features) const {
  std::vector<Output> vectors;
  for (const std::string& name : features) {
    if (!job::IsNumeric(job_, name)) vectors.push_back(Embed(f, name, name));
  }
  return vectors;
}

Output ModelParts::Sums(FunctionBuilder& f, const std::string& name, size_t i, Output x,
                        bool relu) const {
  return f.Dense(x, DenseValue(f, KernelName(name, i)), DenseValue(f, BiasName(name, i)),
                 relu ? DenseActivation::kRelu : DenseActivation::kNone);
}

Output ModelParts::Hidden(FunctionBuilder& f, const std::string& name, Output input, size_t layers,
                          const LayerStyle& style) const {
  const bool fused_relu = !style.normalizes() && style.activation == Activation::kRelu;
  for (size_t i = 0; i < layers; ++i) {
    input = Sums(f, name, i, input, fused_relu);
    if (style.normalizes()) input = Normalized(f, name, i, style, input);
    if (!fused_relu) input = f.Op(ActivationOp(style.activation), {input});
    input = Dropped(f, style.dropout, input);
  }
  return input;
}

Output ModelParts::Layers(FunctionBuilder& f, const std::string& name, Output input, size_t hidden,
                          const LayerStyle& style, bool last_active) const {
  input = Hidden(f, name, input, hidden, style);
  const bool fused_relu = last_active && style.activation == Activation::kRelu;
  input = Sums(f, name, hidden, input, fused_relu);
  return last_active && !fused_relu ? f.Op(ActivationOp(style.activation), {input}) : input;
}

// Numbers of mean 0 and variance 1, times a scale, plus a shift; both are learned.
Output ModelParts::Normalized(FunctionBuilder& f, const std::string& layers, size_t i,
                              const LayerStyle& style, Output x) const {
  const Output unit =
      style.batch_norm ? OverBatch(f, layers, i, *style.batch_norm, x) : OverRow(f, x);
  return f.Add(f.Mul(unit, DenseValue(f, ScaleName(layers, i))),
               DenseValue(f, ShiftName(layers, i)));
}

// A training step goes by the mean and the variance of its batch, and moves the running ones
// towards them; whatever else asks the model goes by the running ones, so that an example's
// prediction does not depend on the others of its batch.
Output ModelParts::OverBatch(FunctionBuilder& f, const std::string& layers, size_t i,
                             const BatchNorm& norm, Output x) const {
  Output mean = DenseValue(f, MeanName(layers, i));
  Output variance = DenseValue(f, VarianceName(layers, i));
  if (training_) {
    const Output mean_of_batch = f.Mean(x, {0});
    const Output variance_of_batch = f.Mean(f.Square(f.Sub(x, mean_of_batch)), {0});
    MoveState(f, MeanName(layers, i), mean_of_batch, norm.momentum);
    MoveState(f, VarianceName(layers, i), variance_of_batch, norm.momentum);
    mean = mean_of_batch;
    variance = variance_of_batch;
  }
  const Output root = f.Op("Rsqrt", {f.Add(variance, f.Scalar(static_cast<float>(norm.epsilon)))});
  return f.Mul(f.Sub(x, mean), root);
}

// An update as any other: it is in the shard's ledger, and so is applied once. The parameter server
// moves what it has then. Of what the step has read, a difference may be late: several such moves
// one after the other go too far, and a variance below 0 is not far from there.
void ModelParts::MoveState(FunctionBuilder& f, const std::string& name, Output towards,
                           double momentum) const {
  const auto it = dense_.find(name);
  if (it == dense_.end()) return;  // DenseValue has said so
  // One number that is too large to be squared would be in the state for ever.
  const Output finite =
      f.Op("CheckGradient", {towards}, {{"variable", name}, {"what", "the value"}});
  f.AssignMovingAverage(it->second, finite, momentum);
}

absl::Status ModelParts::CreateNorm(const std::string& name, int64_t width) {
  RETURN_IF_ERROR(CreateDense(absl::StrCat(name, "/norm_scale"), {width}, Ones()));
  return CreateDense(absl::StrCat(name, "/norm_shift"), {width}, Zeros());
}

Output ModelParts::Norm(FunctionBuilder& f, const std::string& name, Output x) const {
  const Output scaled = f.Mul(OverRow(f, x), DenseValue(f, absl::StrCat(name, "/norm_scale")));
  return f.Add(scaled, DenseValue(f, absl::StrCat(name, "/norm_shift")));
}

Output ModelParts::Dropped(FunctionBuilder& f, double rate, Output x) const {
  if (!training_ || rate == 0) return x;
  // A node of its own seed, the same whenever and wherever the function is built.
  const uint64_t seed = data::HashPair(job_.train.seed, dropped_++);
  return f.Op("Dropout", {x}, {{"rate", rate}, {"seed", static_cast<int64_t>(seed >> 1)}});
}

Output ModelParts::Linear(FunctionBuilder& f, const Names& features, int64_t outputs) const {
  const Shape shape = outputs == 1 ? Shape{-1} : Shape{-1, outputs};
  std::vector<Output> parts;
  for (const std::string& name : features) {
    const std::string table = absl::StrCat(name, "_linear");
    if (job_.FindFeature(name)->kind() == proto::FeatureSpec::VECTOR) {
      const Output weights = DenseValue(f, WideName(name));
      parts.push_back(f.Reshape(f.MatMul(f.Column(name), weights), shape));
      continue;
    }
    if (!has_table(table)) {
      const Output number = outputs == 1 ? f.Column(name) : Number(f, name);
      parts.push_back(f.Mul(number, DenseValue(f, WideName(name))));
      continue;
    }
    proto::FeatureSpec summed = *job_.FindFeature(name);
    summed.set_combiner("sum");  // a linear model adds up
    parts.push_back(f.Reshape(Embed(f, table, summed, Input(f, summed)), shape));
  }
  const Output sum = parts.size() == 1 ? parts[0] : f.Op("AddN", parts);
  return f.Add(sum, DenseValue(f, kWideBias));
}

}  // namespace coxswain::model
