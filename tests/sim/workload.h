// What a simulated job trains, and how it is told at the end that nothing was lost or doubled.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/core/controller.h"
#include "coxswain/status.h"
#include "protos/variable.pb.h"
#include "runtime/base/sync_step.h"
#include "runtime/graph/graph.h"
#include "tests/sim/random.h"

namespace coxswain::sim {

// A shard as it is when the job is over.
struct FinalShard {
  proto::ShardSpec spec;
  Tensor rows;
  Tensor ids;  // of a hash table: of its rows
  int64_t applied = 0;
};

struct FinalState {
  std::vector<FinalShard> shards;  // by id
  bool updates_may_be_lost = false;
  // What the coordinator counted, summed over shards; -1: its count does not cover the whole job.
  int64_t updates_lost = 0;
  // Closures, by index, that failed and then lost their updates when all shards went back to the
  // initial values: what has failed does not run again.
  std::set<int64_t> undone;
  // Closures, by index, that were cancelled or whose deadlines passed, and what was said of them.
  std::map<int64_t, Effect> ended_early;
};

// Rows that the program itself writes to a shard: from row `begin` on, or by `ids` of a hash table.
struct RowWrite {
  ShardId shard = 0;
  int64_t begin = 0;
  Tensor rows;
  Tensor ids = {};
};

// Closure 0, 1, 2, ... are functions of their index alone, so that a job that was resumed goes on
// with the same ones.
class Workload {
 public:
  virtual ~Workload() = default;

  // The shards of all variables, spread over so many PS.
  virtual std::vector<proto::ShardSpec> Shards(int num_ps) const = 0;
  // Plan i is function i - 1.
  virtual std::vector<std::shared_ptr<const graph::Function>> Functions() const = 0;
  // Per-worker values i + 1: a function that each worker runs once, and its arguments.
  struct Held {
    std::shared_ptr<const graph::Function> function;
    std::vector<Tensor> arguments;
  };
  virtual std::vector<Held> Values() const { return {}; }
  // Of an argument of a function: the closure's own, or one of these values.
  virtual proto::ArgumentSource Source(size_t function, size_t argument) const {
    (void)function;
    proto::ArgumentSource source;
    source.set_argument(static_cast<int>(argument));
    return source;
  }
  virtual int64_t closures() const = 0;
  // `plan`, arguments, steps and seed.
  virtual core::ClosureSpec Closure(int64_t index) const = 0;
  // Not 0: a synchronous step of this number of closures begins with this one.
  virtual int64_t StepSize(int64_t index) const {
    (void)index;
    return 0;
  }
  virtual bool StepsAreAveraged() const { return false; }
  // Or each of its closures is an update of its own (SyncStep::each).
  virtual bool StepsAreOfSingles() const { return false; }
  // Set: closures are tickets, in steps of this kind: what a step does without is taken into a
  // later one, under another id. The first argument says which closure it is.
  virtual std::optional<SyncStep> TicketSteps() const { return std::nullopt; }
  // Each closure is scheduled when the one before is over.
  virtual bool synchronous() const { return false; }
  // What the program writes when the closures before this one are over, before it schedules it; for
  // the first one also before it begins to write checkpoints.
  virtual std::vector<RowWrite> WritesBefore(int64_t closure) const {
    (void)closure;
    return {};
  }
  // And what it writes beside all closures, each when the one before is there.
  virtual std::vector<RowWrite> WritesBeside() const { return {}; }
  // What is wrong with the state; empty: nothing.
  virtual std::string Check(const FinalState& state) const = 0;
};

// Variables of counters, one or two on each PS; every closure adds 1 to all, or to some, or adds to
// one what it read from another. The sum on the PS is the number of steps; of accepted losses, what
// is missing is what was reported.
struct AddOnesOptions {
  int variables = 3;
  int shards_per_variable = 1;
  int64_t closures = 100;
  uint32_t steps = 1;
  // Not 0: for many PS. So many functions, each of which adds to its share of the shards.
  int functions = 0;
  int64_t skipped = -1;  // the closure of this index never runs
  // More that never run: their arguments are of kLargeArgument numbers.
  std::set<int64_t> large_arguments;
  // These run, and return kLargeResult numbers.
  std::set<int64_t> large_results;
  static constexpr int64_t kLargeArgument = 1 << 15;
  static constexpr int64_t kLargeResult = 1 << 14;
  // Not 0: the program gives a shard other numbers before each closure of an index that is a
  // multiple of this.
  int64_t write_every = 0;
};
std::unique_ptr<Workload> NewAddOnes(const AddOnesOptions& options);

// A linear fit with momentum, one closure at a time: the weights at the end are those of a run of
// the same function in one process, bit for bit.
struct FitOptions {
  int64_t closures = 60;
  uint32_t steps = 1;
  std::string optimizer = "adam";
  uint64_t seed = 1;
  bool on_ps = false;  // the products are taken where the weights are
};
std::unique_ptr<Workload> NewFit(const FitOptions& options);

// A table with a row for each example; a closure that uses an example adds 1 to its row. At the end
// each row is the number of epochs.
struct VisitOptions {
  int64_t examples = 128;
  int64_t batch = 8;
  int64_t epochs = 3;
  int shards = 3;
  uint64_t seed = 1;
  // Not 0: a hash table, and examples that are any 64-bit ids. A row comes with the id's
  // min_count-th visit, so that at the end it has the visits from then on.
  int64_t min_count = 0;
  // Not 0, and no hash table: the program gives some rows other numbers before each closure of an
  // index that is a multiple of this.
  int64_t write_every = 0;
  // Not 0: this number of closures, one after the other, are of one group.
  int64_t group_closures = 0;
};
std::unique_ptr<Workload> NewVisits(const VisitOptions& options);

// A table is trained, one closure at a time: its ids and rows at the end are those of a run of the
// same function in one process, bit for bit.
struct TableFitOptions {
  int64_t closures = 60;
  uint32_t steps = 1;
  int64_t ids = 400;  // of which few come often
  int64_t batch = 12;
  int shards = 3;
  std::optional<proto::HashTableSpec> hash;  // a hash table, with admission and eviction
  DType dtype = DType::kF32;
  std::string rounding;
  DType wire_dtype = DType::kF32;
  proto::OptimizerSpec optimizer;
  uint64_t seed = 1;
};
std::unique_ptr<Workload> NewTableFit(const TableFitOptions& options);

// Synchronous steps of several closures, of two functions: dense weights and a table are trained,
// and a counter counts closures. At the end all is as in one process, bit for bit.
struct SyncFitOptions {
  int64_t steps = 30;
  int64_t replicas = 3;  // some steps have fewer
  bool alike = false;    // none has, and all are of one function
  bool mean = false;
  bool each = false;  // each closure is an update of its own
  int shards = 3;     // of the table
  bool hash = false;  // the table is a hash table
  proto::OptimizerSpec optimizer, table_optimizer;
  uint64_t seed = 1;
};
std::unique_ptr<Workload> NewSyncFit(const SyncFitOptions& options);

// Tickets, each of which marks its row of some tables, one on each PS, with the number of its step,
// in steps that take `replicas` of them. At the end each row has had one step, each table has taken
// each step once, and all tables have taken the same tickets together.
struct TicketOptions {
  int64_t tickets = 100;  // at most 256
  uint32_t replicas = 3, backup = 0;
  bool free = false;
  int tables = 3;
};
std::unique_ptr<Workload> NewTickets(const TicketOptions& options);

// Each step takes a number from a counter and marks the row of this number, in every table.
struct NumberOptions {
  int64_t closures = 60;
  uint32_t steps = 1;
  int tables = 1;
  int counter = 0;  // where it comes among the tables, when shards are spread over the PS
};
std::unique_ptr<Workload> NewNumbers(const NumberOptions& options);

// Each closure marks the row that it looks up in per-worker values, an order of all rows.
struct LookUpOptions {
  int64_t rows = 40;
  int64_t rounds = 2;
  uint64_t seed = 1;
};
std::unique_ptr<Workload> NewLookUps(const LookUpOptions& options);

// Another workload, and a variable beside it that only the program writes: at the end each row is
// what was written to it last.
struct MarkOptions {
  enum class Kind { kDense, kTable, kHash };
  Kind kind = Kind::kTable;
  int64_t rows = 40;
  int shards = 2;
  int64_t writes = 30;
  uint64_t seed = 1;
};
std::unique_ptr<Workload> NewMarked(std::unique_ptr<Workload> workload, const MarkOptions& options);

// All ops, and PsCall. Made once.
const graph::OpRegistry* SimRegistry();

}  // namespace coxswain::sim
