// Times the ways in which workers train together, by turns.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/cluster.h"
#include "tests/bench/step/measure.h"
#include "tests/bench/step/shape.h"

namespace coxswain {

// One way to train, for a number of workers.
struct WayToTrain {
  std::string name;  // "async", "bounded", "sync", "in order", "sync+1", "hybrid", "accumulate"
  Consistency consistency;
  bool deterministic_ops = false;
};

// Those that make sense with so many workers: an update of `sync` takes a batch of each worker,
// with a backup of all but one; `hybrid` has groups of 2; `bounded` lets all workers be busy;
// `accumulate` takes 2 batches.
std::vector<WayToTrain> WaysToTrain(int workers, int in_flight);

struct ConsistencyOptions {
  std::vector<std::string> ways;  // by name; none: all. `async` is always there
  double seconds = 2;             // of each turn
  int rounds = 3;
  int in_flight = 3;
  int threads = 0;
  // More than 1: each way has another turn in each round, in which the first worker is so many
  // times slower.
  double slowdown = 0;
};

// Of one way. Batches are counted, which elsewhere are called steps; those that an update did
// without are not.
struct WayFigures {
  WayToTrain way;
  StepShape shape;
  ClusterShape cluster;
  double slowdown = 0;        // of the first worker; 0: all are alike
  std::vector<double> rates;  // batches a second, by round
  // Of all rounds.
  int64_t batches = 0, surplus = 0, updates = 0;
  double seconds = 0;
  double messages = 0;        // between workers and PS, both ways, for each PS and batch
  double cpu_ms = 0;          // of all tasks, for each batch
  double mean_staleness = 0;  // updates; of all gradients
  double rows_changed = 0;    // share of the rows of gradients that had changed since the reading
  int64_t most_staleness = 0;

  double rate() const;  // the median
};

// Each round has a turn of each way, on a cluster of its own; so all ways have seen the same times.
// What a slow worker costs is told by two turns that follow one another: with `slowdown`, each way
// is there twice, first with workers that are alike.
// Errors: what a cluster or a step says; DataLoss when a shard has not applied each update once;
// InvalidArgument for a slow worker in process, and for a way that is not known.
absl::StatusOr<std::vector<WayFigures>> MeasureWays(const StepShape& shape,
                                                    const ClusterShape& cluster,
                                                    const ConsistencyOptions& options);

}  // namespace coxswain
