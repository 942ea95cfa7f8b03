#include "runtime/net/pass.h"

#include <sys/random.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::net {
namespace {

constexpr char kVersion = 1;
constexpr size_t kTimeBytes = 8;
constexpr size_t kGreetingBytes = 1 + kNonceBytes;
constexpr size_t kAnswerBytes = kNonceBytes + kProofBytes;
constexpr size_t kPassBytes = 1 + 2 * kNonceBytes + kProofBytes;

// What the two ends prove: neither each other's, nor what they prove in secret_transport.h.
std::string DeskProves(absl::string_view nonces) {
  return absl::StrCat("coxswain pass desk ", nonces);
}
std::string HolderProves(absl::string_view nonces) {
  return absl::StrCat("coxswain pass holder ", nonces);
}

std::string AsBytes(absl::Duration time) {
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(time);
  std::string bytes(kTimeBytes, '\0');
  std::memcpy(bytes.data(), &nanoseconds, kTimeBytes);
  return bytes;
}

absl::Duration AsTime(absl::string_view bytes) {
  int64_t nanoseconds = 0;
  std::memcpy(&nanoseconds, bytes.data(), kTimeBytes);
  return absl::Nanoseconds(nanoseconds);
}

bool IsOfThisVersion(absl::string_view bytes, size_t size) {
  return bytes.size() == size && bytes[0] == kVersion;
}

}  // namespace

std::string NewNonce() {
  std::string nonce(kNonceBytes, '\0');
  COX_CHECK(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()),
            "no entropy");
  return nonce;
}

PassDesk::PassDesk(std::shared_ptr<const Secret> secret) : secret_(std::move(secret)) {}

std::string PassDesk::Code(absl::string_view time, absl::string_view theirs) const {
  return key_.Proof(absl::StrCat(time, theirs)).substr(0, kNonceBytes - kTimeBytes);
}

absl::StatusOr<std::string> PassDesk::Answer(absl::string_view greeting, absl::Duration now) const {
  if (!IsOfThisVersion(greeting, kGreetingBytes)) {
    return absl::InvalidArgumentError("a greeting that cannot be read");
  }
  const absl::string_view theirs = greeting.substr(1);
  const std::string time = AsBytes(now);
  const std::string ours = absl::StrCat(time, Code(time, theirs));
  return absl::StrCat(ours, secret_->Proof(DeskProves(absl::StrCat(theirs, ours))));
}

absl::Status PassDesk::Take(absl::string_view pass, absl::Duration now) {
  if (!IsOfThisVersion(pass, kPassBytes)) {
    return absl::UnauthenticatedError("wanted a proof of the cluster's secret; see --secret-file");
  }
  const absl::string_view nonces = pass.substr(1, 2 * kNonceBytes);
  const absl::string_view theirs = nonces.substr(0, kNonceBytes);
  const absl::string_view time = nonces.substr(kNonceBytes, kTimeBytes);
  if (!secret_->Proves(HolderProves(nonces), pass.substr(1 + 2 * kNonceBytes))) {
    return absl::UnauthenticatedError("the cluster's secret is another one");
  }
  // From here on it is somebody who knows the secret, or repeats what he overheard.
  if (nonces.substr(kNonceBytes + kTimeBytes) != Code(time, theirs)) {
    return absl::UnavailableError("a pass of another listener; try again");
  }
  const absl::Duration at = AsTime(time);
  if (at > now || now - at >= kPassLifetime) {
    return absl::UnavailableError("a pass that is too old; try again");
  }
  absl::MutexLock lock(&mu_);
  // By when they were used, which is no sooner than when they were given.
  while (!used_.empty() && now - used_.front().at > kPassLifetime) {
    used_set_.erase(used_.front().pass);
    used_.pop_front();
  }
  if (!used_set_.insert(std::string(nonces)).second) {
    return absl::UnavailableError("a pass that was used before; try again");
  }
  used_.push_back({now, std::string(nonces)});
  return absl::OkStatus();
}

PassRequest::PassRequest(std::shared_ptr<const Secret> secret)
    : secret_(std::move(secret)), greeting_(std::string(1, kVersion) + NewNonce()) {}

std::string PassRequest::Nonces(absl::string_view answer) const {
  return absl::StrCat(absl::string_view(greeting_).substr(1), answer.substr(0, kNonceBytes));
}

bool PassRequest::Proves(absl::string_view answer) const {
  return answer.size() == kAnswerBytes &&
         secret_->Proves(DeskProves(Nonces(answer)), answer.substr(kNonceBytes));
}

std::string PassRequest::Pass(absl::string_view answer) const {
  const std::string nonces = Nonces(answer);
  return absl::StrCat(greeting_.substr(0, 1), nonces, secret_->Proof(HolderProves(nonces)));
}

absl::Status PassRequest::Unproven(absl::string_view address) const {
  return AnotherSecret(address, *secret_);
}

std::string PassRequest::BadPass(absl::string_view answer) const {
  std::string pass = absl::StrCat(greeting_.substr(0, 1), Nonces(answer));
  pass.resize(kPassBytes, '\0');
  return pass;
}

absl::Status SecretRefused(absl::string_view address, absl::string_view what) {
  return WithDetail(absl::UnauthenticatedError(absl::StrCat(address, " ", what)),
                    {ErrorCause::kConfiguration, false, "", 0});
}

absl::Status AnotherSecret(absl::string_view address, const Secret& ours) {
  return SecretRefused(address, absl::StrCat("has another secret than ", ours.source()));
}

absl::Status AsksForNoSecret(absl::string_view address) {
  return SecretRefused(address,
                       "does not ask for a secret; --insecure talks to daemons without one");
}

}  // namespace coxswain::net
