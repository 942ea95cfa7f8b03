// The safetensors file format (https://github.com/huggingface/safetensors): 8 bytes little-endian
// length, a JSON header, then the tensors' bytes. Any safetensors reader can open the files.
//
// Writing streams: sizes are told beforehand and rows follow, so a tensor larger than memory can be
// written. Reading trusts nothing in the file.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "runtime/env/file_system.h"

namespace coxswain::checkpoint {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

// What the JSON header says, held against the number of bytes after it.
struct SafetensorsHeader {
  struct Place {
    uint64_t begin = 0, end = 0;  // past the header
  };
  std::vector<SafetensorsEntry> entries;
  std::vector<Place> places;  // of the entries
  std::map<std::string, std::string> metadata;
};
// A header may be as long as the format allows.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;
// `path` is for messages. Errors: DataLoss.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes,
                                                         const std::string& path);

class SafetensorsWriter {
 public:
  // Writes the header; the bytes of `entries` must follow in their order.
  // Errors: those of the file system.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      env::FileSystem* files, const std::string& path, std::vector<SafetensorsEntry> entries,
      const std::map<std::string, std::string>& metadata = {});
  absl::Status Append(const void* data, size_t bytes);
  // Syncs and closes. Errors: also Internal when fewer or more bytes came than were told.
  absl::Status Finish();

  // Size and checksum (zlib's CRC-32) of what is in the file by now, header included.
  uint64_t bytes() const { return bytes_; }
  uint32_t crc32() const { return crc32_; }

 private:
  SafetensorsWriter(std::unique_ptr<env::WritableFile> file, uint64_t left)
      : file_(std::move(file)), left_(left) {}
  absl::Status Write(const void* data, size_t bytes);

  std::unique_ptr<env::WritableFile> file_;
  uint64_t left_;
  uint64_t bytes_ = 0;
  uint32_t crc32_ = 0;
};

class SafetensorsFile {
 public:
  // Errors: NotFound; DataLoss for a file that is cut off or whose header does not fit its size.
  static absl::StatusOr<SafetensorsFile> Open(env::FileSystem* files, const std::string& path);
  // A file whose bytes are there already. `path` is for messages.
  static absl::StatusOr<SafetensorsFile> Parse(const Buffer& content, const std::string& path);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  // Errors: NotFound.
  absl::StatusOr<Tensor> Read(const std::string& name) const;

 private:
  std::string path_;
  Buffer content_;  // the mapped file, past the header
  SafetensorsHeader header_;
};

}  // namespace coxswain::checkpoint
