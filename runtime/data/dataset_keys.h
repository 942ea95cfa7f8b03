// What identifies data sets, and what draws their orders: the same in memory and streamed.
#pragma once

#include <cstdint>

#include "protos/dataset.pb.h"
#include "runtime/data/ticket.h"

namespace coxswain::data {

inline constexpr uint64_t kSampleStream = 3;
inline constexpr uint64_t kShuffleStream = 4;
inline constexpr uint64_t kGroupStream = 5;

// The spec less what no batch depends on. Fields are written in the order of their numbers.
uint64_t HashSpec(proto::DatasetSpec spec);

// Which features keep names, and which names they begin with: no batch depends on it, but what is
// collected does. 0: none does.
uint64_t HashNames(const proto::DatasetSpec& spec);

// What is drawn of an epoch of a ticket's part.
uint64_t StreamKey(uint64_t seed, uint64_t stream, const Ticket& ticket);

}  // namespace coxswain::data
