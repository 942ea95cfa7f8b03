#include "runtime/base/mistake.h"

#include <catch2/catch.hpp>

#include "runtime/base/status.h"

namespace coxswain {
namespace {

TEST_CASE("a store that does not answer is not the user's mistake, what is in a file is") {
  CHECK(AsMistake(absl::OkStatus()).ok());
  for (const absl::Status& mistake :
       {absl::NotFoundError("a.csv"), absl::InvalidArgumentError("a.csv:3")}) {
    const auto detail = GetDetail(AsMistake(mistake));
    REQUIRE(detail);
    CHECK(detail->cause == ErrorCause::kConfiguration);
  }
  CHECK_FALSE(GetDetail(AsMistake(absl::UnavailableError("s3://b/a.csv"))));
  CHECK_FALSE(GetDetail(AsMistake(absl::InternalError("a.csv: Input/output error"))));
  const absl::Status lost =
      WithDetail(absl::NotFoundError("x"), {ErrorCause::kTaskLost, true, "", 0});
  CHECK(GetDetail(AsMistake(lost))->cause == ErrorCause::kTaskLost);
}

}  // namespace
}  // namespace coxswain
