// FunctionBuilder::Device, on workers with two fake GPUs, with one, and without.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "runtime/cluster/table_directory.h"
#include "runtime/device/open_devices.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

// What parameter servers that are made while it lives are told.
class TablesIn {
 public:
  explicit TablesIn(const std::string& directory) {
    setenv(cluster::kTableDirectoryVariable, directory.c_str(), 1);
  }
  ~TablesIn() { unsetenv(cluster::kTableDirectoryVariable); }
};

// What workers that are made while it lives have.
class Gpus {
 public:
  explicit Gpus(const char* gpus) { setenv(device::kGpusVariable, gpus, 1); }
  ~Gpus() { unsetenv(device::kGpusVariable); }
};

// Two layers over rows of a table; `lower` and `upper` are where they are computed.
struct Program {
  Program(const std::string& lower, const std::string& upper)
      : strategy(MustStart(2, 1, /*in_flight=*/1)) {
    table = Must(strategy.CreateTable(
        "table", {.rows = 6, .dim = 2, .optimizer = Adagrad{.learning_rate = 0.1f}}));
    weights = Must(strategy.CreateVariable(
        "weights", {.shape = Shape{2, 1}, .optimizer = Sgd{.learning_rate = 0.1f}}));
    Must(strategy.Assign(weights, Floats({0.5f, -0.25f}).Reshaped(Shape{2, 1})));
    step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
      const Output ids = f.Constant(Tensor::FromVector<int64_t>({0, 5, 3, 5}));
      Output hidden, loss;
      f.Device(lower, [&] { hidden = f.Tanh(f.Lookup(table, ids)); });
      f.Device(upper, [&] {
        loss = f.Sum(f.Square(f.Sub(f.MatMul(hidden, f.Read(weights)), f.Constant(Floats({1})))));
      });
      f.Minimize(loss);
      f.Result("loss", loss);
    }));
  }
  std::vector<float> Losses() {
    ClusterCoordinator coordinator(strategy);
    std::vector<float> losses;
    for (int i = 0; i < 5; ++i) {
      losses.push_back(ToVector<float>(Must(coordinator.Schedule(step).Get())[0])[0]);
    }
    return losses;
  }

  ParameterServerStrategy strategy;
  EmbeddingTable table;
  Variable weights;
  RemoteFunction step;
};

TEST_CASE("a step whose layers are on two GPUs learns what it learns on the CPU", "[api][device]") {
  const std::vector<float> wanted = Program("", "").Losses();
  CHECK(wanted.back() < wanted.front());
  const Gpus gpus("fake:2");
  CHECK(Program("/device:GPU:0", "/device:GPU:1").Losses() == wanted);
  CHECK(Program("/device:GPU:1", "/device:CPU:0").Losses() == wanted);
}

TEST_CASE("all of a function may be in one scope: what makes ids and what servers do is elsewhere",
          "[api][device]") {
  const Gpus gpus("fake:2");
  ParameterServerStrategy strategy(MustStart(2, 1));
  const EmbeddingTable table = Must(strategy.CreateTable(
      "table", {.rows = 6, .dim = 2, .optimizer = Sgd{.learning_rate = 0.5f}}));
  const Tensor twos = Floats(std::vector<float>(12, 2)).Reshaped(Shape{6, 2});
  Must(strategy.Assign(table, twos));
  const Variable count = Must(strategy.CreateVariable("count", {.shape = Shape{1}}));
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
    f.Device("/device:GPU:1", [&] {
      const Output ids = f.Constant(Tensor::FromVector<int64_t>({0, 5, 3}));
      const Output one = f.Constant(Tensor::FromVector<int64_t>({0, 0, 1}));
      const Output x = f.Argument("x", DType::kF32, Shape{});
      const Output loss = f.Sum(f.Mul(f.Lookup(table, f.Add(ids, one)), x));
      f.Minimize(loss);
      f.AssignAdd(count, f.Constant(Floats({1})));
      f.Result("loss", loss);
      f.Result("ids", ids);
    });
  }));
  ClusterCoordinator coordinator(strategy);
  const std::vector<Tensor> results =
      Must(coordinator.Schedule(step, {Tensor::Scalar<float>(3)}).Get());
  CHECK(ToVector<float>(results[0]) == std::vector<float>{36});
  CHECK(ToVector<int64_t>(results[1]) == std::vector<int64_t>{0, 5, 3});
  CHECK(ToVector<float>(Must(strategy.Read(count))) == std::vector<float>{1});
  CHECK(ToVector<float>(Must(strategy.Read(table))) ==
        std::vector<float>{0.5, 0.5, 2, 2, 2, 2, 2, 2, 0.5, 0.5, 0.5, 0.5});
}

TEST_CASE("a function for a GPU that a worker does not have is refused, with its node",
          "[api][device]") {
  const auto [gpus, says] = GENERATE(
      std::pair("none", "(Neg): wanted on /device:GPU:1, but there is no GPU"),
      std::pair("fake:1", "device /device:GPU:1 is asked for, but there is one GPU, GPU:0"));
  const Gpus there(gpus);
  ParameterServerStrategy strategy(MustStart(1, 1));
  const absl::Status refused =
      strategy
          .Define("step",
                  [&](FunctionBuilder& f) {
                    const Output x = f.Argument("x", DType::kF32, Shape{2});
                    f.Device("/device:GPU:1", [&] { f.Result("y", f.Neg(x)); });
                  })
          .status();
  INFO(refused.ToString());
  CHECK(absl::StrContains(refused.message(), "function 'step'"));
  CHECK(absl::StrContains(refused.message(), says));
}

TEST_CASE(
    "a table in the GPU's memory or on disk learns what it learns on the host, whatever its rows "
    "travel as",
    "[api][device]") {
  const DType wire = GENERATE(DType::kF32, DType::kBF16);
  const Gpus gpus("fake");
  const DataFiles disk;
  const TablesIn directory(disk.Path(""));
  const auto losses = [wire](TableDevice device) {
    ParameterServerStrategy strategy(MustStart(1, 1, /*in_flight=*/1));
    const EmbeddingTable table =
        Must(strategy.CreateTable("table", {.rows = 6,
                                            .dim = 2,
                                            .initializer = UniformInit(-1, 1, 3),
                                            .optimizer = Adagrad{.learning_rate = 0.1f},
                                            .wire_dtype = wire,
                                            .device = device}));
    const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
      const Output ids = f.Constant(Tensor::FromVector<int64_t>({0, 5, 3, 5}));
      const Output loss = f.Sum(f.Square(f.Sub(f.Lookup(table, ids), f.Constant(Floats({1})))));
      f.Minimize(loss);
      f.Result("loss", loss);
    }));
    ClusterCoordinator coordinator(strategy);
    std::vector<float> all;
    for (int i = 0; i < 5; ++i) {
      all.push_back(ToVector<float>(Must(coordinator.Schedule(step).Get())[0])[0]);
    }
    return all;
  };
  const std::vector<float> wanted = losses(TableDevice::kCpu);
  CHECK(wanted.back() < wanted.front());
  CHECK(losses(TableDevice::kGpu) == wanted);
  CHECK(losses(TableDevice::kDisk) == wanted);
}

TEST_CASE("rows on disk take what is added to them beside gradients", "[api][device]") {
  const DataFiles disk;
  const TablesIn directory(disk.Path(""));
  ParameterServerStrategy strategy(MustStart(1, 1));
  const EmbeddingTable table = Must(strategy.CreateTable(
      "table",
      {.rows = 3, .dim = 2, .optimizer = Sgd{.learning_rate = 1}, .device = TableDevice::kDisk}));
  const RemoteFunction add = Must(strategy.Define("add", [&](FunctionBuilder& f) {
    const Output ids = f.Constant(Tensor::FromVector<int64_t>({1}));
    f.ScatterAdd(table, ids, f.Constant(Floats({1, 2}).Reshaped(Shape{1, 2})));
  }));
  const std::vector<float> before = ToVector<float>(Must(strategy.Read(table)));
  ClusterCoordinator coordinator(strategy);
  for (int i = 0; i < 3; ++i) coordinator.Schedule(add);
  Must(coordinator.Join());
  const std::vector<float> after = ToVector<float>(Must(strategy.Read(table)));
  CHECK(after[2] == Approx(before[2] + 3));
  CHECK(after[3] == Approx(before[3] + 6));
  CHECK(after[0] == before[0]);
}

TEST_CASE("what a table in the GPU's memory cannot do is an error of the function's definition",
          "[api][device]") {
  const Gpus gpus("fake");
  ParameterServerStrategy strategy(MustStart(1, 1));
  const EmbeddingTable table = Must(strategy.CreateTable(
      "table",
      {.rows = 6, .dim = 2, .optimizer = Sgd{.learning_rate = 1}, .device = TableDevice::kGpu}));
  const absl::Status scattered =
      strategy
          .Define("f",
                  [&](FunctionBuilder& f) {
                    const Output ids = f.Constant(Tensor::FromVector<int64_t>({1}));
                    f.ScatterAdd(table, ids, f.Constant(Floats({1, 2}).Reshaped(Shape{1, 2})));
                  })
          .status();
  CHECK(
      absl::StrContains(scattered.message(), "ScatterAdd: table 'table' is in the memory of GPUs"));
  const absl::Status multiplied =
      strategy
          .Define("g",
                  [&](FunctionBuilder& f) {
                    const Output x = f.Constant(Floats({1, 2}).Reshaped(Shape{1, 2}));
                    f.Minimize(f.Sum(f.MatMul(x, table, /*transpose_table=*/true)));
                  })
          .status();
  INFO(multiplied.ToString());
  CHECK(absl::StrContains(multiplied.message(), "a gradient of all rows: table 'table'"));
}

TEST_CASE("a device that is none is an error of the function's definition", "[api][device]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const auto define = [&](const std::string& device, const std::function<void()>& body) {
    return strategy.Define("f", [&](FunctionBuilder& f) { f.Device(device, body); }).status();
  };
  for (const char* wrong :
       {"gpu", "/device:TPU:0", "/job:ps/task:0", "/task:1/device:GPU:0", "/device:CPU:1"}) {
    const absl::Status status = define(wrong, [] {});
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), wrong));
  }
  CHECK(absl::StrContains(define("/device:GPU:0", nullptr).message(), "wanted a function"));
}

}  // namespace
}  // namespace coxswain
