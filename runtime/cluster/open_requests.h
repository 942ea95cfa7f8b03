// The requests of one connection that a daemon works on, so that its pongs can name them: who asked
// then knows an answer that takes long from one that was lost.
//
// Thread-safe: replies come from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "protos/control.pb.h"

namespace coxswain::cluster {

class OpenRequests {
 public:
  // A pong is never large. Those that are not named are when older ones are answered.
  static constexpr size_t kMostNamed = 32;

  // One request. It is over after End, or when this goes: what was dropped without an answer must
  // not be waited for either.
  class Open {
   public:
    Open(std::shared_ptr<OpenRequests> all, uint64_t request);
    ~Open() { End(); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    // After the answer was handed to the connection, never before: no pong may overtake it.
    void End();

   private:
    const std::shared_ptr<OpenRequests> all_;
    const uint64_t request_;
  };

  void Name(proto::PongReply* pong) const;

 private:
  mutable absl::Mutex mu_;
  std::set<uint64_t> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::cluster
