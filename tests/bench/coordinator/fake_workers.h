// Workers that only talk: they speak the real protocol over the real transport, hold nothing, and
// answer every closure at once. Many in one process, so that a coordinator can have a thousand on
// one machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/local/child.h"

namespace coxswain {

// Serves workers number `first` to `first + count - 1` until it is killed; prints the address of
// each on a line of its own. Returns an exit code.
int RunFakeWorkers(int first, int count);

// Processes of them.
class FakeWorkers {
 public:
  // Errors: those of starting processes; DeadlineExceeded when one does not tell its addresses.
  static absl::StatusOr<std::unique_ptr<FakeWorkers>> Start(int count);
  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  std::vector<local::Child> children_;
  std::vector<std::string> addresses_;
};

}  // namespace coxswain
