// Records of a TFRecord file: for each its length and the length's checksum, its bytes and their
// checksum. Numbers are little-endian, checksums masked (crc32c.h); gzip and zstd are unpacked.
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/data/input_file.h"

namespace coxswain::data {

// The length of a record and its checksum.
constexpr size_t kTfRecordHeader = 12;
// Of a record whose header these bytes begin with; -1 where its checksum is another one, or the
// record would be too long. `bytes`: kTfRecordHeader or more.
int64_t TfRecordLength(absl::string_view bytes);
// With the header and the checksum, of a record of this length.
inline int64_t TfRecordBytes(int64_t length) { return length + 16; }

class TfRecordReader {
 public:
  // `first`: the number of the input's first record.
  explicit TfRecordReader(std::unique_ptr<InputFile> input, int64_t first = 1)
      : input_(std::move(input)), number_(first - 1) {}

  // Reads the next record; false at the end. `record` is valid until the next call.
  // Errors: DataLoss for a wrong checksum or a file that ends within a record; OutOfRange for a
  // record of kMaxRecordBytes or more; those of InputFile. "a.tfrecord: record 17: wanted ...".
  absl::StatusOr<bool> Next(absl::string_view* record);
  int64_t number() const { return number_; }  // of the last record, from 1
  absl::Status Error(absl::string_view message) const;
  InputFile* input() { return input_.get(); }

 private:
  // Fills the window with at least `bytes` bytes; false if the file ends before, with the rest in
  // the window.
  absl::StatusOr<bool> Fill(size_t bytes);
  absl::Status Damaged(absl::string_view message) const;

  std::unique_ptr<InputFile> input_;
  int64_t number_;
};

}  // namespace coxswain::data
