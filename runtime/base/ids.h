// The numbers that identify objects on the wire. They are plain integers there; here each kind is a
// separate type, so that a plan cannot be passed for a data set or an epoch for a closure.
#pragma once

#include <cstdint>
#include <limits>
#include <ostream>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain {

// A number of kind `Tag`. It converts implicitly from and to plain numbers, for the wire and
// counters. Different kinds neither convert to each other nor compare. It has the same bytes as
// `Number`.
template <typename Tag, typename Number>
class Id {
 public:
  constexpr Id() = default;
  constexpr Id(Number number) : number_(number) {}  // NOLINT: see above

  constexpr operator Number() const { return number_; }  // NOLINT: see above
  constexpr Number number() const { return number_; }

  constexpr Id& operator++() {
    ++number_;
    return *this;
  }
  constexpr Id operator++(int) { return number_++; }
  constexpr Id& operator+=(Number more) {
    number_ += more;
    return *this;
  }

  template <typename Hash>
  friend Hash AbslHashValue(Hash state, Id id) {
    return Hash::combine(std::move(state), id.number_);
  }
  // For absl::StrCat.
  operator absl::AlphaNum() const { return absl::AlphaNum(number_); }  // NOLINT: see above
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.number_; }

 private:
  Number number_ = 0;
};

// Ids of one kind are compared as numbers.
template <typename A, typename NumberA, typename B, typename NumberB>
requires(!std::is_same_v<A, B>) bool operator==(Id<A, NumberA>, Id<B, NumberB>) = delete;
template <typename A, typename NumberA, typename B, typename NumberB>
requires(!std::is_same_v<A, B>) bool operator<=>(Id<A, NumberA>, Id<B, NumberB>) = delete;

using Epoch =
    Id<struct EpochTag, uint64_t>;  // one coordinator's hold on the cluster; newer is larger
using Incarnation = Id<struct IncarnationTag, uint64_t>;  // one life of a daemon, random
using ClosureId = Id<struct ClosureTag, uint64_t>;        // unique in an epoch, from 1
using PlanId = Id<struct PlanTag, uint32_t>;              // unique in an epoch, from 1
using DatasetId = Id<struct DatasetTag, uint32_t>;        // unique in an epoch, from 1
using ValuesId = Id<struct ValuesTag, uint32_t>;          // unique in an epoch, from 1
using ShardId = Id<struct ShardTag, uint32_t>;            // unique in an epoch, from 1
// The generation of the cluster's layout: grows when a PS was lost.
using Generation = Id<struct GenerationTag, uint64_t>;

}  // namespace coxswain

template <typename Tag, typename Number>
class std::numeric_limits<coxswain::Id<Tag, Number>> : public std::numeric_limits<Number> {};
