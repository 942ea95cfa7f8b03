// Per-worker values on a worker, among a coordinator and parameter servers that the test plays.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/serialize.h"
#include "tests/testing/one_worker.h"

namespace coxswain::worker {
namespace {

using namespace testing;

struct World : OneWorker {
  World() { SetUp(); }
  void Connect(Epoch epoch, Epoch expected) {
    proto::ControlRequest goodbye;
    goodbye.mutable_end_session();
    coordinator->Must(goodbye);
    coordinator = std::make_unique<FakeCoordinator>(transport.get(), "worker", epoch, expected);
    SetUp();
  }
  void SetUp() const {
    proto::ControlRequest request;
    request.mutable_setup_worker()->set_generation(1);
    coordinator->Must(request);
  }
};

// {10, 20, 30} at `at`.
proto::ControlRequest Values(ValuesId id, int64_t at) {
  graph::GraphBuilder b("three", &ClusterOps());
  const Output all = b.Constant(Tensor::FromVector<float>({10, 20, 30}));
  b.Result("one", b.Op("Gather", {all, b.Constant(Tensor::FromVector<int64_t>({at}))}));
  proto::ControlRequest request;
  request.mutable_register_values()->set_values(id);
  *request.mutable_register_values()->mutable_function() = graph::ToProto(*b.Finish());
  return request;
}

// The closure's own argument plus the first of the values.
proto::ControlRequest Plan(PlanId id, ValuesId values, int result = 0) {
  graph::GraphBuilder b("sum", &ClusterOps());
  const Output held = b.Argument("held", DType::kF32, Shape{1});
  const Output own = b.Argument("own", DType::kF32, Shape{1});
  b.Result("sum", b.Op("Add", {held, own}));
  proto::ControlRequest request;
  request.mutable_register_plan()->set_plan(id);
  *request.mutable_register_plan()->mutable_worker() = graph::ToProto(*b.Finish());
  proto::ArgumentSource* source = request.mutable_register_plan()->add_sources();
  source->set_values(values);
  source->set_result(result);
  request.mutable_register_plan()->add_sources();
  return request;
}

function::ClosureRequest Closure(ClosureId id, float own) {
  function::ClosureRequest closure;
  closure.closure = id;
  closure.plan = 1;
  closure.attempt = 1;
  closure.arguments.push_back(Tensor::FromVector<float>({own}));
  return closure;
}

proto::ControlRequest Release(ValuesId id) {
  proto::ControlRequest release;
  release.mutable_release_values()->set_values(id);
  return release;
}

TEST_CASE("a closure takes what the worker holds beside its own arguments", "[worker]") {
  World w;
  w.coordinator->Must(Values(3, 1));
  w.coordinator->Must(Values(3, 1));  // may come again
  w.coordinator->Must(Plan(1, 3));
  for (const float own : {1.0f, 2.0f}) {
    w.coordinator->Run(Closure(static_cast<ClosureId>(own), own));
    const function::ClosureReply done = w.coordinator->TakeDone();
    REQUIRE(done.status.ok());
    CHECK(done.results[0].values<float>()[0] == 20 + own);
  }
}

// Keeps all threads of the pool busy until it goes.
class Block {
 public:
  explicit Block(env::ComputePool* pool) {
    for (int i = 0; i < pool->threads(); ++i) {
      pool->Schedule([over = over_] { over->WaitForNotification(); });
    }
  }
  ~Block() { over_->Notify(); }

 private:
  const std::shared_ptr<absl::Notification> over_ = std::make_shared<absl::Notification>();
};

TEST_CASE("a closure that comes before the values are made waits for them, or is cancelled",
          "[worker]") {
  World w;
  uint64_t made = 0, again = 0;
  {
    const Block block(w.env.pool());
    made = w.coordinator->Ask(Values(3, 2));
    again = w.coordinator->Ask(Values(3, 2));
    w.coordinator->Must(Plan(1, 3));  // the two before it are not answered
    for (const ClosureId id : {1, 2}) w.coordinator->Run(Closure(id, 1));
    proto::ControlRequest cancel;
    cancel.mutable_cancel_closures()->add_closures(2);
    w.coordinator->Must(cancel);
    const function::ClosureReply cancelled = w.coordinator->TakeDone();
    CHECK(cancelled.closure == 2);
    CHECK(CauseOf(cancelled.status) == ErrorCause::kCancelled);
    CHECK(w.coordinator->no_data());
  }
  CHECK(w.coordinator->TakeReply().request() == made);
  CHECK(w.coordinator->TakeReply().request() == again);
  const function::ClosureReply done = w.coordinator->TakeDone();
  CHECK(done.closure == 1);
  REQUIRE(done.status.ok());
  CHECK(done.results[0].values<float>()[0] == 31);
}

TEST_CASE("values that are arguments, or parts of them, keep none of the memory that brought these",
          "[worker]") {
  constexpr int64_t kCount = 8192;
  World w;
  graph::GraphBuilder b("same", &ClusterOps());
  const Output all = b.Argument("all", DType::kF32, Shape{kCount});
  b.Result("all", all);
  b.Result("half", b.Op("Reshape", {all}, {{"shape", Shape{2, kCount / 2}}}));
  b.Result("twice", b.Op("Add", {all, all}));
  auto function = b.Finish();
  INFO(function.status());
  REQUIRE(function.ok());
  proto::ControlRequest request;
  proto::RegisterValues& values = *request.mutable_register_values();
  values.set_values(3);
  *values.mutable_function() = graph::ToProto(*function);
  values.add_arguments()->set_dtype(static_cast<int>(DType::kF32));
  values.mutable_arguments(0)->mutable_shape()->add_dims(kCount);
  absl::Notification given_back;
  const Buffer memory = Buffer::Allocate(kCount * sizeof(float));
  std::fill_n(static_cast<float*>(memory.data()), kCount, 5.0f);
  w.coordinator->Ask(request, {Buffer::Wrap(memory.data(), memory.size(), Device{},
                                            [&given_back] { given_back.Notify(); })});
  CHECK(cluster::FromProto(w.coordinator->TakeReply().status()).ok());
  CHECK(given_back.WaitForNotificationWithTimeout(kWorkerPatience));
  std::fill_n(static_cast<float*>(memory.data()), kCount, -1.0f);
  // As they were.
  for (const auto& [result, wanted] : {std::pair(0, 5.0f), {1, 5.0f}, {2, 10.0f}}) {
    const PlanId plan = static_cast<uint32_t>(result + 1);
    graph::GraphBuilder first("first", &ClusterOps());
    first.Result("first",
                 first.Op("Reshape",
                          {first.Argument("held", DType::kF32,
                                          result == 1 ? Shape{2, kCount / 2} : Shape{kCount})},
                          {{"shape", Shape{kCount}}}));
    proto::ControlRequest take;
    take.mutable_register_plan()->set_plan(plan);
    *take.mutable_register_plan()->mutable_worker() = graph::ToProto(*first.Finish());
    take.mutable_register_plan()->add_sources()->set_values(3);
    take.mutable_register_plan()->mutable_sources(0)->set_result(result);
    w.coordinator->Must(take);
    function::ClosureRequest closure;
    closure.closure = static_cast<uint64_t>(result + 1);
    closure.attempt = 1;
    closure.plan = plan;
    w.coordinator->Run(std::move(closure));
    const function::ClosureReply done = w.coordinator->TakeDone();
    INFO(done.status);
    REQUIRE(done.status.ok());
    CHECK(done.results[0].values<float>()[kCount - 1] == wanted);
  }
}

TEST_CASE("values that cannot be made are an error that names function and worker", "[worker]") {
  World w;
  const absl::Status failed = w.StatusOf(Values(3, 5));
  CHECK_THAT(std::string(failed.message()), Catch::Matchers::Contains("'three'"));
  CHECK_THAT(std::string(failed.message()), Catch::Matchers::Contains("/job:worker/task:4"));
  CHECK(CauseOf(failed) == ErrorCause::kApplication);
  CHECK(TaskOf(failed) == "/job:worker/task:4");
  w.coordinator->Must(Plan(1, 3));
  w.coordinator->Run(Closure(1, 1));
  CHECK_THAT(std::string(w.coordinator->TakeDone().status.message()),
             Catch::Matchers::Contains("'three'"));
  w.coordinator->Must(Values(3, 0));  // tried again
  w.coordinator->Run(Closure(2, 1));
  CHECK(w.coordinator->TakeDone().status.ok());
}

TEST_CASE("wrong requests for values are refused", "[worker]") {
  World w;
  proto::ControlRequest more = Values(3, 0);
  more.mutable_register_values()->add_arguments()->set_dtype(1);
  CHECK(absl::IsInvalidArgument(w.StatusOf(more)));  // without a payload
  proto::ControlRequest torn = Values(3, 0);
  torn.mutable_register_values()->mutable_function()->mutable_graph()->mutable_nodes(0)->set_op(
      "None");
  CHECK_FALSE(w.StatusOf(torn).ok());
  proto::ControlRequest negative = Plan(1, 3, -1);
  CHECK(absl::IsInvalidArgument(w.StatusOf(negative)));
  // A result that is not there.
  w.coordinator->Must(Values(3, 0));
  w.coordinator->Must(Plan(1, 3, 1));
  w.coordinator->Run(Closure(1, 1));
  CHECK(absl::IsInvalidArgument(w.coordinator->TakeDone().status));
}

TEST_CASE("values go when they are released, and with the session", "[worker]") {
  World w;
  w.coordinator->Must(Values(3, 1));
  w.coordinator->Must(Plan(1, 3));
  w.coordinator->Must(Release(3));
  w.coordinator->Must(Release(3));  // may come again
  w.coordinator->Run(Closure(1, 1));
  CHECK(w.coordinator->TakeDone().status.code() == absl::StatusCode::kNotFound);
  w.coordinator->Must(Values(4, 1));
  w.Connect(World::kEpoch + 1, World::kEpoch);
  w.coordinator->Must(Plan(1, 4));
  w.coordinator->Run(Closure(1, 1));
  CHECK(w.coordinator->TakeDone().status.code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace coxswain::worker
