// Which examples of a batch brought the id of a row whose gradient is no number.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "protos/control.pb.h"
#include "runtime/data/ticket.h"
#include "runtime/graph/graph.h"
#include "coxswain/tensor.h"

namespace coxswain {

// The error of a step, with the examples that have the row's id: of an error with the detail
// NotFinite, others come back as they are. `component` was run on `arguments`, which are those of
// `sources`; `examples` are the step's, empty when it has no data set.
absl::Status NameExamples(absl::Status status, const Function& component,
                          const std::vector<proto::ArgumentSource>& sources,
                          const std::vector<Tensor>& arguments, const Ticket& examples);

}  // namespace coxswain
