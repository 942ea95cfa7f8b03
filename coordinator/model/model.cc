#include "coordinator/model/model.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coxswain/optimizers.h"
#include "coordinator/api/table_words.h"
#include "coordinator/model/visits.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset.h"

namespace coxswain {
namespace {

Partitioner MakePartitioner(const PartitionerSpec& spec, int num_ps) {
  switch (spec.kind) {
    case PartitionerKind::kFixedShards:
      return FixedShards(spec.shards > 0 ? spec.shards : num_ps);
    case PartitionerKind::kMinSize:
      return MinSize(spec.min_shard_bytes, spec.max_shards > 0 ? spec.max_shards : num_ps);
    case PartitionerKind::kMaxSize:
      return MaxSize(spec.max_shard_bytes, spec.max_shards);
  }
  return nullptr;
}

// Behind the last row that training uses; 0: not known, as of hash buckets, of which there may be
// too many to count.
int64_t UsedRows(const Dataset& data, const std::string& feature) {
  if (data.vocabulary(feature) == nullptr) return 0;
  const std::vector<int64_t> counts = data.training_counts(feature);
  auto used = static_cast<int64_t>(counts.size());
  while (used > 0 && counts[static_cast<size_t>(used) - 1] == 0) --used;
  return used;
}

std::string KernelName(const std::string& layers, size_t i) {
  return absl::StrCat(layers, "/layer_", i, "/kernel");
}
std::string BiasName(const std::string& layers, size_t i) {
  return absl::StrCat(layers, "/layer_", i, "/bias");
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

Model::Model(ParameterServerStrategy* strategy, const JobSpec& job, const PerWorkerDataset& dataset)
    : strategy_(strategy), job_(job), dataset_(dataset) {}

absl::StatusOr<std::unique_ptr<Model>> Model::Create(ParameterServerStrategy* strategy,
                                                     const JobSpec& job,
                                                     const PerWorkerDataset& dataset) {
  std::unique_ptr<Model> model(new Model(strategy, job, dataset));
  RETURN_IF_ERROR(model->CreateState());
  if (job.dataset.example_ids()) {
    ASSIGN_OR_RETURN(model->visits_, CreateVisits(strategy, dataset));
  }
  return model;
}

bool Model::can_recommend() const {
  if (!ranks()) return false;
  for (const std::string& name : job_.model.user.features) {
    if (job_.FindFeature(name)->history_of() != item_feature()) return false;
  }
  return true;
}

absl::Status Model::CreateTables() {
  const Partitioner partitioner = MakePartitioner(job_.partitioner, strategy_->cluster().num_ps());
  for (const TableSpec& spec : job_.tables) {
    TableOptions options;
    options.rows = dataset_.data().vocabulary_size(spec.feature);
    if (spec.hash) options.hash = FromProto(*spec.hash);
    if (options.rows < 1 && !options.hash) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", spec.feature, "' has no values in the data set"));
    }
    options.dim = spec.dim;
    options.optimizer = spec.optimizer;
    proto::InitializerSpec initializer = spec.initializer;
    initializer.set_zero_rows_from(UsedRows(dataset_.data(), spec.feature));
    options.initializer = initializer;
    options.dtype = spec.dtype;
    if (!spec.rounding.empty()) {
      ASSIGN_OR_RETURN(options.rounding, ParseRounding(spec.rounding));
    }
    options.wire_dtype = spec.wire_dtype;
    options.partitioner = spec.shards > 0 ? FixedShards(spec.shards) : partitioner;
    ASSIGN_OR_RETURN(options.sharding, ParseSharding(spec.sharding));
    ASSIGN_OR_RETURN(tables_[spec.name], strategy_->CreateTable(spec.name, options));
  }
  return absl::OkStatus();
}

absl::Status Model::CreateDense(const std::string& name, Shape shape,
                                proto::InitializerSpec initializer) {
  VariableOptions options;
  options.shape = std::move(shape);
  options.initializer = std::move(initializer);
  options.optimizer = job_.dense_optimizer;
  // Whole: a step reads all of it anyway, and one shard is one tensor in the frame.
  options.partitioner = FixedShards(1);
  ASSIGN_OR_RETURN(dense_[name], strategy_->CreateVariable(name, options));
  return absl::OkStatus();
}

absl::Status Model::CreateLayers(const std::string& name, int64_t inputs,
                                 const std::vector<int64_t>& hidden, int64_t outputs) {
  std::vector<int64_t> widths = hidden;
  widths.push_back(outputs);
  for (size_t i = 0; i < widths.size(); ++i) {
    RETURN_IF_ERROR(
        CreateDense(KernelName(name, i), {inputs, widths[i]}, GlorotUniform(job_.train.seed)));
    RETURN_IF_ERROR(CreateDense(BiasName(name, i), {widths[i]}, Zeros()));
    inputs = widths[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Model::InputWidth(const TowerSpec& tower) const {
  int64_t width = 0;
  for (const std::string& name : tower.features) {
    const auto table = tables_.find(name);
    width += table == tables_.end() ? 1 : table->second.dim();
  }
  return width;
}

Output Model::Label(FunctionBuilder& f) const {
  const std::string& feature = job_.dataset.label().feature();
  return f.Column(feature.empty() ? "label" : feature);
}

int64_t Model::Candidates() const {
  const std::vector<std::string>* values = dataset_.data().vocabulary(item_feature());
  return values == nullptr ? dataset_.data().vocabulary_size(item_feature())
                           : static_cast<int64_t>(values->size());
}

absl::Status Model::CreateState() {
  RETURN_IF_ERROR(CreateTables());
  const ModelSpec& m = job_.model;
  switch (m.kind) {
    case ModelKind::kTwoTower:
      for (const auto& [name, tower] : {std::pair{"user", &m.user}, std::pair{"item", &m.item}}) {
        if (tower->hidden.empty()) continue;
        ASSIGN_OR_RETURN(int64_t width, InputWidth(*tower));
        RETURN_IF_ERROR(CreateLayers(name, width, tower->hidden, m.dim));
      }
      return absl::OkStatus();
    case ModelKind::kMatrixFactorization: {
      if (!m.biases) return absl::OkStatus();
      double mean = dataset_.data().label_summary(Part::kTraining).mean();
      if (job_.loss.kind != LossKind::kMse) {
        mean = std::log(std::max(mean, 1e-6) / std::max(1 - mean, 1e-6));
      }
      proto::InitializerSpec constant;
      constant.set_kind("constant");
      constant.set_value(mean);
      return CreateDense("mean", {1}, constant);
    }
    case ModelKind::kWideDeep:
    case ModelKind::kMlp: {
      ASSIGN_OR_RETURN(int64_t width, InputWidth(m.deep));
      RETURN_IF_ERROR(CreateLayers("deep", width, m.deep.hidden, m.classes));
      break;
    }
    case ModelKind::kWord2Vec:
      return absl::OkStatus();
    case ModelKind::kDlrm:
      return CreateDlrm();
    case ModelKind::kDeepFm:
      RETURN_IF_ERROR(CreateDeepFm());
      break;
    case ModelKind::kLogisticRegression:
      break;
  }
  if (m.kind == ModelKind::kMlp) return absl::OkStatus();
  for (const std::string& name : m.wide.features) {
    if (job_.FindFeature(name)->kind() == proto::FeatureSpec::NUMERIC) {
      RETURN_IF_ERROR(CreateDense(absl::StrCat("wide/", name), {1}, Zeros()));
    }
  }
  return CreateDense("wide/bias", {1}, Zeros());
}

Output Model::DenseValue(FunctionBuilder& f, const std::string& name) const {
  const auto it = dense_.find(name);
  if (it == dense_.end()) {
    f.Fail(absl::InternalError(absl::StrCat("the model has no variable '", name, "'")));
    return {};
  }
  return f.Read(it->second);
}

Model::FeatureInput Model::Input(FunctionBuilder& f, const proto::FeatureSpec& feature) const {
  const std::string& name = feature.name();
  const auto& columns = dataset_.data().columns(Part::kTraining);
  const auto has = [&](const std::string& column) {
    for (const ColumnSpec& c : columns) {
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

Output Model::Embed(FunctionBuilder& f, const std::string& table, const proto::FeatureSpec& feature,
                    const FeatureInput& input) const {
  const EmbeddingTable& t = tables_.at(table);
  if (!input.offsets.valid()) return f.Lookup(t, input.values);
  const auto combiner = ParseCombiner(feature.combiner().empty() ? "mean" : feature.combiner());
  if (!combiner.ok()) {
    f.Fail(combiner.status());
    return {};
  }
  return f.LookupBag(t, input.values, input.offsets, *combiner, input.weights);
}

// [B, width]: the features' vectors next to each other, or added up.
Output Model::Features(FunctionBuilder& f, const TowerSpec& tower, bool sum) const {
  std::vector<Output> parts;
  for (const std::string& name : tower.features) {
    const proto::FeatureSpec* spec = job_.FindFeature(name);
    if (name != kLibsvmFeature && spec->kind() == proto::FeatureSpec::NUMERIC) {
      parts.push_back(f.Reshape(f.Column(name), {-1, 1}));
    } else {
      parts.push_back(Embed(f, name, *spec, Input(f, *spec)));
    }
  }
  if (parts.size() == 1) return parts[0];
  return sum ? f.Op("AddN", parts) : f.Concat(parts, 1);
}

// `hidden` layers with the activation and a last one, linear unless it is to be active too.
Output Model::Layers(FunctionBuilder& f, const std::string& name, Output input, size_t hidden,
                     bool last_active) const {
  for (size_t i = 0; i <= hidden; ++i) {
    const bool active = i < hidden || last_active;
    const bool fused_relu = active && job_.model.activation == Activation::kRelu;
    input = f.Dense(input, DenseValue(f, KernelName(name, i)), DenseValue(f, BiasName(name, i)),
                    fused_relu ? DenseActivation::kRelu : DenseActivation::kNone);
    if (active && !fused_relu) input = f.Op(ActivationOp(job_.model.activation), {input});
  }
  return input;
}

Output Model::Normalized(FunctionBuilder& f, Output rows) const {
  if (!job_.model.normalize) return rows;
  constexpr float kTiny = 1e-12f;  // an empty bag is a zero vector
  Output norm =
      f.Op("ReduceSum", {f.Square(rows)}, {{"axes", std::vector<int64_t>{1}}, {"keep_dims", true}});
  return f.Mul(rows, f.Op("Rsqrt", {f.Add(norm, f.Scalar(kTiny))}));
}

Output Model::UserSide(FunctionBuilder& f) const {
  const TowerSpec& tower = job_.model.user;
  Output rows = Features(f, tower, tower.hidden.empty());
  if (!tower.hidden.empty()) rows = Layers(f, "user", rows, tower.hidden.size());
  return Normalized(f, rows);
}

Output Model::ItemSide(FunctionBuilder& f, Output rows) const {
  const TowerSpec& tower = job_.model.item;
  if (!tower.hidden.empty()) rows = Layers(f, "item", rows, tower.hidden.size());
  return Normalized(f, rows);
}

// Ids of this step's negatives, i64 [N]; what is added to their logits so that the sum over them
// estimates the sum over all names: log(1 / (N p(id))), f32 [N], or one number.
Output Model::Negatives(FunctionBuilder& f, Output* corrections) const {
  const int64_t n = job_.loss.negatives;
  const int64_t items = dataset_.data().vocabulary_size(item_feature());
  const int64_t seed = static_cast<int64_t>(job_.train.seed);
  if (job_.loss.distribution == Distribution::kUniform) {
    *corrections =
        f.Scalar(static_cast<float>(std::log(static_cast<double>(items) / static_cast<double>(n))));
    return f.Op("RandomInt", {},
                {{"shape", Shape{n}}, {"low", 0}, {"high", items}, {"seed", seed}});
  }
  Output expected;
  Output ids = SampleByCount(f, dataset_.data().training_counts(item_feature()), n,
                             job_.loss.distortion, job_.train.seed, &expected);
  *corrections = f.Neg(f.Log(expected));
  return ids;
}

Output Model::SampledLoss(FunctionBuilder& f) const {
  const std::string& item = item_feature();
  Output user = UserSide(f);
  Output labels = f.Column(item);
  Output corrections;
  Output negatives = Negatives(f, &corrections);
  const auto rows = f.Lookup(tables_.at(item), {labels, negatives});
  Output true_logits = f.RowDot(user, ItemSide(f, rows[0]));
  Output negative_logits = f.MatMul(user, ItemSide(f, rows[1]), false, true);
  if (job_.loss.temperature != 1) {
    Output scale = f.Scalar(static_cast<float>(1 / job_.loss.temperature));
    true_logits = f.Mul(true_logits, scale);
    negative_logits = f.Mul(negative_logits, scale);
  }
  Output shift = corrections;
  const std::string bias = absl::StrCat(item, "_bias");
  if (has_table(bias)) {
    const auto biases = f.Lookup(tables_.at(bias), {labels, negatives});
    true_logits = f.Add(true_logits, f.Reshape(biases[0], {-1}));
    shift = f.Add(f.Reshape(biases[1], {-1}), corrections);
  }
  negative_logits = f.Add(negative_logits, shift);
  return f.Mean(f.Op("SampledSoftmaxCrossEntropy", {true_logits, negative_logits},
                     {{"negative_offset", 0.0}}));
}

Output Model::AllScores(FunctionBuilder& f, Output user) const {
  const std::string& item = item_feature();
  Output scores = f.MatMul(user, ItemSide(f, f.Read(tables_.at(item))), false, true);
  if (job_.loss.temperature != 1) {
    scores = f.Mul(scores, f.Scalar(static_cast<float>(1 / job_.loss.temperature)));
  }
  const std::string bias = absl::StrCat(item, "_bias");
  if (has_table(bias)) {
    scores = f.Add(scores, f.Reshape(f.Read(tables_.at(bias)), {-1}));
  }
  return scores;
}

// Sum of weights: one number a row of a categorical feature, weight times value of a numeric one.
Output Model::Linear(FunctionBuilder& f, const TowerSpec& tower) const {
  std::vector<Output> parts;
  for (const std::string& name : tower.features) {
    const std::string table = absl::StrCat(name, "_linear");
    const proto::FeatureSpec* spec = job_.FindFeature(name);
    if (has_table(table)) {
      proto::FeatureSpec summed = spec == nullptr ? proto::FeatureSpec() : *spec;
      summed.set_name(name);
      summed.set_combiner("sum");  // a linear model adds up
      parts.push_back(f.Reshape(Embed(f, table, summed, Input(f, summed)), {-1}));
    } else {
      parts.push_back(f.Mul(f.Column(name), DenseValue(f, absl::StrCat("wide/", name))));
    }
  }
  Output sum = parts.size() == 1 ? parts[0] : f.Op("AddN", parts);
  return f.Add(sum, DenseValue(f, "wide/bias"));
}

Output Model::Logits(FunctionBuilder& f) const {
  const ModelSpec& m = job_.model;
  switch (m.kind) {
    case ModelKind::kMatrixFactorization: {
      const std::string &user = m.user.features[0], &item = m.item.features[0];
      const proto::FeatureSpec &u = *job_.FindFeature(user), &i = *job_.FindFeature(item);
      const FeatureInput user_input = Input(f, u), item_input = Input(f, i);
      Output score = f.RowDot(Embed(f, user, u, user_input), Embed(f, item, i, item_input));
      if (!m.biases) return score;
      score = f.Add(score, f.Reshape(Embed(f, absl::StrCat(user, "_bias"), u, user_input), {-1}));
      score = f.Add(score, f.Reshape(Embed(f, absl::StrCat(item, "_bias"), i, item_input), {-1}));
      return f.Add(score, DenseValue(f, "mean"));
    }
    case ModelKind::kLogisticRegression:
      return Linear(f, m.wide);
    case ModelKind::kWord2Vec:
      break;
    case ModelKind::kDlrm:
      return Dlrm(f);
    case ModelKind::kDeepFm:
      return DeepFm(f);
    case ModelKind::kMlp:
    case ModelKind::kWideDeep: {
      Output deep = Layers(f, "deep", Features(f, m.deep, false), m.deep.hidden.size());
      if (m.classes > 1) return deep;
      deep = f.Reshape(deep, {-1});
      return m.kind == ModelKind::kMlp ? deep : f.Add(deep, Linear(f, m.wide));
    }
    case ModelKind::kTwoTower: {
      const std::string& item = item_feature();
      Output rows = f.Lookup(tables_.at(item), f.Column(item));
      Output score = f.RowDot(UserSide(f), ItemSide(f, rows));
      const std::string bias = absl::StrCat(item, "_bias");
      if (!has_table(bias)) return score;
      return f.Add(score, f.Reshape(f.Lookup(tables_.at(bias), f.Column(item)), {-1}));
    }
  }
  return {};
}

Output Model::PointwiseLoss(FunctionBuilder& f) const {
  Output logits = Logits(f);
  Output label = Label(f);
  switch (job_.loss.kind) {
    case LossKind::kSigmoidCrossEntropy:
      return f.Mean(f.SigmoidCrossEntropy(logits, label));
    case LossKind::kSoftmaxCrossEntropy:
      return f.Mean(f.Op("SparseSoftmaxCrossEntropy", {logits, f.Cast(label, DType::kI64)}));
    case LossKind::kMse:
    case LossKind::kSampledSoftmax:
    case LossKind::kNegativeSampling:
      break;
  }
  return f.Mean(f.Square(f.Sub(logits, label)));
}

SkipGramLoss Model::WordLoss(FunctionBuilder& f) const {
  return BuildSkipGram(
      f, {tables_.at(kWordFeature), tables_.at(absl::StrCat(kWordFeature, "_output"))}, job_.loss,
      dataset_.data().training_counts(kWordFeature), job_.train.seed);
}

absl::StatusOr<RemoteFunction> Model::DefineTrain() {
  return strategy_->Define("train_step", dataset_, [this](FunctionBuilder& f) {
    if (job_.model.kind == ModelKind::kWord2Vec) {
      const SkipGramLoss loss = WordLoss(f);
      f.Minimize(loss.sum);
      if (visits_) CountVisits(f, *visits_);
      f.Result("loss", loss.mean);
      return;
    }
    Output loss = job_.loss.kind == LossKind::kSampledSoftmax ? SampledLoss(f) : PointwiseLoss(f);
    f.Minimize(loss);
    if (visits_) CountVisits(f, *visits_);
    f.Result("loss", loss);
  });
}

absl::StatusOr<RemoteFunction> Model::DefineEvaluate(Part part) {
  return strategy_->Define(
      "evaluate", dataset_,
      [this](FunctionBuilder& f) {
        if (has_words()) {
          const SkipGramLoss loss = WordLoss(f);
          f.Result("loss", loss.sum);
          f.Result("pairs", loss.pairs);
          return;
        }
        if (job_.loss.kind == LossKind::kSampledSoftmax) {
          f.Result("rank", f.Op("MaskedRank",
                                {AllScores(f, UserSide(f)), f.Column(item_feature()),
                                 f.Column("known.values"), f.Column("known.offsets")},
                                {{"candidates", Candidates()}}));
          return;
        }
        Output logits = Logits(f);
        if (job_.loss.kind == LossKind::kSigmoidCrossEntropy) logits = f.Sigmoid(logits);
        if (job_.loss.kind == LossKind::kSoftmaxCrossEntropy) logits = f.Softmax(logits);
        f.Result("prediction", logits);
        f.Result("label", f.Cast(Label(f), DType::kF32));
      },
      part);
}

absl::StatusOr<RemoteFunction> Model::DefineScore() {
  return strategy_->Define("score", [this](FunctionBuilder& f) {
    Output values = f.Argument("values", DType::kI64, {kUnknownDim});
    Output offsets = f.Argument("offsets", DType::kI32, {kUnknownDim});
    const TowerSpec& tower = job_.model.user;
    std::vector<Output> parts;
    for (const std::string& name : tower.features) {
      parts.push_back(Embed(f, name, *job_.FindFeature(name), {values, offsets, {}}));
    }
    Output user = parts[0];
    if (!tower.hidden.empty()) {
      user =
          Layers(f, "user", parts.size() == 1 ? parts[0] : f.Concat(parts, 1), tower.hidden.size());
    } else if (parts.size() > 1) {
      user = f.Op("AddN", parts);
    }
    f.Result("scores", AllScores(f, Normalized(f, user)));
  });
}

}  // namespace coxswain
