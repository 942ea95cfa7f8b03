// A transport on which nobody is heard who has not proven that it knows the cluster's secret, and
// nothing is said to anybody else.
//
// Each connection begins with three messages: the one that connects sends a nonce; the other end
// sends another and a proof of both (an HMAC-SHA256 under the secret); the first one checks it, and
// sends its own proof, which also covers its first message, the hello with role, session and the
// incarnation that it means. A proof is of no use on another connection or for another message.
// What follows is neither signed nor encrypted: whoever can change or relay the bytes on their way
// is kept out by the network, or by TLS when there is TLS.
//
// The listener's proof names no incarnation. This layer does not know it, and a name in the proof
// would win little: the daemon says it in its first answer, on the same connection, and who could
// change that could change all that follows. Over gRPC a pass (pass.h) is of one life of a
// listener.
//
// Over gRPC a stream is not read at all before it has shown a pass: what strangers send goes
// nowhere. Through shared memory, and at a socket without a port, only processes of the same user
// get so far. A connection that has not proven itself is closed after some seconds, by a timer of
// the transport's own, as its other timeouts; see strangers.h.
#pragma once

#include <memory>

#include "runtime/net/secret.h"
#include "runtime/net/strangers.h"
#include "runtime/net/transport.h"

namespace coxswain::net {

// What goes over `inner`, with these rules; `inner` as it is for an empty secret. Messages sent
// before the other end has proven itself wait. Ends of connections, beside those of `inner`:
// Unauthenticated, on both sides, with cause kConfiguration on the one that connected, when one has
// another secret, or none. The one that listens logs who was refused. Unavailable: it took too
// long, or there were too many who had proven nothing. `limits` are for those.
std::unique_ptr<Transport> NewSecretTransport(std::unique_ptr<Transport> inner, Secret secret,
                                              const StrangerLimits& limits = {});

}  // namespace coxswain::net
