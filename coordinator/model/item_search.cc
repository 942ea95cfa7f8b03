// The pieces of the items, their closures, and what each adds to ranks and to the best.
#include "coordinator/model/item_search.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/model/item_model.h"
#include "coordinator/model/model_parts.h"
#include "kernels/cpu/top_entries.h"
#include "runtime/base/status.h"
#include "runtime/graph/builder.h"

namespace coxswain::model {
namespace {

using kernels::TopEntries;
using kernels::TopEntry;

constexpr size_t kUnderWay = 64;  // closures

absl::Status Bad(absl::string_view what) {
  return absl::InternalError(absl::StrCat("a closure returned no ", what));
}

// Closures whose results are taken in their order, few of them at a time.
class InOrder {
 public:
  using Take = std::function<absl::Status(size_t number, const std::vector<Tensor>& results)>;

  InOrder(ClusterCoordinator* coordinator, const ItemSearch::Stopped& stopped, Take take)
      : coordinator_(coordinator), stopped_(stopped), take_(std::move(take)) {}
  ~InOrder() {
    for (const RemoteValue& value : under_way_) value.Cancel();
  }

  absl::Status Add(const RemoteFunction& function, std::vector<Tensor> arguments) {
    if (stopped_()) return absl::CancelledError("interrupted");
    under_way_.push_back(coordinator_->Schedule(function, std::move(arguments)));
    return under_way_.size() < kUnderWay ? absl::OkStatus() : TakeFirst();
  }
  absl::Status Finish() {
    while (!under_way_.empty()) {
      if (stopped_()) return absl::CancelledError("interrupted");
      RETURN_IF_ERROR(TakeFirst());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status TakeFirst() {
    const RemoteValue first = under_way_.front();
    under_way_.pop_front();
    ASSIGN_OR_RETURN(const std::vector<Tensor> results, first.Get());
    return take_(taken_++, results);
  }

  ClusterCoordinator* const coordinator_;
  const ItemSearch::Stopped& stopped_;
  const Take take_;
  std::deque<RemoteValue> under_way_;
  size_t taken_ = 0;
};

Tensor Ids(int64_t begin, int64_t end) {
  Tensor ids(DType::kI64, Shape{end - begin});
  std::iota(ids.mutable_data<int64_t>(), ids.mutable_data<int64_t>() + (end - begin), begin);
  return ids;
}

// Rows [begin, end) of a matrix.
Tensor RowsOf(const Tensor& matrix, int64_t begin, int64_t end) {
  const int64_t width = matrix.dim(1);
  Tensor rows(DType::kF32, Shape{end - begin, width});
  std::copy_n(matrix.data<float>() + begin * width, (end - begin) * width,
              rows.mutable_data<float>());
  return rows;
}

}  // namespace

// What is known of the examples: their users, the id of each one's own item, and the ids that are
// left out, in the order of ids.
class ItemSearch::Known {
 public:
  absl::Status Add(absl::Span<const Tensor> results) {
    if (results.size() < 4 || results[0].dtype() != DType::kF32 || results[0].rank() != 2 ||
        results[1].dtype() != DType::kI64 || results[2].dtype() != DType::kI64 ||
        results[3].dtype() != DType::kI32 || results[1].num_elements() != results[0].dim(0) ||
        results[3].num_elements() != results[0].dim(0) + 1) {
      return Bad("users and items of its examples");
    }
    const auto offset = results[3].values<int32_t>();
    if (offset.front() != 0 || offset.back() != results[2].num_elements() ||
        !std::is_sorted(offset.begin(), offset.end())) {
      return Bad("lists of what its examples leave out");
    }
    dim_ = results[0].dim(1);
    const auto users = results[0].values<float>();
    users_.insert(users_.end(), users.begin(), users.end());
    const int32_t* const offsets = results[3].data<int32_t>();
    for (int64_t i = 0; i < results[0].dim(0); ++i) {
      const auto example = static_cast<int32_t>(own_.size());
      own_.push_back(results[1].data<int64_t>()[i]);
      left_out_.push_back({own_.back(), example});
      for (int32_t e = offsets[i]; e < offsets[i + 1]; ++e) {
        left_out_.push_back({results[2].data<int64_t>()[e], example});
      }
    }
    return absl::OkStatus();
  }
  void Sort() { std::sort(left_out_.begin(), left_out_.end()); }

  int64_t examples() const { return static_cast<int64_t>(own_.size()); }
  const std::vector<int64_t>& own() const { return own_; }
  absl::StatusOr<Tensor> Users() const {
    return Tensor::FromVector<float>(users_, Shape{examples(), dim_});
  }

  // By example, what is left out of a piece, as places in it; then offsets.
  std::pair<Tensor, Tensor> LeftOut(const Piece& piece) const {
    const auto first = std::lower_bound(left_out_.begin(), left_out_.end(),
                                        std::pair<int64_t, int32_t>(piece.begin, -1));
    const auto last =
        std::lower_bound(first, left_out_.end(), std::pair<int64_t, int32_t>(piece.end, -1));
    Tensor offsets = Tensor::Zeros(DType::kI32, Shape{examples() + 1});
    int32_t* const at = offsets.mutable_data<int32_t>();
    for (auto e = first; e != last; ++e) ++at[e->second + 1];
    std::partial_sum(at, at + examples() + 1, at);
    Tensor values(DType::kI64, Shape{last - first});
    std::vector<int32_t> next(at, at + examples());
    for (auto e = first; e != last; ++e) {
      const auto place = next[static_cast<size_t>(e->second)]++;
      values.mutable_data<int64_t>()[place] = e->first - piece.begin;
    }
    return {std::move(values), std::move(offsets)};
  }

 private:
  int64_t dim_ = 0;
  std::vector<float> users_;
  std::vector<int64_t> own_;
  std::vector<std::pair<int64_t, int32_t>> left_out_;  // id, example
};

std::vector<ItemSearch::Piece> ItemSearch::Pieces(int64_t users, int64_t least) const {
  const int64_t items = parts_.Candidates(model_.product_item());
  const int64_t most = std::max(
      least, std::clamp(limits_.scores / std::max<int64_t>(1, users), limits_.least, limits_.most));
  const int64_t count = std::max<int64_t>(1, items / most);
  std::vector<Piece> pieces;
  for (int64_t p = 0; p < count; ++p) {
    pieces.push_back({items * p / count, items * (p + 1) / count});
  }
  return pieces;
}

ItemSearch::ItemSearch(ParameterServerStrategy* strategy, const ProductModel& model,
                       const ModelParts& parts, const Limits& limits)
    : strategy_(strategy),
      model_(model),
      parts_(parts),
      limits_(limits),
      coordinator_(*strategy, {.on_error = ErrorPolicy::kIgnore}) {}  // each call has its own

absl::StatusOr<RemoteFunction> ItemSearch::Function(
    const std::string& name, const std::function<void(FunctionBuilder&)>& build) {
  absl::MutexLock lock(&mutex_);
  const auto known = functions_.find(name);
  if (known != functions_.end()) return known->second;
  ASSIGN_OR_RETURN(RemoteFunction function, strategy_->Define(name, [&](FunctionBuilder& f) {
    f.ReadAverages();
    build(f);
  }));
  return functions_.emplace(name, std::move(function)).first->second;
}

absl::StatusOr<Tensor> ItemSearch::UsersOf(const Tensor& values, const Tensor& offsets) {
  const auto* const ranks = dynamic_cast<const ItemModel*>(&model_);
  if (ranks == nullptr) return absl::FailedPreconditionError("the model's users are no lists");
  ASSIGN_OR_RETURN(const RemoteFunction function, Function("users_of", [&](FunctionBuilder& f) {
                     const Output v = f.Argument("values", DType::kI64, {kUnknownDim});
                     const Output o = f.Argument("offsets", DType::kI32, {kUnknownDim});
                     f.Result("user", ranks->ScaledUserOf(f, parts_, v, o));
                   }));
  return coordinator_.Fetch(coordinator_.Schedule(function, {values, offsets}), "user");
}

absl::StatusOr<RemoteFunction> ItemSearch::BestOf(int64_t k) {
  return Function(absl::StrCat("best_", k), [&](FunctionBuilder& f) {
    const Output users = f.Argument("users", DType::kF32, {kUnknownDim, model_.width()});
    FunctionBuilder::TopCandidates best;
    if (model_.in_pieces()) {
      const Output ids = f.Argument("ids", DType::kI64, {kUnknownDim});
      const std::vector<Output> top =
          f.graph().OpN("TopK", {model_.ScoresOf(f, parts_, users, ids)}, {{"k", k}}, 2);
      best = {top[0], top[1]};
    } else {
      best = model_.BestRows(f, parts_, users, k);
    }
    f.Result("scores", best.scores);
    f.Result("ids", best.ids);
  });
}

absl::StatusOr<BestItems> ItemSearch::Best(const Tensor& users, int64_t k, const Stopped& stopped) {
  const Shape shape{users.dim(0), k};
  BestItems best{Tensor(DType::kF32, shape), Tensor(DType::kI64, shape)};
  RETURN_IF_ERROR(model_.in_pieces() ? BestInPieces(users, k, stopped, &best)
                                     : BestOnServers(users, k, stopped, &best));
  return best;
}

absl::Status ItemSearch::BestOnServers(const Tensor& users, int64_t k, const Stopped& stopped,
                                       BestItems* best) {
  ASSIGN_OR_RETURN(const RemoteFunction function, BestOf(k));
  float* const scores = best->scores.mutable_data<float>();
  int64_t* const ids = best->ids.mutable_data<int64_t>();
  InOrder closures(&coordinator_, stopped,
                   [&](size_t number, const std::vector<Tensor>& results) -> absl::Status {
                     const int64_t at = static_cast<int64_t>(number) * limits_.users;
                     const int64_t n = std::min(limits_.users, users.dim(0) - at);
                     if (results.size() != 2 || results[0].num_elements() != n * k) {
                       return Bad("best items");
                     }
                     std::copy_n(results[0].data<float>(), n * k, scores + at * k);
                     std::copy_n(results[1].data<int64_t>(), n * k, ids + at * k);
                     return absl::OkStatus();
                   });
  for (int64_t begin = 0; begin < users.dim(0); begin += limits_.users) {
    const int64_t end = std::min(users.dim(0), begin + limits_.users);
    RETURN_IF_ERROR(closures.Add(function, {RowsOf(users, begin, end)}));
  }
  return closures.Finish();
}

absl::Status ItemSearch::BestInPieces(const Tensor& users, int64_t k, const Stopped& stopped,
                                      BestItems* best) {
  ASSIGN_OR_RETURN(const RemoteFunction function, BestOf(k));
  for (int64_t begin = 0; begin < users.dim(0); begin += limits_.users) {
    const int64_t end = std::min(users.dim(0), begin + limits_.users);
    const Tensor some = RowsOf(users, begin, end);
    const std::vector<Piece> pieces = Pieces(end - begin, k);
    std::vector<TopEntries<float>> top(static_cast<size_t>(end - begin), TopEntries<float>(k));
    InOrder closures(
        &coordinator_, stopped,
        [&](size_t number, const std::vector<Tensor>& results) -> absl::Status {
          const Shape wanted{end - begin, k};
          if (results.size() != 2 || results[0].shape() != wanted || results[1].shape() != wanted) {
            return Bad("best items");
          }
          for (int64_t i = 0; i < (end - begin) * k; ++i) {
            top[static_cast<size_t>(i / k)].Add(
                results[0].data<float>()[i], pieces[number].begin + results[1].data<int64_t>()[i]);
          }
          return absl::OkStatus();
        });
    for (const Piece& piece : pieces) {
      RETURN_IF_ERROR(closures.Add(function, {some, Ids(piece.begin, piece.end)}));
    }
    RETURN_IF_ERROR(closures.Finish());
    int64_t at = begin * k;
    for (TopEntries<float>& of_user : top) {
      for (const TopEntry<float>& entry : of_user.Sorted()) {
        best->scores.mutable_data<float>()[at] = entry.value;
        best->ids.mutable_data<int64_t>()[at++] = entry.index;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ItemSearch::OwnScores(const Tensor& users, const std::vector<int64_t>& own,
                                             const Stopped& stopped) {
  ASSIGN_OR_RETURN(
      const RemoteFunction function, Function("own_scores", [&](FunctionBuilder& f) {
        const Output some = f.Argument("users", DType::kF32, {kUnknownDim, model_.width()});
        const Output ids = f.Argument("ids", DType::kI64, {kUnknownDim});
        const Output places = f.Argument("places", DType::kI64, {kUnknownDim});
        const Output all = model_.ScoresOf(f, parts_, some, ids);
        f.Result("score", f.Gather(f.Reshape(all, {-1}), places));
      }));
  constexpr int64_t kTogether = 256;
  Tensor scores(DType::kF32, Shape{users.dim(0)});
  float* const out = scores.mutable_data<float>();
  const auto size = [&](int64_t begin) { return std::min(kTogether, users.dim(0) - begin); };
  InOrder closures(&coordinator_, stopped,
                   [&](size_t number, const std::vector<Tensor>& results) -> absl::Status {
                     const int64_t begin = static_cast<int64_t>(number) * kTogether;
                     if (results.size() != 1 || results[0].dtype() != DType::kF32 ||
                         results[0].num_elements() != size(begin)) {
                       return Bad("scores of its examples' items");
                     }
                     std::copy_n(results[0].data<float>(), size(begin), out + begin);
                     return absl::OkStatus();
                   });
  for (int64_t begin = 0; begin < users.dim(0); begin += kTogether) {
    const int64_t n = size(begin);
    Tensor ids(DType::kI64, Shape{n}), diagonal(DType::kI64, Shape{n});
    for (int64_t i = 0; i < n; ++i) {
      ids.mutable_data<int64_t>()[i] = own[static_cast<size_t>(begin + i)];
      diagonal.mutable_data<int64_t>()[i] = i * (n + 1);
    }
    RETURN_IF_ERROR(closures.Add(function, {RowsOf(users, begin, begin + n), ids, diagonal}));
  }
  RETURN_IF_ERROR(closures.Finish());
  return scores;
}

absl::StatusOr<std::vector<int64_t>> ItemSearch::Ranks(
    absl::Span<const std::vector<Tensor>> evaluated, const Stopped& stopped) {
  Known known;
  for (const std::vector<Tensor>& results : evaluated) RETURN_IF_ERROR(known.Add(results));
  known.Sort();
  ASSIGN_OR_RETURN(
      const RemoteFunction function, Function("rank_piece", [&](FunctionBuilder& f) {
        const Output users = f.Argument("users", DType::kF32, {kUnknownDim, model_.width()});
        const Output score = f.Argument("score", DType::kF32, {kUnknownDim});
        const Output ids = f.Argument("ids", DType::kI64, {kUnknownDim});
        const Output own = f.Argument("own", DType::kI64, {kUnknownDim});
        const Output values = f.Argument("values", DType::kI64, {kUnknownDim});
        const Output offsets = f.Argument("offsets", DType::kI32, {kUnknownDim});
        // Each example's own score stands behind those of the piece.
        const Output scores =
            f.Concat({model_.ScoresOf(f, parts_, users, ids), f.Reshape(score, {-1, 1})}, 1);
        f.Result("rank", f.Op("MaskedRank", {scores, own, values, offsets}));
      }));
  std::vector<int64_t> ranks(static_cast<size_t>(known.examples()), 0);
  if (ranks.empty()) return ranks;
  ASSIGN_OR_RETURN(const Tensor users, known.Users());
  ASSIGN_OR_RETURN(const Tensor score, OwnScores(users, known.own(), stopped));
  InOrder closures(&coordinator_, stopped,
                   [&](size_t, const std::vector<Tensor>& results) -> absl::Status {
                     if (results.size() != 1 || results[0].dtype() != DType::kI64 ||
                         results[0].num_elements() != known.examples()) {
                       return Bad("ranks");
                     }
                     for (size_t i = 0; i < ranks.size(); ++i) {
                       ranks[i] += results[0].data<int64_t>()[i];
                     }
                     return absl::OkStatus();
                   });
  for (const Piece& piece : Pieces(known.examples(), 1)) {
    const Tensor own =
        Tensor::FromVector(std::vector<int64_t>(ranks.size(), piece.end - piece.begin));
    auto [values, offsets] = known.LeftOut(piece);
    RETURN_IF_ERROR(
        closures.Add(function, {users, score, Ids(piece.begin, piece.end), own, values, offsets}));
  }
  RETURN_IF_ERROR(closures.Finish());
  // One that stands for no item ranks behind all of them.
  const int64_t items = parts_.Candidates(model_.product_item());
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (known.own()[i] >= items) ranks[i] = items;
  }
  return ranks;
}

}  // namespace coxswain::model
