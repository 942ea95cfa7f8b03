// The section `regularization`: an L2 penalty of dense weights that is other than their
// optimizer's, for all matrices, all biases, or a layer.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/schema.h"

namespace coxswain::job {

const SchemaSection& RegularizationSchema();

// Once the optimizers are read.
void ReadRegularization(const JobReader& reader);

// The optimizer of a dense variable, with its penalty.
proto::OptimizerSpec OptimizerOf(const JobSpec& job, const std::string& variable);

// Errors: InvalidArgument, by file and line, for a layer that none of these variables is of.
absl::Status CheckLayers(const JobSpec& job, absl::Span<const std::string> variables);

}  // namespace coxswain::job
