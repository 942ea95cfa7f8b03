// The zip's directory, the bytes of an entry, and the npy format.
#include "coordinator/model/npz_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"
#include "runtime/env/random_access_file.h"
#include "runtime/tensor/limits.h"

namespace coxswain::model {
namespace {

// Sizes and places in a zip, whose numbers are little-endian.
constexpr size_t kEnd = 22, kLongestComment = 65535, kDirectoryEntry = 46, kLocalHeader = 30;
constexpr uint32_t kEndMagic = 0x06054b50, kEntryMagic = 0x02014b50, kLocalMagic = 0x04034b50;
constexpr size_t kEnd64 = 56, kLocator64 = 20;  // of zip64, for files and arrays from 4 GiB
constexpr uint32_t kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr uint16_t kExtra64 = 1;
constexpr uint32_t kElsewhere = 0xffffffff;  // the number is in an extra field
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint64_t kMostOfOneByte = 1032;
constexpr uint64_t kMostDirectory = uint64_t{64} << 20, kMostHeader = uint64_t{1} << 20;

uint64_t LongNumber(const char* p, int bytes) {
  uint64_t number = 0;
  for (int i = bytes; i-- > 0;) number = number << 8 | static_cast<unsigned char>(p[i]);
  return number;
}
uint32_t Number(const char* p, int bytes) { return static_cast<uint32_t>(LongNumber(p, bytes)); }

struct Entry {
  std::string name;  // without ".npy"
  uint16_t method = 0;
  uint32_t crc32 = 0;
  uint64_t packed = 0, bytes = 0, offset = 0;
};

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": wanted a whole npz file, found ", what));
}

// Where a zip's list of entries is.
struct Directory {
  uint64_t count = 0, bytes = 0, offset = 0;
};

// That of zip64, which a record before the end at `end` leads to.
absl::StatusOr<Directory> FindLongDirectory(const env::RandomAccessFile& file, uint64_t end) {
  char locator[kLocator64], record[kEnd64];
  if (end < kLocator64) return Damaged(file.path(), "no place of its zip64 directory");
  RETURN_IF_ERROR(file.Read(end - kLocator64, locator, sizeof(locator)));
  const uint64_t at = LongNumber(locator + 8, 8);
  if (Number(locator, 4) != kLocator64Magic || at > file.size() || file.size() - at < kEnd64) {
    return Damaged(file.path(), "no place of its zip64 directory");
  }
  RETURN_IF_ERROR(file.Read(at, record, sizeof(record)));
  if (Number(record, 4) != kEnd64Magic) return Damaged(file.path(), "no zip64 directory");
  return Directory{LongNumber(record + 32, 8), LongNumber(record + 40, 8),
                   LongNumber(record + 48, 8)};
}

absl::StatusOr<Directory> FindDirectory(const env::RandomAccessFile& file) {
  const std::string& path = file.path();
  std::string tail(std::min<uint64_t>(file.size(), kEnd + kLongestComment), '\0');
  const uint64_t begin = file.size() - tail.size();
  RETURN_IF_ERROR(file.Read(begin, tail.data(), tail.size()));
  size_t at = tail.size() < kEnd ? std::string::npos : tail.size() - kEnd;
  while (at != std::string::npos && Number(tail.data() + at, 4) != kEndMagic) {
    at = at == 0 ? std::string::npos : at - 1;
  }
  if (at == std::string::npos) return Damaged(path, "no zip directory at its end");
  Directory found = {Number(tail.data() + at + 10, 2), Number(tail.data() + at + 12, 4),
                     Number(tail.data() + at + 16, 4)};
  if (found.offset == kElsewhere || found.bytes == kElsewhere || found.count == 0xffff) {
    ASSIGN_OR_RETURN(found, FindLongDirectory(file, begin + at));
  }
  if (found.bytes > kMostDirectory || found.offset > file.size() ||
      file.size() - found.offset < found.bytes) {
    return Damaged(path, "a directory beyond its end");
  }
  return found;
}

// Takes from an entry's extra fields the numbers that have no room in the entry. False: they are
// not there.
bool TakeLongNumbers(absl::string_view extra, Entry* entry) {
  std::vector<uint64_t*> wanted;  // in the order in which they come
  for (uint64_t* number : {&entry->bytes, &entry->packed, &entry->offset}) {
    if (*number == kElsewhere) wanted.push_back(number);
  }
  if (wanted.empty()) return true;
  while (extra.size() >= 4) {
    const size_t size = Number(extra.data() + 2, 2);
    if (size > extra.size() - 4) return false;
    if (Number(extra.data(), 2) == kExtra64) {
      if (size < 8 * wanted.size()) return false;
      for (size_t i = 0; i < wanted.size(); ++i) {
        *wanted[i] = LongNumber(extra.data() + 4 + 8 * i, 8);
      }
      return true;
    }
    extra.remove_prefix(4 + size);
  }
  return false;
}

absl::StatusOr<std::vector<Entry>> ReadDirectory(const env::RandomAccessFile& file) {
  const std::string& path = file.path();
  ASSIGN_OR_RETURN(const Directory found, FindDirectory(file));
  std::string directory(found.bytes, '\0');
  RETURN_IF_ERROR(file.Read(found.offset, directory.data(), directory.size()));
  std::vector<Entry> entries;
  const char* p = directory.data();
  for (size_t left = directory.size(); entries.size() < found.count;) {
    if (left < kDirectoryEntry || Number(p, 4) != kEntryMagic) return Damaged(path, "no entry");
    const size_t name = Number(p + 28, 2), extra = Number(p + 30, 2);
    const size_t all = kDirectoryEntry + name + extra + Number(p + 32, 2);
    if (all > left) return Damaged(path, "an entry that is cut off");
    Entry entry;
    entry.method = static_cast<uint16_t>(Number(p + 10, 2));
    entry.crc32 = Number(p + 16, 4);
    entry.packed = Number(p + 20, 4);
    entry.bytes = Number(p + 24, 4);
    entry.offset = Number(p + 42, 4);
    entry.name.assign(p + kDirectoryEntry, name);
    entry.name = std::string(absl::StripSuffix(entry.name, ".npy"));
    if (!TakeLongNumbers({p + kDirectoryEntry + name, extra}, &entry)) {
      return Damaged(path, "an entry without its zip64 numbers");
    }
    entries.push_back(std::move(entry));
    p += all;
    left -= all;
  }
  return entries;
}

// An entry's bytes from beginning to end.
class EntryBytes {
 public:
  EntryBytes(const env::RandomAccessFile& file, const Entry& entry) : file_(file), entry_(entry) {}
  ~EntryBytes() {
    if (inflates_) inflateEnd(&stream_);
  }

  absl::Status Open() {
    char header[kLocalHeader];
    RETURN_IF_ERROR(Annotate(file_.Read(entry_.offset, header, sizeof(header)), entry_.name));
    if (Number(header, 4) != kLocalMagic) return Damaged(file_.path(), "no entry");
    offset_ = entry_.offset + kLocalHeader + Number(header + 26, 2) + Number(header + 28, 2);
    left_ = entry_.packed;
    if (entry_.method == kStored) return absl::OkStatus();
    if (entry_.method != kDeflated) return Damaged(file_.path(), "another compression");
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) {
      return absl::ResourceExhaustedError(absl::StrCat(file_.path(), ": no memory to unpack it"));
    }
    inflates_ = true;
    return absl::OkStatus();
  }

  absl::Status Read(void* out, size_t bytes) {
    if (!inflates_) {
      if (bytes > left_) return Damaged(file_.path(), "less than its header says");
      RETURN_IF_ERROR(file_.Read(offset_, out, bytes));
      offset_ += bytes;
      left_ -= bytes;
    } else {
      RETURN_IF_ERROR(Inflate(static_cast<Bytef*>(out), bytes));
    }
    crc32_ = static_cast<uint32_t>(crc32_z(crc32_, static_cast<const Bytef*>(out), bytes));
    return absl::OkStatus();
  }
  uint32_t crc32() const { return crc32_; }  // of what was read

 private:
  absl::Status Inflate(Bytef* out, size_t bytes) {
    while (bytes > 0) {
      if (stream_.avail_in == 0 && left_ > 0) {
        const auto some = static_cast<uint32_t>(std::min<uint64_t>(left_, sizeof(buffer_)));
        RETURN_IF_ERROR(file_.Read(offset_, buffer_, some));
        offset_ += some;
        left_ -= some;
        stream_.next_in = buffer_;
        stream_.avail_in = some;
      }
      const auto room = static_cast<uInt>(std::min<size_t>(bytes, uInt{1} << 30));
      stream_.next_out = out;
      stream_.avail_out = room;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      const size_t written = room - stream_.avail_out;
      out += written;
      bytes -= written;
      if (bytes > 0 && (code != Z_OK || (written == 0 && stream_.avail_in == 0 && left_ == 0))) {
        return Damaged(file_.path(), "an array that cannot be unpacked");
      }
    }
    return absl::OkStatus();
  }

  const env::RandomAccessFile& file_;
  const Entry& entry_;
  uint64_t offset_ = 0, left_ = 0;
  uint32_t crc32_ = 0;
  bool inflates_ = false;
  z_stream stream_ = {};
  Bytef buffer_[1 << 15];
};

// The value after `'key':` in the header of an npy file, up to a comma outside of brackets.
absl::string_view ValueOf(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return "";
  absl::string_view rest = header.substr(at + key.size() + 3);
  rest = absl::StripLeadingAsciiWhitespace(rest);
  const bool list = absl::StartsWith(rest, "(");
  return rest.substr(0, list ? rest.find(')') + 1 : rest.find(','));
}

struct Header {
  bool doubles = false;
  int64_t rows = 0, columns = 0;
};

absl::StatusOr<Header> ReadHeader(const std::string& path, const std::string& name,
                                  EntryBytes* bytes) {
  char start[10];
  RETURN_IF_ERROR(bytes->Read(start, sizeof(start)));
  uint64_t size = Number(start + 8, 2);
  if (std::memcmp(start, "\x93NUMPY", 6) != 0) return Damaged(path, "an entry that is no array");
  if (start[6] > 1) {  // two bytes more
    char more[2];
    RETURN_IF_ERROR(bytes->Read(more, sizeof(more)));
    size |= uint64_t{Number(more, 2)} << 16;
  }
  if (size > kMostHeader) return Damaged(path, "a header that is too long");
  std::string text(size, '\0');
  RETURN_IF_ERROR(bytes->Read(text.data(), text.size()));
  const absl::string_view type = ValueOf(text, "descr"), shape = ValueOf(text, "shape");
  std::vector<absl::string_view> dimensions;
  if (shape.size() > 2) {
    dimensions = absl::StrSplit(shape.substr(1, shape.size() - 2), ',', absl::SkipWhitespace());
  }
  Header header;
  header.doubles = type == "'<f8'";
  const bool fits =
      (type == "'<f4'" || header.doubles) && dimensions.size() == 2 &&
      ValueOf(text, "fortran_order") == "False" && absl::SimpleAtoi(dimensions[0], &header.rows) &&
      absl::SimpleAtoi(dimensions[1], &header.columns) && header.rows >= 0 && header.columns >= 0;
  if (fits) return header;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": ", data::Quoted(name), ": wanted rows of f4 or f8, one after the other, found ",
      absl::StripAsciiWhitespace(text)));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ArraysOfNpz(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, env::RandomAccessFile::Open(path));
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, ReadDirectory(*file));
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

absl::StatusOr<Tensor> ReadNpz(const std::string& path, const std::string& name) {
  ASSIGN_OR_RETURN(const auto file, env::RandomAccessFile::Open(path));
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, ReadDirectory(*file));
  const auto entry =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
  if (entry == entries.end()) {
    return absl::NotFoundError(absl::StrCat(path, ": wanted an array ", data::Quoted(name)));
  }
  EntryBytes bytes(*file, *entry);
  RETURN_IF_ERROR(bytes.Open());
  ASSIGN_OR_RETURN(const Header header, ReadHeader(path, name, &bytes));
  // Checked before memory is allocated: the zip gives the number of bytes. Deflate makes at most
  // 1,032 bytes of one.
  const bool stored = entry->method == kStored;
  if (entry->packed > file->size() || (stored && entry->bytes != entry->packed) ||
      entry->bytes / kMostOfOneByte > entry->packed) {
    return Damaged(path, "other sizes than its arrays can have");
  }
  const uint64_t width = header.doubles ? sizeof(double) : sizeof(float);
  if (header.columns > 0 && static_cast<uint64_t>(header.rows) >
                                entry->bytes / width / static_cast<uint64_t>(header.columns)) {
    return Damaged(path, "less than its header says");
  }
  ASSIGN_OR_RETURN(Tensor rows, AllocateTensor(DType::kF32, Shape{header.rows, header.columns}));
  float* const out = rows.mutable_data<float>();
  if (header.doubles) {
    std::vector<double> some(std::min<size_t>(8192, static_cast<size_t>(rows.num_elements())));
    for (size_t done = 0; done < static_cast<size_t>(rows.num_elements()); done += some.size()) {
      some.resize(std::min(some.size(), static_cast<size_t>(rows.num_elements()) - done));
      RETURN_IF_ERROR(bytes.Read(some.data(), some.size() * sizeof(double)));
      std::transform(some.begin(), some.end(), out + done,
                     [](double number) { return static_cast<float>(number); });
    }
  } else {
    RETURN_IF_ERROR(bytes.Read(out, rows.bytes()));
  }
  if (bytes.crc32() == entry->crc32) return rows;
  return Damaged(path, absl::StrCat("other bytes than the checksum of ", name, " is of"));
}

}  // namespace coxswain::model
