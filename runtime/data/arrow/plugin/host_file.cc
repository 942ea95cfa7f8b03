#include "runtime/data/arrow/plugin/host_file.h"

#include <algorithm>
#include <cstring>

namespace coxswain::data::plugin {

arrow::Status HostFile::Close() {
  closed_ = true;
  return arrow::Status::OK();
}

arrow::Status HostFile::Seek(int64_t position) {
  if (position < 0 || position > source_.bytes)
    return arrow::Status::Invalid("a seek out of the file");
  position_ = position;
  return arrow::Status::OK();
}

arrow::Result<const void*> HostFile::Find(int64_t position, int64_t* bytes) const {
  if (position < 0 || *bytes < 0 || position > source_.bytes) {
    return arrow::Status::Invalid("wanted bytes of the file, found the range of ", *bytes,
                                  " bytes from ", position, " on; it has ", source_.bytes);
  }
  *bytes = std::min(*bytes, source_.bytes - position);
  const void* data = nullptr;
  CoxArrowError error = {};
  if (source_.read(source_.context, position, *bytes, &data, &error) != 0) {
    return arrow::Status::IOError(error.message);
  }
  return data;
}

arrow::Result<int64_t> HostFile::ReadAt(int64_t position, int64_t bytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(const void* const data, Find(position, &bytes));
  if (bytes > 0) std::memcpy(out, data, static_cast<size_t>(bytes));
  return bytes;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> HostFile::ReadAt(int64_t position, int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(const void* const data, Find(position, &bytes));
  if (!copies_) return std::make_shared<arrow::Buffer>(static_cast<const uint8_t*>(data), bytes);
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(bytes));
  if (bytes > 0) std::memcpy(buffer->mutable_data(), data, static_cast<size_t>(bytes));
  return buffer;
}

arrow::Result<int64_t> HostFile::Read(int64_t bytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(bytes, ReadAt(position_, bytes, out));
  position_ += bytes;
  return bytes;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> HostFile::Read(int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, ReadAt(position_, bytes));
  position_ += buffer->size();
  return buffer;
}

}  // namespace coxswain::data::plugin
