// Rows per second that one thread gathers from a table and updates in it, at random rows.
//
//   bench_table [rows = 2000000] [batch = 6656] [seconds per figure = 0.5] [only names with = ""]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "ps_server/shard.h"
#include "runtime/base/id_hash.h"

namespace coxswain {
namespace {

// Enough that no row is found in the cache again. They share a few gradients, as a server finds a
// gradient in the cache when it has just come in.
constexpr size_t kBatches = 300;
constexpr size_t kGradients = 4;

struct Options {
  int64_t rows = 2000000;
  int64_t batch = 6656;
  double seconds = 0.5;
  std::string only;
};

struct Kind {
  const char* name;
  const char* optimizer;
  DType dtype = DType::kF32;
  const char* rounding = "";
  bool hash = false;
};

constexpr Kind kKinds[] = {
    {"sgd", "sgd"},
    {"momentum", "momentum"},
    {"adagrad", "adagrad"},
    {"rowwise_adagrad", "rowwise_adagrad"},
    {"lazy_adam", "lazy_adam"},
    {"adam", "adam"},
    {"ftrl", "ftrl"},
    {"hash adagrad", "adagrad", DType::kF32, "", true},
    {"bf16 sgd", "sgd", DType::kBF16, "nearest"},
    {"bf16 adagrad", "adagrad", DType::kBF16, "nearest"},
    {"bf16~ adagrad", "adagrad", DType::kBF16, "stochastic"},
    {"bf16~ rowwise", "rowwise_adagrad", DType::kBF16, "stochastic"},
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds per call of `run`, in the best of short rounds: what else the machine does disturbs few.
template <typename Run>
double BestTime(double seconds, const Run& run) {
  constexpr int kRounds = 25;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    int64_t calls = 0;
    const double begin = Now();
    double now = begin;
    for (; now - begin < seconds / kRounds; now = Now())
      run(static_cast<size_t>(calls++) % kBatches);
    best = std::min(best, (now - begin) / static_cast<double>(calls));
  }
  return best;
}

absl::StatusOr<std::unique_ptr<ps::Shard>> MakeTable(const Options& options, int64_t dim,
                                                     const Kind& kind) {
  proto::ShardSpec spec;
  spec.set_id(1);
  spec.set_count(1);
  if (kind.hash) {
    spec.set_strategy("hash");
    spec.mutable_variable()->mutable_hash();
  } else {
    spec.set_rows(options.rows);
  }
  proto::VariableSpec* variable = spec.mutable_variable();
  variable->set_name("bench");
  variable->set_dtype(static_cast<int32_t>(kind.dtype));
  variable->set_rounding(kind.rounding);
  variable->mutable_shape()->add_dims(kind.hash ? -1 : options.rows);
  variable->mutable_shape()->add_dims(dim);
  variable->mutable_initializer()->set_kind("uniform");
  variable->mutable_optimizer()->set_kind(kind.optimizer);
  variable->mutable_optimizer()->set_learning_rate(0.01);
  variable->set_table(true);
  return ps::Shard::Create(spec);
}

// The id of a row: any 64 bits in a hash table.
int64_t IdOf(const Kind& kind, int64_t row) {
  return kind.hash ? static_cast<int64_t>(HashId(row)) : row;
}

bool Apply(ps::Shard* table, const graph::Update& update) {
  if (!table->Validate(update).ok() || !table->Reserve(update.ids.num_elements()).ok()) {
    return false;
  }
  const graph::Update* one = &update;
  table->ApplySegment(absl::MakeConstSpan(&one, 1), {});
  return true;
}

// A gradient for each row: those of a hash table are made by it.
void MakeRows(const Options& options, int64_t dim, const Kind& kind, ps::Shard* table) {
  graph::Update update;
  update.kind = graph::Update::Kind::kSparse;
  for (int64_t row = 0; row < options.rows; row += options.batch) {
    std::vector<int64_t> ids;
    for (int64_t r = row; r < std::min(options.rows, row + options.batch); ++r) {
      ids.push_back(IdOf(kind, r));
    }
    update.values = Tensor::Zeros(DType::kF32, Shape{static_cast<int64_t>(ids.size()), dim});
    update.ids = Tensor::FromVector(ids);
    if (!Apply(table, update)) std::abort();
  }
}

void Print(const std::string& what, int64_t dim, int64_t batch, double seconds) {
  absl::PrintF("%-27s dim %3d  %7.2f M rows/s  %7.3f ms per %d rows\n", what, dim,
               static_cast<double>(batch) / seconds * 1e-6, seconds * 1e3, batch);
}

bool Measure(const Options& options, int64_t dim, const Kind& kind) {
  const std::string name = kind.name;
  if (name.find(options.only) == std::string::npos) return true;
  const double begin = Now();
  absl::StatusOr<std::unique_ptr<ps::Shard>> made = MakeTable(options, dim, kind);
  if (!made.ok()) {
    absl::FPrintF(stderr, "bench_table: %s\n", made.status().message());
    return false;
  }
  ps::Shard* table = made->get();
  // adam passes over the rows that ever had a gradient.
  if (kind.hash || table->optimizer().SparseMovesAllRows()) MakeRows(options, dim, kind, table);
  const double seconds = Now() - begin;
  absl::PrintF("%-27s dim %3d  %7.2f M rows/s  (%.2f s, %d MB)\n", "create " + name, dim,
               static_cast<double>(options.rows) / seconds * 1e-6, seconds,
               table->memory_bytes() >> 20);
  std::mt19937_64 random(1);
  std::vector<graph::Update> updates(kBatches);
  for (size_t b = 0; b < kBatches; ++b) {
    std::vector<int64_t> ids(static_cast<size_t>(options.batch));
    for (int64_t& id : ids) {
      id = IdOf(kind, static_cast<int64_t>(random() % static_cast<uint64_t>(options.rows)));
    }
    updates[b].kind = graph::Update::Kind::kSparse;
    updates[b].ids = Tensor::FromVector(ids);
    if (b >= kGradients) {
      updates[b].values = updates[b % kGradients].values;
      continue;
    }
    std::vector<float> gradient(static_cast<size_t>(options.batch * dim));
    for (float& g : gradient) g = static_cast<float>(random() % 2001) * 1e-3f - 1;
    updates[b].values = Tensor::FromVector(gradient, Shape{options.batch, dim}).value();
  }
  Print("gather from " + name, dim, options.batch,
        BestTime(options.seconds, [&](size_t i) { table->Gather(updates[i].ids).value(); }));
  Print("update " + name, dim, options.batch,
        BestTime(options.seconds, [&](size_t i) { Apply(table, updates[i]); }));
  return true;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  coxswain::Options options;
  if (argc > 1) options.rows = std::atoll(argv[1]);
  if (argc > 2) options.batch = std::atoll(argv[2]);
  if (argc > 3) options.seconds = std::atof(argv[3]);
  if (argc > 4) options.only = argv[4];
  if (options.rows < 1 || options.batch < 1 || !(options.seconds > 0)) {
    std::fprintf(stderr, "usage: bench_table [rows] [batch] [seconds per figure] [names]\n");
    return 1;
  }
  for (int64_t dim : {8, 16, 64}) {
    for (const coxswain::Kind& kind : coxswain::kKinds) {
      if (!coxswain::Measure(options, dim, kind)) return 1;
    }
  }
  return 0;
}
