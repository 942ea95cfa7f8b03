#include "tests/fuzz/fuzz_target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "runtime/tensor/limits.h"

namespace coxswain::fuzz {

void Broken(absl::string_view what) {
  std::fprintf(stderr, "broken: %s\n", std::string(what).c_str());
  std::abort();
}

MemoryFile::MemoryFile(absl::string_view content) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
  if (fd_ < 0) Broken("memfd_create");
  while (!content.empty()) {
    const ssize_t written = write(fd_, content.data(), content.size());
    if (written <= 0) Broken("write to a memfd");
    content.remove_prefix(static_cast<size_t>(written));
  }
  path_ = absl::StrCat("/proc/self/fd/", fd_);
}

MemoryFile::~MemoryFile() { close(fd_); }

void BoundMemory() {
  static const bool done = [] {
    SetMaxBufferBytes(size_t{1} << 18);
    return true;
  }();
  static_cast<void>(done);
}

void Fill(Tensor* tensor, unsigned salt) {
  const auto set = [tensor](int64_t i, int value) {
    switch (tensor->dtype()) {
      case DType::kF32:
        tensor->mutable_data<float>()[i] = static_cast<float>(value);
        break;
      case DType::kF64:
        tensor->mutable_data<double>()[i] = value;
        break;
      case DType::kI32:
        tensor->mutable_data<int32_t>()[i] = value;
        break;
      case DType::kI64:
        tensor->mutable_data<int64_t>()[i] = value;
        break;
      case DType::kBool:
        tensor->mutable_data<bool>()[i] = value > 1;
        break;
      case DType::kBF16:
        tensor->mutable_data<BFloat16>()[i] = BFloat16::FromFloat(static_cast<float>(value));
        break;
      case DType::kInvalid:
        break;
    }
  };
  for (int64_t i = 0; i < tensor->num_elements(); ++i) {
    set(i, static_cast<int>((static_cast<uint64_t>(i) * 7 + salt) % 5) - (salt % 3 == 2 ? 1 : 0));
  }
}

}  // namespace coxswain::fuzz
