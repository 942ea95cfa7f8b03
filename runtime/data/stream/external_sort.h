// Sorts records that may be more than fit into memory: runs of them are sorted and written to a
// scratch file, and merged while they are read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/status.h"
#include "runtime/data/stream/scratch_file.h"

namespace coxswain::data {

// Record: trivially copyable, with an operator< that orders any two that differ. Thread model: one
// thread.
template <typename Record>
class ExternalSort {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  // `memory`: bytes that it takes, about. `space` must outlive it.
  ExternalSort(ScratchSpace* space, int64_t memory)
      : most_(static_cast<size_t>(
            std::max<int64_t>(16, memory / static_cast<int64_t>(sizeof(Record))))),
        runs_file_(space) {}

  // Errors: those of ScratchFile.
  absl::Status Add(const Record& record) {
    if (buffer_.size() == most_) RETURN_IF_ERROR(EndRun());
    if (buffer_.size() == buffer_.capacity()) {
      buffer_.reserve(std::min(most_, std::max<size_t>(1024, 2 * buffer_.size())));
    }
    buffer_.push_back(record);
    ++size_;
    return absl::OkStatus();
  }
  int64_t size() const { return size_; }

  // No more are added. Errors: those of ScratchFile.
  absl::Status Sort() {
    if (!runs_.empty()) {
      if (!buffer_.empty()) RETURN_IF_ERROR(EndRun());
      std::vector<Record>().swap(buffer_);
    } else {
      std::sort(buffer_.begin(), buffer_.end());
    }
    return absl::OkStatus();
  }

  // One pass over the sorted records; there may be several, one after the other.
  class Reader {
   public:
    explicit Reader(const ExternalSort* sort) : sort_(*sort) {}
    // False behind the last one. Errors: those of ScratchFile.
    absl::StatusOr<bool> Next(Record* record) {
      if (sort_.runs_.empty()) {
        if (at_ == sort_.buffer_.size()) return false;
        *record = sort_.buffer_[at_++];
        return true;
      }
      if (at_++ == 0) RETURN_IF_ERROR(Start());
      if (heap_.empty()) return false;
      std::pop_heap(heap_.begin(), heap_.end(), Later);
      Cursor* const first = heap_.back();
      *record = first->records[first->at++];
      RETURN_IF_ERROR(Fill(first));
      if (first->at == first->records.size()) {
        heap_.pop_back();
      } else {
        std::push_heap(heap_.begin(), heap_.end(), Later);
      }
      return true;
    }

   private:
    struct Cursor {
      int64_t next = 0, end = 0;  // records of the file that are not read yet
      std::vector<Record> records;
      size_t at = 0;
    };

    static bool Later(const Cursor* a, const Cursor* b) {
      return b->records[b->at] < a->records[a->at];
    }
    absl::Status Start() {
      cursors_.resize(sort_.runs_.size());
      int64_t begin = 0;
      for (size_t i = 0; i < cursors_.size(); ++i) {
        cursors_[i].next = begin;
        cursors_[i].end = begin = sort_.runs_[i];
        RETURN_IF_ERROR(Fill(&cursors_[i]));
        heap_.push_back(&cursors_[i]);
      }
      std::make_heap(heap_.begin(), heap_.end(), Later);
      return absl::OkStatus();
    }
    // Reads on where nothing is left.
    absl::Status Fill(Cursor* cursor) {
      if (cursor->at < cursor->records.size() || cursor->next == cursor->end) {
        return absl::OkStatus();
      }
      const auto share = static_cast<int64_t>(std::max<size_t>(1, sort_.most_ / cursors_.size()));
      cursor->records.resize(static_cast<size_t>(std::min(share, cursor->end - cursor->next)));
      cursor->at = 0;
      RETURN_IF_ERROR(sort_.runs_file_.Read(cursor->next * static_cast<int64_t>(sizeof(Record)),
                                            cursor->records.data(),
                                            cursor->records.size() * sizeof(Record)));
      cursor->next += static_cast<int64_t>(cursor->records.size());
      return absl::OkStatus();
    }

    const ExternalSort& sort_;
    size_t at_ = 0;  // records taken
    std::vector<Cursor> cursors_;
    std::vector<Cursor*> heap_;  // that have records left; the first one's is the next
  };
  Reader Read() const { return Reader(this); }

 private:
  absl::Status EndRun() {
    std::sort(buffer_.begin(), buffer_.end());
    RETURN_IF_ERROR(runs_file_.Append(buffer_.data(), buffer_.size() * sizeof(Record)));
    runs_.push_back(size_);
    buffer_.clear();
    return absl::OkStatus();
  }

  const size_t most_;  // records in memory
  int64_t size_ = 0;
  std::vector<Record> buffer_;
  std::vector<int64_t> runs_;  // of each the number of the record behind its last one
  ScratchFile runs_file_;
};

}  // namespace coxswain::data
