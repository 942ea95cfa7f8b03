// Finds the examples of a step that may have caused a gradient that is not finite, and their lines
// in the files.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "coxswain/tensor.h"
#include "protos/control.pb.h"
#include "runtime/data/dataset.h"
#include "runtime/data/ticket.h"
#include "runtime/graph/graph.h"

namespace coxswain::worker {

// The input of a step. All members must outlive the call.
struct StepInput {
  const graph::Function& component;
  const std::vector<proto::ArgumentSource>& sources;  // one per argument
  const std::vector<Tensor>& arguments;
  const data::Dataset* data;  // null when the step has none
  Ticket examples;            // of `data`; empty without
};

// Adds to the error of a step, if it has the detail NotFinite, the examples that have the row's id
// and, unless that is a single example, the largest number among them; with file and line if the
// data set knows these. Other errors are returned unchanged.
absl::Status NameExamples(absl::Status status, const StepInput& input);

}  // namespace coxswain::worker
