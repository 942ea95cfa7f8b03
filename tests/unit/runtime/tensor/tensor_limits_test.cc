// Shapes from outside: none passes that would make a sum of its dimensions overflow.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "protos/graph.pb.h"
#include "ps_server/lane_plan.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/cluster/control.h"
#include "runtime/env/compute_pool.h"
#include "runtime/function/executor.h"
#include "runtime/function/frame.h"
#include "runtime/function/partition.h"
#include "runtime/graph/serialize.h"
#include "runtime/tensor/limits.h"
#include "tests/testing/registry.h"

namespace coxswain {
namespace {

constexpr int64_t kHuge = (int64_t{1} << 62) + 1;

std::vector<Shape> BadShapes() {
  const int64_t most = std::numeric_limits<int64_t>::max();
  return {Shape{0, kHuge},
          Shape{kHuge, 0},
          Shape{0, int64_t{1} << 40, 2},
          Shape{int64_t{1} << 29, 0},
          Shape{int64_t{1} << 21, 0, int64_t{1} << 21},
          Shape{0, most, most},
          Shape{0, -1},
          Shape{-1, 0},
          Shape{0, std::numeric_limits<int64_t>::min()},
          Shape(std::vector<int64_t>(17, 0))};
}

TEST_CASE("a shape's product is bounded, whatever its zeros", "[limits]") {
  for (const Shape& shape : BadShapes()) {
    INFO(shape.ToString());
    CHECK(CheckedElements(shape).status().code() == absl::StatusCode::kInvalidArgument);
    CHECK_FALSE(AllocateTensor(DType::kF32, shape).ok());
    CHECK_THROWS_AS(Tensor(DType::kF32, shape), std::bad_alloc);
  }
  CHECK(*CheckedElements(Shape{}) == 1);
  CHECK(*CheckedElements(Shape{0, int64_t{1} << 28}) == 0);
  CHECK(*CheckedElements(Shape{3, 1, 5}) == 15);
  CHECK(CheckShape(Shape{kUnknownDim, 3}).ok());
  CHECK_FALSE(CheckShape(Shape{kUnknownDim, kHuge}).ok());
  CHECK_FALSE(CheckShape(Shape{-2}).ok());
  // More than the machine has, within the bounds.
  const auto tensor = AllocateTensor(DType::kF64, Shape{int64_t{1} << 40});
  CHECK(tensor.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(absl::StrContains(tensor.status().message(), "f64[1099511627776]"));
}

// A request whose only tensor has this dtype and shape, and these bytes.
net::Message FrameOf(DType dtype, const Shape& shape, const std::string& bytes) {
  net::Message message = function::Encode(function::SegmentRequest());
  message.header.resize(message.header.size() - sizeof(uint32_t));
  const uint32_t one = 1;
  message.header.append(reinterpret_cast<const char*>(&one), sizeof(one));
  message.header.push_back(static_cast<char>(dtype));
  message.header.push_back(static_cast<char>(shape.rank()));
  for (const int64_t d : shape.dims()) {
    message.header.append(reinterpret_cast<const char*>(&d), sizeof(d));
  }
  Buffer slice = Buffer::Allocate(bytes.size());
  std::memcpy(slice.data(), bytes.data(), bytes.size());
  message.payload.push_back(std::move(slice));
  return message;
}

TEST_CASE("a frame, a constant and a payload with such a shape are refused", "[limits]") {
  for (const Shape& shape : BadShapes()) {
    INFO(shape.ToString());
    const auto frame = function::DecodeSegmentRequest(FrameOf(DType::kF32, shape, ""));
    CHECK(frame.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(frame.status().message(), "frame: tensor 0"));
    proto::TensorProto constant;
    constant.set_dtype(static_cast<int>(DType::kF32));
    *constant.mutable_shape() = graph::ToProto(shape);
    CHECK(graph::FromProto(constant).status().code() == absl::StatusCode::kInvalidArgument);
    net::Message message;
    message.payload.push_back(Buffer::Allocate(0));
    CHECK_FALSE(
        cluster::PayloadTensor(message, static_cast<int>(DType::kF32), graph::ToProto(shape)).ok());
  }
  CHECK(function::DecodeSegmentRequest(FrameOf(DType::kF32, Shape{0, 7}, "")).ok());
  CHECK_FALSE(function::DecodeSegmentRequest(FrameOf(DType::kBool, Shape{2}, {'\1', '\2'})).ok());
  CHECK(function::DecodeSegmentRequest(FrameOf(DType::kBool, Shape{2}, {'\1', '\0'})).ok());
}

TEST_CASE("a safetensors file with such a shape is refused, and its values are read where they lie",
          "[limits]") {
  const auto parse = [](const std::string& header, const std::string& data, size_t offset) {
    const uint64_t length = header.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, sizeof(length));
    file += header + data;
    Buffer buffer = Buffer::Allocate(file.size() + offset);
    std::memcpy(static_cast<char*>(buffer.data()) + offset, file.data(), file.size());
    return checkpoint::SafetensorsFile::Parse(buffer.Slice(offset, file.size()), "f");
  };
  const auto header = [](const std::string& dtype, const std::string& shape, int bytes) {
    return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" +
           std::to_string(bytes) + "]}}";
  };
  for (const char* shape : {"[0,4611686018427387905]", "[4611686018427387905,0]", "[0,-1]",
                            "[0,18446744073709551615]"}) {
    INFO(shape);
    const auto file = parse(header("F32", shape, 0), "", 0);
    CHECK(file.status().code() == absl::StatusCode::kDataLoss);
  }
  const std::string deep(100'000, '['), ends(100'000, ']');
  CHECK(parse(header("F32", deep + ends, 0), "", 0).status().code() == absl::StatusCode::kDataLoss);
  const double value = 0.5;
  const std::string bytes(reinterpret_cast<const char*>(&value), sizeof(value));
  for (const size_t offset : {0, 1, 3}) {
    const auto file = parse(header("F64", "[1]", 8), bytes, offset);
    REQUIRE(file.ok());
    const auto tensor = file->Read("x");
    REQUIRE(tensor.ok());
    CHECK(tensor->data<double>()[0] == 0.5);
    CHECK(reinterpret_cast<uintptr_t>(tensor->raw()) % alignof(double) == 0);
  }
  const auto bools = parse(header("BOOL", "[1]", 1), "\2", 0);
  REQUIRE(bools.ok());
  CHECK_FALSE(bools->Read("x").ok());
}

// A node of a function from outside.
proto::NodeProto* AddNode(proto::FunctionProto* function, const std::string& op) {
  proto::NodeProto* node = function->mutable_graph()->add_nodes();
  node->set_op(op);
  return node;
}

void AddArgument(proto::FunctionProto* function, const std::vector<int64_t>& dims) {
  const int id = function->graph().nodes_size();
  proto::NodeProto* arg = AddNode(function, "Arg");
  auto& attrs = *arg->mutable_attrs();
  attrs["index"].set_i(function->arguments_size());
  attrs["dtype"].set_dtype(static_cast<int>(DType::kF32));
  attrs["shape"].mutable_shape();
  for (const int64_t d : dims) attrs["shape"].mutable_shape()->add_dims(d);
  auto* argument = function->add_arguments();
  argument->set_name("a" + std::to_string(id));
  argument->set_node(id);
}

std::string ErrorOf(const proto::FunctionProto& function) {
  const auto read = graph::FromProto(function, &testing::ClusterOps());
  return read.ok() ? "" : std::string(read.status().message());
}

TEST_CASE("shapes that shape inference would overflow on are an error of the function",
          "[limits]") {
  proto::FunctionProto huge;
  AddArgument(&huge, {kHuge});
  CHECK(absl::StrContains(ErrorOf(huge), "at most 2^40 elements"));

  proto::FunctionProto reshape;
  AddArgument(&reshape, {-1});
  proto::NodeProto* node = AddNode(&reshape, "Reshape");
  node->add_inputs(0);
  node->add_inputs(0);
  (*node->mutable_attrs())["shape"].mutable_shape()->add_dims(int64_t{1} << 62);
  CHECK(absl::StrContains(ErrorOf(reshape), "at most 2^40 elements"));

  proto::FunctionProto concat;
  AddArgument(&concat, {int64_t{1} << 40});
  node = AddNode(&concat, "Concat");
  for (int i = 0; i < 3; ++i) {
    node->add_inputs(0);
    node->add_inputs(0);
  }
  (*node->mutable_attrs())["axis"].set_i(0);
  CHECK(absl::StrContains(ErrorOf(concat), "at most 2^40 elements"));

  proto::FunctionProto split;
  AddArgument(&split, {-1});
  node = AddNode(&split, "Split");
  node->add_inputs(0);
  node->add_inputs(0);
  (*node->mutable_attrs())["axis"].set_i(0);
  for (int i = 0; i < 3; ++i) {
    (*node->mutable_attrs())["sizes"].mutable_ints()->add_values(int64_t{1} << 40);
  }
  CHECK(absl::StrContains(ErrorOf(split), "'sizes'"));

  // A few bytes that ask for very many outputs.
  proto::FunctionProto shards;
  node = AddNode(&shards, "UniqueShards");
  (*node->mutable_attrs())["shards"].set_i(int64_t{1} << 31);
  (*node->mutable_attrs())["rows"].set_i(8);
  (*node->mutable_attrs())["strategy"].set_s("mod");
  CHECK_FALSE(ErrorOf(shards).empty());
}

TEST_CASE("a function that has calls to parameter servers already is not partitioned", "[limits]") {
  const auto with_call = [](int64_t ps, int64_t segment) {
    proto::FunctionProto function;
    proto::NodeProto* call = AddNode(&function, function::kPsCallOp);
    auto& attrs = *call->mutable_attrs();
    attrs["ps"].set_i(ps);
    attrs["segment"].set_i(segment);
    for (const int64_t v : {1, 1, 4}) attrs["types"].mutable_ints()->add_values(v);
    AddNode(&function, "Neg")->add_inputs(0);
    function.mutable_graph()->mutable_nodes(1)->add_inputs(0);
    auto* result = function.add_results();
    result->set_name("r");
    result->set_node(1);
    return function;
  };
  const auto function = graph::FromProto(with_call(0, 0), &testing::ClusterOps());
  REQUIRE(function.ok());
  const auto partition = function::PartitionFunction(*function, 1, [](ShardId) { return 0; });
  CHECK(partition.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(partition.status().message(), "is a PsCall"));
  for (const int64_t bad : {int64_t{-1}, int64_t{1} << 31, kHuge}) {
    CHECK(absl::StrContains(ErrorOf(with_call(bad, 0)), "attribute 'ps'"));
    CHECK(absl::StrContains(ErrorOf(with_call(0, bad)), "attribute 'segment'"));
  }
}

TEST_CASE("a segment as deep as it is long is cut by lanes without deep recursion", "[limits]") {
  constexpr int kDepth = 200'000;
  graph::Function function("deep", &testing::ClusterOps());
  const auto add = [&](const std::string& op, std::vector<Output> inputs, Attrs attrs) {
    graph::Node node;
    node.op = op;
    node.inputs = std::move(inputs);
    node.attrs = std::move(attrs);
    const auto id = function.graph.Add(std::move(node));
    REQUIRE(id.ok());
    return *id;
  };
  int last = add("Arg", {}, {{"index", 0}, {"dtype", DType::kF32}, {"shape", Shape{2}}});
  function.arguments.push_back({"a", {DType::kF32, Shape{2}}, last});
  for (int i = 0; i < kDepth; ++i) last = add("Neg", {{last, 0}}, {});
  for (const int shard : {0, 1}) {
    function.targets.push_back(add("ApplyDense", {{last, 0}}, testing::ShardOf(shard)));
  }
  const auto compiled = function::CompiledFunction::Compile(std::move(function));
  REQUIRE(compiled.ok());
  const auto plan = ps::CutByLanes({*compiled}, [](ShardId id) { return static_cast<int>(id); });
  REQUIRE(plan.ok());
  REQUIRE((*plan)->segments[0].pieces.size() == 2);
  for (const ps::LanePiece& piece : (*plan)->segments[0].pieces) {
    CHECK(piece.function->function().graph.size() == kDepth + 2);
    CHECK(piece.inputs.size() == 1);
  }
}

TEST_CASE("memory that a part of a loop cannot have is thrown to the loop's caller", "[limits]") {
  const auto pool = env::NewComputePool(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> done(1000, 0);
    const absl::Status status = CatchAllocationErrors([&] {
      pool->ParallelFor(1000, 10, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) done[static_cast<size_t>(i)] = 1;
        if (begin <= round * 50 && round * 50 < end) throw std::bad_alloc();
      });
      return absl::OkStatus();
    });
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    // All other parts have run; none runs on after that.
    CHECK(std::count(done.begin(), done.end(), 1) == 1000);
  }
}

}  // namespace
}  // namespace coxswain
