// Which slot each row of a table lies in, and where each id of a hash table is: as values of which
// many versions exist. A copy shares its pages with the original, and gets its own copy of a page
// when it first changes it.
//
// Thread model: one thread changes a map; copies may be read by other threads meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace coxswain::model {

// Counts the bytes that some maps hold together.
class SharedBytes {
 public:
  // A part of them, as long as it lives.
  class Part {
   public:
    Part(std::shared_ptr<SharedBytes> all, int64_t bytes) : all_(std::move(all)) { Set(bytes); }
    ~Part() { Set(0); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    void Set(int64_t bytes) {
      all_->bytes_ += bytes - bytes_;
      bytes_ = bytes;
    }

   private:
    const std::shared_ptr<SharedBytes> all_;
    int64_t bytes_ = 0;
  };
  int64_t bytes() const { return bytes_; }

 private:
  std::atomic<int64_t> bytes_{0};
};

// From places 0..size-1 to slots; RowSlots::kNone: no row.
class SlotMap {
 public:
  explicit SlotMap(std::shared_ptr<SharedBytes> bytes) : bytes_(std::move(bytes)) {}
  // A copy that shares all pages.
  SlotMap Share() const;

  int64_t size() const { return size_; }
  // New places have no row.
  void Resize(int64_t size);
  uint32_t At(int64_t place) const {
    return pages_[static_cast<size_t>(place >> kShift)]
        ->slots[static_cast<size_t>(place & (kPage - 1))];
  }
  void Set(int64_t place, uint32_t slot);

 private:
  static constexpr int kShift = 10;
  static constexpr int64_t kPage = int64_t{1} << kShift;
  struct Page {
    explicit Page(std::shared_ptr<SharedBytes> all);
    Page(std::shared_ptr<SharedBytes> all, const Page& other);
    std::array<uint32_t, kPage> slots;
    SharedBytes::Part part;
  };

  std::shared_ptr<SharedBytes> bytes_;
  std::vector<std::shared_ptr<Page>> pages_;
  std::vector<bool> own_;  // pages that no other map has
  int64_t size_ = 0;
};

// From ids to where their rows are: any number that is not negative.
class IdMap {
 public:
  explicit IdMap(std::shared_ptr<SharedBytes> bytes) : bytes_(std::move(bytes)) {}
  // A copy that shares all pages.
  IdMap Share() const;

  int64_t size() const { return size_; }
  // -1: none.
  int64_t Find(int64_t id) const;
  // False if the id is there already.
  bool Insert(int64_t id, int64_t at);
  // Removes the id if it is there.
  void Erase(int64_t id, int64_t at);
  // Counts the bytes of the pages that were changed since the copy was made.
  void Count();

 private:
  struct Page {
    explicit Page(std::shared_ptr<SharedBytes> all) : part(std::move(all), 0) {}
    absl::flat_hash_map<int64_t, int64_t> at;
    SharedBytes::Part part;
  };
  size_t PageOf(int64_t id) const;
  Page& Own(size_t page);
  void Spread(size_t pages);

  std::shared_ptr<SharedBytes> bytes_;
  std::vector<std::shared_ptr<Page>> pages_;  // a power of two of them, or none
  std::vector<bool> own_;
  int64_t size_ = 0;
};

}  // namespace coxswain::model
