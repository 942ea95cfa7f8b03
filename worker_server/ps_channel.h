// A worker's way to one PS: one stream, any number of segment calls under way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/env/env.h"
#include "runtime/function/frame.h"
#include "runtime/net/transport.h"

namespace coxswain {

// Thread-safe. When the stream breaks, the calls under way fail with cause kTaskLost, and the next
// call tries to connect again (not more often than every 100 ms). What the PS applied of a failed
// call is its ledger's business.
class PsChannel : public std::enable_shared_from_this<PsChannel> {
 public:
  struct Options {
    std::string address;
    int ps = 0;
    Incarnation incarnation = 0;  // of the PS that is meant
    Epoch epoch = 0;
    int worker = 0;
    Incarnation worker_incarnation = 0;
    absl::Duration connect_timeout = absl::Seconds(5);
  };
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
  using Ready = absl::AnyInvocable<void(absl::Status)>;

  // Both must outlive the channel.
  PsChannel(Env* env, Transport* transport, Options options);

  // Connects; `ready` is called once, when the PS has accepted or refused, on any thread.
  void Open(Ready ready);
  // `request.call` is filled in. `done` is called once, on any thread, maybe before Call returns.
  void Call(SegmentRequest request, Done done);
  // Calls under way and later ones fail with `reason`.
  void Close(absl::Status reason);

  uint64_t frames() const;      // sent
  uint64_t bytes_sent() const;  // headers and payload

 private:
  class Stream;

  // A new stream, with the hello on its way.
  std::shared_ptr<Stream> Connect(Ready ready);

  Env* env_;
  Transport* transport_;
  const Options options_;
  mutable absl::Mutex mu_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mu_);
  absl::Duration last_connect_ ABSL_GUARDED_BY(mu_);  // on the monotonic clock
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
  uint64_t frames_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t bytes_sent_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain
