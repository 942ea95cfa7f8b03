// What the passes read that find, before all others, which rows are in which part.
#pragma once

#include "protos/dataset.pb.h"

namespace coxswain::data {

// The spec without its test files, and without the columns that have no say in the parts of rows.
// `*all_columns`: all have one, as the rows that a model was trained on are known by all of their
// columns.
proto::DatasetSpec SpecOfParts(const proto::DatasetSpec& spec, bool* all_columns);

}  // namespace coxswain::data
