// Manifests that were written when an OptimizerSpec had a field for each parameter.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/optimizers/optimizer_list.h"
#include "runtime/checkpoint/crc32.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/message_json.h"
#include "tests/testing/checkpoints.h"

namespace coxswain::checkpoint {
namespace {

// As they were written: every field, and 0 where the program had said nothing.
constexpr char kNothingSaid[] = R"({
  "kind": "", "learning_rate": 0.0, "momentum": 0.0, "nesterov": false, "beta1": 0.0, "beta2": 0.0,
  "epsilon": 0.0, "initial_accumulator": 0.0, "l1": 0.0, "l2": 0.0, "learning_rate_power": 0.0})";

// The optimizer of a manifest that has `json` as its first variable's.
absl::StatusOr<proto::OptimizerSpec> Read(const Json& json) {
  Json manifest = ParseJson(ToJson(SampleManifest(7)));
  manifest["shards"][0]["shard"]["variable"]["optimizer"] = json;
  manifest.erase("crc32");
  std::string text = manifest.dump(2);
  text.resize(text.size() - 2);
  const uint32_t crc = Crc32(0, text.data(), text.size());
  const auto read = ParseManifest(absl::StrCat(text, ",\n  \"crc32\": ", crc, "\n}\n"), "m");
  if (!read.ok()) return read.status();
  return read->shards[0].shard().variable().optimizer();
}

Json Old(const std::string& kind, const std::map<std::string, Json>& said) {
  Json json = ParseJson(kNothingSaid);
  json["kind"] = kind;
  json["learning_rate"] = 0.25;
  for (const auto& [field, value] : said) json[field] = value;
  return json;
}

template <typename O>
O MustRead(const std::map<std::string, Json>& said) {
  const absl::StatusOr<proto::OptimizerSpec> spec = Read(Old(O::kKind, said));
  INFO(spec.status().message());
  REQUIRE(spec.ok());
  CHECK(spec->kind() == O::kKind);
  const absl::StatusOr<O> optimizer = kernels::FromSpec<O>(*spec);
  INFO(optimizer.status().message());
  REQUIRE(optimizer.ok());
  CHECK(optimizer->learning_rate == 0.25);
  return *optimizer;
}

TEST_CASE("an older manifest's optimizer has the defaults of its time where it says 0",
          "[checkpoint]") {
  CHECK(MustRead<kernels::SgdOptimizer>({}).l2 == 0);
  CHECK(MustRead<kernels::MomentumOptimizer>({}).momentum == 0.9);
  CHECK_FALSE(MustRead<kernels::MomentumOptimizer>({}).nesterov);
  CHECK(MustRead<kernels::AdagradOptimizer>({}).initial_accumulator == 0.1);
  CHECK(MustRead<kernels::AdagradOptimizer>({}).epsilon == 1e-7);
  CHECK(MustRead<kernels::RowwiseAdagradOptimizer>({}).initial_accumulator == 0);
  CHECK(MustRead<kernels::RowwiseAdagradOptimizer>({}).epsilon == 1e-7);
  CHECK(MustRead<kernels::AdamOptimizer>({}).beta1 == 0.9);
  CHECK(MustRead<kernels::AdamOptimizer>({}).beta2 == 0.999);
  CHECK(MustRead<kernels::AdamOptimizer>({}).epsilon == 1e-7);
  CHECK(MustRead<kernels::LazyAdamOptimizer>({}).epsilon == 1e-7);
  CHECK(MustRead<kernels::FtrlOptimizer>({}).learning_rate_power == -0.5);
  CHECK(MustRead<kernels::FtrlOptimizer>({}).initial_accumulator == 0.1);
  CHECK(MustRead<kernels::FtrlOptimizer>({}).l1 == 0);
}

TEST_CASE("an older manifest's optimizer has the numbers that it names", "[checkpoint]") {
  const Momentum momentum =
      MustRead<kernels::MomentumOptimizer>({{"momentum", 1e-30}, {"nesterov", true}});
  CHECK(momentum.momentum == 1e-30);
  CHECK(momentum.nesterov);
  const LazyAdam adam = MustRead<kernels::LazyAdamOptimizer>(
      {{"beta1", 0.5}, {"beta2", 0.25}, {"epsilon", 1e-8}, {"l2", 0.125}});
  CHECK(adam.beta1 == 0.5);
  CHECK(adam.beta2 == 0.25);
  CHECK(adam.epsilon == 1e-8);
  CHECK(adam.l2 == 0.125);
  const Ftrl ftrl = MustRead<kernels::FtrlOptimizer>(
      {{"l1", 2}, {"l2", 3}, {"learning_rate_power", -0.75}, {"initial_accumulator", 1.5}});
  CHECK(ftrl.l1 == 2);
  CHECK(ftrl.l2 == 3);
  CHECK(ftrl.learning_rate_power == -0.75);
  CHECK(ftrl.initial_accumulator == 1.5);
}

TEST_CASE("an older manifest's variable without an optimizer has none", "[checkpoint]") {
  const absl::StatusOr<proto::OptimizerSpec> spec = Read(ParseJson(kNothingSaid));
  REQUIRE(spec.ok());
  CHECK(spec->ByteSizeLong() == 0);
}

TEST_CASE("an older manifest's schedule stays, and what is no number is told", "[checkpoint]") {
  const Json scheduled = Old("sgd", {{"schedule", {{"kind", "cosine_decay"}, {"decay_steps", 9}}}});
  CHECK(Read(scheduled)->schedule().decay_steps() == 9);
  const absl::Status text = Read(Old("adam", {{"beta1", "much"}})).status();
  CHECK(text.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(text.message()), Catch::Contains("wanted a number, found \"much\""));
  for (const Json& wrong : {Json("sgd"), Json::array({1}), Json({{"kind", 3}})}) {
    CHECK(Read(wrong).status().code() == absl::StatusCode::kDataLoss);
  }
  CHECK_FALSE(Read(Old("sgd", {{"rho", 0.5}})).ok());
}

TEST_CASE("a manifest of today says every parameter, and zero is zero", "[checkpoint]") {
  Manifest manifest = SampleManifest(7);
  *manifest.shards[0].mutable_shard()->mutable_variable()->mutable_optimizer() =
      OptimizerSpec(Adagrad{.learning_rate = 0.5, .initial_accumulator = 0, .epsilon = 0});
  const auto read = ParseManifest(ToJson(manifest), "m");
  REQUIRE(read.ok());
  const auto adagrad =
      kernels::FromSpec<kernels::AdagradOptimizer>(read->shards[0].shard().variable().optimizer());
  REQUIRE(adagrad.ok());
  CHECK(adagrad->learning_rate == 0.5);
  CHECK(adagrad->initial_accumulator == 0);
  CHECK(adagrad->epsilon == 0);
}

}  // namespace
}  // namespace coxswain::checkpoint
