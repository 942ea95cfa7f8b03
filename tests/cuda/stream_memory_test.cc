// What a stream keeps of the memory that it was given back.
#include "kernels/cuda/stream_memory.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "tests/cuda/device_run.h"

namespace coxswain::testing {
namespace {

using cuda::StreamMemory;

TEST_CASE("memory of a stream that was given back is found by who wants as much", "[no_gpu]") {
  StreamMemory memory(4096);
  char pieces[3];
  std::vector<void*> surplus;
  CHECK(memory.Take(1024) == nullptr);
  memory.Lend(&pieces[0], 1024);
  memory.Lend(&pieces[1], 2048);
  CHECK(memory.Take(1024) == nullptr);  // lent, not kept
  CHECK(memory.Keep(&pieces[0], &surplus));
  CHECK(memory.kept_bytes() == 1024);
  CHECK(memory.Take(2048) == nullptr);
  CHECK(memory.Take(1024) == &pieces[0]);
  CHECK(memory.kept_bytes() == 0);
  CHECK(memory.Keep(&pieces[0], &surplus));
  CHECK(memory.Keep(&pieces[1], &surplus));
  CHECK_FALSE(memory.Keep(&pieces[1], &surplus));  // given back twice
  CHECK_FALSE(memory.Keep(&pieces[2], &surplus));  // never lent
  CHECK(memory.TakeKept().size() == 2);
  CHECK(memory.kept_bytes() == 0);
  CHECK(memory.Take(1024) == nullptr);
}

TEST_CASE("a stream keeps no more memory than it may, and lets go of sizes that nobody wants",
          "[no_gpu]") {
  StreamMemory memory(3000);
  char pieces[4];
  std::vector<void*> surplus;
  for (int i = 0; i < 3; ++i) memory.Lend(&pieces[i], 1024);
  memory.Lend(&pieces[3], 4096);
  CHECK(memory.Keep(&pieces[0], &surplus));
  CHECK(memory.Keep(&pieces[1], &surplus));
  CHECK(surplus.empty());
  CHECK_FALSE(memory.Keep(&pieces[3], &surplus));  // too large
  CHECK(memory.Keep(&pieces[2], &surplus));
  CHECK(surplus.size() == 2);
  CHECK(memory.kept_bytes() == 1024);
  CHECK(memory.Take(1024) == &pieces[2]);
}

TEST_CASE("sizes of a stream's memory are rounded by less than a quarter, to few", "[no_gpu]") {
  const StreamMemory memory(size_t{1} << 41);
  CHECK(memory.Rounded(1) == 512);
  CHECK(memory.Rounded(4096) == 4096);
  CHECK(memory.Rounded(4097) == 5120);
  CHECK(StreamMemory(5000).Rounded(4097) == 4097);  // it could not be kept
  CHECK(memory.Rounded(SIZE_MAX) == SIZE_MAX);
  for (size_t bytes = 5000; bytes < (size_t{1} << 40); bytes = bytes * 21 / 20 + 1) {
    const size_t rounded = memory.Rounded(bytes);
    CHECK(rounded >= bytes);
    CHECK(rounded - bytes < bytes / 4);
    CHECK(memory.Rounded(rounded) == rounded);
  }
}

TEST_CASE("memory that streams keep is there for other streams, and counts as free",
          "[much_memory]") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr || on->emulated) return;  // the emulated device keeps nothing
  CoxError error = {};
  CoxDeviceInfo before = {}, after = {};
  REQUIRE(on->api->synchronize(on->stream, &error) == COX_OK);
  REQUIRE(on->api->device_info(on->device, &before, &error) == COX_OK);
  // More than a half of the memory in pieces that a stream keeps: what the other one wants does not
  // fit beside it.
  const size_t piece = static_cast<size_t>(before.memory_bytes) / 40;
  std::vector<CoxStream*> streams(24);
  for (CoxStream*& stream : streams) {
    REQUIRE(on->api->create_stream(on->device, &stream, &error) == COX_OK);
    void* memory = nullptr;
    if (on->api->allocate_on(stream, piece, &memory, &error) == COX_OK) {
      on->api->release_on(stream, memory);
    }
  }
  REQUIRE(on->api->device_info(on->device, &after, &error) == COX_OK);
  CHECK(after.free_bytes > before.free_bytes - static_cast<int64_t>(piece));
  void* memory = nullptr;
  const size_t wanted = static_cast<size_t>(before.free_bytes) / 4 * 3;
  INFO(error.message);
  CHECK(on->api->allocate_on(on->stream, wanted, &memory, &error) == COX_OK);
  on->api->release_on(on->stream, memory);
  for (CoxStream* stream : streams) on->api->destroy_stream(stream);
}

}  // namespace
}  // namespace coxswain::testing
