#include "runtime/cluster/tls_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"

namespace coxswain::cluster {
namespace {

constexpr absl::Duration kSoon = absl::Hours(24 * 30);
constexpr absl::Duration kSayAgain = absl::Hours(24);

}  // namespace

TlsWatch::TlsWatch(std::shared_ptr<const net::Tls> tls, env::Env* env)
    : tls_(std::move(tls)), env_(env) {
  if (tls_ != nullptr) Say(*tls_);
}

void TlsWatch::Look() {
  if (tls_ == nullptr) return;
  const auto now = net::Tls::Read(tls_->directory(), tls_->name());
  const std::string wrong(now.ok() ? "" : now.status().message());
  if (!wrong.empty() && wrong != wrong_) {
    LogWarning("new connections cannot be made with the certificates as they are: ", wrong);
  }
  const bool again = now.ok() && Soon(*now) && env_->Now() - said_ > kSayAgain;
  if (now.ok() && (!wrong_.empty() || now->expires() != expires_ || again)) Say(*now);
  wrong_ = wrong;
}

bool TlsWatch::Soon(const net::Tls& tls) const { return tls.expires() - env_->Now() < kSoon; }

void TlsWatch::Say(const net::Tls& tls) {
  const std::string text =
      absl::StrCat("TLS with ", tls.certificate_file(), ", which expires on ",
                   absl::FormatTime("%Y-%m-%d", tls.expires(), absl::UTCTimeZone()));
  if (Soon(tls)) {
    LogWarning(text);
  } else {
    LogInfo(text);
  }
  expires_ = tls.expires();
  said_ = env_->Now();
}

}  // namespace coxswain::cluster
