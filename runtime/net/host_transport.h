// The transport of daemons and coordinators with what only its tests set; see NewHostTransport in
// transport.h.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "runtime/net/transport.h"

namespace coxswain::net {

// Who connects through shared memory says hello in the same call: who has not after this never
// will, and is let go.
constexpr absl::Duration kHelloTimeout = absl::Seconds(5);

std::unique_ptr<Transport> NewHostTransportWith(const TransportOptions& options,
                                                absl::Duration hello_timeout);

}  // namespace coxswain::net
