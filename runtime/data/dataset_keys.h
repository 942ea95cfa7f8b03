// What identifies data sets, and what draws their orders: the same in memory and streamed.
#pragma once

#include <cstdint>

#include "protos/dataset.pb.h"
#include "runtime/data/ticket.h"
#include "runtime/data/trained_rows.h"

namespace coxswain::data {

inline constexpr uint64_t kSampleStream = 3;
inline constexpr uint64_t kShuffleStream = 4;
inline constexpr uint64_t kGroupStream = 5;
inline constexpr uint64_t kNegativesStream = 6;

// The spec less what no batch depends on. Fields are written in the order of their numbers.
uint64_t HashSpec(proto::DatasetSpec spec);

// The same of what is in which part. What a model was trained on, from which training goes on,
// changes it only where parts are others because of that.
uint64_t HashParts(const proto::DatasetSpec& spec, SinceTraining since);

// Whether the part of a row may depend on those behind it.
bool PartsDependOnOthers(const proto::SplitSpec& split, bool is_text);

// Which features keep names, and which names they begin with: no batch depends on it, but what is
// collected does. 0: none does.
uint64_t HashNames(const proto::DatasetSpec& spec);

// What is drawn of an epoch of a ticket's part.
uint64_t StreamKey(uint64_t seed, uint64_t stream, const Ticket& ticket);

// The same for samples of lists: of validation, test and rows to predict it is the same one.
uint64_t SampleStreamKey(uint64_t seed, const Ticket& ticket);

}  // namespace coxswain::data
