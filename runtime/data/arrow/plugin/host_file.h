// A file whose bytes the program gives, as Arrow wants files to be.
#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <cstdint>
#include <memory>

#include "runtime/data/arrow/arrow_api.h"

namespace coxswain::data::plugin {

// Thread model: as the source.
class HostFile final : public arrow::io::RandomAccessFile {
 public:
  // `copies`: buffers have bytes of their own, and may be kept beyond what the source holds.
  explicit HostFile(const CoxArrowSource& source, bool copies = false)
      : source_(source), copies_(copies) {}

  arrow::Status Close() override;
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override;
  arrow::Result<int64_t> GetSize() override { return source_.bytes; }
  bool supports_zero_copy() const override { return !copies_; }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override;
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override;

 private:
  // The range as far as the file has it.
  arrow::Result<const void*> Find(int64_t position, int64_t* bytes) const;

  const CoxArrowSource source_;
  const bool copies_;
  int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace coxswain::data::plugin
