// What the rows and columns of a model's variables stand for where that depends on the job's list
// of features, or on the label's classes: a layer on features side by side has a row for each
// number of each of them, in the order of the list. A variable that another job has saved fits by
// these, and not by its shape.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace coxswain::job {

// Neighbouring rows or columns that stand for the same.
struct VariablePart {
  std::vector<std::string> of;  // features, in any order
  std::string as;               // what is made of them, in words; empty: they are as they are
  int64_t width = 1;            // how many rows or columns
};

// Empty: those of that axis stand for what their number says, whatever the features are.
struct VariableInputs {
  std::vector<VariablePart> rows, columns;
  bool classes = false;  // the last axis stands for the classes of the label
};

using InputsByVariable = std::map<std::string, VariableInputs>;

}  // namespace coxswain::job
