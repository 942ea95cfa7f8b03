#include "coordinator/model/cluster_words.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/nearest_rows.h"
#include "coordinator/model/join_unless_stopped.h"
#include "coxswain/cluster_coordinator.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

// Queries of one closure: a parameter server goes through its rows once for each.
constexpr size_t kQueries = 512;

// Queries as NearestByDirection takes them. Those without a direction are left out: they have no
// answer.
struct Asked {
  std::vector<size_t> which;
  std::vector<float> vectors;  // of length 1
  std::vector<int64_t> excluded;
  std::vector<int32_t> offsets = {0};

  void Add(size_t at, const NearestQuery& query) {
    double square = 0;
    for (const float v : query.vector) square += double{v} * v;
    const double inverse = 1 / std::sqrt(square);
    if (!std::isfinite(square) || !std::isfinite(inverse)) return;
    which.push_back(at);
    for (const float v : query.vector) vectors.push_back(v * static_cast<float>(inverse));
    excluded.insert(excluded.end(), query.exclude.begin(), query.exclude.end());
    offsets.push_back(static_cast<int32_t>(excluded.size()));
  }
};

class ClusterWords {
 public:
  static absl::StatusOr<std::shared_ptr<const ClusterWords>> Create(
      ParameterServerStrategy* strategy, const EmbeddingTable& table,
      std::function<bool()> stopped) {
    auto words = std::make_shared<ClusterWords>();
    words->strategy_ = strategy;
    words->dim_ = table.dim();
    words->stopped_ = std::move(stopped);
    ASSIGN_OR_RETURN(words->rows_, strategy->Define("word_rows", [&](FunctionBuilder& f) {
      f.ReadAverages();
      f.Result("rows", ExactRows(f, table, f.Argument("ids", DType::kI64, {kUnknownDim})));
    }));
    ASSIGN_OR_RETURN(words->nearest_, strategy->Define("nearest_word", [&](FunctionBuilder& f) {
      f.ReadAverages();
      const Output x = f.Argument("x", DType::kF32, {kUnknownDim, table.dim()});
      const Output excluded = f.Argument("excluded", DType::kI64, {kUnknownDim});
      const Output offsets = f.Argument("offsets", DType::kI32, {kUnknownDim});
      f.Result("ids", NearestByDirection(f, table, x, excluded, offsets, 1).ids);
    }));
    return words;
  }

  absl::StatusOr<Tensor> Rows(const std::vector<int64_t>& ids) const {
    ClusterCoordinator coordinator(*strategy_);
    RemoteValue rows = coordinator.Schedule(rows_, {Tensor::FromVector<int64_t>(ids)});
    RETURN_IF_ERROR(JoinUnlessStopped(&coordinator, stopped_));
    return coordinator.Fetch(rows, "rows");
  }

  absl::StatusOr<std::vector<int64_t>> Nearest(const std::vector<NearestQuery>& queries) const {
    std::vector<int64_t> answers(queries.size(), -1);
    std::vector<std::pair<std::vector<size_t>, RemoteValue>> asked;
    ClusterCoordinator coordinator(*strategy_);
    for (size_t begin = 0; begin < queries.size(); begin += kQueries) {
      Asked some;
      for (size_t i = begin; i < std::min(queries.size(), begin + kQueries); ++i) {
        if (static_cast<int64_t>(queries[i].vector.size()) != dim_) {
          return absl::InvalidArgumentError(absl::StrCat(
              "wanted a vector of ", dim_, " numbers, got ", queries[i].vector.size()));
        }
        some.Add(i, queries[i]);
      }
      if (some.which.empty()) continue;
      const Shape shape{static_cast<int64_t>(some.which.size()), dim_};
      ASSIGN_OR_RETURN(const Tensor x, Tensor::FromVector<float>(some.vectors, shape));
      asked.emplace_back(std::move(some.which),
                         coordinator.Schedule(nearest_, {x, Tensor::FromVector(some.excluded),
                                                         Tensor::FromVector(some.offsets)}));
    }
    RETURN_IF_ERROR(JoinUnlessStopped(&coordinator, stopped_));
    for (const auto& [which, value] : asked) {
      ASSIGN_OR_RETURN(const Tensor ids, coordinator.Fetch(value, "ids"));
      for (size_t i = 0; i < which.size(); ++i) answers[which[i]] = ids.values<int64_t>().at(i);
    }
    return answers;
  }

 private:
  ParameterServerStrategy* strategy_ = nullptr;
  int64_t dim_ = 0;
  std::function<bool()> stopped_;
  RemoteFunction rows_, nearest_;
};

}  // namespace

absl::StatusOr<WordTable> WordsOnCluster(ParameterServerStrategy* strategy,
                                         const EmbeddingTable& table,
                                         std::function<bool()> stopped) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ClusterWords> words,
                   ClusterWords::Create(strategy, table, std::move(stopped)));
  return WordTable{[words](const std::vector<int64_t>& ids) { return words->Rows(ids); },
                   [words](const std::vector<NearestQuery>& q) { return words->Nearest(q); }};
}

}  // namespace coxswain::model
