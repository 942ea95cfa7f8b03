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
    const std::vector<int32_t> moved = Split(table.ids(), context);
    table.Finish();
    for (size_t j = 0; j < inverse.size(); ++j) {
      if (layout_.shards > 1) {
        int32_t* p = inverse[j].mutable_data<int32_t>();
        for (int64_t i = 0, n = inverse[j].num_elements(); i < n; ++i) p[i] = moved[p[i]];
      }
      context->set_output(static_cast<int>(layout_.shards + j), std::move(inverse[j]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Number(const Tensor& tensor, int input, IdTable* table, int32_t* out) const {
    constexpr int64_t kAhead = 16;
    const absl::Span<const int64_t> ids = tensor.values<int64_t>();
    const int64_t n = static_cast<int64_t>(ids.size());
    for (int64_t i = 0; i < std::min(n, kAhead); ++i) table->Prefetch(ids[i]);
    for (int64_t i = 0; i < n; ++i) {
      if (i + kAhead < n) table->Prefetch(ids[i + kAhead]);
      if (!layout_.hash_table &&
          static_cast<uint64_t>(ids[i]) >= static_cast<uint64_t>(layout_.rows)) {
        return absl::InvalidArgumentError(absl::StrCat("input ", input, ": id ", ids[i],
                                                       " at position ", i, ": wanted 0 <= id < ",
                                                       layout_.rows, " rows"));
      }
      out[i] = table->Number(ids[i]);
    }
    return absl::OkStatus();
  }

  // Sets the local ids of every shard. Returns for each unique id its place among all rows.
  std::vector<int32_t> Split(const std::vector<int64_t>& ids, graph::KernelContext* context) const {
    const int64_t q = layout_.rows / layout_.shards, r = layout_.rows % layout_.shards;
    const int64_t large = r * (q + 1);  // rows in the shards that hold q + 1
    struct Place {
      int32_t shard;
      int64_t local;
    };
    const RowMix mix(std::max<int64_t>(0, layout_.rows));
    auto place = [&](int64_t id) -> Place {
      if (layout_.hash_table) return {static_cast<int32_t>(HashShard(id, layout_.shards)), id};
      if (layout_.mixed) id = mix.Place(id);
      if (!layout_.contiguous) {
        return {static_cast<int32_t>(id % layout_.shards), id / layout_.shards};
      }
      if (id < large) return {static_cast<int32_t>(id / (q + 1)), id % (q + 1)};
      return {static_cast<int32_t>(r + (id - large) / q), (id - large) % q};
    };
    std::vector<Place> places(ids.size());
    std::vector<int64_t> count(layout_.shards, 0);
    for (size_t u = 0; u < ids.size(); ++u) {
      places[u] = place(ids[u]);
      ++count[places[u].shard];
    }
    std::vector<int64_t*> out(layout_.shards);
    std::vector<int32_t> next(layout_.shards);  // place of the shard's next row among all rows
    int64_t before = 0;
    for (int64_t s = 0; s < layout_.shards; ++s) {
      Tensor local(DType::kI64, Shape{count[s]});
      out[s] = local.mutable_data<int64_t>();
      context->set_output(static_cast<int>(s), std::move(local));
      next[s] = static_cast<int32_t>(before);
      before += count[s];
    }
    std::vector<int32_t> moved(ids.size());
    for (size_t u = 0; u < ids.size(); ++u) {
      const int32_t shard = places[u].shard;
      *out[shard]++ = places[u].local;
      moved[u] = next[shard]++;
    }
    return moved;
  }

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
