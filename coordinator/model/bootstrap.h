// How far a metric would be off with other examples of the same kind: its 95% interval by the
// Poisson bootstrap (Chamandy et al., 2012; docs/metrics.md has the exact definition).
//
// Replicate r has each unit k(r, unit) times, k being drawn from the Poisson distribution with mean
// 1 by a hash of the seed, r and the unit. A unit is a group of examples, where examples have
// groups, else an example. Copies of a group are groups of their own. Examples of weight 0 have a
// number, and are in no replicate. The interval is between the 2.5% and the 97.5% quantile of the
// replicates' metrics.
//
// What was measured is in memory once, and one replicate for each thread; their number costs time
// alone. Thread model: a value of one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/job/job_spec.h"
#include "coordinator/model/measured_copy.h"
#include "coordinator/model/metric.h"
#include "runtime/env/compute_pool.h"

namespace coxswain::model {

struct Interval {
  double low = 0, high = 0;
};

// How often replicate `replicate` has a unit.
int64_t PoissonDraw(uint64_t seed, int64_t replicate, int64_t unit);

// The interval of replicates' values; those that are no numbers are left out. False: fewer than
// half are numbers, or fewer than two.
bool IntervalOf(std::vector<double> values, Interval* interval);

class Bootstrap {
 public:
  // Metrics that are not counted over examples have no interval.
  Bootstrap(const std::vector<job::MetricSpec>& metrics, int64_t replicates, uint64_t seed);

  // The next examples of a task, whose metrics they are for; they are copied. Each task has the
  // same ones, in the same order.
  void Add(const Measured& measured);
  // By name. Runs on the pool.
  std::map<std::string, Interval> Intervals(env::ComputePool* pool) const;

 private:
  struct Batch {
    MeasuredCopy examples;
    int64_t first = 0;  // the number of the first one
  };
  // Takes example `i` of `from`, as copy `copy`.
  static void Take(const Measured& from, size_t i, int64_t copy, MeasuredCopy* to);
  void Fill(const Batch& batch, int64_t replicate, MeasuredCopy* sample) const;
  std::vector<double> Replicate(int64_t replicate) const;

  const std::vector<job::MetricSpec> metrics_;
  const int64_t replicates_;
  const uint64_t seed_;
  std::vector<Batch> batches_;
  std::vector<int64_t> examples_;  // by task
};

}  // namespace coxswain::model
