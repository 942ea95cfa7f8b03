#include "runtime/data/tfrecord_reader.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/crc32c.h"

namespace coxswain::data {
namespace {

constexpr size_t kLength = 8, kChecksum = 4, kHeader = kTfRecordHeader;
static_assert(kHeader == kLength + kChecksum);

uint64_t LittleEndian(const char* p, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = bytes; i-- > 0;) number = number << 8 | static_cast<unsigned char>(p[i]);
  return number;
}

bool HasChecksum(absl::string_view bytes, const char* checksum) {
  return MaskedCrc32c(bytes) == LittleEndian(checksum, kChecksum);
}

}  // namespace

int64_t TfRecordLength(absl::string_view bytes) {
  const uint64_t length = LittleEndian(bytes.data(), kLength);
  // Nearly all bytes that are no header end here.
  if (length >= kMaxRecordBytes) return -1;
  const bool good = HasChecksum(bytes.substr(0, kLength), bytes.data() + kLength);
  return good ? static_cast<int64_t>(length) : -1;
}

absl::StatusOr<bool> TfRecordReader::Fill(size_t bytes) {
  while (static_cast<size_t>(input_->end() - input_->begin()) < bytes) {
    if (input_->at_end()) return false;
    RETURN_IF_ERROR(input_->More());
  }
  return true;
}

absl::Status TfRecordReader::Error(absl::string_view message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(input_->path(), ": record ", number_, ": ", message));
}

absl::Status TfRecordReader::Damaged(absl::string_view message) const {
  return absl::DataLossError(absl::StrCat(input_->path(), ": record ", number_, ": ", message));
}

absl::StatusOr<bool> TfRecordReader::Next(absl::string_view* record) {
  ++number_;
  ASSIGN_OR_RETURN(const bool header, Fill(kHeader));
  if (!header && input_->begin() == input_->end()) return false;
  if (!header) return Damaged("wanted its length, found the end of the file: it is torn");
  if (!HasChecksum(absl::string_view(input_->begin(), kLength), input_->begin() + kLength)) {
    return Damaged(number_ == 1 ? "wanted the checksum of its length, found another one: no "
                                  "TFRecord file"
                                : "its length does not have the checksum that is behind it");
  }
  const uint64_t length = LittleEndian(input_->begin(), kLength);
  if (length >= kMaxRecordBytes) {
    return absl::OutOfRangeError(absl::StrCat(input_->path(), ": record ", number_,
                                              ": wanted less than ", kMaxRecordBytes >> 20,
                                              " MiB, found ", length, " bytes"));
  }
  const size_t all = kHeader + static_cast<size_t>(length) + kChecksum;
  ASSIGN_OR_RETURN(const bool whole, Fill(all));
  if (!whole) {
    return Damaged(
        absl::StrCat("wanted ", length, " bytes, found the end of the file: it is torn"));
  }
  *record = absl::string_view(input_->begin() + kHeader, static_cast<size_t>(length));
  if (!HasChecksum(*record, input_->begin() + kHeader + length)) {
    return Damaged("its bytes do not have the checksum that is behind them");
  }
  input_->Consume(all);
  return true;
}

}  // namespace coxswain::data
