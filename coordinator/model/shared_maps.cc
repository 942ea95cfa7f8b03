#include "coordinator/model/shared_maps.h"

#include <bit>

#include "coordinator/model/row_slots.h"

namespace coxswain::model {
namespace {

constexpr size_t kIdsOfPage = 128;  // at most, on average
constexpr size_t kSpread = 4;

}  // namespace

SlotMap::Page::Page(std::shared_ptr<SharedBytes> all) : part(std::move(all), sizeof(Page)) {
  slots.fill(RowSlots::kNone);
}

SlotMap::Page::Page(std::shared_ptr<SharedBytes> all, const Page& other)
    : slots(other.slots), part(std::move(all), sizeof(Page)) {}

SlotMap SlotMap::Share() const {
  SlotMap copy(bytes_);
  copy.pages_ = pages_;
  copy.own_.assign(pages_.size(), false);
  copy.size_ = size_;
  return copy;
}

void SlotMap::Resize(int64_t size) {
  for (int64_t place = size; place < size_; ++place) {
    if (At(place) != RowSlots::kNone) Set(place, RowSlots::kNone);
  }
  size_ = size;
  const auto pages = static_cast<size_t>((size + kPage - 1) / kPage);
  if (pages < pages_.size()) pages_.resize(pages);
  while (pages_.size() < pages) pages_.push_back(std::make_shared<Page>(bytes_));
  own_.resize(pages, true);
}

void SlotMap::Set(int64_t place, uint32_t slot) {
  const auto page = static_cast<size_t>(place >> kShift);
  if (!own_[page]) {
    pages_[page] = std::make_shared<Page>(bytes_, *pages_[page]);
    own_[page] = true;
  }
  pages_[page]->slots[static_cast<size_t>(place & (kPage - 1))] = slot;
}

IdMap IdMap::Share() const {
  IdMap copy(bytes_);
  copy.pages_ = pages_;
  copy.own_.assign(pages_.size(), false);
  copy.size_ = size_;
  return copy;
}

// Not by the hash of the pages' own maps, whose ids would then collide.
size_t IdMap::PageOf(int64_t id) const {
  const uint64_t mixed = static_cast<uint64_t>(id) * 0x9e3779b97f4a7c15u;
  const int bits = std::countr_zero(pages_.size());
  return bits == 0 ? 0 : static_cast<size_t>(mixed >> (64 - bits));
}

int64_t IdMap::Find(int64_t id) const {
  if (pages_.empty()) return -1;
  const auto& at = pages_[PageOf(id)]->at;
  const auto found = at.find(id);
  return found == at.end() ? -1 : found->second;
}

IdMap::Page& IdMap::Own(size_t page) {
  if (!own_[page]) {
    auto copy = std::make_shared<Page>(bytes_);
    copy->at = pages_[page]->at;
    pages_[page] = std::move(copy);
    own_[page] = true;
  }
  return *pages_[page];
}

void IdMap::Spread(size_t pages) {
  const auto old = std::move(pages_);
  pages_.clear();
  for (size_t i = 0; i < pages; ++i) pages_.push_back(std::make_shared<Page>(bytes_));
  own_.assign(pages, true);
  for (const auto& page : old) {
    for (const auto& [id, at] : page->at) pages_[PageOf(id)]->at.emplace(id, at);
  }
}

bool IdMap::Insert(int64_t id, int64_t at) {
  if (static_cast<size_t>(size_) >= pages_.size() * kIdsOfPage) {
    Spread(pages_.empty() ? 1 : pages_.size() * kSpread);
  }
  if (!Own(PageOf(id)).at.emplace(id, at).second) return false;
  ++size_;
  return true;
}

void IdMap::Erase(int64_t id, int64_t at) {
  if (Find(id) != at) return;
  Own(PageOf(id)).at.erase(id);
  --size_;
}

void IdMap::Count() {
  constexpr size_t kEntry = sizeof(std::pair<int64_t, int64_t>) + 1;
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (!own_[i]) continue;
    pages_[i]->part.Set(static_cast<int64_t>(sizeof(Page) + pages_[i]->at.capacity() * kEntry));
  }
}

}  // namespace coxswain::model
