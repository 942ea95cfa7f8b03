#include "coordinator/core/session_hold.h"

#include <catch2/catch.hpp>

namespace coxswain::core {
namespace {

constexpr uint64_t kNonce = 0xab;

TEST_CASE("a session is newer than any that a task knows, and no older than it must be",
          "[session]") {
  SessionHold hold(kNonce, /*least=*/5);
  CHECK(hold.id() == 0);
  CHECK(hold.Choose(0).epoch == 5);
  CHECK(hold.Choose(7).epoch == 8);  // another coordinator came in between
  CHECK(hold.session().nonce == kNonce);
  CHECK(hold.id() == hold.session().id());
  CHECK(SessionHold(kNonce, ~Epoch{0}).Choose(0).epoch == kMaxEpoch);
}

TEST_CASE("the cluster is taken once", "[session]") {
  SessionHold hold(kNonce, 0);
  hold.Choose(1);
  CHECK_FALSE(hold.taken());
  CHECK(hold.Take());
  CHECK_FALSE(hold.Take());
  CHECK(hold.taken());
}

}  // namespace
}  // namespace coxswain::core
