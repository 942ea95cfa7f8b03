// Numbers of bytes for people.
#pragma once

#include <cstdint>
#include <string>

namespace coxswain {

// "512 MiB", "3.5 GiB", "17 bytes".
std::string BytesText(int64_t bytes);

}  // namespace coxswain
