// What a daemon's log says of its certificates while it runs.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "runtime/env/env.h"
#include "runtime/net/tls.h"

namespace coxswain::cluster {

// Says what somebody has to know before nobody can connect any more: that files that have taken the
// place of others cannot be used, and that a certificate expires soon.
class TlsWatch {
 public:
  // `tls` is null where nothing is encrypted: then there is nothing to say.
  TlsWatch(std::shared_ptr<const net::Tls> tls, env::Env* env);

  // To be called that often; reads the files.
  static constexpr absl::Duration kInterval = absl::Seconds(10);
  void Look();

 private:
  bool Soon(const net::Tls& tls) const;
  void Say(const net::Tls& tls);

  const std::shared_ptr<const net::Tls> tls_;
  env::Env* const env_;
  std::string wrong_;  // what was said of files that cannot be used; empty: they can
  absl::Time expires_, said_;
};

}  // namespace coxswain::cluster
