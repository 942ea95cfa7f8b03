// The receiving end of a connection: hands messages to its handler, one at a time and in order.
//
// Nobody owns a thread here. Whoever brings something to an idle inbox calls the handler on the
// spot and goes on until the inbox is empty; who comes meanwhile leaves it in the queue. No lock is
// held while the handler runs.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "runtime/net/transport.h"

namespace coxswain::net {

// Thread-safe. The caller keeps the inbox alive during its calls.
class Inbox {
 public:
  // Says who handles, and delivers what came before. Once. nullptr: nobody; all is dropped.
  void Open(std::shared_ptr<ConnectionHandler> handler);
  // Dropped after Close.
  void Push(Message message);
  // OnClosed(status) is delivered after what came before. Only the first call counts.
  void Close(absl::Status status);

  bool closed() const;  // Close was called
  bool done() const;    // OnClosed returned and the handler was let go
  // Blocks until done(). Fatal on the thread that is running the handler: it would wait for itself.
  void WaitDone();

 private:
  // Takes over as the one that runs the handler, if nobody is.
  bool TryRun() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Delivers until there is nothing more. Only by the one that runs the handler.
  void Drain() ABSL_LOCKS_EXCLUDED(mu_);
  // What a handler throws ends the process: gRPC would swallow it, and the inbox be run by nobody.
  void Deliver(Message message) noexcept ABSL_LOCKS_EXCLUDED(mu_);
  void DeliverClosed() noexcept ABSL_LOCKS_EXCLUDED(mu_);

  std::shared_ptr<ConnectionHandler> handler_;  // set by Open, then of the one that runs it

  mutable absl::Mutex mu_;
  bool running_ ABSL_GUARDED_BY(mu_) = true;  // until Open
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id runner_ ABSL_GUARDED_BY(mu_);
  std::deque<Message> queue_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::net
