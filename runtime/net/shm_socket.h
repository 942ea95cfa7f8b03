// The socket beside a same-host connection: names, who is at the other end, the handshake.
//
// Handshake: the one that connects sends a magic word with the file of the memory; the other end
// answers with one byte, yes or no.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/net/address.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::net {

// The name that a listener at `address` has; for one at all addresses of the host it is made of the
// port alone.
std::string ShmName(const HostPort& address);
// The names under which a listener that `address` means may be found on this host.
std::vector<std::string> ShmNamesFor(const HostPort& address);

// The name of a listener at "local:NAME".
std::string LocalName(const std::string& address);

// Errors: Unavailable: the name is taken, or too long.
absl::StatusOr<UniqueFd> ListenAt(const std::string& name);
// Errors: Unavailable: nobody listens there, or cannot take more now.
absl::StatusOr<UniqueFd> ConnectTo(const std::string& name);

// Whether the process at the other end belongs to this process's user.
bool SameUser(const UniqueFd& socket);
// "process 4711 on this host", for people.
std::string PeerName(const UniqueFd& socket);

// Errors: Unavailable.
absl::Status SendHello(const UniqueFd& socket, const UniqueFd& file);
// Errors: Unavailable: not come yet; ResourceExhausted: this process has no descriptor for it, it
// can be received later; Cancelled: the other end went, it has no memory to share; InvalidArgument:
// something else came.
absl::StatusOr<UniqueFd> ReceiveHello(const UniqueFd& socket);

enum class ShmAnswer { kYes, kNo, kNotYet };
void SendAnswer(const UniqueFd& socket, bool yes);
ShmAnswer ReceiveAnswer(const UniqueFd& socket);

}  // namespace coxswain::net
