// Values that checkpoints and saved models depend on, and what is drawn: a change of any of them is
// a change of format.
#include <catch2/catch.hpp>

#include "runtime/base/id_hash.h"
#include "runtime/base/session_id.h"
#include "runtime/base/stable_hash.h"

namespace coxswain {
namespace {

TEST_CASE("Mix64 gives the numbers of splitmix64") {
  // The first numbers of the published generator from the state 0.
  CHECK(Mix64(0) == 0xe220a8397b1dcdafu);
  CHECK(Mix64(kSplitMixStep) == 0x6e789e6aa1b965f4u);
  CHECK(Mix64(2 * kSplitMixStep) == 0x06c45d188009454fu);
  CHECK(SplitMixFinish(0) == 0);
}

TEST_CASE("Fnv1a gives the published values") {
  CHECK(Fnv1a("") == 0xcbf29ce484222325u);
  CHECK(Fnv1a("a") == 0xaf63dc4c8601ec8cu);
  CHECK(Fnv1a("foobar") == 0x85944171f73967e8u);
  CHECK(Fnv1a("\xff") == 0xaf64724c8602eb6eu);  // a byte, not a signed char
}

TEST_CASE("ids and sessions hash as they always did") {
  CHECK(HashId(0) == 0xe220a8397b1dcdafu);
  CHECK(HashId(-1) == 0xe4d971771b652c20u);
  CHECK(HashShard(1, 1 << 16) == 0x910a);
  CHECK(Session{.epoch = 1, .nonce = 0}.id() == 0xe220a8397b1dcdafu);
  CHECK(Session{.epoch = 3, .nonce = 5}.id() == 0x3b92d3f0106bc147u);
}

}  // namespace
}  // namespace coxswain
