// Makes the ids of one table unique and sorts them by the shard that holds their row.
//
//   UniqueShards(ids_0 .. ids_{n-1}, each i64 of any shape; shards, rows, strategy)
//       -> local_ids_0 .. local_ids_{shards-1} (i64 [?]), inverse_0 .. inverse_{n-1} (i32, shape of
//       ids)
//
// local_ids_s are the ids within shard s, each once. inverse_j tells for every id of ids_j where
// its row stands when the rows of all shards are put one behind the other, in shard order. Which
// shard holds a row, and its id there, with q = rows / shards and r = rows % shards:
//   "div": contiguous; the first r shards hold q + 1 rows each, the others q
//   "mod": shard = id % shards, local = id / shards
//   "hash": with rows >= 0: as "mod", with the id's place in the fixed permutation of [0, rows) of
//           runtime/base/row_mix.h; with rows -1, a hash table: shard by runtime/base/id_hash.h,
//           local = id, and any id will do
// Within a shard the ids stand in order of first appearance. Errors: InvalidArgument for an id
// outside [0, rows), but for hash tables.

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/register_list.h"
#include "kernels/validate.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/row_mix.h"
#include "runtime/base/status.h"
#include "runtime/graph/kernel.h"

namespace coxswain {
namespace {

struct Layout {
  int64_t shards = 0;
  int64_t rows = 0;
  bool contiguous = false;
  bool mixed = false;
  bool hash_table = false;
};

absl::StatusOr<Layout> ParseLayout(const Attrs& attrs) {
  Layout layout;
  ASSIGN_OR_RETURN(layout.shards, GetAttr<int64_t>(attrs, "shards"));
  ASSIGN_OR_RETURN(layout.rows, GetAttr<int64_t>(attrs, "rows"));
  ASSIGN_OR_RETURN(const std::string strategy, GetAttr<std::string>(attrs, "strategy"));
  if (layout.shards < 1 || layout.shards > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'shards': wanted 1 or more, found ", layout.shards));
  }
  if (layout.rows < 0 && strategy != "hash") {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'rows': wanted 0 or more, found ", layout.rows));
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

absl::Status InferUniqueShards(InferenceContext* c) {
  ASSIGN_OR_RETURN(const Layout layout, ParseLayout(c->attrs()));
  for (int i = 0; i < c->num_inputs(); ++i) RETURN_IF_ERROR(c->WantDType(i, {DType::kI64}));
  for (int64_t s = 0; s < layout.shards; ++s) c->AddOutput(DType::kI64, Shape{kUnknownDim});
  for (int i = 0; i < c->num_inputs(); ++i) c->AddOutput(DType::kI32, c->shape(i));
  return absl::OkStatus();
}

// Numbers ids in order of first appearance. Open addressing; the table stays with its thread from
// run to run and is emptied by a new stamp, not by clearing it.
class IdTable {
 public:
  // Forgets all ids and makes room for `count` of them.
  void Start(int64_t count) {
    int bits = 10;
    while ((int64_t{1} << bits) < 2 * count) ++bits;
    if (bits > bits_ || stamp_ == std::numeric_limits<uint32_t>::max()) {
      bits_ = std::max(bits, bits_);
      slots_.assign(size_t{1} << bits_, Slot{});
      stamp_ = 0;
    }
    ++stamp_;
    // Only as much of the table as this run needs, so that a small run stays in the cache.
    mask_ = (size_t{1} << bits) - 1;
    shift_ = 64 - bits;
    ids_.clear();
    ids_.reserve(static_cast<size_t>(count));
  }

  // Gives large tables back, so that one huge batch does not hold its memory for ever.
  void Finish() {
    constexpr int kKeptBits = 20;  // 16 MiB
    if (bits_ <= kKeptBits) return;
    bits_ = 0;
    std::vector<Slot>().swap(slots_);
    std::vector<int64_t>().swap(ids_);
  }

  void Prefetch(int64_t id) const { __builtin_prefetch(&slots_[Hash(id)], 1); }

  int32_t Number(int64_t id) {
    size_t at = Hash(id);
    while (true) {
      Slot& slot = slots_[at];
      if (slot.stamp != stamp_) {
        slot = {id, stamp_, static_cast<int32_t>(ids_.size())};
        ids_.push_back(id);
        return slot.number;
      }
      if (slot.id == id) return slot.number;
      at = (at + 1) & mask_;
    }
  }

  const std::vector<int64_t>& ids() const { return ids_; }

 private:
  struct Slot {
    int64_t id = 0;
    uint32_t stamp = 0;
    int32_t number = 0;
  };
  size_t Hash(int64_t id) const {
    return (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u) >> shift_;
  }

  std::vector<Slot> slots_;
  std::vector<int64_t> ids_;
  size_t mask_ = 0;
  int bits_ = 0, shift_ = 64;
  uint32_t stamp_ = 0;
};

class UniqueShardsKernel final : public Kernel {
 public:
  explicit UniqueShardsKernel(const Layout& layout) : layout_(layout) {}

  absl::Status Compute(KernelContext* context) const override {
    int64_t total = 0;
    for (int j = 0; j < context->num_inputs(); ++j) {
      RETURN_IF_ERROR(WantInput(*context, j, DType::kI64));
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
  std::vector<int32_t> Split(const std::vector<int64_t>& ids, KernelContext* context) const {
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

void RegisterUniqueShards(OpRegistry* registry) {
  registry->Register({.name = "UniqueShards",
                      .min_inputs = 1,
                      .max_inputs = -1,
                      .not_differentiable = true,
                      .infer = InferUniqueShards});
  registry->RegisterKernel("UniqueShards", DeviceType::kCpu,
                           [](const Node& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                             ASSIGN_OR_RETURN(const Layout layout, ParseLayout(node.attrs));
                             return std::unique_ptr<Kernel>(new UniqueShardsKernel(layout));
                           });
}

}  // namespace coxswain
