// Which examples of a step may be why a gradient is no number, and where they stand.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "coxswain/tensor.h"
#include "protos/control.pb.h"
#include "runtime/data/dataset.h"
#include "runtime/data/ticket.h"
#include "runtime/graph/graph.h"

namespace coxswain::worker {

// What a step ran on. All outlive the call.
struct StepInput {
  const graph::Function& component;
  const std::vector<proto::ArgumentSource>& sources;  // one per argument
  const std::vector<Tensor>& arguments;
  const data::Dataset* data;  // null when the step has none
  Ticket examples;            // of `data`; empty without
};

// The error of a step, if it has the detail NotFinite, with the examples that have the row's id
// and, unless that is one, with the largest number among them; by file and line where the data set
// knows these. Others come back as they are.
absl::Status NameExamples(absl::Status status, const StepInput& input);

}  // namespace coxswain::worker
