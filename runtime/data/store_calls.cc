#include "runtime/data/store_calls.h"

#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/base/logging.h"

namespace coxswain::data {
namespace {

constexpr absl::Duration kTellAfter = absl::Seconds(5), kTellAgain = absl::Seconds(30);

struct Call {
  std::function<absl::Status()> run;
  bool done = false;  // guarded by Calls::mu
  absl::Status status;
};

// The process's; a thread may still run when it ends.
struct Calls {
  absl::Mutex mu;
  bool ended ABSL_GUARDED_BY(mu) = false;
  int running ABSL_GUARDED_BY(mu) = 0;
  // The one of those that take long that is told of: one line says enough of all.
  const Call* told ABSL_GUARDED_BY(mu) = nullptr;
};
Calls& All() {
  static Calls& calls = *new Calls;
  return calls;
}

void Run(const std::shared_ptr<Call>& call) {
  absl::Status status = call->run();
  call->run = nullptr;  // what it owns goes before anybody takes the call for over
  Calls& all = All();
  const absl::MutexLock lock(&all.mu);
  call->status = std::move(status);
  call->done = true;
  --all.running;
}

void Tell(const std::string& address, absl::Duration waited) {
  LogWarning("waiting for the object store: it has not answered for ", absl::FormatDuration(waited),
             " what was asked of ", address,
             "; it is asked five times, each for half a minute at most");
}

}  // namespace

absl::Status CallStore(const std::string& address, std::function<absl::Status()> run) {
  const auto call = std::make_shared<Call>();
  call->run = std::move(run);
  Calls& all = All();
  {
    const absl::MutexLock lock(&all.mu);
    if (all.ended) return absl::CancelledError(absl::StrCat(address, ": interrupted"));
    ++all.running;
  }
  try {
    std::thread([call] { Run(call); }).detach();
  } catch (const std::system_error&) {  // the system has no more threads
    Run(call);
  }
  const auto over = [&]() ABSL_SHARED_LOCKS_REQUIRED(all.mu) { return call->done || all.ended; };
  absl::Duration waited, patience = kTellAfter;
  const absl::MutexLock lock(&all.mu);
  while (!all.mu.AwaitWithTimeout(absl::Condition(&over), patience)) {
    waited += std::exchange(patience, kTellAgain);
    if (all.told == nullptr) all.told = call.get();
    if (all.told == call.get()) Tell(address, waited);
  }
  if (all.told == call.get()) all.told = nullptr;
  if (call->done) return call->status;
  return absl::CancelledError(absl::StrCat(address, ": interrupted"));
}

void EndStoreCalls() {
  Calls& all = All();
  const absl::MutexLock lock(&all.mu);
  all.ended = true;
}

bool StoreCallsRun() {
  Calls& all = All();
  const absl::MutexLock lock(&all.mu);
  return all.running > 0;
}

}  // namespace coxswain::data
