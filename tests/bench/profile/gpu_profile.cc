// What a GPU did in the last second of a program: a library that CUDA loads into any program,
//
//   CUDA_INJECTION64_PATH=.../libcoxswain_gpu_profile.so PROGRAM...
//
// and which writes a table when the program ends: the share of the time in which anything, and in
// which a kernel ran; then kernels, copies and, if wanted, calls of CUDA by name, with their
// number, mean time and share. Shares of kernels that run at once add up to more than 100%.
//
//   COXSWAIN_GPU_PROFILE=FILE         where it is written; else to stderr
//   COXSWAIN_GPU_PROFILE_SECONDS=S    of this length (1), which ends 0.3 s before the last kernel
//   COXSWAIN_GPU_PROFILE_CALLS=1      calls, too: they take longer then
#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr size_t kBufferBytes = size_t{8} << 20, kAlignment = 8;
constexpr double kLeftOut = 0.3;  // seconds, in which a benchmark comes to its end

enum class Kind : uint8_t { kKernel, kMemory, kCall };

struct Record {
  uint64_t begin = 0, end = 0;  // ns
  int name = 0;
  Kind kind = Kind::kKernel;
};

class Profile {
 public:
  void Add(const CUpti_Activity* activity) {
    switch (activity->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(activity);
        return Add(Kind::kKernel, kernel->name, kernel->start, kernel->end);
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy5*>(activity);
        return Add(Kind::kMemory, NameOfCopy(copy->copyKind), copy->start, copy->end);
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto* set = reinterpret_cast<const CUpti_ActivityMemset4*>(activity);
        return Add(Kind::kMemory, "[memset]", set->start, set->end);
      }
      case CUPTI_ACTIVITY_KIND_RUNTIME: {
        const auto* call = reinterpret_cast<const CUpti_ActivityAPI*>(activity);
        const char* name = nullptr;
        cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, call->cbid, &name);
        return Add(Kind::kCall, name == nullptr ? "a call" : name, call->start, call->end);
      }
      default:
        return;
    }
  }

  void Write(double seconds, FILE* out) {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t last = 0;
    for (const Record& record : records_) last = std::max(last, record.end);
    const auto end = last - std::min(last, static_cast<uint64_t>(kLeftOut * 1e9));
    const auto begin = end - std::min(end, static_cast<uint64_t>(seconds * 1e9));
    std::vector<Record> within;
    for (const Record& record : records_) {
      if (record.begin >= begin && record.end <= end) within.push_back(record);
    }
    std::sort(within.begin(), within.end(),
              [](const Record& a, const Record& b) { return a.begin < b.begin; });
    const double all = seconds * 1e9;
    std::fprintf(out, "in %.2f s: the GPU was busy %.1f%%, with kernels %.1f%%\n", seconds,
                 100 * Busy(within, Kind::kMemory) / all, 100 * Busy(within, Kind::kKernel) / all);
    WriteNames(within, all, out);
  }

 private:
  void Add(Kind kind, const std::string& name, uint64_t begin, uint64_t end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [at, is_new] = numbers_.try_emplace(name, static_cast<int>(names_.size()));
    if (is_new) names_.push_back(name);
    records_.push_back({begin, end, at->second, kind});
  }

  static const char* NameOfCopy(uint8_t kind) {
    return kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "[copy to the GPU]"
           : kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "[copy from the GPU]"
                                                     : "[copy on the GPU]";
  }

  // Nanoseconds in which something ran of a kind up to `most`. `records` are sorted by begin.
  static double Busy(const std::vector<Record>& records, Kind most) {
    uint64_t busy = 0, until = 0;
    for (const Record& record : records) {
      if (record.kind > most || record.end <= until) continue;
      busy += record.end - std::max(until, record.begin);
      until = record.end;
    }
    return static_cast<double>(busy);
  }

  void WriteNames(const std::vector<Record>& records, double all, FILE* out) const {
    struct Sum {
      int64_t count = 0;
      double ns = 0;
    };
    std::map<int, Sum> sums;
    for (const Record& record : records) {
      Sum& sum = sums[record.name];
      ++sum.count;
      sum.ns += static_cast<double>(record.end - record.begin);
    }
    std::vector<std::pair<int, Sum>> sorted(sums.begin(), sums.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
    for (const auto& [name, sum] : sorted) {
      std::fprintf(out, "%6.1f%%  %8lld x %9.1f us  %s\n", 100 * sum.ns / all,
                   static_cast<long long>(sum.count), sum.ns / 1e3 / static_cast<double>(sum.count),
                   names_[static_cast<size_t>(name)].c_str());
    }
  }

  std::mutex mutex_;
  std::vector<Record> records_;
  std::vector<std::string> names_;
  std::map<std::string, int> numbers_;
};

Profile& TheProfile() {
  static auto* const profile = new Profile;
  return *profile;
}

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* activity = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &activity) == CUPTI_SUCCESS) {
    TheProfile().Add(activity);
  }
  std::free(buffer);
}

void WriteProfile() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const char* const path = std::getenv("COXSWAIN_GPU_PROFILE");
  const char* const seconds = std::getenv("COXSWAIN_GPU_PROFILE_SECONDS");
  FILE* const file = path == nullptr ? stderr : std::fopen(path, "w");
  if (file == nullptr) {
    std::perror(path);
    return;
  }
  const double wanted = seconds == nullptr ? 1.0 : std::atof(seconds);
  TheProfile().Write(wanted > 0 ? wanted : 1.0, file);
  if (file != stderr && std::fclose(file) != 0) std::perror(path);
}

}  // namespace

// CUDA calls it before its first work.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  CUptiResult result = cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer);
  std::vector<CUpti_ActivityKind> kinds = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};
  if (std::getenv("COXSWAIN_GPU_PROFILE_CALLS") != nullptr) {
    kinds.push_back(CUPTI_ACTIVITY_KIND_RUNTIME);
  }
  for (const CUpti_ActivityKind kind : kinds) {
    if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(kind);
  }
  if (result != CUPTI_SUCCESS) {
    const char* text = nullptr;
    cuptiGetResultString(result, &text);
    std::fprintf(stderr, "no profile of the GPU: %s\n", text == nullptr ? "CUPTI fails" : text);
    return 1;
  }
  std::atexit(WriteProfile);
  return 1;
}
