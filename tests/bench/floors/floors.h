// What a step cannot do without, each part measured alone: how fast this machine would be if there
// were nothing else to do.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "tests/bench/floors/stream.h"
#include "tests/bench/step/shape.h"

namespace coxswain {

// All times are of one thread, in milliseconds a step, everything else idle.
struct Floors {
  double unique_rows = 0;  // distinct rows of a step, all tables
  double row_bytes = 0;    // of these rows
  double dense_bytes = 0;  // of the layers
  double flops = 0;        // of all products
  double gather_ms = 0;    // copying these rows out of tables of the real size, and the layers
  double update_ms = 0;    // the optimizer on them, a plain loop over rows in place
  double products_ms = 0;  // the products, by oneDNN; of pairs of vectors at its best rate
  double gflops = 0;       // its best rate: a product of 1024 x 1024 x 1024
  double memory_ms = 0;    // what gather and update move, at the rate of a copy
  double memory_gbps = 0;  // of a copy, read and written
  // Bringing ids and gradients to another process and rows and an answer back, by transport.
  std::map<std::string, StreamCost> stream;

  double rows_ms() const { return gather_ms + update_ms; }
  // The least CPU time of a step; of `transport` too, unless that is empty.
  double cpu_ms(const std::string& transport) const;
};

struct FloorOptions {
  double seconds = 0.3;  // of each measurement
  bool bf16 = false;     // the products
  bool streams = true;
};

// Errors: what starting the stream's peer says; ResourceExhausted for tables larger than memory.
absl::StatusOr<Floors> MeasureFloors(const StepShape& shape, const FloorOptions& options);

// The round trips of a step with these rows and layers: a pull (ids, rows) and a push (ids and
// gradients, an answer); of an empty step one that is empty.
std::vector<RoundTrip> StepTrips(const Floors& floors);

}  // namespace coxswain
