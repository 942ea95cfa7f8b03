// optimizer, tables, parameter_servers.
#include <algorithm>
#include <set>

#include "coordinator/job/job_sections.h"

namespace coxswain {
namespace {

using Role = TableSpec::Role;
using proto::FeatureSpec;

constexpr double kEmbeddingStddev = 0.1;

// In OptimizerSpec 0 means the default of most fields; here the defaults are filled in already.
double Exact(double value) { return value == 0 ? 1e-30 : value; }

proto::OptimizerSpec ReadOptimizer(const SectionView& view) {
  proto::OptimizerSpec optimizer;
  optimizer.set_kind(view.String("kind"));
  optimizer.set_learning_rate(view.Real("learning_rate"));
  if (view.Has("momentum")) optimizer.set_momentum(Exact(view.Real("momentum")));
  optimizer.set_nesterov(view.Bool("nesterov"));
  if (view.Has("beta1")) optimizer.set_beta1(Exact(view.Real("beta1")));
  if (view.Has("beta2")) optimizer.set_beta2(Exact(view.Real("beta2")));
  if (view.Has("epsilon")) optimizer.set_epsilon(Exact(view.Real("epsilon")));
  if (view.Has("initial_accumulator")) {
    optimizer.set_initial_accumulator(Exact(view.Real("initial_accumulator")));
  }
  optimizer.set_l1(view.Real("l1"));
  optimizer.set_l2(view.Real("l2"));
  if (view.Has("learning_rate_power")) {
    optimizer.set_learning_rate_power(-Exact(-view.Real("learning_rate_power")));
  }
  return optimizer;
}

// An update of a table moves the rows that it names, so the tables' Adam is the lazy one.
void CheckTableOptimizer(const JobReader& reader, const std::string& path,
                         const SectionView& view) {
  if (view.String("kind") == "adam") {
    reader.Error(path + ".kind", "adam moves all rows in each step; for tables there is lazy_adam");
  }
}

void SetStddev(double stddev, uint64_t seed, proto::InitializerSpec* initializer) {
  initializer->set_kind(stddev > 0 ? "normal" : "zeros");
  initializer->set_stddev(stddev);
  initializer->set_seed(seed);
}

class TableList {
 public:
  TableList(const JobReader& reader, const proto::OptimizerSpec& optimizer, uint64_t seed)
      : reader_(reader), optimizer_(optimizer), seed_(seed) {}

  // Numbers have no table.
  void Add(const std::string& feature_name, Role role) {
    const FeatureSpec* feature = reader_.job->FindFeature(feature_name);
    if (feature == nullptr || feature->kind() != FeatureSpec::CATEGORICAL) return;
    TableSpec table;
    table.name = feature_name;
    if (role == Role::kBias) table.name += "_bias";
    if (role == Role::kLinear) table.name += "_linear";
    table.feature = feature_name;
    table.role = role;
    table.dim = role == Role::kEmbedding ? feature->dim() : 1;
    table.optimizer = optimizer_;
    SetStddev(role == Role::kEmbedding ? kEmbeddingStddev : 0, seed_, &table.initializer);
    if (!names_.insert(table.name).second) {
      reader_.Error("features." + feature_name,
                    absl::StrCat("two tables would be called '", table.name,
                                 "'; give a feature another name"));
    }
    reader_.job->tables.push_back(std::move(table));
  }

 private:
  const JobReader& reader_;
  const proto::OptimizerSpec& optimizer_;
  uint64_t seed_;
  std::set<std::string> names_;
};

void AddTables(const JobReader& reader, const proto::OptimizerSpec& optimizer, uint64_t seed) {
  const ModelSpec& model = reader.job->model;
  TableList list(reader, optimizer, seed);
  for (const TowerSpec* tower : {&model.user, &model.item, &model.deep}) {
    for (const std::string& feature : tower->features) list.Add(feature, Role::kEmbedding);
  }
  if (model.biases) {
    if (model.kind == ModelKind::kMatrixFactorization) {
      list.Add(model.user.features[0], Role::kBias);
    }
    list.Add(model.item.features[0], Role::kBias);
  }
  for (const std::string& feature : model.wide.features) list.Add(feature, Role::kLinear);
}

}  // namespace

void ReadTables(const JobReader& reader) {
  JobSpec* job = reader.job;
  if (!reader.Good("optimizer")) return;
  const SectionView optimizers = reader.file.Sub("optimizer");
  job->dense_optimizer = ReadOptimizer(optimizers.Sub("dense"));
  CheckTableOptimizer(reader, "optimizer.table", optimizers.Sub("table"));
  const int64_t seed = reader.file.Sub("train").Int("seed");
  AddTables(reader, ReadOptimizer(optimizers.Sub("table")), static_cast<uint64_t>(seed));
  if (!reader.Good("tables")) return;
  std::vector<std::string> names;
  for (const TableSpec& table : job->tables) names.push_back(table.name);
  const SectionView tables = reader.file.Sub("tables");
  for (const std::string& name : tables.Keys()) {
    const auto table = std::find_if(job->tables.begin(), job->tables.end(),
                                    [&](const TableSpec& t) { return t.name == name; });
    if (table == job->tables.end()) {
      reader.Error("tables." + name, UnknownName("table", name, names));
      continue;
    }
    const SectionView view = tables.Sub(name);
    if (view.Has("optimizer")) {
      table->optimizer = ReadOptimizer(view.Sub("optimizer"));
      CheckTableOptimizer(reader, absl::StrCat("tables.", name, ".optimizer"),
                          view.Sub("optimizer"));
    }
    if (view.Has("l2")) table->optimizer.set_l2(view.Real("l2"));
    if (view.Has("init_stddev")) {
      SetStddev(view.Real("init_stddev"), static_cast<uint64_t>(seed), &table->initializer);
    }
  }
}

void ReadPartitioner(const JobReader& reader) {
  if (!reader.Good("parameter_servers")) return;
  const SectionView view = reader.file.Sub("parameter_servers").Sub("partitioner");
  PartitionerSpec* partitioner = &reader.job->partitioner;
  partitioner->kind =
      static_cast<PartitionerKind>(view.Choice("kind", "fixed_shards min_size max_size"));
  partitioner->shards = view.Int("shards");
  partitioner->min_shard_bytes = view.Int("min_shard_bytes");
  partitioner->max_shard_bytes = view.Int("max_shard_bytes");
  partitioner->max_shards = view.Int("max_shards");
}

}  // namespace coxswain
