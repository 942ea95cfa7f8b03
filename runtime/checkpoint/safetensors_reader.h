// A safetensors file of which parts are read, in memory that does not grow with the file.
// Thread-safe. SafetensorsFile is for those that are read whole.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::checkpoint {

class SafetensorsReader {
 public:
  // Reads the header. Errors, which name the file: NotFound; DataLoss for a file that is cut off or
  // whose header does not fit its size; those of RandomAccessFile.
  static absl::StatusOr<SafetensorsReader> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  uint64_t bytes() const { return file_->size(); }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  // Null when there is none.
  const SafetensorsEntry* Find(const std::string& name) const;
  // `bytes` of the tensor `name` from its byte `offset` on.
  // Errors: NotFound for the tensor; OutOfRange; DataLoss.
  absl::Status Read(const std::string& name, uint64_t offset, void* out, size_t bytes) const;
  // Reads all of the file. Errors: DataLoss when size or checksum (zlib's CRC-32) are others.
  absl::Status Verify(uint64_t bytes, uint32_t crc32) const;

 private:
  SafetensorsReader() = default;

  std::unique_ptr<env::RandomAccessFile> file_;
  SafetensorsHeader header_;
  uint64_t data_ = 0;  // where the tensors' bytes begin
};

}  // namespace coxswain::checkpoint
