#include "runtime/net/shm_arena.h"

namespace coxswain::net {

std::optional<ShmArena::Block> ShmArena::Allocate(size_t bytes) {
  if (out_ >= max_out_) return std::nullopt;
  int size_class = 0;
  while (ClassBytes(size_class) < bytes) ++size_class;
  if (free_[size_class].empty() && !Cut(size_class)) {
    if (out_ == 0) {  // it is cut into sizes that are not wanted any more: begin anew
      for (auto& list : free_) list.clear();
      blocks_.clear();
      end_ = kept_ = 0;
      return Allocate(bytes);
    }
    while (size_class < kClasses && free_[size_class].empty()) ++size_class;
    if (size_class == kClasses) return std::nullopt;
  }
  const uint32_t id = free_[size_class].back();
  free_[size_class].pop_back();
  Info& block = blocks_[id];
  const size_t size = ClassBytes(size_class);
  if (size >= kLarge && !block.discarded) kept_ -= size;
  block.out = true;
  ++out_;
  return Block{id, block.offset};
}

bool ShmArena::Cut(int size_class) {
  const size_t size = ClassBytes(size_class);
  const size_t align = size < 4096 ? 64 : 4096;
  const size_t offset = (end_ + align - 1) / align * align;
  if (offset > bytes_ || size > bytes_ - offset) return false;
  end_ = offset + size;
  free_[size_class].push_back(static_cast<uint32_t>(blocks_.size()));
  blocks_.push_back({offset, size_class, false, true});
  return true;
}

ShmArena::Returned ShmArena::Return(uint32_t id) {
  if (id >= blocks_.size() || !blocks_[id].out) return {};
  Info& block = blocks_[id];
  block.out = false;
  block.discarded = false;
  --out_;
  free_[block.size_class].push_back(id);
  const size_t size = ClassBytes(block.size_class);
  if (size < kLarge) return {true, 0, 0};
  if (kept_ + size <= kKeptBytes) {
    kept_ += size;
    return {true, 0, 0};
  }
  block.discarded = true;
  return {true, block.offset, size};
}

}  // namespace coxswain::net
