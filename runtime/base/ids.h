// The numbers that name things on the wire. All are plain integers there; here each has its own
// type name so that signatures say what they take.
#pragma once

#include <cstdint>

namespace coxswain {

using Epoch = uint64_t;        // one coordinator's hold on the cluster; newer is larger
using Incarnation = uint64_t;  // one life of a daemon, random
using ClosureId = uint64_t;    // unique in an epoch, from 1
using PlanId = uint32_t;       // unique in an epoch, from 1
using DatasetId = uint32_t;    // unique in an epoch, from 1
using ShardId = uint32_t;      // unique in an epoch, from 1
using Generation = uint64_t;   // of the cluster's layout: grows when a PS was lost

}  // namespace coxswain
