// An index of vectors (coordinator/model/vector_index.h) beside a search of all: how long it takes
// to build, how wide a search has to be for a recall of 0.95, and how long a search takes. The
// vectors are drawn around 1,000 centres, with lengths that differ. One thread. Prints JSON.
//
//   bench_index [vectors = 200000] [dim = 64] [queries = 1000]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/model/vector_index.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

using Vectors = std::vector<std::vector<float>>;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Vectors Around(const Vectors& centres, int64_t count, int64_t dim, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Vectors all;
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<float>& centre = centres[random() % centres.size()];
    const float scale = std::exp(normal(random) / 4);
    std::vector<float>& vector = all.emplace_back();
    for (int64_t j = 0; j < dim; ++j) {
      vector.push_back(scale * (centre[static_cast<size_t>(j)] + normal(random) / 2));
    }
  }
  return all;
}

std::vector<int64_t> Best(const std::vector<float>& vectors, const std::vector<float>& query) {
  const size_t dim = query.size();
  std::vector<std::pair<float, int64_t>> scored;
  for (size_t i = 0; i < vectors.size() / dim; ++i) {
    float product = 0;
    for (size_t j = 0; j < dim; ++j) product += vectors[i * dim + j] * query[j];
    scored.emplace_back(-product, static_cast<int64_t>(i));
  }
  std::partial_sort(scored.begin(), scored.begin() + model::kRecallAt, scored.end());
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < model::kRecallAt; ++i) ids.push_back(scored[i].second);
  return ids;
}

absl::Status Run(int64_t count, int64_t dim, int64_t asked) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Vectors centres(1000);
  for (auto& centre : centres) {
    for (int64_t j = 0; j < dim; ++j) centre.push_back(normal(random));
  }
  std::vector<float> flat;
  for (const auto& vector : Around(centres, count, dim, 2)) {
    flat.insert(flat.end(), vector.begin(), vector.end());
  }
  const Vectors queries = Around(centres, asked, dim, 3);

  double start = Seconds();
  ASSIGN_OR_RETURN(const auto index, model::VectorIndex::Create(dim, count));
  for (int64_t i = 0; i < count; ++i) RETURN_IF_ERROR(index->Add(i, flat.data() + i * dim));
  const double build = Seconds() - start;

  const auto some = static_cast<size_t>(std::min(asked, model::kRecallQueries));
  const Vectors sample(queries.begin(), queries.begin() + static_cast<int64_t>(some));
  std::vector<model::IndexQuery> exact;
  start = Seconds();
  for (const auto& query : sample) exact.push_back({query, {}, Best(flat, query)});
  const double scan = (Seconds() - start) / static_cast<double>(some);
  ASSIGN_OR_RETURN(const model::IndexQuality quality, model::ReachRecall(*index, exact, 0.95));

  start = Seconds();
  for (const auto& query : queries) {
    RETURN_IF_ERROR(index->Search(query.data(), model::kRecallAt, quality.beam).status());
  }
  const double search = (Seconds() - start) / static_cast<double>(asked);
  std::printf(
      "{\"vectors\": %lld, \"dim\": %lld, \"build_seconds\": %.1f, \"beam\": %lld, "
      "\"recall_at_10\": %.3f, \"search_ms\": %.3f, \"scan_ms\": %.3f}\n",
      static_cast<long long>(count), static_cast<long long>(dim), build,
      static_cast<long long>(quality.beam), quality.recall, search * 1e3, scan * 1e3);
  return absl::OkStatus();
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  const int64_t vectors = argc > 1 ? std::atoll(argv[1]) : 200'000;
  const int64_t dim = argc > 2 ? std::atoll(argv[2]) : 64;
  const int64_t queries = argc > 3 ? std::atoll(argv[3]) : 1000;
  if (vectors < 100 || dim < 1 || queries < 1) {
    std::fprintf(stderr, "usage: bench_index [vectors, at least 100] [dim] [queries]\n");
    return 2;
  }
  const absl::Status status = coxswain::Run(vectors, dim, queries);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
