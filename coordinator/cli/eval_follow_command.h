// `coxswain eval --follow`: a side-car of a job that trains, see docs/evaluation.md.
#pragma once

#include "coordinator/cli/commands.h"

namespace coxswain::cli {

int EvalFollow(const EvalFlags& flags);

}  // namespace coxswain::cli
