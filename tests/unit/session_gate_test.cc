#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/cluster/session_gate.h"

namespace coxswain {
namespace {

const absl::Time kWall = absl::UnixEpoch() + absl::Hours(24 * 365 * 50);  // 2019-12-20

proto::HelloRequest Hello(Epoch epoch, const std::string& name = "host:1", double lease = 2) {
  proto::HelloRequest hello;
  hello.set_epoch(epoch);
  hello.set_name(name);
  hello.set_lease_seconds(lease);
  return hello;
}

ErrorCause CauseOf(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail ? detail->cause : ErrorCause::kUnknown;
}

absl::Duration At(double seconds) { return absl::Seconds(seconds); }

TEST_CASE("a free daemon takes the first coordinator and says that the epoch is new", "[gate]") {
  SessionGate gate;
  CHECK_FALSE(gate.held());
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(7, "alpha:12"), At(1), kWall, &fresh).ok());
  CHECK(fresh);
  CHECK(gate.held());
  CHECK(gate.epoch() == 7);
  CHECK(gate.highest_epoch() == 7);
  CHECK(gate.holder() == "alpha:12");
  CHECK(gate.since() == kWall);
  CHECK(gate.lease() == absl::Seconds(2));
}

TEST_CASE("the holder may say hello again without losing its session", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(7), At(1), kWall, &fresh).ok());
  REQUIRE(gate.Hello(Hello(7), At(2), kWall + absl::Seconds(1), &fresh).ok());
  CHECK_FALSE(fresh);
  CHECK(gate.since() == kWall);  // it has held it since then
  CHECK_FALSE(gate.Expired(At(4)));
  CHECK(gate.Expired(At(4.001)));  // the second hello renewed the lease
}

TEST_CASE("a second coordinator is refused while the first one's lease runs", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(7, "alpha:12", 3), At(1), kWall, &fresh).ok());
  fresh = false;
  const absl::Status refused = gate.Hello(Hello(8, "beta:34"), At(4), kWall, &fresh);
  INFO(refused.ToString());
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(CauseOf(refused) == ErrorCause::kClusterHeld);
  CHECK(absl::StrContains(refused.message(), "alpha:12"));
  CHECK(absl::StrContains(refused.message(), "2019-12-20"));
  CHECK(absl::StrContains(refused.message(), "3s"));
  CHECK_FALSE(fresh);
  CHECK(gate.holder() == "alpha:12");  // nothing has changed
  CHECK(gate.epoch() == 7);
  CHECK(gate.Check(7).ok());
}

TEST_CASE("a newer epoch takes over once the lease has run out", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(7, "alpha:12", 3), At(1), kWall, &fresh).ok());
  fresh = false;
  REQUIRE(gate.Hello(Hello(8, "beta:34"), At(4.01), kWall + At(3), &fresh).ok());
  CHECK(fresh);
  CHECK(gate.holder() == "beta:34");
  CHECK(gate.epoch() == 8);
  CHECK(gate.since() == kWall + At(3));
  CHECK(gate.Check(8).ok());
  CHECK(CauseOf(gate.Check(7)) == ErrorCause::kStaleEpoch);
}

TEST_CASE("messages of the holder renew its lease", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(7), At(0), kWall, &fresh).ok());
  for (int i = 1; i < 20; ++i) {
    CHECK_FALSE(gate.Expired(At(i)));
    gate.Renew(At(i));
    CHECK_FALSE(gate.Hello(Hello(8, "beta"), At(i + 1.5), kWall, &fresh).ok());
  }
  CHECK_FALSE(gate.Expired(At(21)));
  CHECK(gate.Expired(At(21.01)));
}

TEST_CASE("an epoch older than one seen is refused for ever", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(9, "new"), At(0), kWall, &fresh).ok());
  const auto refused = [&](double now) {
    const absl::Status status = gate.Hello(Hello(8, "old"), At(now), kWall, &fresh);
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(CauseOf(status) == ErrorCause::kStaleEpoch);
    CHECK(absl::StrContains(status.message(), "9"));
  };
  refused(0.5);
  refused(100);  // the lease ran out long ago
  gate.Release();
  refused(101);
  CHECK(gate.highest_epoch() == 9);
  REQUIRE(gate.Hello(Hello(9, "new"), At(102), kWall, &fresh).ok());  // the same one may return
  CHECK(fresh);                                                       // but what it left is gone
}

TEST_CASE("only the holder's epoch passes the check", "[gate]") {
  SessionGate gate;
  const absl::Status free = gate.Check(7);
  CHECK(CauseOf(free) == ErrorCause::kStaleEpoch);
  CHECK(absl::StrContains(free.message(), "no coordinator"));
  CHECK_FALSE(gate.Check(0).ok());
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(7), At(0), kWall, &fresh).ok());
  CHECK(gate.Check(7).ok());
  for (Epoch other : {Epoch{0}, Epoch{6}, Epoch{8}}) {
    const absl::Status status = gate.Check(other);
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(CauseOf(status) == ErrorCause::kStaleEpoch);
    CHECK(absl::StrContains(status.message(), absl::StrCat("epoch ", other)));
  }
}

TEST_CASE("a released daemon is free, and says once that it was held", "[gate]") {
  SessionGate gate;
  CHECK_FALSE(gate.Release());
  CHECK_FALSE(gate.Expired(At(1e6)));  // nobody's lease
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(7), At(0), kWall, &fresh).ok());
  CHECK(gate.Release());
  CHECK_FALSE(gate.Release());
  CHECK_FALSE(gate.held());
  CHECK_FALSE(gate.Check(7).ok());
  CHECK_FALSE(gate.Expired(At(100)));
  REQUIRE(gate.Hello(Hello(8, "next"), At(0.1), kWall, &fresh).ok());  // at once
  CHECK(fresh);
}

TEST_CASE("a lease that no sane coordinator asks for is bounded", "[gate]") {
  for (double lease :
       {0.0, -5.0, 1e-9, 1e300, std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    INFO(lease);
    SessionGate gate;
    bool fresh = false;
    REQUIRE(gate.Hello(Hello(7, "host:1", lease), At(0), kWall, &fresh).ok());
    CHECK(gate.lease() >= absl::Milliseconds(50));
    CHECK(gate.lease() <= absl::Hours(1));
    CHECK(gate.Expired(absl::Hours(1) + At(1)));
  }
}

}  // namespace
}  // namespace coxswain
