#include "coordinator/model/hashed_names.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/base/status.h"
#include "runtime/data/vocabulary.h"

namespace coxswain::model {
namespace {

constexpr size_t kShown = 3;

}  // namespace

std::string NameOfBucket(absl::Span<const std::string> names) {
  std::string text = absl::StrJoin(names.subspan(0, kShown), " | ");
  if (names.size() > kShown) absl::StrAppend(&text, " | +", names.size() - kShown);
  return text;
}

absl::StatusOr<HashedNames> HashedNames::Load(const std::string& path, int64_t buckets) {
  ASSIGN_OR_RETURN(SavedWords::Reader reader, SavedWords::Reader::Open(path));
  HashedNames all;
  all.buckets_ = buckets;
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<std::string> name, reader.Next());
    if (!name) break;
    if (all.names_.size() == static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return absl::DataLossError(absl::StrCat(path, ": it has more than 2^31 - 1 names"));
    }
    all.by_id_.emplace_back(all.IdOf(*name), static_cast<int32_t>(all.names_.size()));
    all.names_.push_back(*std::move(name));
  }
  std::sort(all.by_id_.begin(), all.by_id_.end());
  for (size_t i = 0; i < all.by_id_.size(); ++i) {
    all.named_ids_ += i == 0 || all.by_id_[i - 1].first != all.by_id_[i].first;
  }
  return all;
}

absl::Span<const HashedNames::ById> HashedNames::OfId(int64_t id) const {
  const auto begin = std::lower_bound(by_id_.begin(), by_id_.end(), ById{id, 0});
  auto end = begin;
  while (end != by_id_.end() && end->first == id) ++end;
  return absl::MakeConstSpan(by_id_).subspan(static_cast<size_t>(begin - by_id_.begin()),
                                             static_cast<size_t>(end - begin));
}

std::string HashedNames::Of(int64_t id) const {
  std::vector<std::string> names;
  for (const ById& by_id : OfId(id)) names.push_back(names_[static_cast<size_t>(by_id.second)]);
  return NameOfBucket(names);
}

int64_t HashedNames::IdOf(absl::string_view value) const { return data::IdOfHash(value, buckets_); }

bool HashedNames::Knows(absl::string_view value) const {
  const absl::Span<const ById> of_id = OfId(IdOf(value));
  return std::any_of(of_id.begin(), of_id.end(), [&](const ById& by_id) {
    return names_[static_cast<size_t>(by_id.second)] == value;
  });
}

}  // namespace coxswain::model
