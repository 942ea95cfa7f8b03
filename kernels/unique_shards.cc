// Makes the ids of one table unique and sorts them by the shard that holds their row.
//
//   UniqueShards(ids_0 .. ids_{n-1}, each i64 of any shape; shards, rows, strategy)
//     -> local_ids_0 .. local_ids_{shards-1}   i64 [?]
//        inverse_0 .. inverse_{n-1}            i32, inverse_j of the shape of ids_j
//
// local_ids_s are the ids within shard s, each once, in order of first appearance. inverse_j says
// for every id of ids_j at which row it is found when the rows of all shards are concatenated in
// the order of the shards.
//
// Which shard holds a row, and its id there, with q = rows / shards and r = rows % shards:
//   "div":   contiguous; the first r shards hold q + 1 rows each, the others q
//   "mod":   shard = id % shards, local = id / shards
//   "hash":  rows >= 0: as "mod", with the id's place in the fixed permutation of [0, rows) of
//            runtime/base/row_mix.h
//            rows = -1, a hash table: shard by runtime/base/id_hash.h, local = id; any id will do
//
// Errors: InvalidArgument for an id outside [0, rows), except with hash tables.

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/divider.h"
#include "kernels/cpu/id_table.h"
#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/row_mix.h"
#include "runtime/base/status.h"
#include "runtime/graph/kernel.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kMaxShards = int64_t{1} << 16;  // each is an output
constexpr int64_t kMaxRows = int64_t{1} << 62;    // RowMix's

struct Layout {
  int64_t shards = 0;
  int64_t rows = 0;
  bool contiguous = false;
  bool mixed = false;
  bool hash_table = false;
};

absl::StatusOr<Layout> ParseLayout(const Attrs& attrs) {
  Layout layout;
  ASSIGN_OR_RETURN(layout.shards, graph::GetAttr<int64_t>(attrs, "shards"));
  ASSIGN_OR_RETURN(layout.rows, graph::GetAttr<int64_t>(attrs, "rows"));
  ASSIGN_OR_RETURN(const std::string strategy, graph::GetAttr<std::string>(attrs, "strategy"));
  if (layout.shards < 1 || layout.shards > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'shards': wanted 1 to ", kMaxShards, ", found ", layout.shards));
  }
  if ((layout.rows < 0 && strategy != "hash") || layout.rows > kMaxRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'rows': wanted 0 to 2^62, found ", layout.rows));
  }
  if (strategy != "div" && strategy != "mod" && strategy != "hash") {
    return absl::InvalidArgumentError(absl::StrCat(
        "attribute 'strategy': wanted 'div', 'mod' or 'hash', found '", strategy, "'"));
  }
  layout.contiguous = strategy == "div";
  layout.mixed = strategy == "hash" && layout.rows >= 0;
  layout.hash_table = strategy == "hash" && layout.rows < 0;
  return layout;
}

absl::Status InferUniqueShards(graph::InferenceContext* c) {
  ASSIGN_OR_RETURN(const Layout layout, ParseLayout(c->attrs()));
  for (int i = 0; i < c->num_inputs(); ++i) RETURN_IF_ERROR(c->WantDType(i, {DType::kI64}));
  for (int64_t s = 0; s < layout.shards; ++s) c->AddOutput(DType::kI64, Shape{kUnknownDim});
  for (int i = 0; i < c->num_inputs(); ++i) c->AddOutput(DType::kI32, c->shape(i));
  return absl::OkStatus();
}

class UniqueShardsKernel final : public graph::Kernel {
 public:
  explicit UniqueShardsKernel(const Layout& layout) : layout_(layout) {}

  absl::Status Compute(graph::KernelContext* context) const override {
    int64_t total = 0;
    for (int j = 0; j < context->num_inputs(); ++j) {
      RETURN_IF_ERROR(WantDType(*context, j, {DType::kI64}));
      total += context->input(j).num_elements();
    }
    if (total > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("wanted fewer than 2^31 ids, found ", total));
    }
    thread_local IdTable table;
    table.Start(total);
    std::vector<Tensor> inverse;
    inverse.reserve(context->num_inputs());
    for (int j = 0; j < context->num_inputs(); ++j) {
      inverse.emplace_back(DType::kI32, context->input(j).shape());
      RETURN_IF_ERROR(Number(context->input(j), j, &table, inverse.back().mutable_data<int32_t>()));
    }
    if (layout_.shards == 1 && !layout_.mixed) {
      context->set_output(0, TensorOf(table.ids()));
    } else {
      Move(Split(table.ids(), context), &inverse);
    }
    table.Finish();
    for (size_t j = 0; j < inverse.size(); ++j) {
      context->set_output(static_cast<int>(layout_.shards + j), std::move(inverse[j]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Number(const Tensor& tensor, int input, IdTable* table, int32_t* out) const {
    const absl::Span<const int64_t> ids = tensor.values<int64_t>();
    if (!layout_.hash_table) {
      const auto rows = static_cast<uint64_t>(layout_.rows);
      bool within =
          true;  // without a branch for each: there are many, and all are as they should be
      for (const int64_t id : ids) within &= static_cast<uint64_t>(id) < rows;
      if (!within) return WrongId(ids, input);
    }
    table->Number(ids.data(), static_cast<int64_t>(ids.size()), out);
    return absl::OkStatus();
  }

  absl::Status WrongId(absl::Span<const int64_t> ids, int input) const {
    const auto wrong = std::find_if(ids.begin(), ids.end(),
                                    [&](int64_t id) { return id < 0 || id >= layout_.rows; });
    return absl::InvalidArgumentError(absl::StrCat("input ", input, ": id ", *wrong,
                                                   " at position ", wrong - ids.begin(),
                                                   ": wanted 0 <= id < ", layout_.rows, " rows"));
  }

  static Tensor TensorOf(absl::Span<const int64_t> ids) {
    Tensor tensor(DType::kI64, Shape{static_cast<int64_t>(ids.size())});
    std::copy(ids.begin(), ids.end(), tensor.mutable_data<int64_t>());
    return tensor;
  }

  // To the places that unique ids have among all rows.
  static void Move(const std::unique_ptr<int32_t[]>& moved, std::vector<Tensor>* inverse) {
    for (Tensor& tensor : *inverse) {
      int32_t* const p = tensor.mutable_data<int32_t>();
      for (int64_t i = 0, n = tensor.num_elements(); i < n; ++i) p[i] = moved[p[i]];
    }
  }

  // Sets the local ids of every shard. Returns for each unique id its place among all rows.
  std::unique_ptr<int32_t[]> Split(absl::Span<const int64_t> ids,
                                   graph::KernelContext* context) const {
    const size_t n = ids.size();
    const auto shard_of = std::make_unique_for_overwrite<int32_t[]>(n);
    const auto local = std::make_unique_for_overwrite<int64_t[]>(n);
    FindPlaces(ids, shard_of.get(), local.get());
    std::vector<int64_t> count(layout_.shards, 0);
    for (size_t u = 0; u < n; ++u) ++count[shard_of[u]];
    std::vector<int64_t*> out(layout_.shards);  // from which its place among all rows follows
    std::vector<int64_t> begin(layout_.shards);
    int64_t before = 0;
    for (int64_t s = 0; s < layout_.shards; ++s) {
      Tensor of_shard(DType::kI64, Shape{count[s]});
      out[s] = of_shard.mutable_data<int64_t>();
      context->set_output(static_cast<int>(s), std::move(of_shard));
      begin[s] = before;
      before += count[s];
    }
    auto moved = std::make_unique_for_overwrite<int32_t[]>(n);
    std::vector<int64_t> used(layout_.shards, 0);
    for (size_t u = 0; u < n; ++u) {
      const int32_t shard = shard_of[u];
      const int64_t at = used[shard]++;
      out[shard][at] = local[u];
      moved[u] = static_cast<int32_t>(begin[shard] + at);
    }
    return moved;
  }

  // The shard of each id, and its id there.
  void FindPlaces(absl::Span<const int64_t> ids, int32_t* shard_of, int64_t* local) const {
    const auto all = [&](const auto& place) {
      for (size_t u = 0; u < ids.size(); ++u) place(ids[u], &shard_of[u], &local[u]);
    };
    const auto by_mod = [shards = Divider(static_cast<uint64_t>(layout_.shards))](
                            int64_t id, int32_t* shard, int64_t* at) {
      uint64_t rest;
      *at = static_cast<int64_t>(shards.Divide(static_cast<uint64_t>(id), &rest));
      *shard = static_cast<int32_t>(rest);
    };
    if (layout_.hash_table) {
      all([shards = layout_.shards](int64_t id, int32_t* shard, int64_t* at) {
        *shard = static_cast<int32_t>(HashShard(id, shards));
        *at = id;
      });
    } else if (layout_.mixed) {
      all([&by_mod, mix = RowMix(layout_.rows)](int64_t id, int32_t* shard, int64_t* at) {
        by_mod(mix.Place(id), shard, at);
      });
    } else if (layout_.contiguous) {
      all(Ranges(layout_));
    } else {
      all(by_mod);
    }
  }

  // Contiguous shards. Which kind of them has an id cannot be foretold, so nothing branches on it.
  struct Ranges {
    // Of the shards with a row more, and of the others.
    int64_t begin[2];
    int32_t first_shard[2];
    Divider rows[2];

    explicit Ranges(const Layout& layout)
        : begin{0, layout.rows % layout.shards * (layout.rows / layout.shards + 1)},
          first_shard{0, static_cast<int32_t>(layout.rows % layout.shards)},
          rows{Divider(static_cast<uint64_t>(layout.rows / layout.shards + 1)),
               // No id is there if that is 0.
               Divider(static_cast<uint64_t>(std::max<int64_t>(1, layout.rows / layout.shards)))} {}

    void operator()(int64_t id, int32_t* shard, int64_t* at) const {
      const int kind = id < begin[1] ? 0 : 1;
      uint64_t rest;
      const uint64_t shards = rows[kind].Divide(static_cast<uint64_t>(id - begin[kind]), &rest);
      *shard = first_shard[kind] + static_cast<int32_t>(shards);
      *at = static_cast<int64_t>(rest);
    }
  };

  const Layout layout_;
};

}  // namespace

void RegisterUniqueShards(graph::OpRegistry* registry) {
  registry->Register({.name = "UniqueShards",
                      .min_inputs = 1,
                      .max_inputs = -1,
                      .on_host = true,
                      .not_differentiable = true,
                      .infer = InferUniqueShards,
                      .attrs = {"shards", "rows", "strategy"}});
  registry->RegisterKernel(
      "UniqueShards",
      [](const graph::Node& node) -> absl::StatusOr<std::unique_ptr<graph::Kernel>> {
        ASSIGN_OR_RETURN(const Layout layout, ParseLayout(node.attrs));
        return std::unique_ptr<graph::Kernel>(new UniqueShardsKernel(layout));
      });
}

}  // namespace coxswain::kernels
