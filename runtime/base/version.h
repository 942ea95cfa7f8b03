#pragma once

namespace coxswain {

constexpr char kVersion[] = "0.1.0";
// Coordinator and daemons must speak the same protocol.
constexpr int kProtocolVersion = 1;

}  // namespace coxswain
