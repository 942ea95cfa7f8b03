// A pass: what a stream over gRPC shows before a listener with a secret reads a byte of it.
//
// gRPC 1.51 has no limit for what it takes of one message: GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH is
// looked at when all of the message is there, and a resource quota, which strangers could use up,
// ends friends' streams with theirs. What gRPC bounds is metadata (8 KiB), and a stream that nobody
// reads (by its window). So the proof travels as metadata, in two calls of one TCP connection:
//
//   Greet    the one that connects sends a nonce. The listener answers with another, and a proof
//            of both (HMAC-SHA256 under the secret), and ends the call.
//   Connect  the stream of messages. Its metadata has both nonces and the other end's proof. With
//            a wrong one, or none, the listener ends the call; it has read nothing.
//
// This costs a round trip per connection, and nothing per message. It says who may be heard, and
// does not spare the proof of secret_transport.h, above it, which costs another round trip:
//   - A pass is of no connection. Who overhears one and is faster with it than its owner has a
//     stream; there he is asked for what the pass does not tell him, and is not heard. (The peer's
//     port in the pass would mend that, and not what follows.)
//   - A pass is shown before there is a first message. The proof above covers that one, so that a
//     relay cannot make a coordinator of one who only wanted to observe.
//
// The listener keeps nothing of those who greet, so they can use nothing up: its nonce is the time
// and a code (HMAC under a key of this listener alone) of the time and the other nonce. A pass is
// good for this listener in this life, once, and for 5 s. What is remembered is the passes that
// were good, for 5 s.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/net/secret.h"
#include "runtime/net/strangers.h"

namespace coxswain::net {

constexpr absl::Duration kPassLifetime = absl::Seconds(5);

// The listener's side. Times are of a clock that only goes forward. Thread-safe.
class PassDesk {
 public:
  explicit PassDesk(std::shared_ptr<const Secret> secret);

  // The answer to a greeting. Errors: InvalidArgument, when it is none of this version.
  absl::StatusOr<std::string> Answer(absl::string_view greeting, absl::Duration now) const;
  // Takes a pass. Errors: Unauthenticated, when it proves nothing; Unavailable, when it was good
  // once: the other end may ask for another.
  absl::Status Take(absl::string_view pass, absl::Duration now);

 private:
  std::string Code(absl::string_view time, absl::string_view theirs) const;

  const std::shared_ptr<const Secret> secret_;
  const Secret key_ = Secret::Random();
  struct Used {
    absl::Duration at;
    std::string pass;
  };
  absl::Mutex mu_;
  std::deque<Used> used_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<std::string> used_set_ ABSL_GUARDED_BY(mu_);
};

// The side of the one that connects: a value for one connection.
class PassRequest {
 public:
  explicit PassRequest(std::shared_ptr<const Secret> secret);

  const std::string& greeting() const { return greeting_; }
  // Whether the listener's answer to it proves that it knows the secret.
  bool Proves(absl::string_view answer) const;
  // After a good answer.
  std::string Pass(absl::string_view answer) const;
  // After a bad one: how the connection to `address` ends; and what proves nothing, so that the
  // listener can say in its log that secrets differ.
  absl::Status Unproven(absl::string_view address) const;
  std::string BadPass(absl::string_view answer) const;

 private:
  std::string Nonces(absl::string_view answer) const;

  const std::shared_ptr<const Secret> secret_;
  const std::string greeting_;
};

// What stands below NewSecretTransport and keeps strangers out by itself.
class AsksForPasses {
 public:
  virtual ~AsksForPasses() = default;
  // Before the first Listen and Connect. `limits`: of those who have connected and shown no pass;
  // there are fewer where the process may not open many files.
  virtual void UseSecret(std::shared_ptr<const Secret> secret, const StrangerLimits& limits) = 0;
};

// How a connection to `address` ends whose listener has not proven itself, or says that this
// process has not. Cause kConfiguration: it is not about to change.
absl::Status SecretRefused(absl::string_view address, absl::string_view what);
absl::Status AnotherSecret(absl::string_view address, const Secret& ours);
absl::Status AsksForNoSecret(absl::string_view address);

// 32 random bytes.
std::string NewNonce();
constexpr size_t kNonceBytes = 32, kProofBytes = 32;

}  // namespace coxswain::net
