#include "runtime/checkpoint/safetensors_reader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/crc32.h"

namespace coxswain::checkpoint {
namespace {

absl::Status Corrupt(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path, ": not a whole safetensors file: ", why));
}

}  // namespace

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(const std::string& path) {
  SafetensorsReader reader;
  ASSIGN_OR_RETURN(reader.file_, env::RandomAccessFile::Open(path));
  const uint64_t size = reader.file_->size();
  if (size < 8) return Corrupt(path, "it has no header");
  uint64_t length = 0;
  RETURN_IF_ERROR(reader.file_->Read(0, &length, sizeof(length)));
  if (length > size - 8) return Corrupt(path, "the header is cut off");
  if (length > kMaxSafetensorsHeader) {
    return Corrupt(path, absl::StrCat("a header of ", length, " bytes, more than the format has"));
  }
  std::string json(length, '\0');
  RETURN_IF_ERROR(reader.file_->Read(8, json.data(), length));
  reader.data_ = 8 + length;
  ASSIGN_OR_RETURN(reader.header_, ParseSafetensorsHeader(json, size - reader.data_, path));
  return reader;
}

const SafetensorsEntry* SafetensorsReader::Find(const std::string& name) const {
  for (const SafetensorsEntry& entry : header_.entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::Status SafetensorsReader::Read(const std::string& name, uint64_t offset, void* out,
                                     size_t bytes) const {
  for (size_t i = 0; i < header_.entries.size(); ++i) {
    if (header_.entries[i].name != name) continue;
    const auto [begin, end] = header_.places[i];
    if (offset > end - begin || bytes > end - begin - offset) {
      return absl::OutOfRangeError(absl::StrCat(path(), ": wanted bytes ", offset, " to ",
                                                offset + bytes, " of tensor '", name, "', it has ",
                                                end - begin));
    }
    return file_->Read(data_ + begin + offset, out, bytes);
  }
  return absl::NotFoundError(absl::StrCat(path(), ": no tensor '", name, "'"));
}

absl::Status SafetensorsReader::Verify(uint64_t bytes, uint32_t crc32) const {
  if (file_->size() != bytes) {
    return absl::DataLossError(
        absl::StrCat(path(), ": wanted ", bytes, " bytes, found ", file_->size()));
  }
  constexpr uint64_t kBlock = 1 << 20;
  std::string block(std::min(kBlock, bytes), '\0');
  uint32_t found = 0;
  for (uint64_t at = 0; at < bytes; at += kBlock) {
    const size_t n = std::min(kBlock, bytes - at);
    RETURN_IF_ERROR(file_->Read(at, block.data(), n));
    found = Crc32(found, block.data(), n);
  }
  if (found == crc32) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("%s: it was altered: wanted checksum %08x, found %08x",
                                             path(), crc32, found));
}

}  // namespace coxswain::checkpoint
