#include "coordinator/export/removed_ids.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "runtime/base/status.h"

namespace coxswain::exporter {
namespace {

constexpr int64_t kBlockRows = 1 << 19;

// Which of `parts` parts an id belongs to (the finaliser of MurmurHash3 spreads what is in order).
int64_t PartOf(int64_t id, int64_t parts) {
  uint64_t h = static_cast<uint64_t>(id);
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return static_cast<int64_t>((h ^ (h >> 33)) % static_cast<uint64_t>(parts));
}

absl::Status ForEachLiveId(const model::SavedRows& rows,
                           absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> body) {
  const auto block = static_cast<size_t>(std::min(kBlockRows, rows.rows()));
  std::vector<int64_t> ids(block);
  std::vector<char> live(block);
  for (int64_t begin = 0; begin < rows.rows(); begin += kBlockRows) {
    const int64_t n = std::min(kBlockRows, rows.rows() - begin);
    RETURN_IF_ERROR(rows.ReadIds(begin, n, ids.data()));
    RETURN_IF_ERROR(rows.ReadLive(begin, n, live.data()));
    size_t used = 0;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      if (live[i]) ids[used++] = ids[i];
    }
    RETURN_IF_ERROR(body(absl::MakeConstSpan(ids.data(), used)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ForEachRemovedId(const model::SavedRows& older, const model::SavedRows& newer,
                              absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> body,
                              int64_t ids_at_once) {
  const int64_t parts = newer.rows() / ids_at_once + 1;
  absl::flat_hash_set<int64_t> there;
  std::vector<int64_t> removed;
  for (int64_t part = 0; part < parts; ++part) {
    there.clear();
    RETURN_IF_ERROR(ForEachLiveId(newer, [&](absl::Span<const int64_t> ids) {
      for (int64_t id : ids) {
        if (PartOf(id, parts) == part) there.insert(id);
      }
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(ForEachLiveId(older, [&](absl::Span<const int64_t> ids) {
      removed.clear();
      for (int64_t id : ids) {
        if (PartOf(id, parts) == part && !there.contains(id)) removed.push_back(id);
      }
      return body(removed);
    }));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::exporter
