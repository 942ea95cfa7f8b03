// Labels of rows that have several values, of which some count: one of the classes of a multi-label
// problem.
#pragma once

#include <memory>
#include <vector>

#include "protos/dataset.pb.h"
#include "runtime/data/sinks.h"

namespace coxswain::data {

// For a label with LabelSpec.value_separator: 1 where one of the row's values is one of
// positive_values, else 0. A field without a value has none of them; one that is missing (null, a
// key that is not there) is an error. Values of lists are taken as they are.
std::unique_ptr<FieldSink> NewListLabelSink(const proto::LabelSpec& spec,
                                            std::vector<float>* labels);

}  // namespace coxswain::data
