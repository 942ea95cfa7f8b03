// Builds a function that spans a worker and the parameter servers: what a program writes in
// ParameterServerStrategy::Define.
//
// The first error sticks, and Define returns it, so calls need not be checked one by one. Unless
// stated otherwise, an operation has the name and the meaning of the TensorFlow op; shapes may have
// an unknown batch dimension. Outputs belong to the builder that returned them: one of another
// function is an InvalidArgument error. Thread model: used by one thread, inside Define.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coxswain/tensor.h"

namespace coxswain::graph {
class GraphBuilder;
class OpRegistry;
}  // namespace coxswain::graph

namespace coxswain {

class AucMetric;
class EmbeddingTable;
class MeanMetric;
class PerWorkerValues;
class Variable;
struct VariableInfo;

// How the rows of a bag are combined into one.
enum class Combiner : uint8_t { kSum, kMean, kSqrtN };

// Which rows of a table are candidates, and how they are scored: see FactorizedTopK.
struct CandidateOptions {
  int64_t count = -1;      // only rows with a lower id are candidates; -1: all
  bool normalize = false;  // rows are divided by their norms
  // A table of one number a row, added to its scores; read whole unless cut like the rows' table.
  const EmbeddingTable* bias = nullptr;
  // Ids that are left out of each example's candidates: example i has those of exclude_values, i64
  // [m], from place exclude_offsets[i] up to exclude_offsets[i + 1], i32 [n + 1]. Invalid: none.
  Output exclude_values = {}, exclude_offsets = {};
};

// What follows a dense layer in the same pass.
enum class DenseActivation : uint8_t { kNone, kRelu };

// How Minimize clips a step's gradients before they leave the worker.
struct GradientClip {
  enum class By : uint8_t {
    kNothing,
    kValue,       // each number to [-limit, limit]
    kNorm,        // each variable's and table's, as a whole, so that its norm is at most the limit
    kGlobalNorm,  // all of them by one factor, so that the norm of all together is
  };
  By by = By::kNothing;
  float limit = 1;  // finite and above 0
};

// Something that a function does, for others to wait for (FunctionBuilder::ControlDependencies):
// what computes an output, or updates.
class Operation {
 public:
  Operation() = default;
  Operation(Output output) : nodes_({output}) {}  // NOLINT: is one

 private:
  friend class FunctionBuilder;
  std::vector<Output> nodes_;  // of each node, any output
};

// A gradient between FunctionBuilder::Gradients and ApplyGradients: a program may put others for
// its values, of the same shape; or for ids and values, as many rows as ids.
struct VariableGradient {
  VariableGradient() = default;
  // A program's own: of the variable's shape.
  VariableGradient(const Variable& variable, Output own);
  // For rows of a table by id: ids i64 of any shape, rows [ids..., dim]. An id may come twice; its
  // rows are added up.
  VariableGradient(const EmbeddingTable& table, Output row_ids, Output own);

  std::string variable;  // or table
  // Of a variable's shape; or f32 [n, dim], a row for each distinct id that was looked up.
  Output values = {};
  // i64 [n]: these ids. Invalid for a variable, for a table that was used whole, and for one with
  // Sharding::kHash.
  Output ids = {};

 private:
  friend class FunctionBuilder;
  const VariableInfo* info_ = nullptr;
  int rows_ = -1;          // the builder's number for what the gradient is of
  Output looked_up_ = {};  // the ids of these rows
};

class FunctionBuilder {
 public:
  // Within Coxswain: ParameterServerStrategy::Define passes a FunctionBuilder to programs.
  FunctionBuilder(const std::string& name, const graph::OpRegistry* registry);
  FunctionBuilder(FunctionBuilder&& other) noexcept;
  ~FunctionBuilder();

  // --- inputs
  // An argument that each Schedule of the function passes; arguments are in the order of
  // declaration. Declare each in a statement of its own: of f.Sub(f.Argument("a", ...),
  // f.Argument("b", ...)) C++ does not say which comes first, and compilers differ.
  Output Argument(const std::string& name, DType dtype, Shape shape);
  // A column of the batch, by its name in the data set. With B examples in a batch:
  //   of a number          "age"           f32 [B]; of a vector [B, width]
  //   of one value         "user"          i64 [B], its id
  //   of several values    "tags.values"   i64 [n], the ids of all examples, one after the other
  //                        "tags.offsets"  i32 [B + 1]: example i has those from offsets[i] on, up
  //                                        to offsets[i + 1]
  //                        "tags.weights"  f32 [n], where values have weights
  //   the label            "label"         f32 [B]; "label.weight" f32 [B] where rows have weights
  // Errors: InvalidArgument for another name, listing those that there are.
  Output Column(const std::string& name);
  // What the worker that runs the function holds, by the result's name; none where there is one.
  Output Value(const PerWorkerValues& values, const std::string& name = "");
  Output Constant(Tensor value);
  Output Scalar(float value) { return Constant(Tensor::Scalar<float>(value)); }

  // --- state
  // The function reads the moving averages of variables that have them (Options::ema_decay of the
  // strategy), wherever it reads: for evaluation. Call it before or after the reads.
  void ReadAverages();
  // The whole variable (its shards, concatenated). Two reads of one variable become one.
  Output Read(const Variable& variable);
  // The whole table, for evaluation against all rows. Not for hash tables, which have no fixed
  // number of rows.
  Output Read(const EmbeddingTable& table);
  // Rows by id: ids i64 of any shape -> f32 [ids..., dim]. Each distinct row is sent once.
  Output Lookup(const EmbeddingTable& table, Output ids);
  // The same for several lists of ids at once: a row that is in two of them is sent once.
  std::vector<Output> Lookup(const EmbeddingTable& table, const std::vector<Output>& ids);
  // The distinct rows of all lists, f32 [u, dim], and for each list the places of its ids among
  // them, i32: for ops that take rows by place, such as PairDot.
  Output LookupUnique(const EmbeddingTable& table, const std::vector<Output>& ids,
                      std::vector<Output>* places);
  // One row per bag: values i64 [n] are cut into bags at offsets i32 [B + 1], and the rows of each
  // bag are combined, with weights f32 [n] if given -> f32 [B, dim]; zeros for an empty bag.
  // kSqrtN: their sum divided by the root of the sum of squared weights.
  Output LookupBag(const EmbeddingTable& table, Output values, Output offsets, Combiner combiner,
                   Output weights = {});
  // Updates. What the same function reads of a variable is its value before them, unless it is told
  // to wait for them (ControlDependencies).
  // Of a variable of several shards each takes its part once, but not all at the same moment.
  Operation Assign(const Variable& variable, Output value);
  Operation AssignAdd(const Variable& variable, Output value);
  // TensorFlow's assign_moving_average: variable = decay variable + (1 - decay) value, of what the
  // variable is when the update is applied, however many others came since the function has
  // read it. Of f32 and f64. Errors (sticky): InvalidArgument unless 0 <= decay < 1.
  Operation AssignMovingAverage(const Variable& variable, Output value, double decay);
  // Adds to one number and returns what it was before: no two closures get the same number, and one
  // that is tried again gets the one that it had, but anew after the loss of a PS. The closures of
  // a kSync step all get the number from before it; steps of kHybrid and of microbatches take no
  // such function (ClusterCoordinator::ScheduleStep). Once a variable and function. Errors
  // (sticky): InvalidArgument for a variable of several numbers.
  Output FetchAdd(const Variable& variable, Output value);
  // TensorFlow's tf.keras.metrics.Mean: the values are counted, or weighed by `weights`, once for
  // each step however often it is tried. Weights are of the values' shape, or of one that Mul
  // broadcasts to it. Errors (sticky): InvalidArgument for others.
  Operation Update(const MeanMetric& metric, Output values, Output weights = {});
  // TensorFlow's tf.keras.metrics.AUC, in the same way: labels and predictions of one shape, of f32
  // or f64. A label between 0 and 1 counts as a positive and a negative one, by its share. Errors
  // (sticky): InvalidArgument for other shapes; and the closure's for a prediction or a label that
  // is not from 0 to 1.
  Operation Update(const AucMetric& metric, Output labels, Output predictions, Output weights = {});
  // Rows by unique id are added, without an optimizer; one shard only: ids are its own rows.
  Operation ScatterAdd(const EmbeddingTable& table, Output ids, Output rows);

  // Gradients of `loss` (any shape: its sum) for every variable and table that the function has
  // read, or multiplied with, and that has an optimizer; one update per shard, placed where the
  // shard lives (of a table that is both looked up and used whole: two, which are clipped as two
  // gradients). Errors (sticky): InvalidArgument when the loss depends on none, and for a limit
  // that is not one; Unimplemented for a clip where a matrix is multiplied on the PS, whose
  // gradient no worker has. `clip` looks at the gradients of one step of one worker: a row that
  // several examples use has one, their sum, and how a table is cut into shards makes no
  // difference.
  Operation Minimize(Output loss, GradientClip clip = {});
  // What Minimize takes of `loss`, for a program that clips, masks or adds noise itself:
  //
  //   std::vector<VariableGradient> gradients = f.Gradients(loss);
  //   for (VariableGradient& g : gradients) g.values = f.Mul(g.values, f.Scalar(0.5));
  //   f.ApplyGradients(gradients);
  //
  // One for each variable and table that the loss depends on and that has an optimizer, whatever
  // its shards. Errors (sticky): as Minimize; Unimplemented for a product that parameter servers
  // make, and for a table that is used whole and whose rows do not follow one another.
  std::vector<VariableGradient> Gradients(Output loss);
  // The optimizers' updates by these. Errors (sticky): InvalidArgument for values of another shape,
  // a variable without optimizer, or one that comes twice.
  Operation ApplyGradients(const std::vector<VariableGradient>& gradients);
  // The learning rate of all updates that Minimize and ApplyGradients add after this, one f32 >= 0,
  // in place of the optimizers' own and their schedules. Read from a variable a program sets it for
  // all steps while they run (ParameterServerStrategy::Assign), and a checkpoint keeps it; an
  // argument is for one closure. Each update has the rate that its step has read; that of a
  // synchronous step is its first closure's. Errors (sticky): Unimplemented for a matrix that is
  // multiplied on the parameter servers.
  void LearningRate(Output rate);
  // By what Minimize's updates multiply the optimizers' learning rates, whatever their schedules
  // say: above 0. At first the strategy's (ParameterServerStrategy::set_learning_rate_factor).
  void set_learning_rate_factor(double factor);
  double learning_rate_factor() const;
  // d(sum of ys)/d(xs). An x that no y depends on gets an invalid output.
  // Errors (sticky): InvalidArgument when a path leads through an op without a gradient.
  std::vector<Output> Gradients(const std::vector<Output>& ys, const std::vector<Output>& xs);

  // What `body` adds runs when these are over, wherever they run; but for constants. So a Read in
  // it sees an update that it waits for, and whatever others have done by then: in each attempt of
  // the closure anew. It costs a round trip where all would go in one message. The updates of a
  // synchronous step are applied when the function has ended; nothing in it sees them.
  void ControlDependencies(const std::vector<Operation>& after, const std::function<void()>& body);

  // TensorFlow's tf.device. What `body` adds runs on "/device:CPU:0" of the worker, or on one of
  // its GPUs ("/device:GPU:1"; docs/gpu.md), as far as it can: what parameter servers do, and what
  // makes ids, runs where it must. Its gradients run there, too. "": as if no scope were around it.
  // Errors (sticky): InvalidArgument for another name. Define gives the error of a worker that does
  // not have the GPU: FailedPrecondition or InvalidArgument, naming the node.
  void Device(const std::string& device, const std::function<void()>& body);

  // --- operations
  Output Add(Output a, Output b) { return Op("Add", {a, b}); }
  Output Sub(Output a, Output b) { return Op("Sub", {a, b}); }
  Output Mul(Output a, Output b) { return Op("Mul", {a, b}); }
  Output Div(Output a, Output b) { return Op("Div", {a, b}); }
  Output Neg(Output a) { return Op("Neg", {a}); }
  Output Exp(Output a) { return Op("Exp", {a}); }
  Output Log(Output a) { return Op("Log", {a}); }
  Output Square(Output a) { return Op("Square", {a}); }
  Output Sqrt(Output a) { return Op("Sqrt", {a}); }
  Output Tanh(Output a) { return Op("Tanh", {a}); }
  Output Sigmoid(Output a) { return Op("Sigmoid", {a}); }
  Output Relu(Output a) { return Op("Relu", {a}); }
  Output MatMul(Output a, Output b, bool transpose_a = false, bool transpose_b = false) {
    return Op("MatMul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
  }
  // x w without reading w: each PS multiplies by its rows of w, and computes w's gradient as a
  // product too. With `transpose_w`, w is [out, in]: its shards are columns of w', and their
  // products are concatenated; else w is [in, out] and the products are added. For x [n, in], a
  // step sends about n (3 P in + 2 out) numbers, P being the number of PS; without `transpose_w`, n
  // (3 in + 2 S out), S being the number of shards (2 in place of 3 when x needs no gradient).
  // Read(w) and its gradient send 2 in out numbers. So this pays for a matrix that is large
  // compared with a batch, and moves the computation to the PS. The gradient of x uses the value of
  // w when the gradient arrives, which may include updates that other workers made since the
  // product was computed.
  Output MatMul(Output x, const Variable& w, bool transpose_w = false);
  // The same with a table's rows [rows, dim]: `transpose_table` gives the products of x [n, dim]
  // with all rows, [n, rows], for example the scores of all items. The PS copies its rows once.
  // Errors (sticky): InvalidArgument for a hash table, and without `transpose_table` for a table
  // whose shards are not ranges of rows: sharding "hash", or "mod" in several shards.
  Output MatMul(Output x, const EmbeddingTable& table, bool transpose_table);
  // The k best rows of a table for each row of x [n, dim], by the score x_i . w_j, and where they
  // stand among all: retrieval without reading the table. Each PS scores its own rows, in blocks,
  // and sends n k scores and ids, or n ranks. Errors (sticky): InvalidArgument for a hash table,
  // for a count above its rows, and for a bias of another shape. They have no gradient.
  struct TopCandidates {
    Output scores;  // f32 [n, k], best first; -infinity where there are fewer candidates
    Output ids;     // i64 [n, k]; -1 there
  };
  TopCandidates FactorizedTopK(Output x, const EmbeddingTable& table, int64_t k,
                               const CandidateOptions& options = {});
  // i64 [n]: how many candidates score at least as high as row ids[i], which is none of them; 0 is
  // best.
  // Where the id is no candidate itself: the number of candidates. A NaN ranks above every number,
  // and below everything where it is the row's own score.
  Output FactorizedRank(Output x, const EmbeddingTable& table, Output ids,
                        const CandidateOptions& options = {});
  // A dense layer in one pass: activation(x w + bias).
  Output Dense(Output x, Output w, Output bias,
               DenseActivation activation = DenseActivation::kNone) {
    return Op("FusedDense", {x, w, bias},
              {{"activation", activation == DenseActivation::kRelu ? "relu" : ""}});
  }
  Output RowDot(Output a, Output b) { return Op("RowDot", {a, b}); }
  Output Concat(const std::vector<Output>& parts, int axis) {
    return Op("Concat", parts, {{"axis", axis}});
  }
  Output Reshape(Output a, Shape shape) {
    return Op("Reshape", {a}, {{"shape", std::move(shape)}});
  }
  Output Transpose(Output a, std::vector<int64_t> perm) {
    return Op("Transpose", {a}, {{"perm", std::move(perm)}});
  }
  Output Gather(Output params, Output indices) { return Op("Gather", {params, indices}); }
  Output Cast(Output a, DType dtype) { return Op("Cast", {a}, {{"dtype", dtype}}); }
  // Over `axes`, or over everything.
  Output Sum(Output a, std::vector<int64_t> axes = {}) { return Reduce("ReduceSum", a, axes); }
  Output Mean(Output a, std::vector<int64_t> axes = {}) { return Reduce("ReduceMean", a, axes); }
  Output Max(Output a, std::vector<int64_t> axes = {}) { return Reduce("ReduceMax", a, axes); }
  Output Softmax(Output a) { return Op("Softmax", {a}); }
  Output SigmoidCrossEntropy(Output logits, Output labels) {
    return Op("SigmoidCrossEntropy", {logits, labels});
  }
  // Any op, by name (docs/ops.md); its first output. A random op without the attribute `seed` draws
  // other numbers than the others of its function. Errors (sticky): InvalidArgument for an
  // attribute that the op does not have.
  Output Op(const std::string& op, const std::vector<Output>& inputs, Attrs attrs = {});
  // All outputs of one that has `count` of them; so many invalid ones after an error. Errors
  // (sticky): as Op; InvalidArgument where it has another number.
  std::vector<Output> OpN(const std::string& op, const std::vector<Output>& inputs, Attrs attrs,
                          int count);

  // A result of the function, which ClusterCoordinator::Fetch finds by this name.
  void Result(const std::string& name, Output output);
  // Several under the names "group/name", which ClusterCoordinator::FetchGroup finds by the group.
  void Results(const std::string& group,
               const std::vector<std::pair<std::string, Output>>& outputs) {
    for (const auto& [name, output] : outputs) Result(group + "/" + name, output);
  }
  const TensorType& type(Output output) const;
  // Records an error: Define returns it, unless there was an earlier one.
  void Fail(absl::Status status);
  graph::GraphBuilder& graph();  // within Coxswain

 private:
  friend class ParameterServerStrategy;

  Output Reduce(const std::string& op, Output a, std::vector<int64_t> axes) {
    return Op(op, {a}, {{"axes", std::move(axes)}});
  }

  // The updates that `add` adds.
  Operation Updates(const std::function<void()>& add);
  void AddUpdates(Output loss, const GradientClip& clip);
  void AddGradientUpdates(const std::vector<VariableGradient>& gradients);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coxswain
