#include "tests/bench/step/step_function.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coxswain/optimizers.h"
#include "runtime/base/status.h"
#include "tests/bench/step/batches.h"

namespace coxswain {
namespace {

// As large as for TensorFlow's MinSizePartitioner in the scripts that we compare with.
constexpr int64_t kMinShardBytes = 256 << 10;

struct Layer {
  Variable weights;
  Variable bias;
};

class StepMaker {
 public:
  StepMaker(const StepShape& shape, ParameterServerStrategy* strategy, DType wire_dtype,
            TableDevice tables)
      : shape_(shape), strategy_(strategy), wire_dtype_(wire_dtype), table_device_(tables) {
    if (shape.optimizer == "sgd") {
      table_optimizer_ = dense_optimizer_ = Sgd{.learning_rate = shape.learning_rate};
    } else if (shape.optimizer == "lazy_adam") {
      table_optimizer_ = LazyAdam{.learning_rate = shape.learning_rate};
      dense_optimizer_ = Adam{.learning_rate = shape.learning_rate};
    } else {
      table_optimizer_ = dense_optimizer_ = Adagrad{.learning_rate = shape.learning_rate};
    }
  }

  absl::StatusOr<RemoteFunction> Define() {
    if (shape_.batch == 0) {
      return strategy_->Define(shape_.name,
                               [](FunctionBuilder& f) { f.Result("loss", f.Scalar(0)); });
    }
    RETURN_IF_ERROR(CreateState());
    return strategy_->Define(shape_.name, [this](FunctionBuilder& f) {
      Output loss = Loss(f);
      f.Minimize(loss);
      f.Result("loss", loss);
    });
  }

 private:
  absl::Status CreateState() {
    for (const TableShape& table : shape_.tables) {
      TableOptions options;
      options.rows = table.rows;
      // Shards may differ in how many ids they get: none is to evict rows.
      if (table.hash) options.hash = HashTableOptions{.max_rows = 2 * table.rows};
      options.dim = table.dim;
      options.initializer = UniformInit(-0.05, 0.05, 1);
      options.optimizer = table_optimizer_;
      options.wire_dtype = wire_dtype_;
      options.device = table_device_;
      ASSIGN_OR_RETURN(EmbeddingTable created, strategy_->CreateTable(table.name, options));
      tables_.push_back(std::move(created));
    }
    RETURN_IF_ERROR(CreateLayers("bottom", shape_.dense_inputs, shape_.bottom, &bottom_));
    return CreateLayers("top", TopInputs(shape_), shape_.top, &top_);
  }

  absl::Status CreateLayers(const std::string& name, int64_t inputs,
                            const std::vector<int64_t>& widths, std::vector<Layer>* layers) {
    VariableOptions options;
    options.optimizer = dense_optimizer_;
    options.partitioner = MinSize(kMinShardBytes, strategy_->cluster().num_ps());
    options.wire_dtype = wire_dtype_;
    for (size_t i = 0; i < widths.size(); ++i) {
      Layer layer;
      options.shape = Shape{inputs, widths[i]};
      options.initializer = UniformInit(-0.05, 0.05, 1);
      ASSIGN_OR_RETURN(layer.weights,
                       strategy_->CreateVariable(absl::StrCat(name, i, "/weights"), options));
      options.shape = Shape{widths[i]};
      options.initializer = Zeros();
      ASSIGN_OR_RETURN(layer.bias,
                       strategy_->CreateVariable(absl::StrCat(name, i, "/bias"), options));
      layers->push_back(std::move(layer));
      inputs = widths[i];
    }
    return absl::OkStatus();
  }

  static Output Layers(FunctionBuilder& f, const std::vector<Layer>& layers, Output x) {
    for (size_t i = 0; i < layers.size(); ++i) {
      const DenseActivation activation =
          i + 1 < layers.size() ? DenseActivation::kRelu : DenseActivation::kNone;
      x = f.Dense(x, f.Read(layers[i].weights), f.Read(layers[i].bias), activation);
    }
    return x;
  }

  // The step's row of a column that holds all batches.
  static Output Pick(FunctionBuilder& f, Output number, Tensor column) {
    const int64_t size = column.dim(1);
    return f.Reshape(f.Gather(f.Constant(std::move(column)), number), {size});
  }

  Output Loss(FunctionBuilder& f) const {
    StepBatches batches = MakeBatches(shape_);
    const int64_t batch = shape_.batch;
    const Output number = f.Op("RandomInt", {}, {{"shape", Shape{1}}, {"high", kBatches}});
    std::vector<Output> vectors;
    if (!bottom_.empty()) {
      const Output x = Pick(f, number, std::move(batches.numbers));
      vectors.push_back(Layers(f, bottom_, f.Reshape(x, {batch, shape_.dense_inputs})));
    }
    for (size_t t = 0; t < tables_.size(); ++t) {
      const TableShape& table = shape_.tables[t];
      const Output ids = Pick(f, number, std::move(batches.ids[t]));
      Output rows = f.Lookup(tables_[t], ids);
      if (table.slots > 1) rows = f.Reshape(rows, {batch, table.slots * table.dim});
      vectors.push_back(rows);
    }
    if (top_.empty()) return f.Sum(f.Square(Join(f, vectors)));
    const Output x = shape_.dot_products ? DotProducts(f, vectors) : Join(f, vectors);
    const Output logit = f.Reshape(Layers(f, top_, x), {batch});
    const Output labels = Pick(f, number, std::move(batches.labels));
    return f.Mean(f.SigmoidCrossEntropy(logit, labels));
  }

  static Output Join(FunctionBuilder& f, const std::vector<Output>& vectors) {
    return vectors.size() == 1 ? vectors[0] : f.Concat(vectors, 1);
  }

  // The first vector, and beside it the product of each pair of vectors.
  static Output DotProducts(FunctionBuilder& f, const std::vector<Output>& vectors) {
    return f.Op("PairwiseDots", vectors, {{"with_first", true}});
  }

  const StepShape& shape_;
  ParameterServerStrategy* strategy_;
  const DType wire_dtype_;
  const TableDevice table_device_;
  OptimizerSpec table_optimizer_, dense_optimizer_;
  std::vector<EmbeddingTable> tables_;
  std::vector<Layer> bottom_, top_;
};

}  // namespace

absl::StatusOr<RemoteFunction> DefineStep(const StepShape& shape, ParameterServerStrategy* strategy,
                                          DType wire_dtype, TableDevice tables) {
  return StepMaker(shape, strategy, wire_dtype, tables).Define();
}

}  // namespace coxswain
