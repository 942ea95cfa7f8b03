// A stable radix sort of 32-bit keys, 8 bits a pass, of as many bits as the number of rows has.
//
// A pass counts the digits of each tile of entries, sums the counts of each digit up over the
// tiles, and moves the entries. Within a tile the order stays: each warp takes its entries 32 at a
// time, and the lanes with one digit find each other by a collective.
#include "kernels/cuda/segment_sum.h"

namespace coxswain::cuda {
namespace {

constexpr int kDigits = 256;
static_assert(kDigits == kThreads, "a thread for each digit");
constexpr int kWarps = kThreads / kWarp;
// Of 32 entries that each warp takes. More would leave a GPU idle: a step has some thousand entries
// of each table.
constexpr int kRounds = 4;
constexpr int64_t kSortTile = int64_t{kThreads} * kRounds;

COX_DEVICE uint32_t DigitOf(uint32_t key, int shift) { return (key >> shift) & (kDigits - 1); }

// digits[digit * tiles + tile] = how many keys of the tile have the digit.
struct CountDigits {
  const uint32_t* keys;
  uint32_t* digits;
  int64_t count, tiles;
  int shift;

  COX_DEVICE void operator()(const Block& block, int64_t tile) const {
    uint32_t* bins = block.shared<uint32_t>();
    block.Phase([&](int t) { bins[t] = 0; });
    block.Phase([&](int t) {
      COX_UNROLL_BY(4)
      for (int round = 0; round < kRounds; ++round) {
        const int64_t i = tile * kSortTile + round * kThreads + t;
        if (i < count) AtomicAdd(&bins[DigitOf(keys[i], shift)], 1);
      }
    });
    block.Phase([&](int t) { digits[t * tiles + tile] = bins[t]; });
  }
};

// Each thread's value becomes the sum of those of the threads before it, and its `totals` the sum
// of all. `memory`: shared, of 2 kThreads values.
COX_DEVICE void SumUp(const Block& block, PerThread<uint32_t>* values, PerThread<uint32_t>* totals,
                      uint32_t* memory) {
  uint32_t *from = memory, *to = memory + kThreads;
  block.Phase([&](int t) { from[t] = (*values)[t]; });
  for (int apart = 1; apart < kThreads; apart *= 2) {
    block.Phase([&](int t) { to[t] = from[t] + (t >= apart ? from[t - apart] : 0); });
    uint32_t* const done = to;
    to = from;
    from = done;
  }
  block.Phase([&](int t) {
    (*totals)[t] = from[kThreads - 1];
    (*values)[t] = from[t] - (*values)[t];
  });
}

// Each count of a digit becomes the sum of its counts in earlier tiles; totals[digit] = all.
struct SumDigits {
  uint32_t *digits, *totals;
  int64_t tiles;

  COX_DEVICE void operator()(const Block& block, int64_t digit) const {
    PerThread<uint32_t> before, value, total;
    block.Apart([&](int t) { before[t] = 0; });
    for (int64_t first = 0; first < tiles; first += kThreads) {
      uint32_t* const at = digits + digit * tiles + first;
      block.Apart([&](int t) { value[t] = first + t < tiles ? at[t] : 0; });
      SumUp(block, &value, &total, block.shared<uint32_t>());
      block.Apart([&](int t) {
        if (first + t < tiles) at[t] = before[t] + value[t];
        before[t] += total[t];
      });
    }
    block.Apart([&](int t) {
      if (t == 0) totals[digit] = before[t];
    });
  }
};

struct MoveEntries {
  const uint32_t *keys, *entries;  // entries null: each key's own place
  uint32_t *to_keys, *to_entries;
  const uint32_t *digits, *totals;
  int64_t count, tiles;
  int shift;

  struct Ranks {
    uint32_t at[kRounds];
  };
  static constexpr size_t kShared = sizeof(uint32_t) * (kWarps * kDigits + 2 * kThreads);

  COX_DEVICE int64_t Index(int64_t tile, int t, int round) const {
    return tile * kSortTile + (t / kWarp * kRounds + round) * kWarp + t % kWarp;
  }

  // ranks: how many entries of the same warp and digit come before each one. of_warps[warp, digit]:
  // how many there are.
  COX_DEVICE void Rank(const Block& block, int64_t tile, uint32_t* of_warps,
                       PerThread<Ranks>* ranks) const {
    block.Phase([&](int t) {
      for (int warp = 0; warp < kWarps; ++warp) of_warps[warp * kDigits + t] = 0;
    });
    COX_UNROLL
    for (int round = 0; round < kRounds; ++round) {
      PerThread<uint32_t> digits_of, same;
      block.Apart([&](int t) {
        const int64_t i = Index(tile, t, round);
        digits_of[t] = i < count ? DigitOf(keys[i], shift) : kDigits;
      });
      block.Match(digits_of, &same);
      block.Phase([&](int t) {
        if (digits_of[t] == kDigits) return;
        const uint32_t below = same[t] & ((uint32_t{1} << t % kWarp) - 1);
        (*ranks)[t].at[round] =
            of_warps[t / kWarp * kDigits + digits_of[t]] + static_cast<uint32_t>(BitCount(below));
      });
      block.Phase([&](int t) {
        if (digits_of[t] == kDigits || same[t] >> t % kWarp != 1) return;  // the last of them adds
        of_warps[t / kWarp * kDigits + digits_of[t]] += static_cast<uint32_t>(BitCount(same[t]));
      });
    }
  }

  COX_DEVICE void operator()(const Block& block, int64_t tile) const {
    uint32_t* const of_warps = block.shared<uint32_t>();
    PerThread<Ranks> ranks;
    Rank(block, tile, of_warps, &ranks);
    PerThread<uint32_t> base, total;
    block.Apart([&](int t) { base[t] = totals[t]; });
    SumUp(block, &base, &total, of_warps + kWarps * kDigits);
    block.Phase([&](int t) {
      uint32_t place = base[t] + digits[t * tiles + tile];
      for (int warp = 0; warp < kWarps; ++warp) {
        const uint32_t size = of_warps[warp * kDigits + t];
        of_warps[warp * kDigits + t] = place;
        place += size;
      }
    });
    block.Phase([&](int t) {
      COX_UNROLL
      for (int round = 0; round < kRounds; ++round) {
        const int64_t i = Index(tile, t, round);
        if (i >= count) continue;
        const uint32_t key = keys[i];
        const uint32_t to =
            of_warps[t / kWarp * kDigits + DigitOf(key, shift)] + ranks[t].at[round];
        to_keys[to] = key;
        to_entries[to] = entries == nullptr ? static_cast<uint32_t>(i) : entries[i];
      }
    });
  }
};

}  // namespace

Status EntrySorter::CheckSizes(int64_t count, int64_t keys) {
  if (count <= int64_t{UINT32_MAX} && keys <= int64_t{UINT32_MAX}) return Status();
  return InvalidArgument("wanted fewer than 2^32 - 1 rows and entries, found " +
                         std::to_string(keys - 1) + " and " + std::to_string(count));
}

Status EntrySorter::Prepare(CoxStream* stream, int64_t count, int64_t keys) {
  COX_CUDA_RETURN_IF_ERROR(CheckSizes(count, keys));
  count_ = count;
  bound_ = keys;
  const int64_t digits = kDigits * CeilDiv(count, kSortTile);
  COX_CUDA_RETURN_IF_ERROR(memory_.Allocate(
      stream, static_cast<size_t>(4 * count + digits + kDigits) * sizeof(uint32_t)));
  uint32_t* at = memory_.data<uint32_t>();
  for (uint32_t** part : {&keys_[0], &keys_[1], &entries_[0], &entries_[1]}) {
    *part = at;
    at += count;
  }
  digits_ = at;
  totals_ = at + digits;
  return Status();
}

Status EntrySorter::Sort(CoxStream* stream, SortedEntries* sorted) {
  const Queue& queue = stream->queue;
  const int64_t tiles = CeilDiv(count_, kSortTile);
  int from = 0;
  for (int shift = 0; shift < 32 && (bound_ - 1) >> shift != 0; shift += 8) {
    const int to = 1 - from;
    COX_CUDA_RETURN_IF_ERROR(LaunchBlocks(queue, tiles, kDigits * sizeof(uint32_t),
                                          CountDigits{keys_[from], digits_, count_, tiles, shift}));
    COX_CUDA_RETURN_IF_ERROR(LaunchBlocks(queue, kDigits, 2 * kThreads * sizeof(uint32_t),
                                          SumDigits{digits_, totals_, tiles}));
    const MoveEntries move{keys_[from], shift == 0 ? nullptr : entries_[from],
                           keys_[to],   entries_[to],
                           digits_,     totals_,
                           count_,      tiles,
                           shift};
    COX_CUDA_RETURN_IF_ERROR(LaunchBlocks(queue, tiles, MoveEntries::kShared, move));
    from = to;
  }
  *sorted = SortedEntries{keys_[from], entries_[from]};
  return Status();
}

}  // namespace coxswain::cuda
