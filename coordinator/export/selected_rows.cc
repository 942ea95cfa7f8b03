#include "coordinator/export/selected_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/export/removed_ids.h"
#include "runtime/base/status.h"

namespace coxswain::exporter {
namespace {

constexpr int64_t kSelectRows = 1 << 19;

absl::Status CheckBase(const model::SavedRows& rows, const model::SavedRows& base) {
  const model::SavedVariable &now = rows.variable(), &then = base.variable();
  const auto refuse = [&now](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("table '", now.name, "': ", why));
  };
  if (now.dtype != then.dtype || now.hash != then.hash || now.shape.rank() != then.shape.rank() ||
      rows.row_elements() != base.row_elements() || (!now.hash && now.shape != then.shape)) {
    return refuse(absl::StrCat("it was ", DTypeName(then.dtype), then.shape.ToString(), " and is ",
                               DTypeName(now.dtype), now.shape.ToString()));
  }
  if (rows.shards() != base.shards()) {
    return refuse(absl::StrCat("it had ", base.shards(), " shards and has ", rows.shards(),
                               ": what was updated is counted by shard"));
  }
  for (int64_t s = 0; s < rows.shards(); ++s) {
    if (rows.applied(s) >= base.applied(s)) continue;
    return refuse(absl::StrCat("its shard ", s, " had applied ", base.applied(s),
                               " updates and has applied ", rows.applied(s),
                               ": the base is not older"));
  }
  if (!rows.has_touched()) return refuse("nothing says which rows were updated");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SelectedRows> SelectedRows::Create(model::SavedRows rows,
                                                  const model::SavedRows* base,
                                                  std::function<bool()> stopped) {
  SelectedRows selected(std::move(rows), std::move(stopped));
  const model::SavedRows& saved = selected.saved_;
  if (base != nullptr && saved.variable().table) {
    RETURN_IF_ERROR(CheckBase(saved, *base));
    for (int64_t s = 0; s < saved.shards(); ++s) selected.since_.push_back(base->applied(s));
    if (saved.variable().hash) selected.base_ = *base;
    RETURN_IF_ERROR(selected.ForEachRemoved([&selected](absl::Span<const int64_t> ids) {
      selected.removed_ += static_cast<int64_t>(ids.size());
      return absl::OkStatus();
    }));
  }
  selected.all_ = selected.since_.empty() && !saved.has_free_rows();
  if (selected.all_) {
    selected.count_ = saved.rows();
    return selected;
  }
  std::vector<char> chosen(static_cast<size_t>(std::min(kSelectRows, saved.rows())));
  for (int64_t begin = 0; begin < saved.rows(); begin += kSelectRows) {
    const int64_t n = std::min(kSelectRows, saved.rows() - begin);
    RETURN_IF_ERROR(selected.Select(begin, n, chosen.data()));
    selected.count_ += std::count(chosen.begin(), chosen.begin() + n, 1);
  }
  return selected;
}

absl::Status SelectedRows::ForEachRemoved(
    absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> body) const {
  return base_ ? ForEachRemovedId(*base_, saved_, body) : absl::OkStatus();
}

Shape SelectedRows::shape() const {
  Shape shape = variable().shape;
  if (shape.rank() > 0) shape.set_dim(0, count_);
  return shape;
}

absl::Status SelectedRows::Select(int64_t begin, int64_t count, char* selected) const {
  RETURN_IF_ERROR(saved_.ReadLive(begin, count, selected));
  if (since_.empty()) return absl::OkStatus();
  std::vector<int64_t> touched(static_cast<size_t>(count));
  RETURN_IF_ERROR(saved_.ReadTouched(begin, count, touched.data()));
  for (int64_t i = 0; i < count; ++i) {
    const auto shard = static_cast<size_t>(saved_.ShardOf(begin + i));
    if (touched[static_cast<size_t>(i)] <= since_[shard]) selected[i] = 0;
  }
  return absl::OkStatus();
}

absl::Status SelectedRows::ForEach(
    bool values, bool ids, absl::FunctionRef<absl::Status(const SelectedBlock&)> body) const {
  const int64_t total = saved_.rows();
  // Without values a row is an id.
  const int64_t block =
      std::min(std::max<int64_t>(total, 1), values ? saved_.block_rows() : kSelectRows);
  const size_t width = saved_.row_bytes();
  std::vector<char> bytes(values ? static_cast<size_t>(block) * width : 0);
  std::vector<int64_t> numbers(ids ? static_cast<size_t>(block) : 0);
  std::vector<char> chosen(all_ ? 0 : static_cast<size_t>(block), 0);
  for (int64_t begin = 0; begin < total; begin += block) {
    const int64_t n = std::min(block, total - begin);
    if (stopped_ && stopped_()) return absl::CancelledError("interrupted");
    SelectedBlock found;
    found.rows = n;
    if (!all_) {
      RETURN_IF_ERROR(Select(begin, n, chosen.data()));
      found.rows = std::count(chosen.begin(), chosen.begin() + n, 1);
      if (found.rows == 0) continue;
    }
    if (values) RETURN_IF_ERROR(saved_.Read(begin, n, bytes.data()));
    if (ids) RETURN_IF_ERROR(saved_.ReadIds(begin, n, numbers.data()));
    if (found.rows != n) {
      size_t to = 0;
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        if (!chosen[i]) continue;
        if (values && to != i) std::memcpy(&bytes[to * width], &bytes[i * width], width);
        if (ids) numbers[to] = numbers[i];
        ++to;
      }
    }
    if (values) found.values = bytes.data();
    if (ids) found.ids = numbers.data();
    RETURN_IF_ERROR(body(found));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::exporter
