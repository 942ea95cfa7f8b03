#pragma once

namespace coxswain {

// Coordinator and daemons must be of the same version: it is also that of their protocol.
constexpr char kVersion[] = "0.1.0";

}  // namespace coxswain
