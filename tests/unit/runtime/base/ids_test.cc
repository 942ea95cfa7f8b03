// What the compiler refuses to take for the same thing.
#include "runtime/base/ids.h"

#include <catch2/catch.hpp>
#include <concepts>
#include <limits>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/session_id.h"

namespace coxswain {
namespace {

template <typename A, typename B>
concept Comparable = requires(A a, B b) {
  a == b;
};
template <typename A, typename B>
concept Ordered = requires(A a, B b) {
  a < b;
};

static_assert(std::is_convertible_v<uint32_t, PlanId> && std::is_convertible_v<PlanId, uint32_t>);
static_assert(!std::is_convertible_v<PlanId, ShardId> && !std::is_convertible_v<ShardId, PlanId>);
static_assert(!std::is_convertible_v<Epoch, SessionId> && !std::is_convertible_v<Epoch, ClosureId>);
static_assert(Comparable<PlanId, PlanId> && Comparable<PlanId, uint32_t> && Ordered<PlanId, int>);
static_assert(!Comparable<PlanId, ShardId> && !Ordered<PlanId, DatasetId>);
static_assert(!Comparable<Epoch, SessionId>);
static_assert(sizeof(PlanId) == 4 && sizeof(ClosureId) == 8);
static_assert(std::is_trivially_copyable_v<ClosureId>);

TEST_CASE("an id of one kind is no id of another, and a number to whoever counts or prints it") {
  PlanId plan = 7;
  CHECK(++plan == 8);
  CHECK(absl::StrCat("plan ", plan) == "plan 8");
  absl::flat_hash_map<PlanId, int> names;
  names[plan] = 1;
  CHECK(names.contains(8));
  CHECK(std::numeric_limits<PlanId>::max() == std::numeric_limits<uint32_t>::max());
}

}  // namespace
}  // namespace coxswain
