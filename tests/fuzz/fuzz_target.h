// What a fuzz target is: one function that takes any bytes and must neither crash nor hang. With
// clang's libFuzzer it is called with inputs that reach new code; in an ordinary build
// replay_main.cc calls it with the files of its corpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "coxswain/tensor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace coxswain::fuzz {

inline absl::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Ends the process: a property that must hold for any input does not.
[[noreturn]] void Broken(absl::string_view what);

// A file in memory that ordinary functions open by its path.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

// Tensors stay small enough for thousands of runs a second: called first by targets that run
// kernels.
void BoundMemory();

// Small whole numbers, of which some are no index of anything.
void Fill(Tensor* tensor, unsigned salt);

}  // namespace coxswain::fuzz
