#include "coordinator/export/npz_writer.h"

#include <zlib.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"

namespace coxswain::exporter {
namespace {

// Of PKWARE's APPNOTE.TXT, 4.3 to 4.5.
constexpr uint32_t kLocalHeader = 0x04034b50, kDescriptor = 0x08074b50;
constexpr uint32_t kCentralHeader = 0x02014b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint16_t kVersion = 45;              // zip64
constexpr uint16_t kFlags = 1 << 3 | 1 << 11;  // checksum and sizes follow the bytes; UTF-8 names
constexpr uint16_t kDate = 1 << 5 | 1;         // 1980-01-01: the same bytes for the same arrays
constexpr uint32_t kIn64 = 0xffffffff;         // the value is in the zip64 part

template <typename T>
void Put(std::string* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

absl::StatusOr<std::string> Descr(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return std::string("<f4");
    case DType::kF64:
      return std::string("<f8");
    case DType::kI32:
      return std::string("<i4");
    case DType::kI64:
      return std::string("<i8");
    case DType::kBool:
      return std::string("|b1");
    case DType::kBF16:
    case DType::kInvalid:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("numpy has no ", DTypeName(dtype)));
}

// Version 1.0 of the .npy format: the array begins at a multiple of 64 bytes.
std::string NpyHeader(const std::string& descr, const Shape& shape) {
  std::string text =
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(shape.dims(), ", "), shape.rank() == 1 ? "," : "", "), }");
  constexpr size_t kPrefix = 10;
  text.resize((kPrefix + text.size() + 1 + 63) / 64 * 64 - kPrefix, ' ');
  text.back() = '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  Put<uint16_t>(&header, static_cast<uint16_t>(text.size()));
  return header + text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NpzWriter>> NpzWriter::Create(env::FileSystem* files,
                                                             const std::string& path) {
  ASSIGN_OR_RETURN(auto file, files->CreateLarge(path));
  return std::unique_ptr<NpzWriter>(new NpzWriter(std::move(file)));
}

absl::Status NpzWriter::Write(absl::string_view bytes) {
  offset_ += bytes.size();
  return file_->Append(bytes.data(), bytes.size());
}

absl::Status NpzWriter::WriteContent(const void* data, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();  // zlib takes a null pointer for the start of a checksum
  Member& member = members_.back();
  member.bytes += bytes;
  member.crc32 =
      static_cast<uint32_t>(crc32_z(member.crc32, static_cast<const Bytef*>(data), bytes));
  return Write({static_cast<const char*>(data), bytes});
}

absl::Status NpzWriter::BeginMember(const std::string& name, const std::string& description,
                                    uint64_t bytes) {
  members_.push_back({name + ".npy", offset_, 0, 0});
  left_ = bytes;
  std::string header;
  Put(&header, kLocalHeader);
  Put(&header, kVersion);
  Put(&header, kFlags);
  Put<uint16_t>(&header, 0);  // stored
  Put<uint16_t>(&header, 0);  // time
  Put(&header, kDate);
  Put<uint32_t>(&header, 0);  // checksum
  Put(&header, kIn64);
  Put(&header, kIn64);
  Put(&header, static_cast<uint16_t>(members_.back().name.size()));
  Put<uint16_t>(&header, 20);
  header += members_.back().name;
  Put<uint16_t>(&header, 1);  // zip64: two sizes
  Put<uint16_t>(&header, 16);
  Put<uint64_t>(&header, 0);
  Put<uint64_t>(&header, 0);
  RETURN_IF_ERROR(Write(header));
  return WriteContent(description.data(), description.size());
}

absl::Status NpzWriter::BeginArray(const std::string& name, DType dtype, const Shape& shape) {
  ASSIGN_OR_RETURN(const std::string descr, Descr(dtype));
  return BeginMember(name, NpyHeader(descr, shape),
                     static_cast<uint64_t>(shape.num_elements()) * SizeOf(dtype));
}

absl::Status NpzWriter::Append(const void* data, size_t bytes) {
  if (bytes > left_) return absl::InternalError("more bytes than the array has");
  left_ -= bytes;
  return WriteContent(data, bytes);
}

absl::Status NpzWriter::EndArray() {
  if (left_ != 0) return absl::InternalError(absl::StrCat(left_, " bytes of an array are missing"));
  const Member& member = members_.back();
  std::string descriptor;
  Put(&descriptor, kDescriptor);
  Put(&descriptor, member.crc32);
  Put(&descriptor, member.bytes);
  Put(&descriptor, member.bytes);
  return Write(descriptor);
}

absl::Status NpzWriter::AddText(const std::string& name, const std::string& text) {
  const std::string element = text.empty() ? std::string(1, '\0') : text;
  RETURN_IF_ERROR(
      BeginMember(name, NpyHeader(absl::StrCat("|S", element.size()), Shape{}), element.size()));
  RETURN_IF_ERROR(Append(element.data(), element.size()));
  return EndArray();
}

absl::Status NpzWriter::Finish() {
  const uint64_t begin = offset_;
  for (const Member& member : members_) {
    std::string entry;
    Put(&entry, kCentralHeader);
    Put(&entry, kVersion);
    Put(&entry, kVersion);
    Put(&entry, kFlags);
    Put<uint16_t>(&entry, 0);
    Put<uint16_t>(&entry, 0);
    Put(&entry, kDate);
    Put(&entry, member.crc32);
    Put(&entry, kIn64);
    Put(&entry, kIn64);
    Put(&entry, static_cast<uint16_t>(member.name.size()));
    Put<uint16_t>(&entry, 28);
    Put<uint16_t>(&entry, 0);  // comment
    Put<uint16_t>(&entry, 0);  // disk
    Put<uint16_t>(&entry, 0);  // attributes
    Put<uint32_t>(&entry, 0);
    Put(&entry, kIn64);
    entry += member.name;
    Put<uint16_t>(&entry, 1);  // zip64: two sizes and the place
    Put<uint16_t>(&entry, 24);
    Put(&entry, member.bytes);
    Put(&entry, member.bytes);
    Put(&entry, member.offset);
    RETURN_IF_ERROR(Write(entry));
  }
  const uint64_t end = offset_, count = members_.size();
  std::string tail;
  Put(&tail, kEnd64);
  Put<uint64_t>(&tail, 44);  // bytes of what follows in this record
  Put(&tail, kVersion);
  Put(&tail, kVersion);
  Put<uint32_t>(&tail, 0);  // disks
  Put<uint32_t>(&tail, 0);
  Put(&tail, count);
  Put(&tail, count);
  Put(&tail, end - begin);
  Put(&tail, begin);
  Put(&tail, kLocator64);
  Put<uint32_t>(&tail, 0);
  Put(&tail, end);
  Put<uint32_t>(&tail, 1);
  Put(&tail, kEnd);
  Put<uint16_t>(&tail, 0);
  Put<uint16_t>(&tail, 0);
  Put(&tail, static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff)));
  Put(&tail, static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff)));
  Put(&tail, kIn64);
  Put(&tail, kIn64);
  Put<uint16_t>(&tail, 0);
  RETURN_IF_ERROR(Write(tail));
  RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

}  // namespace coxswain::exporter
