// Handles on state that lives on parameter servers. Cheap to copy; thread-safe (immutable).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "protos/variable.pb.h"
#include "runtime/base/ids.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace coxswain {

struct VariableInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  proto::OptimizerSpec optimizer;
  bool table = false;
  std::string strategy;  // "div" or "mod", see proto::ShardSpec
  std::vector<proto::ShardSpec> shards;

  int64_t rows() const { return shape.rank() == 0 ? 1 : shape.dim(0); }
  Shape ShardShape(int shard) const {
    Shape s = shape;
    if (s.rank() > 0) s.set_dim(0, shards[shard].rows());
    return s;
  }
};

// A dense variable: read and updated whole. Several shards convert to one tensor by concatenation.
class Variable {
 public:
  Variable() = default;
  explicit Variable(std::shared_ptr<const VariableInfo> info) : info_(std::move(info)) {}
  const VariableInfo& info() const { return *info_; }
  const std::string& name() const { return info_->name; }

 private:
  std::shared_ptr<const VariableInfo> info_;
};

// An embedding table [rows, dim]: rows are looked up and updated by id, where they live.
class EmbeddingTable {
 public:
  EmbeddingTable() = default;
  explicit EmbeddingTable(std::shared_ptr<const VariableInfo> info) : info_(std::move(info)) {}
  const VariableInfo& info() const { return *info_; }
  const std::string& name() const { return info_->name; }
  int64_t rows() const { return info_->shape.dim(0); }
  int64_t dim() const { return info_->shape.dim(1); }

 private:
  std::shared_ptr<const VariableInfo> info_;
};

}  // namespace coxswain
