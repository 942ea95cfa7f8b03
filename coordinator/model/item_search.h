// Which items score highest for users, and how many score higher than a user's own, on a cluster
// where no process reads all items. Items that are rows of a table are scored where these lie.
// Those that go through hidden layers are taken in pieces: a closure on a worker looks the rows of
// a piece up, runs them through the layers, and returns what they make of the scores.
//
// Closures change nothing, so one whose worker is lost runs again. Memory: on a worker a piece of
// the items and its scores, here what users are asked for and the results.
//
// Thread model: thread-safe, but the strategy is used when something is asked for the first time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/product_model.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/strategy.h"

namespace coxswain::model {

// Best first, of equal scores the lower id first.
struct BestItems {
  Tensor scores;  // f32 [B, k]
  Tensor ids;     // i64 [B, k]
};

class ItemSearch {
 public:
  // Whether to go on no longer: then calls end with Cancelled.
  using Stopped = std::function<bool()>;

  // What is done at once.
  struct Limits {
    int64_t scores = int64_t{4} << 20;             // of users and a piece
    int64_t least = 512, most = int64_t{1} << 15;  // items of a piece
    int64_t users = 1024;                          // whose best are looked for
  };

  // All of them outlive it.
  ItemSearch(ParameterServerStrategy* strategy, const ProductModel& model, const ModelParts& parts)
      : ItemSearch(strategy, model, parts, Limits{}) {}
  ItemSearch(ParameterServerStrategy* strategy, const ProductModel& model, const ModelParts& parts,
             const Limits& limits);

  // The vectors of users whose features have these values, f32 [B, dim]: i64 [n], cut at offsets,
  // i32 [B + 1]. Errors: FailedPrecondition for a model that is no ItemModel; those of closures.
  absl::StatusOr<Tensor> UsersOf(const Tensor& values, const Tensor& offsets);
  // Closures that are under way fail with Cancelled. From any thread.
  void Cancel() { coordinator_.Cancel(); }
  // The k best for each of these users; 1 <= k <= ModelParts::Candidates. Errors: those of
  // closures.
  absl::StatusOr<BestItems> Best(const Tensor& users, int64_t k, const Stopped& stopped);
  // Of an ItemModel with in_pieces: the ranks of all examples, by the results of several
  // closures of ItemModel::Evaluate, in their order. Errors: those of closures.
  absl::StatusOr<std::vector<int64_t>> Ranks(absl::Span<const std::vector<Tensor>> evaluated,
                                             const Stopped& stopped);

 private:
  struct Piece {
    int64_t begin = 0, end = 0;  // ids
  };
  class Known;
  // f32 [n]: the score of item own[i] for user i, as the pieces have it, to the last bit: of items
  // with one vector none is above another.
  absl::StatusOr<Tensor> OwnScores(const Tensor& users, const std::vector<int64_t>& own,
                                   const Stopped& stopped);

  // All candidates, for so many users at once; each has at least `least`, where there are enough.
  std::vector<Piece> Pieces(int64_t users, int64_t least) const;
  // The function of this name, which is defined when it is asked for the first time.
  absl::StatusOr<RemoteFunction> Function(const std::string& name,
                                          const std::function<void(FunctionBuilder&)>& build);
  absl::StatusOr<RemoteFunction> BestOf(int64_t k);
  absl::Status BestInPieces(const Tensor& users, int64_t k, const Stopped& stopped,
                            BestItems* best);
  absl::Status BestOnServers(const Tensor& users, int64_t k, const Stopped& stopped,
                             BestItems* best);

  ParameterServerStrategy* const strategy_;
  const ProductModel& model_;
  const ModelParts& parts_;
  const Limits limits_;
  ClusterCoordinator coordinator_;
  absl::Mutex mutex_;
  std::map<std::string, RemoteFunction> functions_ ABSL_GUARDED_BY(mutex_);  // by name
};

}  // namespace coxswain::model
