#include "ps_server/finite_scan.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/finite.h"
#include "runtime/base/logging.h"

namespace coxswain::ps {
namespace {

template <typename T>
T ValueOf(const ShardSnapshot& snapshot, const char* part, int64_t row) {
  const auto value = snapshot.ReadRows(row, 1, snapshot.plan().Find(part));
  COX_CHECK(value.ok(), value.status().ToString());
  return value->data<T>()[0];
}

}  // namespace

FiniteScan::FiniteScan(const proto::ShardSpec& spec, const ShardSnapshot& snapshot)
    : on_(!spec.variable().optimizer().kind().empty()) {
  for (int p = 0; p < snapshot.parts(); ++p) {
    const DType dtype = snapshot.part(p).dtype;
    const bool number = dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16;
    parts_.push_back({number ? dtype : DType::kInvalid, snapshot.part(p).width});
  }
}

void FiniteScan::Add(const Part& part, int number, int64_t element,
                     std::vector<Found>* found) const {
  const int64_t row = element / part.width;
  if (!found->empty() && found->back().part == number && found->back().row == row) return;
  found->push_back({number, row});
}

void FiniteScan::Look(const ShardStream::Piece& piece, const char* data,
                      std::vector<Found>* found) {
  if (!on_ || piece.part < 0 || piece.part >= static_cast<int>(parts_.size())) return;
  const Part& part = parts_[static_cast<size_t>(piece.part)];
  if (part.dtype == DType::kInvalid) return;
  const auto size = static_cast<int64_t>(SizeOf(part.dtype));
  int64_t at = 0;  // in `data`
  // The rest of what the piece before has begun.
  if (const int64_t begun = piece.offset % size; begun > 0) {
    at = std::min(size - begun, piece.bytes);
    std::memcpy(begun_.data() + begun, data, static_cast<size_t>(at));
    if (begun + at < size) return;
    if (kernels::FindNotFinite(part.dtype, begun_.data(), 1) == 0) {
      Add(part, piece.part, piece.offset / size, found);
    }
  }
  int64_t element = (piece.offset + at) / size;
  for (int64_t left = (piece.bytes - at) / size; left > 0;) {
    const int64_t bad = kernels::FindNotFinite(part.dtype, data + at, left);
    if (bad < 0) {
      at += left * size;
      break;
    }
    Add(part, piece.part, element + bad, found);
    at += (bad + 1) * size;
    element += bad + 1;
    left -= bad + 1;
  }
  std::memcpy(begun_.data(), data + at, static_cast<size_t>(piece.bytes - at));
}

bool IsLive(const ShardSnapshot& snapshot, int64_t row) {
  return !snapshot.hash() || ValueOf<int32_t>(snapshot, kCountPart, row) != 0;
}

int64_t IdOf(const ShardSnapshot& snapshot, int64_t row) {
  return snapshot.hash() ? ValueOf<int64_t>(snapshot, kIdPart, row)
                         : snapshot.layout().ToGlobal(row);
}

}  // namespace coxswain::ps
