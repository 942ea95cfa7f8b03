#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/function/executor.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/serialize.h"
#include "tests/testing/interpreter.h"
#include "tests/testing/registry.h"

namespace coxswain::graph {
namespace {

using testing::ClusterOps;

// Every type of attribute, several outputs, control inputs, devices, targets.
Function Sample() {
  GraphBuilder b("sample", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{kUnknownDim, 3});
  Output n = b.Argument("n", DType::kI64, Shape{});
  Output weights =
      b.Constant(Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{3, 2}).value(), "w");
  Output product = b.Op("MatMul", {x, weights}, {{"transpose_a", false}, {"transpose_b", false}});
  const std::vector<Output> top = b.OpN("TopK", {product}, {{"k", 1}}, 2);
  Output noise = b.Op("RandomNormal", {}, {{"shape", Shape{2}}, {"stddev", 0.5}, {"seed", 7}});
  Output sum = b.Op("ReduceSum", {b.Op("Add", {product, noise})},
                    {{"axes", std::vector<int64_t>{0}}, {"keep_dims", true}});
  Output cast = b.Op("Cast", {n}, {{"dtype", DType::kF64}});
  {
    GraphBuilder::DeviceScope scope(&b, "/job:ps/task:0/device:CPU:0");
    b.Target("ApplyDense", {sum}, testing::ShardOf(0));
  }
  b.Result("top", top[1]);
  b.Result("sum", sum);
  b.Result("cast", cast);
  auto f = b.Finish();
  REQUIRE(f.ok());
  f->graph.mutable_node(f->targets[0])->control_inputs = {0, 1};
  f->graph.mutable_node(0)->attrs["labels"] = std::vector<std::string>{"a", std::string("\0b", 2)};
  return *std::move(f);
}

std::string Bytes(const Function& f) {
  // Maps of a protobuf have no order of their own.
  std::string text;
  proto::FunctionProto proto = ToProto(f);
  google::protobuf::io::StringOutputStream out(&text);
  google::protobuf::io::CodedOutputStream coded(&out);
  coded.SetSerializationDeterministic(true);
  proto.SerializeToCodedStream(&coded);
  coded.Trim();
  return text;
}

absl::Status ReadError(const proto::FunctionProto& proto) {
  return FromProto(proto, &ClusterOps()).status();
}

TEST_CASE("a function comes back from its protobuf as it was", "[serialize]") {
  const Function f = Sample();
  auto back = FromProto(ToProto(f), &ClusterOps());
  INFO(back.status().ToString());
  REQUIRE(back.ok());
  CHECK(back->name == f.name);
  REQUIRE(back->graph.size() == f.graph.size());
  for (int id = 0; id < f.graph.size(); ++id) {
    const Node &a = f.graph.node(id), &b = back->graph.node(id);
    INFO(a.name);
    CHECK(b.name == a.name);
    CHECK(b.op == a.op);
    CHECK(b.inputs == a.inputs);
    CHECK(b.control_inputs == a.control_inputs);
    CHECK(b.attrs == a.attrs);
    CHECK(b.device == a.device);
    CHECK(b.outputs == a.outputs);
  }
  REQUIRE(back->arguments.size() == 2);
  CHECK(back->arguments[0].name == "x");
  CHECK(back->arguments[0].type == f.arguments[0].type);
  REQUIRE(back->results.size() == 3);
  CHECK(back->results[0].output == f.results[0].output);
  CHECK(back->targets == f.targets);
  CHECK(Bytes(*back) == Bytes(f));
}

TEST_CASE("tensors of every dtype come back from their protobuf, also empty and absent ones",
          "[serialize]") {
  for (DType dtype :
       {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kBool, DType::kBF16}) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{0, 4}}) {
      Tensor t = Tensor::Zeros(dtype, shape);
      for (size_t i = 0; i < t.bytes(); ++i) static_cast<char*>(t.mutable_raw())[i] = char(i % 2);
      auto back = FromProto(ToProto(t));
      REQUIRE(back.ok());
      CHECK(AttrValue(*back) == AttrValue(t));
    }
  }
  auto none = FromProto(ToProto(Tensor()));
  REQUIRE(none.ok());
  CHECK_FALSE(none->has_value());
}

TEST_CASE("a tensor whose dtype, shape and content do not fit is an error", "[serialize]") {
  const auto error = [](int dtype, std::vector<int64_t> dims, size_t bytes) {
    proto::TensorProto proto;
    proto.set_dtype(dtype);
    for (int64_t d : dims) proto.mutable_shape()->add_dims(d);
    proto.set_content(std::string(bytes, 'x'));
    return FromProto(proto).status();
  };
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  CHECK(error(1, {2}, 8).ok());
  CHECK(error(1, {2}, 7).code() == absl::StatusCode::kInvalidArgument);
  CHECK(error(1, {}, 0).code() == absl::StatusCode::kInvalidArgument);
  CHECK(error(7, {1}, 4).code() == absl::StatusCode::kInvalidArgument);
  CHECK(error(-1, {1}, 4).code() == absl::StatusCode::kInvalidArgument);
  CHECK(error(1, {-1}, 4).code() == absl::StatusCode::kInvalidArgument);
  CHECK(error(1, {kHuge, kHuge}, 4).code() == absl::StatusCode::kInvalidArgument);
  CHECK(error(1, {int64_t{1} << 32, int64_t{1} << 30}, 0).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(error(1, {2}, 7).message(), "wanted 8 bytes, found 7"));
}

TEST_CASE("a function whose numbers lead nowhere is an error", "[serialize]") {
  const proto::FunctionProto good = ToProto(Sample());
  REQUIRE(ReadError(good).ok());
  const auto damaged = [&](const auto& damage) {
    proto::FunctionProto p = good;
    damage(&p);
    const absl::Status status = ReadError(p);
    INFO(status.ToString());
    CHECK_FALSE(status.ok());
    return std::string(status.message());
  };
  using P = proto::FunctionProto;
  const auto with_input = [](P* p) -> proto::NodeProto* {
    for (auto& n : *p->mutable_graph()->mutable_nodes()) {
      if (n.inputs_size() > 0) return &n;
    }
    return nullptr;
  };
  CHECK(absl::StrContains(damaged([&](P* p) { with_input(p)->mutable_inputs()->RemoveLast(); }),
                          "torn"));
  for (int bad : {-1, 9999, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    INFO(bad);
    damaged([&](P* p) { with_input(p)->set_inputs(0, bad); });
    damaged([&](P* p) { with_input(p)->set_inputs(1, bad); });
    damaged([&](P* p) { with_input(p)->add_control_inputs(bad); });
    damaged([&](P* p) { p->mutable_arguments(0)->set_node(bad); });
    damaged([&](P* p) { p->mutable_results(0)->set_node(bad); });
    damaged([&](P* p) { p->mutable_results(0)->set_output(bad); });
    damaged([&](P* p) { p->set_targets(0, bad); });
  }
  // An edge to the node itself or to a later one would be a cycle.
  damaged([&](P* p) { p->mutable_graph()->mutable_nodes(0)->add_control_inputs(0); });
  damaged([&](P* p) { with_input(p)->set_inputs(0, p->graph().nodes_size() - 1); });
  damaged([&](P* p) { p->mutable_graph()->mutable_nodes(0)->set_op("NoSuchOp"); });
  damaged([&](P* p) { p->mutable_graph()->mutable_nodes(0)->set_device("nowhere"); });
  damaged([&](P* p) { p->mutable_graph()->mutable_nodes(0)->clear_attrs(); });
}

// What an executor relies on: every Arg is one argument of the function, and nothing else is.
TEST_CASE("arguments that do not name each Arg node once are an error", "[serialize]") {
  const proto::FunctionProto good = ToProto(Sample());
  proto::FunctionProto missing = good;
  missing.mutable_arguments()->RemoveLast();
  CHECK_FALSE(ReadError(missing).ok());
  proto::FunctionProto twice = good;
  twice.mutable_arguments(1)->set_node(twice.arguments(0).node());
  CHECK_FALSE(ReadError(twice).ok());
  proto::FunctionProto other = good;
  for (int i = 0; i < good.graph().nodes_size(); ++i) {
    if (good.graph().nodes(i).op() == "Const") other.mutable_arguments(0)->set_node(i);
  }
  CHECK_FALSE(ReadError(other).ok());
}

TEST_CASE("impossible shapes in a function are an error", "[serialize]") {
  for (int64_t bad : {int64_t{-2}, std::numeric_limits<int64_t>::min()}) {
    proto::FunctionProto p = ToProto(Sample());
    auto& attrs = *p.mutable_graph()->mutable_nodes(0)->mutable_attrs();
    REQUIRE(attrs.count("shape") == 1);
    attrs["shape"].mutable_shape()->set_dims(0, bad);
    INFO(bad);
    const absl::Status status = ReadError(p);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "shape"));
  }
}

// Whatever a damaged function still is when it can be read, it can be compiled or refused.
void ReadAndCompile(const std::string& bytes, int* refused) {
  proto::FunctionProto p;
  if (!p.ParseFromString(bytes)) {
    ++*refused;
    return;
  }
  auto f = FromProto(p, &ClusterOps());
  if (!f.ok()) {
    ++*refused;
    return;
  }
  function::CompiledFunction::Compile(*std::move(f)).status().IgnoreError();
}

TEST_CASE("cut off and flipped bytes of a function never crash", "[serialize]") {
  const google::protobuf::LogSilencer quiet;
  const std::string good = Bytes(Sample());
  int refused = 0;
  for (size_t size = 0; size < good.size(); ++size) ReadAndCompile(good.substr(0, size), &refused);
  CHECK(refused > static_cast<int>(good.size()) / 2);
  refused = 0;
  std::mt19937_64 random(1);
  for (size_t i = 0; i < good.size(); ++i) {
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      ReadAndCompile(bad, &refused);
    }
  }
  CHECK(refused > static_cast<int>(good.size()));
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    ReadAndCompile(bad, &refused);
  }
}

// Flipped bytes mostly break the encoding. Here it stays whole and the numbers in it are wild.
TEST_CASE("wild numbers in a function's attributes never crash", "[serialize]") {
  const proto::FunctionProto good = ToProto(Sample());
  const std::vector<int64_t> wild = {-1,
                                     -2,
                                     0,
                                     1,
                                     2,
                                     1000000007,
                                     int64_t{1} << 40,
                                     std::numeric_limits<int64_t>::max(),
                                     std::numeric_limits<int64_t>::min()};
  int accepted = 0, refused = 0;
  for (int n = 0; n < good.graph().nodes_size(); ++n) {
    for (const auto& [name, value] : good.graph().nodes(n).attrs()) {
      for (int64_t w : wild) {
        for (int kind = 0; kind < 5; ++kind) {
          proto::FunctionProto p = good;
          auto& attr = (*p.mutable_graph()->mutable_nodes(n)->mutable_attrs())[name];
          attr.Clear();
          if (kind == 0) attr.set_i(w);
          if (kind == 1) attr.set_dtype(static_cast<int>(w));
          if (kind == 2) attr.mutable_ints()->add_values(w);
          if (kind >= 3) {
            for (int k = 2; k < kind; ++k) attr.mutable_shape()->add_dims(w);
          }
          auto f = FromProto(p, &ClusterOps());
          ++(f.ok() ? accepted : refused);
          if (f.ok()) {
            function::CompiledFunction::Compile(*std::move(f)).status().IgnoreError();
          }
        }
      }
    }
  }
  // Both kinds were met, and none ended the process.
  CHECK(accepted > 0);
  CHECK(refused > 0);
}

}  // namespace
}  // namespace coxswain::graph
