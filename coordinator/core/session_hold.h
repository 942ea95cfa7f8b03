// The session in which a coordinator holds the cluster: chosen when all PS have reported their last
// session, and fixed as soon as the first task is held.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "runtime/base/ids.h"
#include "runtime/base/session_id.h"

namespace coxswain::core {

// Thread model: id() and epoch() on any thread, all other methods on the coordinator's loop.
class SessionHold {
 public:
  // `least`: the lowest possible epoch, see ControllerOptions::min_epoch.
  SessionHold(uint64_t nonce, Epoch least) : nonce_(nonce), least_(std::min(least, kMaxEpoch)) {}

  // Chooses a session that is newer than `highest`, the newest that a task knows; chooses again
  // when other coordinators came in between.
  const Session& Choose(Epoch highest) {
    session_ = {std::max(NextEpoch(highest), least_), nonce_};
    id_ = session_.id();
    epoch_ = session_.epoch;
    return session_;
  }
  const Session& session() const { return session_; }
  SessionId id() const { return id_.load(); }    // 0 before it is chosen
  Epoch epoch() const { return epoch_.load(); }  // 0 before it is chosen

  // A task is held in this session, which is fixed from now on. False: it was fixed before.
  bool Take() { return !std::exchange(taken_, true); }
  bool taken() const { return taken_; }

 private:
  const uint64_t nonce_;
  const Epoch least_;
  Session session_;
  std::atomic<SessionId> id_{0};
  std::atomic<Epoch> epoch_{0};
  bool taken_ = false;
};

}  // namespace coxswain::core
