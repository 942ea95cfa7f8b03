// optimizer, tables, parameter_servers.
#include <algorithm>
#include <set>

#include "coordinator/job/job_sections.h"
#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "runtime/base/logging.h"

namespace coxswain {
namespace {

using Role = TableSpec::Role;
using proto::FeatureSpec;

constexpr double kEmbeddingStddev = 0.1;

void ReadSchedule(const JobReader& reader, const std::string& path, const SectionView& view,
                  proto::OptimizerSpec* optimizer) {
  proto::LearningRateSchedule schedule;
  schedule.set_kind(view.String("kind"));
  schedule.set_warmup_steps(view.Int("warmup_steps"));
  schedule.set_warmup_factor(view.Real("warmup_factor"));
  for (int64_t boundary : view.Ints("boundaries")) schedule.add_boundaries(boundary);
  for (double factor : view.Reals("factors")) schedule.add_factors(factor);
  schedule.set_decay_steps(view.Int("decay_steps"));  // 0: see CompleteSchedules
  schedule.set_decay_rate(view.Real("decay_rate"));
  schedule.set_staircase(view.Bool("staircase"));
  schedule.set_end_factor(view.Real("end_factor"));
  if (schedule.kind() == "piecewise_constant") {
    const auto& boundaries = schedule.boundaries();
    const auto not_above = std::adjacent_find(boundaries.begin(), boundaries.end(),
                                              [](int64_t a, int64_t b) { return b <= a; });
    if (boundaries.empty()) {
      reader.Error(path + ".boundaries", "wanted at least one step");
    } else if (not_above != boundaries.end()) {
      reader.Error(path + ".boundaries", absl::StrCat("steps must ascend; found ", not_above[1],
                                                      " after ", not_above[0]));
    } else if (schedule.factors_size() != boundaries.size()) {
      reader.Error(path + ".factors", absl::StrCat("wanted one for each of the ", boundaries.size(),
                                                   " boundaries; found ", schedule.factors_size()));
    }
  }
  if (view.Given("warmup_factor") && schedule.warmup_steps() == 0) {
    reader.Error(path + ".warmup_factor", "there is no warm-up without warmup_steps");
  }
  if (schedule.kind() != "constant" || schedule.warmup_steps() > 0) {
    *optimizer->mutable_schedule() = std::move(schedule);
  }
}

proto::OptimizerSpec ReadOptimizer(const JobReader& reader, const std::string& path,
                                   const SectionView& view) {
  proto::OptimizerSpec optimizer;
  optimizer.set_kind(view.String("kind"));
  const OptimizerInfo* info = FindOptimizer(optimizer.kind());
  COX_CHECK(info != nullptr, optimizer.kind());  // the schema knows no other
  for (const OptimizerInfo::Parameter& p : info->parameters) {
    SetParameter(p.name, p.is_switch ? view.Bool(p.name) : view.Real(p.name), &optimizer);
  }
  if (view.Has("schedule")) {
    ReadSchedule(reader, path + ".schedule", view.Sub("schedule"), &optimizer);
  }
  return optimizer;
}

void SetL2(const JobReader& reader, const std::string& path, double l2,
           proto::OptimizerSpec* optimizer) {
  if (!FindParameter(*optimizer, "l2").has_value()) {
    reader.Error(path, absl::StrCat("the optimizer ", optimizer->kind(), " has no l2"));
    return;
  }
  SetParameter("l2", l2, optimizer);
}

void SetStddev(double stddev, uint64_t seed, proto::InitializerSpec* initializer) {
  initializer->set_kind(stddev > 0 ? "normal" : "zeros");
  initializer->set_stddev(stddev);
  initializer->set_seed(seed);
}

void ReadInitializer(const JobReader& reader, const std::string& path, const SectionView& view,
                     uint64_t seed, TableSpec* table) {
  proto::InitializerSpec initializer;
  initializer.set_kind(view.String("kind"));
  initializer.set_value(view.Real("value"));
  initializer.set_low(view.Real("low"));
  initializer.set_high(view.Real("high"));
  initializer.set_mean(view.Real("mean"));
  initializer.set_stddev(view.Real("stddev"));
  initializer.set_seed(view.Given("seed") ? static_cast<uint64_t>(view.Int("seed")) : seed);
  if (initializer.kind() == "uniform" && !(initializer.low() < initializer.high())) {
    reader.Error(path + ".low", absl::StrCat("wanted less than high, which is ", initializer.high(),
                                             "; found ", initializer.low()));
  }
  if (initializer.kind() == "glorot_uniform" && table->hash) {
    reader.Error(path + ".kind", absl::StrCat("glorot_uniform goes by the number of rows, and a ",
                                              "hash table has no end of them"));
  }
  table->initializer = std::move(initializer);
}

void ReadHashTable(const JobReader& reader, const std::string& path, const SectionView& view,
                   TableSpec* table) {
  if (!table->hash) {
    reader.Error(path, absl::StrCat("table '", table->name, "' is not a hash table: feature '",
                                    table->feature, "' has no id: raw or id: hash"));
    return;
  }
  table->hash->set_min_count(view.Int("min_count"));
  if (view.Given("admission_probability")) {
    if (view.Given("min_count")) {
      reader.Error(path + ".admission_probability", "give this or min_count");
    }
    table->hash->set_admission_probability(view.Real("admission_probability"));
  }
  table->hash->set_ttl_steps(view.Int("ttl_steps"));
  table->hash->set_ttl_seconds(view.Real("ttl_seconds"));
  table->hash->set_max_rows(view.Int("max_rows"));
  table->hash->set_evict(view.String("evict"));
  if (view.Given("evict") && table->hash->max_rows() == 0) {
    reader.Error(path + ".evict", "without max_rows nothing is evicted for being too much");
  }
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
    if (role == Role::kOutput) table.name += "_output";
    table.feature = feature_name;
    table.role = role;
    const bool wide = role == Role::kEmbedding || role == Role::kOutput;
    table.dim = wide ? feature->dim() : 1;
    table.optimizer = optimizer_;
    if (!feature->id().empty()) table.hash.emplace();
    const bool words = reader_.job->model.kind == ModelKind::kWord2Vec;
    const double stddev = words ? 0.5 / static_cast<double>(table.dim) : kEmbeddingStddev;
    SetStddev(role == Role::kEmbedding ? stddev : 0, seed_, &table.initializer);
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
  if (model.kind == ModelKind::kWord2Vec) list.Add(model.item.features[0], Role::kOutput);
}

void CompleteSchedule(int64_t steps, proto::OptimizerSpec* optimizer) {
  if (!optimizer->has_schedule()) return;
  proto::LearningRateSchedule* schedule = optimizer->mutable_schedule();
  const bool ends = schedule->kind() == "cosine_decay" || schedule->kind() == "linear_decay";
  if (!ends || schedule->decay_steps() > 0) return;
  schedule->set_decay_steps(std::max<int64_t>(1, steps - schedule->warmup_steps()));
}

}  // namespace

void CompleteSchedules(int64_t steps, JobSpec* job) {
  CompleteSchedule(steps, &job->dense_optimizer);
  for (TableSpec& table : job->tables) CompleteSchedule(steps, &table.optimizer);
}

void ReadTables(const JobReader& reader) {
  JobSpec* job = reader.job;
  if (!reader.Good("optimizer")) return;
  const SectionView optimizers = reader.file.Sub("optimizer");
  job->dense_optimizer = ReadOptimizer(reader, "optimizer.dense", optimizers.Sub("dense"));
  const int64_t seed = reader.file.Sub("train").Int("seed");
  AddTables(reader, ReadOptimizer(reader, "optimizer.table", optimizers.Sub("table")),
            static_cast<uint64_t>(seed));
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
      const std::string path = absl::StrCat("tables.", name, ".optimizer");
      table->optimizer = ReadOptimizer(reader, path, view.Sub("optimizer"));
    }
    if (view.Has("l2")) {
      SetL2(reader, absl::StrCat("tables.", name, ".l2"), view.Real("l2"), &table->optimizer);
    }
    if (view.String("dtype") == "bf16") {
      table->dtype = DType::kBF16;
      table->rounding = view.String("rounding");
    } else if (view.Given("rounding")) {
      reader.Error(absl::StrCat("tables.", name, ".rounding"), "only rows in bf16 are rounded");
    }
    if (view.String("wire_dtype") == "bf16") table->wire_dtype = DType::kBF16;
    table->shards = view.Int("shards");
    table->sharding = view.String("sharding");
    if (table->hash && view.Given("sharding")) {
      reader.Error(absl::StrCat("tables.", name, ".sharding"),
                   "a hash table's ids go to shards by their hash");
    }
    if (view.Has("hash_table")) {
      ReadHashTable(reader, absl::StrCat("tables.", name, ".hash_table"), view.Sub("hash_table"),
                    &*table);
    }
    if (view.Has("init_stddev")) {
      SetStddev(view.Real("init_stddev"), static_cast<uint64_t>(seed), &table->initializer);
    }
    if (view.Has("initializer")) {
      const std::string path = absl::StrCat("tables.", name, ".initializer");
      if (view.Given("init_stddev")) reader.Error(path, "give this or init_stddev");
      ReadInitializer(reader, path, view.Sub("initializer"), static_cast<uint64_t>(seed), &*table);
    }
  }
}

void ReadPartitioner(const JobReader& reader) {
  if (!reader.Good("parameter_servers")) return;
  const SectionView view = reader.file.Sub("parameter_servers").Sub("partitioner");
  PartitionerSpec* partitioner = &reader.job->partitioner;
  partitioner->kind =
      view.Choice<PartitionerKind>("kind", {{"fixed_shards", PartitionerKind::kFixedShards},
                                            {"min_size", PartitionerKind::kMinSize},
                                            {"max_size", PartitionerKind::kMaxSize}});
  partitioner->shards = view.Int("shards");
  partitioner->min_shard_bytes = view.Int("min_shard_bytes");
  partitioner->max_shard_bytes = view.Int("max_shard_bytes");
  partitioner->max_shards = view.Int("max_shards");
}

}  // namespace coxswain
