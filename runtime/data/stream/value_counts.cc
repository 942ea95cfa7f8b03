#include "runtime/data/stream/value_counts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

namespace coxswain::data {
namespace {

constexpr int kBits = 64;
constexpr uint64_t kSign = uint64_t{1} << (kBits - 1);

using Bin = ValueCounts::Bin;

bool IsBefore(const Bin& a, const Bin& b) { return a.bits < b.bits; }

// Makes one of the neighbours that are the same.
void Unite(std::vector<Bin>* sorted) {
  if (sorted->empty()) return;
  size_t last = 0;
  for (size_t i = 1; i < sorted->size(); ++i) {
    if ((*sorted)[i].bits == (*sorted)[last].bits) {
      (*sorted)[last].rows += (*sorted)[i].rows;
    } else {
      (*sorted)[++last] = (*sorted)[i];
    }
  }
  sorted->resize(last + 1);
}

// The fewest bits without which there are at most so many different bins.
int BitsTooMany(absl::Span<const Bin> sorted, size_t most) {
  std::array<size_t, kBits> differ = {};  // neighbours, by the first bit in which they do
  for (size_t i = 1; i < sorted.size(); ++i) {
    ++differ[static_cast<size_t>(kBits - 1 - __builtin_clzll(sorted[i].bits ^ sorted[i - 1].bits))];
  }
  size_t bins = 1;
  for (int bit = kBits - 1; bit >= 0; --bit) {
    bins += differ[static_cast<size_t>(bit)];
    if (bins > most) return bit + 1;
  }
  return 0;
}

}  // namespace

uint64_t OrderedBits(double value) {
  if (value == 0) value = 0;  // -0 is no other number
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

double ValueOfBits(uint64_t bits) {
  bits = (bits & kSign) != 0 ? bits ^ kSign : ~bits;
  double value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

ValueCounts::ValueCounts(int64_t most) : most_(static_cast<size_t>(std::max<int64_t>(4, most))) {}

void ValueCounts::Flush() {
  std::sort(pending_.begin(), pending_.end(), IsBefore);
  AddSorted(pending_);
  pending_.clear();
}

void ValueCounts::AddSorted(absl::Span<const Bin> more) {
  merged_.clear();
  std::merge(bins_.begin(), bins_.end(), more.begin(), more.end(), std::back_inserter(merged_),
             IsBefore);
  Unite(&merged_);
  bins_.swap(merged_);
  // Half of what there may be, so that this does not come again at once.
  if (bins_.size() > most_) {
    Coarsen(std::min(kBits - 1, shift_ + BitsTooMany(bins_, most_ / 2)));
  }
}

void ValueCounts::Coarsen(int shift) {
  for (Bin& bin : bins_) bin.bits >>= shift - shift_;
  Unite(&bins_);
  shift_ = shift;
}

absl::Status ValueCounts::Merge(const proto::ValueCounts& counts) {
  bool fits =
      counts.shift() >= 0 && counts.shift() < kBits && counts.bits_size() == counts.rows_size();
  for (int i = 0; i < counts.bits_size() && fits; ++i) {
    fits = counts.rows(i) > 0 && (i == 0 || counts.bits(i) > counts.bits(i - 1)) &&
           counts.bits(i) <= std::numeric_limits<uint64_t>::max() >> counts.shift();
  }
  if (!fits) return absl::InvalidArgumentError("counts of values that make no sense");
  Flush();
  if (counts.shift() > shift_) Coarsen(counts.shift());
  std::vector<Bin> more;
  more.reserve(static_cast<size_t>(counts.bits_size()));
  for (int i = 0; i < counts.bits_size(); ++i) {
    more.push_back({counts.bits(i) >> (shift_ - counts.shift()), counts.rows(i)});
  }
  AddSorted(more);
  return absl::OkStatus();
}

void ValueCounts::Save(proto::ValueCounts* counts) {
  Flush();
  counts->set_shift(shift_);
  for (const Bin& bin : bins_) {
    counts->add_bits(bin.bits);
    counts->add_rows(bin.rows);
  }
}

absl::Span<const Bin> ValueCounts::bins() {
  Flush();
  return bins_;
}

}  // namespace coxswain::data
