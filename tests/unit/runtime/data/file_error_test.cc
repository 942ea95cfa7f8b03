#include "runtime/data/file_error.h"

#include <catch2/catch.hpp>

#include "runtime/base/status.h"
#include "runtime/data/stream/file_identity.h"

namespace coxswain::data {
namespace {

TEST_CASE("which file an error is of, and that it has changed, is told by no words of it") {
  const absl::Status changed = ChangedError("a.csv", {});
  CHECK(IsChangedError(changed));
  CHECK(FileOf(changed) == "a.csv");
  const absl::Status named = Annotate(changed, "worker 1");
  CHECK(IsChangedError(named));
  CHECK(FileOf(named) == "a.csv");
  const absl::Status words(changed.code(), changed.message());
  CHECK_FALSE(IsChangedError(words));
  CHECK_FALSE(FileOf(words));
  // Who reads on for another file blames the one that was to blame.
  CHECK(FileOf(InFile(changed, "b.csv")) == "a.csv");
  CHECK(FileOf(InFile(words, "b.csv")) == "b.csv");
  CHECK_FALSE(FileOf(InFile(absl::OkStatus(), "b.csv")));
}

}  // namespace
}  // namespace coxswain::data
