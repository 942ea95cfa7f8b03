#include "runtime/cluster/session_gate.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::cluster {
namespace {

const absl::Time kWall = absl::UnixEpoch() + absl::Hours(24 * 365 * 50);  // 2019-12-20

// `expected`: the epoch that the daemon told of.
proto::HelloRequest Hello(const Session& session, Epoch expected,
                          const std::string& name = "host:1", double lease = 2) {
  proto::HelloRequest hello;
  hello.set_epoch(session.epoch);
  hello.set_nonce(session.nonce);
  hello.set_expected_epoch(expected);
  hello.set_name(name);
  hello.set_lease_seconds(lease);
  return hello;
}

ErrorCause CauseOf(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail ? detail->cause : ErrorCause::kUnknown;
}

absl::Duration At(double seconds) { return absl::Seconds(seconds); }

constexpr Session kFirst{7, 70}, kSecond{8, 80};

TEST_CASE("a free daemon takes the first coordinator and says that the session is new", "[gate]") {
  SessionGate gate;
  CHECK_FALSE(gate.held());
  CHECK(gate.epoch() == 0);
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(kFirst, 0, "alpha:12"), At(1), kWall, &fresh).ok());
  CHECK(fresh);
  CHECK(gate.held());
  CHECK(gate.epoch() == 7);
  CHECK(gate.session() == kFirst.id());
  CHECK(gate.holder() == "alpha:12");
  CHECK(gate.since() == kWall);
  CHECK(gate.lease() == absl::Seconds(2));
}

TEST_CASE("the holder may say hello again without losing its session", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(kFirst, 0), At(1), kWall, &fresh).ok());
  // Whatever it knew of before: a hello may come twice.
  for (const Epoch expected : {Epoch{0}, Epoch{7}}) {
    fresh = true;
    REQUIRE(gate.Hello(Hello(kFirst, expected), At(2), kWall + absl::Seconds(1), &fresh).ok());
    CHECK_FALSE(fresh);
  }
  CHECK(gate.since() == kWall);  // it has held it since then
  CHECK_FALSE(gate.Expired(At(4)));
  CHECK(gate.Expired(At(4.001)));  // the second hello renewed the lease
}

TEST_CASE("a second coordinator is refused while the first one's lease runs", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(kFirst, 0, "alpha:12", 3), At(1), kWall, &fresh).ok());
  fresh = false;
  for (const absl::Status& refused :
       {gate.Hello(Hello(kSecond, 7, "beta:34"), At(4), kWall, &fresh), gate.CheckFree(At(4))}) {
    INFO(refused.ToString());
    CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(CauseOf(refused) == ErrorCause::kClusterHeld);
    CHECK(absl::StrContains(refused.message(), "alpha:12"));
    CHECK(absl::StrContains(refused.message(), "2019-12-20"));
    CHECK(absl::StrContains(refused.message(), "3s"));
  }
  CHECK_FALSE(fresh);
  CHECK(gate.holder() == "alpha:12");  // nothing has changed
  CHECK(gate.Check(kFirst.id()).ok());
}

TEST_CASE("an impostor of the holder's epoch is refused: the nonce tells them apart", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(kFirst, 0, "alpha:12"), At(1), kWall, &fresh).ok());
  const Session impostor{kFirst.epoch, kFirst.nonce + 1};
  for (const Epoch expected : {Epoch{0}, Epoch{7}}) {
    const absl::Status refused =
        gate.Hello(Hello(impostor, expected, "beta:34"), At(2), kWall, &fresh);
    CHECK(CauseOf(refused) == ErrorCause::kClusterHeld);
    CHECK(absl::StrContains(refused.message(), "alpha:12"));
  }
  CHECK_FALSE(gate.Check(impostor.id()).ok());
  CHECK_FALSE(gate.Check(kFirst.epoch.number()).ok());  // an epoch alone names no session
  CHECK(gate.Check(kFirst.id()).ok());
}

TEST_CASE("another coordinator takes over once the lease has run out", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(kFirst, 0, "alpha:12", 3), At(1), kWall, &fresh).ok());
  fresh = false;
  CHECK(gate.CheckFree(At(4.01)).ok());
  REQUIRE(gate.Hello(Hello(kSecond, 7, "beta:34"), At(4.01), kWall + At(3), &fresh).ok());
  CHECK(fresh);
  CHECK(gate.holder() == "beta:34");
  CHECK(gate.epoch() == 8);
  CHECK(gate.since() == kWall + At(3));
  CHECK(gate.Check(kSecond.id()).ok());
  CHECK(CauseOf(gate.Check(kFirst.id())) == ErrorCause::kStaleEpoch);
}

TEST_CASE("messages of the holder renew its lease", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(kFirst, 0), At(0), kWall, &fresh).ok());
  for (int i = 1; i < 20; ++i) {
    CHECK_FALSE(gate.Expired(At(i)));
    gate.Renew(At(i));
    CHECK_FALSE(gate.Hello(Hello(kSecond, 7, "beta"), At(i + 1.5), kWall, &fresh).ok());
  }
  CHECK_FALSE(gate.Expired(At(21)));
  CHECK(gate.Expired(At(21.01)));
}

TEST_CASE("a coordinator that another one came after is refused for ever", "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(kFirst, 0, "old"), At(0), kWall, &fresh).ok());
  REQUIRE(gate.Hello(Hello(kSecond, 7, "new"), At(3), kWall, &fresh).ok());
  gate.Release();
  for (const Epoch expected : {Epoch{0}, Epoch{7}}) {  // what it can have been told
    const absl::Status status = gate.Hello(Hello(kFirst, expected, "old"), At(100), kWall, &fresh);
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(CauseOf(status) == ErrorCause::kStaleEpoch);
    CHECK(absl::StrContains(status.message(), "epoch 8"));
    CHECK(absl::StrContains(status.message(), "new"));
  }
  CHECK_FALSE(gate.held());
  REQUIRE(
      gate.Hello(Hello(kSecond, 7, "new"), At(102), kWall, &fresh).ok());  // that one may return
  CHECK(fresh);                                                            // what it left is gone
}

TEST_CASE("a coordinator whose epoch is lower takes a free daemon: no clock and no history decides",
          "[gate]") {
  SessionGate gate;
  bool fresh = false;
  REQUIRE(gate.Hello(Hello({1000, 1}, 0), At(0), kWall, &fresh).ok());
  gate.Release();
  fresh = false;
  REQUIRE(gate.Hello(Hello({3, 2}, 1000), At(1), kWall, &fresh).ok());
  CHECK(fresh);
  CHECK(gate.epoch() == 3);
}

TEST_CASE(
    "no epoch bricks a daemon: one that nobody chooses is refused, after each there is another",
    "[gate]") {
  SessionGate gate;
  bool fresh = false;
  for (const Epoch absurd :
       {Epoch{std::numeric_limits<Epoch>::max()}, Epoch{kMaxEpoch + 1}, Epoch{0}}) {
    CHECK(gate.Hello(Hello({absurd, 5}, 0), At(0), kWall, &fresh).code() ==
          absl::StatusCode::kInvalidArgument);
    CHECK_FALSE(gate.held());
    CHECK(gate.epoch() == 0);
  }
  // The highest that there may be, and then the next.
  REQUIRE(gate.Hello(Hello({kMaxEpoch, 5}, 0), At(0), kWall, &fresh).ok());
  gate.Release();
  const Session next{NextEpoch(gate.epoch()), 6};
  CHECK(next.epoch == 1);
  REQUIRE(gate.Hello(Hello(next, gate.epoch()), At(1), kWall, &fresh).ok());
  CHECK(NextEpoch(std::numeric_limits<Epoch>::max()) == 1);
  CHECK(NextEpoch(0) == 1);
  CHECK(NextEpoch(41) == 42);
}

TEST_CASE("only the holder's session passes the check", "[gate]") {
  SessionGate gate;
  const absl::Status free = gate.Check(kFirst.id());
  CHECK(CauseOf(free) == ErrorCause::kStaleEpoch);
  CHECK(absl::StrContains(free.message(), "no coordinator"));
  CHECK_FALSE(gate.Check(0).ok());
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(kFirst, 0), At(0), kWall, &fresh).ok());
  CHECK(gate.Check(kFirst.id()).ok());
  for (const SessionId other :
       {SessionId{0}, SessionId{7}, kSecond.id(), SessionId{kFirst.id() + 1}}) {
    const absl::Status status = gate.Check(other);
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(CauseOf(status) == ErrorCause::kStaleEpoch);
    CHECK_FALSE(absl::StrContains(status.message(), absl::StrCat(kFirst.id())));
  }
}

TEST_CASE("a released daemon is free, and says once that it was held", "[gate]") {
  SessionGate gate;
  CHECK_FALSE(gate.Release());
  CHECK_FALSE(gate.Expired(At(1e6)));  // nobody's lease
  bool fresh = false;
  REQUIRE(gate.Hello(Hello(kFirst, 0), At(0), kWall, &fresh).ok());
  CHECK(gate.Release());
  CHECK_FALSE(gate.Release());
  CHECK_FALSE(gate.held());
  CHECK_FALSE(gate.Check(kFirst.id()).ok());
  CHECK_FALSE(gate.Expired(At(100)));
  REQUIRE(gate.Hello(Hello(kSecond, 7, "next"), At(0.1), kWall, &fresh).ok());  // at once
  CHECK(fresh);
}

TEST_CASE("a lease that no sane coordinator asks for is bounded", "[gate]") {
  for (double lease :
       {0.0, -5.0, 1e-9, 1e300, std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    INFO(lease);
    SessionGate gate;
    bool fresh = false;
    REQUIRE(gate.Hello(Hello(kFirst, 0, "host:1", lease), At(0), kWall, &fresh).ok());
    CHECK(gate.lease() >= absl::Milliseconds(50));
    CHECK(gate.lease() <= absl::Hours(1));
    CHECK(gate.Expired(absl::Hours(1) + At(1)));
  }
}

}  // namespace
}  // namespace coxswain::cluster
