// Sums of rows by key, without atomics, so that every run gives the same bits: entries are sorted
// by their keys (stably), and the sorted order is cut into chunks of equal length, each of which a
// thread per column adds up. So a key with most of the entries costs no more than others. A run of
// equal keys that goes on into further chunks gets their sums added in a second pass, in order.
#pragma once

#include "kernels/cuda/op.h"
#include "kernels/cuda/ranges.h"

namespace coxswain::cuda {

// Several sums at once, each with entries, rows and an output of its own; all of one width. They
// take some ten launches, however many they are, and each has the same bits as alone. Part k has
// the entries from entries[k] to before entries[k + 1], and the keys from rows[k] on: one for each
// of its rows, and the last for entries that count nowhere.
//
// `Source`: T operator()(int64_t entry, int64_t column), what an entry of the part adds to its row.
template <typename T, typename Source>
struct SumParts {
  static constexpr int kMost = 32;  // what a kernel's arguments have room for

  int64_t width = 0;
  int count = 0;
  int log_lanes = 0;  // threads of a row, of which each has a column; those beyond the width rest
  Source sources[kMost];
  T* outs[kMost];
  int64_t entries[kMost + 1] = {}, rows[kMost + 1] = {}, chunks[kMost + 1] = {};

  void Add(const Source& source, T* out, int64_t new_entries, int64_t new_rows) {
    sources[count] = source;
    outs[count] = out;
    entries[count + 1] = entries[count] + new_entries;
    rows[count + 1] = rows[count] + new_rows + 1;
    chunks[count + 1] = chunks[count] + CeilDiv(new_entries, kChunk);
    ++count;
  }
  // For launches of rows() << log_lanes threads and such: no thread divides by the width.
  void SetLanes() {
    for (log_lanes = 0; int64_t{1} << log_lanes < width;) ++log_lanes;
  }
  COX_DEVICE int64_t Row(int64_t thread) const { return thread >> log_lanes; }
  COX_DEVICE int64_t Column(int64_t thread) const {
    return thread & ((int64_t{1} << log_lanes) - 1);
  }
  COX_DEVICE uint32_t Nowhere(int part) const { return static_cast<uint32_t>(rows[part + 1] - 1); }
  // The part that has the place `at` of all entries, rows or chunks.
  COX_DEVICE int Find(const int64_t* begins, int64_t at) const {
    return FindRange(begins, count, at);
  }

  static constexpr int64_t kChunk = 32;  // sorted entries that a thread adds up
};

// What a thread reads before it uses the first of it: memory answers all of it in the time of one.
constexpr int kReadAhead = 8;

// Entries in the order of their keys.
struct SortedEntries {
  const uint32_t* keys;
  const uint32_t* entries;
};

// The memory of a sort: keys and entries, twice, and the counts of digits.
class EntrySorter {
 public:
  // Sizes that do not fit into 32 bits are INVALID_ARGUMENT.
  static Status CheckSizes(int64_t count, int64_t keys);
  // For keys below `keys`. Errors: those of CheckSizes.
  Status Prepare(CoxStream* stream, int64_t count, int64_t keys);
  // Where the keys are to be written before Sort, each at its entry's place.
  uint32_t* keys() const { return keys_[0]; }
  Status Sort(CoxStream* stream, SortedEntries* sorted);

 private:
  Scratch memory_;
  int64_t count_ = 0, bound_ = 0;
  uint32_t *keys_[2] = {}, *entries_[2] = {};
  uint32_t *digits_ = nullptr, *totals_ = nullptr;
};

template <typename Parts>
struct ZeroRows {
  Parts parts;

  COX_DEVICE void operator()(int64_t thread) const {
    const int64_t row = parts.Row(thread), column = parts.Column(thread);
    if (column >= parts.width) return;
    const int part = parts.Find(parts.rows, row);
    if (row == parts.Nowhere(part)) return;
    parts.outs[part][(row - parts.rows[part]) * parts.width + column] = 0;
  }
};

template <typename T, typename Source>
struct ChunkSums {
  using Parts = SumParts<T, Source>;
  Parts parts;
  SortedEntries sorted;
  T* partial;

  COX_DEVICE void operator()(int64_t thread) const {
    const int64_t chunk = parts.Row(thread), column = parts.Column(thread);
    if (column >= parts.width) return;
    const int part = parts.Find(parts.chunks, chunk);
    const int64_t begin = parts.entries[part], end = parts.entries[part + 1];
    const int64_t first = begin + (chunk - parts.chunks[part]) * Parts::kChunk;
    const int64_t last = first + Parts::kChunk < end ? first + Parts::kChunk : end;
    const uint32_t nowhere = parts.Nowhere(part);
    const int64_t first_key = parts.rows[part];
    const Source source = parts.sources[part];
    T* const out = parts.outs[part] + column;
    const auto write = [&](bool continued, uint32_t key, T sum) {
      if (key == nowhere) return;
      if (continued) {
        partial[chunk * parts.width + column] = sum;
      } else {
        out[(key - first_key) * parts.width] = sum;
      }
    };
    uint32_t key = sorted.keys[first];
    // The first run of the chunk may have begun in an earlier one.
    bool continued = first > begin && sorted.keys[first - 1] == key;
    T sum = 0;
    for (int64_t p = first; p < last; p += kReadAhead) {
      uint32_t keys[kReadAhead];
      T values[kReadAhead];
      COX_UNROLL
      for (int k = 0; k < kReadAhead; ++k) {
        keys[k] = p + k < last ? sorted.keys[p + k] : nowhere;
        values[k] = keys[k] == nowhere ? T{0} : source(sorted.entries[p + k] - begin, column);
      }
      COX_UNROLL
      for (int k = 0; k < kReadAhead; ++k) {
        if (keys[k] != key) {
          write(continued, key, sum);
          continued = false;
          key = keys[k];
          sum = 0;
        }
        sum += values[k];
      }
    }
    write(continued, key, sum);
  }
};

// Adds the sums of further chunks to the rows whose runs go on there. The thread of the first of
// them does so for all.
template <typename T, typename Source>
struct JoinChunks {
  using Parts = SumParts<T, Source>;
  Parts parts;
  SortedEntries sorted;
  const T* partial;

  COX_DEVICE void operator()(int64_t thread) const {
    const int64_t chunk = parts.Row(thread), column = parts.Column(thread);
    if (column >= parts.width) return;
    const int part = parts.Find(parts.chunks, chunk);
    const int64_t before = chunk - parts.chunks[part], chunks = parts.chunks[part + 1];
    if (before == 0) return;
    const uint32_t* const keys = sorted.keys + parts.entries[part] + before * Parts::kChunk;
    const uint32_t key = keys[0];
    if (key == parts.Nowhere(part) || keys[-1] != key) return;
    if (before > 1 && keys[-Parts::kChunk - 1] == key) return;  // not the first
    T* const out = parts.outs[part] + (key - parts.rows[part]) * parts.width + column;
    T sum = *out;
    bool goes_on = true;
    for (int64_t c = chunk; goes_on; c += kReadAhead) {
      bool same[kReadAhead];
      T values[kReadAhead];
      COX_UNROLL
      for (int k = 0; k < kReadAhead; ++k) {
        same[k] = c + k < chunks && keys[(c + k - chunk) * Parts::kChunk] == key;
        values[k] = same[k] ? partial[(c + k) * parts.width + column] : T{0};
      }
      COX_UNROLL
      for (int k = 0; k < kReadAhead; ++k) {
        goes_on = goes_on && same[k];
        if (goes_on) sum += values[k];
      }
    }
    *out = sum;
  }
};

// Each part's output [its rows, width]: row r = the sum over its entries with key r, zeros where
// there is none. write_keys(uint32_t* keys) enqueues what writes the key of each entry, and returns
// a Status.
template <typename T, typename Source, typename WriteKeys>
Status SegmentSums(CoxStream* stream, SumParts<T, Source> parts, const WriteKeys& write_keys) {
  using Parts = SumParts<T, Source>;
  parts.SetLanes();
  const int64_t entries = parts.entries[parts.count], keys = parts.rows[parts.count];
  const int64_t chunks = parts.chunks[parts.count];
  if (parts.width == 0) return Status();
  EntrySorter sorter;
  COX_CUDA_RETURN_IF_ERROR(sorter.Prepare(stream, entries, keys));
  COX_CUDA_RETURN_IF_ERROR(
      ForElements(stream->queue, keys << parts.log_lanes, ZeroRows<Parts>{parts}));
  if (entries == 0) return Status();
  COX_CUDA_RETURN_IF_ERROR(write_keys(sorter.keys()));
  SortedEntries sorted;
  COX_CUDA_RETURN_IF_ERROR(sorter.Sort(stream, &sorted));
  Scratch partial;
  COX_CUDA_RETURN_IF_ERROR(
      partial.Allocate(stream, static_cast<size_t>(chunks * parts.width) * sizeof(T)));
  T* const sums = partial.template data<T>();
  const int64_t threads = chunks << parts.log_lanes;
  COX_CUDA_RETURN_IF_ERROR(
      ForElements(stream->queue, threads, ChunkSums<T, Source>{parts, sorted, sums}));
  return ForElements(stream->queue, threads, JoinChunks<T, Source>{parts, sorted, sums});
}

}  // namespace coxswain::cuda
