// Shards that tests make and update by hand.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "ps_server/shard.h"
#include "ps_server/shard_store.h"
#include "runtime/base/ids.h"

namespace coxswain::testing {

inline std::unique_ptr<ps::Shard> Make(const proto::ShardSpec& spec) {
  absl::StatusOr<std::unique_ptr<ps::Shard>> shard = ps::Shard::Create(spec);
  INFO(shard.status().ToString());
  REQUIRE(shard.ok());
  return *std::move(shard);
}

// As a segment of its own.
inline void Apply(ps::Shard* shard, const graph::Update& update, const ps::UpdateTime& time = {}) {
  const absl::Status valid = shard->Validate(update);
  INFO(valid.ToString());
  REQUIRE(valid.ok());
  REQUIRE(shard->Reserve(update.ids.num_elements()).ok());
  const graph::Update* one = &update;
  shard->ApplySegment(absl::MakeConstSpan(&one, 1), time);
}

// Of updates that have no use for the time, and leave nothing to chance.
inline ps::ClosureStep StepOf(ClosureId closure, uint32_t step = 0) {
  return {.closure = closure, .step = step, .seconds = 0, .seed = 0};
}

}  // namespace coxswain::testing
