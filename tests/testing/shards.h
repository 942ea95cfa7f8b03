// Shards that tests make and update by hand.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "ps_server/shard.h"

namespace coxswain::testing {

inline std::unique_ptr<Shard> Make(const proto::ShardSpec& spec) {
  absl::StatusOr<std::unique_ptr<Shard>> shard = Shard::Create(spec);
  INFO(shard.status().ToString());
  REQUIRE(shard.ok());
  return *std::move(shard);
}

// As a segment of its own.
inline void Apply(Shard* shard, const Update& update, const UpdateTime& time = {}) {
  const absl::Status valid = shard->Validate(update);
  INFO(valid.ToString());
  REQUIRE(valid.ok());
  REQUIRE(shard->Reserve(update.ids.num_elements()).ok());
  const Update* one = &update;
  shard->ApplySegment(absl::MakeConstSpan(&one, 1), time);
}

}  // namespace coxswain::testing
