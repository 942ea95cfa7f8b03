// Times the steps of one shape on one cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coxswain/strategy.h"
#include "tests/bench/floors/floors.h"
#include "tests/bench/step/shape.h"

namespace coxswain {

struct ClusterShape {
  bool in_process = false;  // else: a process for each task, on loopback
  int ps = 1;
  int workers = 1;

  // What its tasks talk over, as NewHostTransport chooses; "" in process.
  std::string transport() const;
  std::string name() const;  // "in-process", "in-process 2x2" or "2x2"
};

// Reads "in-process", "in-process:PSxW" or "PSxW". Errors: InvalidArgument.
absl::StatusOr<ClusterShape> ParseClusterShape(const std::string& text);

struct MeasureOptions {
  double seconds = 3;
  int in_flight = 3;  // closures a worker is kept deep
  uint32_t pack = 1;  // steps of a closure
  int threads = 0;    // compute threads of the process or of each worker; 0: by cores
  ComputeType compute = ComputeType::kF32;
  bool tables_on_gpu = false;  // PS keep tables in the memory of their GPUs
  bool wire_bf16 = false;      // tables' rows, layers and their gradients travel in bf16
  DeviceChoice device = DeviceChoice::kAuto;
};

// The rate is the median over rounds of about a quarter of the time (a second at most), each ended
// by a Join; the first round counts only when it is the only one. Everything else is over all
// rounds:
//
//   cpu_ms         CPU time of a process per step (getrusage here, TaskStatus.cpu_seconds of a
//                  daemon)
//   frames         frames between workers and PS, both ways, per PS and step: twice the segments
//                  that the PS have run
//   bytes_to_ps    payload and headers that the PS took in
//   bytes_from_ps  payload that they sent
//   compute        the share of the time of the workers' compute threads (wall time x threads) that
//                  they spent in tasks, by TaskStatus.compute_seconds: kernels, and starting frames
//   transport      CPU time of the workers beyond that, as a share of the same: gRPC's threads,
//                  decoding, the daemon's loop
//   waiting        the rest
//
// In one process the CPU time is that of all roles, a PS works on the thread that brings its frame,
// mostly a compute thread, and the shares are those of the whole process.
struct Figures {
  StepShape shape;
  ClusterShape cluster;
  MeasureOptions options;
  int threads = 0;  // compute threads of all workers
  int64_t steps = 0;
  double seconds = 0;
  double steps_per_second = 0;
  double best_steps_per_second = 0;
  double latency_ms = 0;  // median of closures that ran one at a time: Schedule to Join
  double latency_p99_ms = 0;
  std::map<std::string, double> cpu_ms;  // "ps:0", "worker:1", "coordinator", or only "all"
  double frames = 0;
  double bytes_to_ps = 0;
  double bytes_from_ps = 0;
  // operator new, in one process: of all roles, the program's Schedule and Join included.
  double heap_allocations = 0;
  double heap_bytes = 0;
  double compute = 0;
  double transport = 0;
  double waiting = 0;
  std::optional<Floors> floors;

  // The rate at which the floors alone would take all cores that the tasks may use; 0 without
  // floors, or when they are nothing.
  double floor_steps_per_second() const;
  // Reached of it.
  double floor_ratio() const;
  // The floors' share of the CPU time that a step takes: the same, but for cores that were idle or
  // busy with something else.
  double floor_share_of_cpu() const;
  double total_cpu_ms() const;
  // Of all tasks whose name begins so.
  double cpu_ms_of(const std::string& role) const;
};

using DefineFunction = std::function<absl::StatusOr<RemoteFunction>(ParameterServerStrategy*)>;

// Times the function that `define` makes, which updates every shard in each step if shape.batch is
// not 0; of `shape` no more is used than that and what is printed. Errors: as MeasureStep.
absl::StatusOr<Figures> MeasureFunction(const StepShape& shape, const ClusterShape& cluster,
                                        const MeasureOptions& options,
                                        const DefineFunction& define);

// Errors: what the cluster or a step says; DataLoss when a PS has not applied each step's updates
// exactly once.
absl::StatusOr<Figures> MeasureStep(const StepShape& shape, const ClusterShape& cluster,
                                    const MeasureOptions& options);

}  // namespace coxswain
