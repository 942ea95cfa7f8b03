#include "coordinator/core/values_table.h"

#include <catch2/catch.hpp>

#include "runtime/cluster/control.h"
#include "runtime/graph/builder.h"
#include "tests/testing/registry.h"

namespace coxswain::core {
namespace {

graph::Function Twice() {
  graph::GraphBuilder b("twice", &testing::ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{kUnknownDim});
  b.Result("y", b.Op("Add", {x, x}));
  return *b.Finish();
}

TEST_CASE("a worker that comes is asked for all values, in order, with their arguments",
          "[values_table]") {
  ValuesTable values;
  values.Add(9, Twice(), {Tensor::FromVector<float>({1, 2, 3})});
  values.Add(2, Twice(), {Tensor::FromVector<float>({4})});
  const std::vector<RequestToWorker> requests = values.Requests();
  REQUIRE(requests.size() == 2);
  CHECK(requests[0].request.register_values().values() == 2);
  CHECK(requests[1].request.register_values().values() == 9);
  CHECK(requests[1].request.register_values().function().name() == "twice");
  net::Message message;
  message.payload = requests[1].payload;
  const auto& types = requests[1].request.register_values().arguments();
  const auto arguments = cluster::PayloadTensors(message, types);
  REQUIRE(arguments.ok());
  REQUIRE(arguments->size() == 1);
  CHECK((*arguments)[0].values<float>()[2] == 3);
  // What a peer sends need not fit.
  message.payload.clear();
  CHECK(absl::IsInvalidArgument(cluster::PayloadTensors(message, types).status()));
  message.payload.push_back(requests[1].payload[0].Slice(0, 8));
  CHECK(absl::IsInvalidArgument(cluster::PayloadTensors(message, types).status()));
}

TEST_CASE("values that were let go are unread when no plan has them for arguments",
          "[values_table]") {
  ValuesTable values;
  values.Add(1, Twice(), {});
  values.Add(2, Twice(), {});
  const auto none = [](ValuesId) { return false; };
  CHECK(values.Unread(none).empty());
  values.LetGo(1);
  values.LetGo(3);  // there are none
  CHECK(values.Unread([](ValuesId id) { return id == 1; }).empty());
  CHECK(values.Unread(none) == std::vector<ValuesId>{1});
  values.Remove(1);
  CHECK(values.Unread(none).empty());
  CHECK_FALSE(values.Has(1));
  CHECK(values.Has(2));
}

}  // namespace
}  // namespace coxswain::core
