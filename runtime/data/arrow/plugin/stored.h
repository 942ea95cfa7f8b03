// Objects of S3, and of what speaks its protocol, as files.
#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/util/future.h>

#include <memory>
#include <string>

#include "runtime/data/arrow/arrow_api.h"

namespace coxswain::data::plugin {

// As the C table's find_stored and list_stored.
arrow::Status FindInStore(const std::string& address, CoxArrowFoundFunction found, void* context);
arrow::Status ListInStore(const std::string& address, CoxArrowFoundFunction found, void* context);

// Thread-safe.
class StoredFile {
 public:
  // Asks the store once.
  static arrow::Result<std::unique_ptr<StoredFile>> Open(const std::string& address);
  CoxArrowStored about() const;
  arrow::Status Read(int64_t offset, int64_t bytes, void* out) const;
  // On Arrow's threads for input and output.
  arrow::Future<std::shared_ptr<arrow::Buffer>> Start(int64_t offset, int64_t bytes) const;

 private:
  std::string address_, tag_;
  int64_t bytes_ = 0, modified_ns_ = 0;
  std::shared_ptr<arrow::io::RandomAccessFile> file_;
};

// A range that was asked for.
struct StoredRead {
  int64_t offset = 0, bytes = 0;
  arrow::Future<std::shared_ptr<arrow::Buffer>> coming;

  arrow::Status Take(void* out) const;
};

}  // namespace coxswain::data::plugin
