// Reads a node's attributes.
#pragma once

#include <stdint.h>

#include <string>
#include <vector>

#include "kernels/cuda/status.h"

namespace coxswain::cuda {

class Node {
 public:
  explicit Node(const CoxNode& node) : node_(node) {}

  const char* op() const { return node_.op; }
  int num_inputs() const { return node_.num_inputs; }
  int num_outputs() const { return node_.num_outputs; }
  int32_t input_dtype(int i) const { return node_.input_dtypes[i]; }
  int32_t compute() const { return node_.compute; }

  // The attribute, or `fallback` when there is none of this name and kind.
  int64_t Integer(const char* name, int64_t fallback) const;
  double Number(const char* name, double fallback) const;  // an integer counts as one
  std::string Text(const char* name, const char* fallback) const;
  std::vector<int64_t> List(const char* name) const;

 private:
  const CoxAttr* Find(const char* name, int32_t kind) const;

  const CoxNode& node_;
};

}  // namespace coxswain::cuda
