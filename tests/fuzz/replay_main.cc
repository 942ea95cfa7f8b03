// The ordinary build's driver of a fuzz target: runs it on each file of the corpus, by name.
//   fuzz_NAME FILE-OR-DIRECTORY...
//   fuzz_NAME --blind SECONDS FILE-OR-DIRECTORY...
// Exit code 0 when all of them came back; a crash names its file in the last line before it. With
// --blind they are changed at random for some seconds, without libFuzzer's eye for new code: for
// machines without clang. The input that is tried lies in ./blind-input; one that takes 20 s of
// the processor ends the program.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

using Input = std::vector<uint8_t>;

// Some targets have changes of their own, which call libFuzzer's for the rest.
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                                                size_t max_size, unsigned seed);
// Some look first whether they can do anything here.
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

std::mt19937& Random() {
  static std::mt19937 random(std::random_device{}());
  return random;
}

size_t Below(size_t n) { return Random()() % n; }

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  Input bytes(data, data + size);
  for (size_t changes = 1 + Below(4); changes > 0; --changes) {
    const size_t at = bytes.empty() ? 0 : Below(bytes.size());
    const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const auto run = static_cast<std::ptrdiff_t>(std::min(bytes.size() - at, 1 + Below(16)));
    switch (Below(5)) {
      case 0:
        bytes.insert(here, static_cast<uint8_t>(Below(256)));
        break;
      case 1:
        bytes.erase(here, here + run);
        break;
      case 2: {
        const Input copy(here, here + run);
        const size_t to = bytes.empty() ? 0 : Below(bytes.size());
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(to), copy.begin(), copy.end());
        break;
      }
      default:
        if (!bytes.empty()) {
          bytes[at] = Below(2) == 0 ? static_cast<uint8_t>(Below(256)) : bytes[Below(bytes.size())];
        }
    }
  }
  bytes.resize(std::min(bytes.size(), max_size));
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

namespace {

std::vector<std::string> FilesOf(int count, char** paths) {
  std::vector<std::string> files;
  for (int i = 0; i < count; ++i) {
    std::error_code error;
    if (std::filesystem::is_directory(paths[i], error)) {
      for (const auto& entry : std::filesystem::directory_iterator(paths[i], error)) {
        files.push_back(entry.path().string());
      }
    } else {
      files.emplace_back(paths[i]);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Each input is tried in memory of exactly its size, so that a sanitizer sees a read beyond its
// end.
void Try(const Input& input) { LLVMFuzzerTestOneInput(input.data(), input.size()); }

// Ends the process when it has computed for so long: a machine that is busy is no hang.
void LimitCpu(int seconds) {
  itimerval limit{};
  limit.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &limit, nullptr);
}

void Blind(const std::vector<Input>& seeds, int seconds) {
  const int kept = open("blind-input", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  size_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    Input input = seeds[Below(seeds.size())];
    const size_t most = input.size() + 4096;
    for (size_t rounds = 1 + Below(6); rounds > 0; --rounds) {
      const size_t size = input.size();
      input.resize(most);
      input.resize(LLVMFuzzerCustomMutator != nullptr
                       ? LLVMFuzzerCustomMutator(input.data(), size, most, Random()())
                       : LLVMFuzzerMutate(input.data(), size, most));
    }
    if (ftruncate(kept, 0) != 0 || pwrite(kept, input.data(), input.size(), 0) < 0) break;
    LimitCpu(20);
    Try(Input(input));
  }
  LimitCpu(0);
  close(kept);
  unlink("blind-input");
  std::fprintf(stderr, "%zu runs\n", runs);
}

}  // namespace

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  const bool blind = argc > 3 && std::string(argv[1]) == "--blind";
  const int first = blind ? 3 : 1;
  const std::vector<std::string> files = FilesOf(argc - first, argv + first);
  if (files.empty()) {
    std::fprintf(stderr, "no file to replay\n");
    return 2;
  }
  std::vector<Input> inputs;
  for (const std::string& path : files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 2;
    }
    std::fprintf(stderr, "%s\n", path.c_str());
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    inputs.emplace_back(bytes.begin(), bytes.end());
    Try(inputs.back());
  }
  std::fprintf(stderr, "%zu inputs\n", inputs.size());
  if (blind) Blind(inputs, std::atoi(argv[2]));
  return 0;
}
