// optimizer, tables, parameter_servers.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "coordinator/job/job_format.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/job/optimizer_schema.h"
#include "coordinator/job/size_limits.h"
#include "kernels/optimizers/adam.h"
#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "runtime/base/logging.h"

namespace coxswain::job {
namespace {

using Role = TableSpec::Role;
using proto::FeatureSpec;

void ReadSchedule(const JobReader& reader, const std::string& path, const SectionView& view,
                  proto::OptimizerSpec* optimizer) {
  proto::LearningRateSchedule schedule;
  // decay_steps 0: see CompleteSchedules.
  ReadKeys(OptimizerScheduleSchema().keys, view, &schedule);
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

// What becomes of late gradients, where it is not as train.consistency says.
void ReadLateness(const JobReader& reader, const std::string& path, const SectionView& view,
                  proto::OptimizerSpec* optimizer) {
  const Consistency& consistency = reader.job->train.consistency;
  if (view.Has("staleness_rate")) {
    optimizer->set_staleness_rate(view.String("staleness_rate"));
    if (optimizer->staleness_rate() != "none" && consistency.mode == ConsistencyMode::kSync &&
        consistency.reduce != GradientReduction::kNone) {
      reader.Error(path + ".staleness_rate", "with mode `sync` no gradient is late; wanted none");
    }
  }
  if (view.Has("delay_compensation")) {
    optimizer->set_delay_compensation(view.Real("delay_compensation"));
    if (optimizer->delay_compensation() != 0 && consistency.in_steps()) {
      reader.Error(path + ".delay_compensation",
                   absl::StrCat("only where an update is of one batch and applied as it comes, ",
                                "with `async` and `bounded`", AlsoInSteps(*reader.job)));
    }
  }
}

// `fallback`: what the section is by default, where that is another one; without a kind of its own
// it is that one but for the keys that are given.
proto::OptimizerSpec ReadOptimizer(const JobReader& reader, const std::string& path,
                                   const SectionView& view,
                                   const proto::OptimizerSpec* fallback = nullptr) {
  const bool changes = fallback != nullptr && !view.Given("kind");
  const auto read = [&](absl::string_view key) {
    return changes ? view.Given(key) : view.Has(key);
  };
  proto::OptimizerSpec optimizer;
  if (changes) optimizer = *fallback;
  optimizer.set_kind(view.String("kind"));
  const kernels::OptimizerInfo* info = kernels::FindOptimizer(optimizer.kind());
  COX_CHECK(info != nullptr, optimizer.kind());  // the schema knows no other
  for (const kernels::OptimizerInfo::Parameter& p : info->parameters) {
    if (!read(p.name)) continue;
    kernels::SetParameter(p.name, p.is_switch ? view.Bool(p.name) : view.Real(p.name), &optimizer);
  }
  if (read("schedule")) {
    optimizer.clear_schedule();
    ReadSchedule(reader, path + ".schedule", view.Sub("schedule"), &optimizer);
  }
  ReadLateness(reader, path, view, &optimizer);
  return optimizer;
}

void SetL2(const JobReader& reader, const std::string& path, double l2,
           proto::OptimizerSpec* optimizer) {
  if (!kernels::FindParameter(*optimizer, "l2").has_value()) {
    reader.Error(path, absl::StrCat("the optimizer ", optimizer->kind(), " has no l2"));
    return;
  }
  kernels::SetParameter("l2", l2, optimizer);
}

void SetStddev(double stddev, uint64_t seed, proto::InitializerSpec* initializer) {
  initializer->set_kind(stddev > 0 ? "normal" : "zeros");
  initializer->set_stddev(stddev);
  initializer->set_seed(seed);
}

// The initializer is kept for the rows that the file lacks.
void ReadRowsFile(const JobReader& reader, const std::string& path, const SectionView& view,
                  TableSpec* table) {
  TableSpec::RowsFile file{view.String("path"), "", ""};
  if (view.Has("words")) file.words = view.String("words");
  if (view.Has("tensor")) file.tensor = view.String("tensor");
  const bool tensor =
      absl::EndsWith(file.path, ".safetensors") || absl::EndsWith(file.path, ".npz");
  if (tensor != !file.words.empty()) {
    reader.Error(path + ".words", tensor ? "wanted the words of the tensor's rows"
                                         : "only a .safetensors or .npz file has none itself");
  }
  if (table->dtype != DType::kF32) {
    reader.Error(path, "rows of a file are f32, and the table's are bf16");
  }
  table->rows_file = std::move(file);
}

void ReadInitializer(const JobReader& reader, const std::string& path, const SectionView& view,
                     uint64_t seed, TableSpec* table) {
  if (view.String("kind") == "file") {
    ReadRowsFile(reader, path, view, table);
    return;
  }
  proto::InitializerSpec initializer;
  initializer.set_seed(seed);
  reader.Read("tables.NAME.initializer", view, &initializer);
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
  reader.Read("tables.NAME.hash_table", view, &*table->hash);
  if (view.Given("admission_probability")) {
    if (view.Given("min_count")) {
      reader.Error(path + ".admission_probability", "give this or min_count");
    }
    table->hash->set_admission_probability(view.Real("admission_probability"));
  }
  if (view.Given("evict") && table->hash->max_rows() == 0) {
    reader.Error(path + ".evict", "without max_rows nothing is evicted for being too much");
  }
}

const char* Ending(Role role) {
  switch (role) {
    case Role::kEmbedding:
      break;
    case Role::kBias:
      return "_bias";
    case Role::kLinear:
      return "_linear";
    case Role::kOutput:
      return "_output";
  }
  return "";
}

class TableList {
 public:
  TableList(const JobReader& reader, const proto::OptimizerSpec& optimizer, uint64_t seed)
      : reader_(reader), optimizer_(optimizer), seed_(seed) {}

  // Numeric features have no table.
  void Add(const TableUse& use) {
    const FeatureSpec* feature = reader_.job->FindFeature(use.feature);
    if (feature == nullptr || feature->kind() != FeatureSpec::CATEGORICAL) return;
    TableSpec table;
    table.name = absl::StrCat(use.feature, Ending(use.role));
    table.feature = use.feature;
    table.role = use.role;
    const bool wide = use.role == Role::kEmbedding || use.role == Role::kOutput;
    table.dim = wide ? feature->dim() : use.width;
    table.optimizer = optimizer_;
    if (!feature->id().empty()) table.hash.emplace();
    SetStddev(use.stddev, seed_, &table.initializer);
    if (!names_.insert(table.name).second) {
      reader_.Error("features." + use.feature,
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

void CompleteSchedule(int64_t steps, proto::OptimizerSpec* optimizer) {
  if (!optimizer->has_schedule()) return;
  proto::LearningRateSchedule* schedule = optimizer->mutable_schedule();
  const bool ends = schedule->kind() == "cosine_decay" || schedule->kind() == "linear_decay";
  if (!ends || schedule->decay_steps() > 0) return;
  schedule->set_decay_steps(std::max<int64_t>(1, steps - schedule->warmup_steps()));
}

// Why parameter servers would refuse it on this device, later, or would read and write all of it
// in each step; empty: they would not.
std::string NotOnDevice(const JobSpec& job, const TableSpec& table) {
  if (table.device == "gpu" && table.dtype != DType::kF32) {
    return "rows in bf16 are kept on the host";
  }
  if (!table.trainable) return "";
  const absl::string_view host = table.device == "gpu" ? "on the host" : "in memory";
  if (table.optimizer.kind() == kernels::AdamOptimizer::kKind) {
    return absl::StrCat("the optimizer adam moves all rows in each step, and tables that it ",
                        "updates are kept ", host, "; lazy_adam moves those of a batch");
  }
  if (job.model->UpdatesAllRows(job, table)) {
    return absl::StrCat("the loss ", KindOf(*job.loss).name, " moves all rows of the table '",
                        table.name, "' in each step, and such tables are kept ", host);
  }
  return "";
}

// How many rows the table of a feature has at least, before the data is read, and the key that says
// so.
int64_t LeastRows(const JobSpec& job, const FeatureSpec& feature, std::string* key) {
  const std::string path = absl::StrCat("features.", feature.name(), ".");
  const JobFormat& format = FormatOf(job);
  if (format.least_rows != nullptr) {
    *key = format.rows_key;
    return format.least_rows(job.dataset);
  }
  if (feature.hash_buckets() > 0) {
    *key = path + "hash_buckets";
    if (job.locations.count(*key) == 0) *key = "dataset.hash_buckets";  // criteo's own
    return feature.hash_buckets();
  }
  *key = path + "oov_buckets";
  return feature.vocabulary_size() + feature.oov_buckets();
}

// Those of data that is read are checked with it.
void CheckNumbers(const JobReader& reader, const TableSpec& table) {
  const FeatureSpec* const feature = reader.job->FindFeature(table.feature);
  std::string key;
  const int64_t rows = feature == nullptr ? 0 : LeastRows(*reader.job, *feature, &key);
  const std::string why = TooManyNumbers(table, rows);
  if (!why.empty() && reader.Good(key)) reader.Error(key, why);
}

// The key by which late gradients of the table are compensated.
std::string CompensationKey(const JobSpec& job, const TableSpec& table) {
  if (!table.optimizer.has_delay_compensation()) return "train.consistency.delay_compensation";
  const std::string own = absl::StrCat("tables.", table.name, ".optimizer.delay_compensation");
  return job.locations.count(own) > 0 ? own : "optimizer.table.delay_compensation";
}

// What is said for many tables with one key is an error of that key, once.
void CheckUpdatesForGpu(const JobReader& reader, const TableSpec& table) {
  if (table.device != "gpu" || !table.trainable) return;
  const TrainSpec& train = reader.job->train;
  const auto wrong = [&](const std::string& key) {
    if (!reader.Good(key)) return;
    reader.Error(key, absl::StrCat("not for tables in the memory of GPUs, such as '", table.name,
                                   "'; wanted none, or tables.", table.name, ".device: cpu"));
  };
  const proto::OptimizerSpec& optimizer = table.optimizer;
  const bool compensates = optimizer.has_delay_compensation()
                               ? optimizer.delay_compensation() != 0
                               : train.consistency.delay_compensation != 0;
  if (compensates) wrong(CompensationKey(*reader.job, table));
  if (train.ema) wrong("train.ema");
}

// The key to be changed is the table's own, whichever says that it is to be there.
void CheckDevice(const JobReader& reader, const TableSpec& table) {
  if (table.device == "cpu") return;
  const std::string why = NotOnDevice(*reader.job, table);
  if (why.empty()) return;
  const std::string key = absl::StrCat("tables.", table.name, ".device");
  const std::string all = "parameter_servers.table_device";
  const bool by_all = reader.job->locations.count(key) == 0;
  reader.problems->Add(
      key, reader.job->Where(by_all ? all : key),
      absl::StrCat(key, by_all ? absl::StrCat(" (by ", all, ")") : "", ": ", table.device, ": ",
                   why, by_all ? "; wanted cpu for this one" : ""));
}

}  // namespace

void CompleteSchedules(int64_t steps, JobSpec* job) {
  CompleteSchedule(steps, &job->dense_optimizer);
  for (TableSpec& table : job->tables) CompleteSchedule(steps, &table.optimizer);
}

std::string TooManyNumbers(const TableSpec& table, int64_t rows) {
  if (table.dim < 1 || rows <= kMostNumbers / table.dim) return "";
  return absl::StrCat("the table '", table.name, "' would have ", rows, " rows of ", table.dim,
                      " numbers; wanted at most ", kMostNumbers, " numbers");
}

void ReadTables(const JobReader& reader) {
  JobSpec* job = reader.job;
  if (!reader.Good("optimizer")) return;
  const SectionView optimizers = reader.file.Sub("optimizer");
  job->dense_optimizer = ReadOptimizer(reader, "optimizer.dense", optimizers.Sub("dense"));
  const int64_t seed = reader.file.Sub("train").Int("seed");
  const proto::OptimizerSpec optimizer =
      ReadOptimizer(reader, "optimizer.table", optimizers.Sub("table"));
  TableList list(reader, optimizer, static_cast<uint64_t>(seed));
  for (const TableUse& use : job->model->Tables()) list.Add(use);
  if (!reader.Good("tables") || !reader.Good("parameter_servers")) return;
  const std::string device = reader.file.Sub("parameter_servers").String("table_device");
  for (TableSpec& table : job->tables) table.device = device;
  std::vector<std::string> names;
  for (const TableSpec& table : job->tables) names.push_back(table.name);
  const SectionView tables = reader.file.Sub("tables");
  for (const std::string& name : tables.Keys()) {
    const auto table = std::find_if(job->tables.begin(), job->tables.end(),
                                    [&](const TableSpec& t) { return t.name == name; });
    if (table == job->tables.end()) {
      reader.Error("tables." + name, config::UnknownName("table", name, names));
      continue;
    }
    const SectionView view = tables.Sub(name);
    if (view.Has("optimizer")) {
      const std::string path = absl::StrCat("tables.", name, ".optimizer");
      table->optimizer = ReadOptimizer(reader, path, view.Sub("optimizer"), &optimizer);
    }
    if (view.Has("l2")) {
      SetL2(reader, absl::StrCat("tables.", name, ".l2"), view.Real("l2"), &table->optimizer);
    }
    reader.Read("tables.NAME", view, &*table);
    if (table->dtype == DType::kBF16) {
      table->rounding = view.String("rounding");
    } else if (view.Given("rounding")) {
      reader.Error(absl::StrCat("tables.", name, ".rounding"), "only rows in bf16 are rounded");
    }
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
      if (view.Given("init_stddev") && view.Sub("initializer").String("kind") != "file") {
        reader.Error(path, "give this or init_stddev");
      }
      ReadInitializer(reader, path, view.Sub("initializer"), static_cast<uint64_t>(seed), &*table);
    }
  }
  for (const TableSpec& table : job->tables) {
    CheckNumbers(reader, table);
    CheckDevice(reader, table);
    CheckUpdatesForGpu(reader, table);
  }
}

void ReadPartitioner(const JobReader& reader) {
  if (!reader.Good("parameter_servers")) return;
  const SectionView view = reader.file.Sub("parameter_servers").Sub("partitioner");
  reader.Read("parameter_servers.partitioner", view, &reader.job->partitioner);
  reader.Read("parameter_servers", reader.file.Sub("parameter_servers"),
              &reader.job->parameter_servers);
}

}  // namespace coxswain::job
