#include "runtime/data/stream/block_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <vector>

namespace coxswain::data {
namespace {

std::vector<int64_t> Numbers(const std::vector<ExamplePlace>& places) {
  std::vector<int64_t> numbers;
  for (const ExamplePlace& place : places) numbers.push_back(place.number);
  return numbers;
}

TEST_CASE("block order: an epoch has every example once, whatever blocks and windows are") {
  const std::vector<std::vector<int64_t>> sizes = {
      {1}, {5, 0, 3}, {0, 0, 7, 1, 1, 1, 9, 0}, std::vector<int64_t>(50, 13)};
  for (const auto& examples : sizes) {
    const int64_t all = std::accumulate(examples.begin(), examples.end(), int64_t{0});
    for (const int64_t window : {1, 2, 3, 16, 1000}) {
      for (const uint64_t key : {1, 2, 3, 4}) {
        const BlockOrder order(examples, window, key < 3 ? 1 : 5);
        REQUIRE(order.size() == all);
        const auto epoch = order.DrawEpoch(key);
        const auto places = order.InEpoch(*epoch, 0, all);
        std::vector<int64_t> numbers = Numbers(places);
        std::sort(numbers.begin(), numbers.end());
        std::vector<int64_t> wanted(static_cast<size_t>(all));
        std::iota(wanted.begin(), wanted.end(), 0);
        CHECK(numbers == wanted);
        for (const ExamplePlace& place : places) {
          const ExamplePlace same = order.InFiles(place.number);
          CHECK(same.block == place.block);
          CHECK(same.index == place.index);
          CHECK(place.index < examples[static_cast<size_t>(place.block)]);
        }
      }
    }
  }
}

TEST_CASE("block order: any piece of an epoch is what the whole has there") {
  const BlockOrder order({7, 0, 30, 2, 2, 11, 19}, 2, 4);
  const auto epoch = order.DrawEpoch(5);
  const std::vector<int64_t> all = Numbers(order.InEpoch(*epoch, 0, order.size()));
  for (int64_t begin = 0; begin <= order.size(); begin += 3) {
    for (int64_t end = begin; end <= order.size(); end += 7) {
      CHECK(Numbers(order.InEpoch(*epoch, begin, end)) ==
            std::vector<int64_t>(all.begin() + begin, all.begin() + end));
    }
  }
}

TEST_CASE("block order: a window's examples come from its blocks alone, and are mixed") {
  const BlockOrder order(std::vector<int64_t>(12, 100), 4, 1);
  const auto epoch = order.DrawEpoch(9);
  REQUIRE(epoch->windows() == 3);
  for (int64_t window = 0; window < 3; ++window) {
    std::set<int64_t> allowed;
    for (int64_t i = epoch->first_block(window); i < epoch->end_block(window); ++i) {
      allowed.insert(epoch->run().block(i));
    }
    const auto places = order.InEpoch(*epoch, window * 400, window * 400 + 400);
    std::set<int64_t> first_ten;
    for (size_t i = 0; i < places.size(); ++i) {
      CHECK(allowed.count(places[i].block) == 1);
      CHECK(epoch->window_of(window * 400 + static_cast<int64_t>(i)) == window);
      if (i < 20) first_ten.insert(places[i].block);
    }
    CHECK(first_ten.size() > 2);
  }
  CHECK(Numbers(order.InEpoch(*order.DrawEpoch(10), 0, 1200)) !=
        Numbers(order.InEpoch(*epoch, 0, 1200)));
  CHECK(order.DrawEpoch(9) == epoch);
}

TEST_CASE("block order: no batch has examples of two windows, and each block is in one or two") {
  constexpr int64_t kBatch = 32;
  std::vector<int64_t> examples;
  for (int64_t i = 0; i < 40; ++i) examples.push_back(60 + i * 37 % 80);
  const BlockOrder order(examples, 4, kBatch);
  const auto epoch = order.DrawEpoch(3);
  REQUIRE(epoch->windows() == 10);
  CHECK(epoch->begin(0) == 0);
  CHECK(epoch->end(9) == order.size());
  for (int64_t begin = 0; begin < order.size(); begin += kBatch) {
    const int64_t window = epoch->window_of(begin);
    const auto batch = order.InEpoch(*epoch, begin, std::min(begin + kBatch, order.size()));
    CHECK(epoch->window_of(begin + static_cast<int64_t>(batch.size()) - 1) == window);
    std::set<int64_t> blocks;
    for (int64_t i = epoch->first_block(window); i < epoch->end_block(window); ++i) {
      blocks.insert(epoch->run().block(i));
    }
    CHECK(blocks.size() <= 5);
    for (const ExamplePlace& place : batch) CHECK(blocks.count(place.block) == 1);
  }
  for (int64_t window = 0; window + 1 < epoch->windows(); ++window) {
    CHECK(epoch->first_block(window + 1) >= epoch->end_block(window) - 1);
  }
}

TEST_CASE("block order: windows smaller than a batch become one") {
  const BlockOrder order(std::vector<int64_t>(20, 3), 1, 8);
  const auto epoch = order.DrawEpoch(1);
  REQUIRE(epoch->windows() == 8);  // 60 examples
  for (int64_t window = 0; window < 7; ++window) CHECK(epoch->begin(window) == window * 8);
  CHECK(epoch->end(7) == 60);
}

}  // namespace
}  // namespace coxswain::data
