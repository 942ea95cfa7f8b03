// The index of vectors finds what a scan finds, however long the vectors are.
#include "coordinator/model/vector_index.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "tests/testing/cluster.h"

namespace coxswain::model {
namespace {

using testing::Must;
using Vectors = std::vector<std::vector<float>>;

// Vectors whose lengths differ by a factor of some ten, as those of popular and rare items do.
Vectors Draw(int64_t count, int64_t dim, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Vectors all;
  for (int64_t i = 0; i < count; ++i) {
    const float scale = std::exp(normal(random) / 2);
    std::vector<float>& vector = all.emplace_back();
    for (int64_t j = 0; j < dim; ++j) vector.push_back(scale * normal(random));
  }
  return all;
}

float Product(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return static_cast<float>(sum);
}

std::vector<int64_t> Best(const Vectors& all, const std::vector<float>& query, int64_t top) {
  std::vector<std::pair<float, int64_t>> scored;
  for (size_t i = 0; i < all.size(); ++i) {
    scored.emplace_back(-Product(all[i], query), static_cast<int64_t>(i));
  }
  std::sort(scored.begin(), scored.end());
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < top; ++i) ids.push_back(scored[static_cast<size_t>(i)].second);
  return ids;
}

TEST_CASE("an index reaches the recall that is wanted, among vectors of all lengths") {
  constexpr int64_t kDim = 12;
  const Vectors vectors = Draw(3000, kDim, 1), queries = Draw(50, kDim, 2);
  const auto index = Must(VectorIndex::Create(kDim, 3000));
  for (size_t i = 0; i < vectors.size(); ++i) {
    REQUIRE(index->Add(static_cast<int64_t>(i), vectors[i].data()).ok());
  }
  CHECK(index->size() == 3000);
  std::vector<IndexQuery> asked;
  for (const auto& query : queries) asked.push_back({query, {}, Best(vectors, query, kRecallAt)});
  const IndexQuality quality = Must(ReachRecall(*index, asked, 0.95));
  CHECK(quality.recall >= 0.95);
  CHECK(quality.queries == 50);
  const auto found = Must(index->Search(queries[0].data(), 5, quality.beam));
  REQUIRE(found.size() == 5);
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].product ==
          Approx(Product(vectors[static_cast<size_t>(found[i].id)], queries[0])).margin(1e-4));
    if (i > 0) CHECK(found[i].product <= found[i - 1].product);
  }
  // Answers that are not in the index cannot be found.
  asked[0].exact.assign(10, 5000);
  CHECK(absl::IsFailedPrecondition(ReachRecall(*index, asked, 1).status()));
}

TEST_CASE("an index that leaves out many, or is asked for many, finds the share that is wanted") {
  constexpr int64_t kDim = 12;
  const Vectors vectors = Draw(3000, kDim, 1), queries = Draw(50, kDim, 2);
  const auto index = Must(VectorIndex::Create(kDim, 3000));
  for (size_t i = 0; i < vectors.size(); ++i) {
    REQUIRE(index->Add(static_cast<int64_t>(i), vectors[i].data()).ok());
  }
  // The best `top` after the best `known`, which are left out.
  const auto asked = [&](int64_t known, int64_t top) {
    std::vector<IndexQuery> all;
    for (const auto& query : queries) {
      std::vector<int64_t> best = Best(vectors, query, known + top);
      std::vector<int64_t> left_out(best.begin(), best.begin() + known);
      std::sort(left_out.begin(), left_out.end());
      best.erase(best.begin(), best.begin() + known);
      all.push_back({query, std::move(left_out), std::move(best)});
    }
    return all;
  };
  const auto share = [&](int64_t known, int64_t top, int64_t beam) {
    double hit = 0, wanted = 0;
    for (const IndexQuery& query : asked(known, top)) {
      const auto found = Must(index->Search(query.vector.data(), top, beam, query.left_out));
      CHECK(found.size() == static_cast<size_t>(top));
      wanted += static_cast<double>(query.exact.size());
      for (const auto& f : found) {
        CHECK_FALSE(std::binary_search(query.left_out.begin(), query.left_out.end(), f.id));
        hit += static_cast<double>(std::count(query.exact.begin(), query.exact.end(), f.id));
      }
    }
    return hit / wanted;
  };
  const IndexQuality quality = Must(ReachRecall(*index, asked(0, kRecallAt), 0.95));
  CHECK(share(0, kRecallAt, quality.beam) == Approx(quality.recall));
  CHECK(share(20, kRecallAt, quality.beam) >= 0.95);
  CHECK(share(0, 200, quality.beam) >= 0.95);
  // What is said of those that leave out many is what they get.
  const IndexQuality of_many = Must(ReachRecall(*index, asked(200, kRecallAt), 0.95));
  CHECK(of_many.recall >= 0.95);
  CHECK(share(200, kRecallAt, of_many.beam) == Approx(of_many.recall));
}

TEST_CASE("an index that finds the ten best and not the hundred best is asked for ten") {
  // Ten long vectors, which are linked to one another, and many short ones around them.
  constexpr int64_t kDim = 12;
  Vectors vectors = Draw(3000, kDim, 1);
  const Vectors queries = Draw(50, kDim, 2);
  for (size_t i = 0; i < vectors.size(); ++i) {
    const float scale = i < 300 ? 30.0f : 0.01f;
    for (float& value : vectors[i]) value *= scale;
  }
  const auto index = Must(VectorIndex::Create(kDim, 3000));
  for (size_t i = 0; i < vectors.size(); ++i) {
    REQUIRE(index->Add(static_cast<int64_t>(i), vectors[i].data()).ok());
  }
  const auto recall = [&](int64_t top, int64_t beam) {
    double hit = 0;
    for (const auto& query : queries) {
      const std::vector<int64_t> exact = Best(vectors, query, top);
      for (const auto& f : Must(index->Search(query.data(), top, beam))) {
        hit += static_cast<double>(std::count(exact.begin(), exact.end(), f.id));
      }
    }
    return hit / static_cast<double>(queries.size()) / static_cast<double>(top);
  };
  std::vector<IndexQuery> asked;
  for (const auto& query : queries) {
    asked.push_back({query, {}, Best(vectors, query, kManyRecallAt)});
  }
  const IndexQuality quality = Must(ReachRecall(*index, asked, 0.95));
  CAPTURE(quality.beam, quality.recall, recall(kManyRecallAt, quality.beam));
  CHECK(recall(kRecallAt, quality.beam) == Approx(quality.recall));
  CHECK((quality.most == kManyRecallAt) == (recall(kManyRecallAt, quality.beam) >= 0.95));
}

TEST_CASE("an index leaves out what is not finite, and has no more than it has") {
  const auto index = Must(VectorIndex::Create(2, 3));
  const float good[] = {1, 0}, bad[] = {std::numeric_limits<float>::quiet_NaN(), 0};
  CHECK(Must(index->Search(good, 3, 10)).empty());
  REQUIRE(index->Add(7, good).ok());
  REQUIRE(index->Add(8, bad).ok());
  CHECK(index->size() == 1);
  const auto found = Must(index->Search(good, 3, 10));
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == 7);
  CHECK(found[0].product == Approx(1.0f));
  // More than there is place for is an error, not a crash.
  REQUIRE(index->Add(1, good).ok());
  REQUIRE(index->Add(2, good).ok());
  CHECK(absl::IsResourceExhausted(index->Add(3, good)));
}

}  // namespace
}  // namespace coxswain::model
