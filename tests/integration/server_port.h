// Where a server of this machine answers.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "tests/testing/process.h"

namespace coxswain {

// Waits until `coxswain serve --http 127.0.0.1:0` has told its port.
inline int PortOf(const Process& server) {
  const bool listens = server.WaitForOutput("/v1/models/");
  INFO(server.out() << server.err());
  REQUIRE(listens);
  const std::string out = server.out();
  return std::stoi(out.substr(out.find(':', out.find("127.0.0.1")) + 1));
}

}  // namespace coxswain
