// Sums of rows by key, without atomics, so that every run gives the same bits: entries are sorted
// by their keys (stably), and the sorted order is cut into chunks of equal length, each of which a
// thread per column adds up. So a key with most of the entries costs no more than others. A run of
// equal keys that goes on into further chunks gets their sums added in a second pass, in order.
#pragma once

#include "kernels/cuda/op.h"

namespace coxswain::cuda {

// Entries in the order of their keys. Keys of `rows` are of entries that count nowhere.
struct SortedEntries {
  const uint32_t* keys;
  const uint32_t* entries;
  int64_t count;
  int64_t rows;
};

// The memory of a sort: keys and entries, twice, and the counts of digits.
class EntrySorter {
 public:
  // Sizes that do not fit into 32 bits are INVALID_ARGUMENT.
  Status Prepare(const Run& run, int64_t count, int64_t rows);
  // Where the keys are to be written before Sort: in [0, rows], an entry's key at its place.
  uint32_t* keys() const { return keys_[0]; }
  Status Sort(const Run& run, SortedEntries* sorted);

 private:
  Scratch memory_;
  int64_t count_ = 0, rows_ = 0;
  uint32_t *keys_[2] = {}, *entries_[2] = {};
  uint32_t *digits_ = nullptr, *totals_ = nullptr;
};

constexpr int64_t kChunk = 32;  // sorted entries that a thread adds up
// What a thread reads before it uses the first of it: memory answers all of it in the time of one.
constexpr int kReadAhead = 8;
static_assert(kChunk % kReadAhead == 0);

// `Source`: T operator()(int64_t entry, int64_t column), what an entry adds to its row.
template <typename T, typename Source>
struct ChunkSums {
  SortedEntries sorted;
  int64_t width;
  Source source;
  T *out, *partial;

  // i: chunk and column.
  COX_DEVICE void operator()(int64_t i) const {
    const int64_t chunk = i / width, column = i % width;
    const int64_t first = chunk * kChunk;
    const int64_t last = first + kChunk < sorted.count ? first + kChunk : sorted.count;
    uint32_t key = sorted.keys[first];
    // The first run of the chunk may have begun in an earlier one.
    bool continued = first > 0 && sorted.keys[first - 1] == key;
    T sum = 0;
    for (int64_t p = first; p < last; p += kReadAhead) {
      uint32_t keys[kReadAhead];
      T values[kReadAhead];
      COX_UNROLL
      for (int k = 0; k < kReadAhead; ++k) {
        keys[k] = p + k < last ? sorted.keys[p + k] : static_cast<uint32_t>(sorted.rows);
        values[k] = keys[k] < sorted.rows ? source(sorted.entries[p + k], column) : T{0};
      }
      COX_UNROLL
      for (int k = 0; k < kReadAhead; ++k) {
        if (keys[k] != key) {
          Write(continued, chunk, key, column, sum);
          continued = false;
          key = keys[k];
          sum = 0;
        }
        sum += values[k];
      }
    }
    Write(continued, chunk, key, column, sum);
  }

 private:
  COX_DEVICE void Write(bool continued, int64_t chunk, uint32_t key, int64_t column, T sum) const {
    if (key >= sorted.rows) return;
    if (continued) {
      partial[chunk * width + column] = sum;
    } else {
      out[key * width + column] = sum;
    }
  }
};

// Adds the sums of further chunks to the rows whose runs go on there. The thread of the first of
// them does so for all.
template <typename T>
struct JoinChunks {
  SortedEntries sorted;
  int64_t width, chunks;
  const T* partial;
  T* out;

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t chunk = i / width + 1, column = i % width;
    const uint32_t key = sorted.keys[chunk * kChunk];
    if (key >= sorted.rows || sorted.keys[chunk * kChunk - 1] != key) return;
    if (chunk > 1 && sorted.keys[(chunk - 1) * kChunk - 1] == key) return;  // not the first
    T sum = out[key * width + column];
    bool goes_on = true;
    for (int64_t c = chunk; goes_on; c += kReadAhead) {
      bool same[kReadAhead];
      T values[kReadAhead];
      COX_UNROLL
      for (int k = 0; k < kReadAhead; ++k) {
        same[k] = c + k < chunks && sorted.keys[(c + k) * kChunk] == key;
        values[k] = same[k] ? partial[(c + k) * width + column] : T{0};
      }
      COX_UNROLL
      for (int k = 0; k < kReadAhead; ++k) {
        goes_on = goes_on && same[k];
        if (goes_on) sum += values[k];
      }
    }
    out[key * width + column] = sum;
  }
};

// out [rows, width]: row r = the sum over the entries with key r, zeros where there is none.
// write_keys(uint32_t* keys) enqueues what writes the key of each entry, and returns a Status.
template <typename T, typename WriteKeys, typename Source>
Status SegmentSum(const Run& run, int64_t count, int64_t rows, int64_t width,
                  const WriteKeys& write_keys, const Source& source, T* out) {
  COX_CUDA_RETURN_IF_ERROR(
      FillZero(run.stream(), out, static_cast<size_t>(rows * width) * sizeof(T)));
  if (count == 0 || width == 0) return Status();
  EntrySorter sorter;
  COX_CUDA_RETURN_IF_ERROR(sorter.Prepare(run, count, rows));
  COX_CUDA_RETURN_IF_ERROR(write_keys(sorter.keys()));
  if (rows == 0) return Status();
  SortedEntries sorted;
  COX_CUDA_RETURN_IF_ERROR(sorter.Sort(run, &sorted));
  const int64_t chunks = CeilDiv(count, kChunk);
  Scratch partial;
  COX_CUDA_RETURN_IF_ERROR(
      partial.Allocate(run.stream(), static_cast<size_t>(chunks * width) * sizeof(T)));
  const ChunkSums<T, Source> sums{sorted, width, source, out, partial.template data<T>()};
  COX_CUDA_RETURN_IF_ERROR(ForElements(run.queue(), chunks * width, sums));
  return ForElements(run.queue(), (chunks - 1) * width,
                     JoinChunks<T>{sorted, width, chunks, partial.template data<T>(), out});
}

}  // namespace coxswain::cuda
