// Images and their labels in the files of MNIST and its like (IDX).
//
// A file of images begins with the bytes 0, 0, 8 (unsigned bytes), 3 (dimensions) and three
// numbers of 32 bits, big-endian: images, rows, columns; the pixels follow. One of labels has one
// dimension. Thread model: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/data/input_file.h"

namespace coxswain::data {

class IdxReader {
 public:
  // Reads as far as the first item. `dimensions`: 1 for labels, else 2 or more are wanted. Errors:
  // InvalidArgument "images-idx3-ubyte: wanted ..., found ..."; those of InputFile.
  static absl::StatusOr<std::unique_ptr<IdxReader>> Open(const std::string& path, int dimensions);

  // Items of a file that are in memory.
  static std::unique_ptr<IdxReader> OfBytes(const std::string& path, std::vector<char> bytes,
                                            int64_t items, int64_t width);

  int64_t items() const { return items_; }
  int64_t width() const { return width_; }  // bytes of an item: rows times columns of an image
  // The next items' bytes, good until the next call of it. Errors: DataLoss for a file that ends
  // before; those of InputFile.
  absl::StatusOr<absl::string_view> Next(int64_t items);
  // The input's position is behind the last items from here on.
  void Consume() { input_->Consume(static_cast<size_t>(std::exchange(taken_, 0))); }
  // InvalidArgument for bytes behind the last item.
  absl::Status CheckEnd();
  InputFile* input() { return input_.get(); }

 private:
  explicit IdxReader(std::unique_ptr<InputFile> input) : input_(std::move(input)) {}
  absl::Status ReadHeader(int dimensions);
  // Of the next bytes; an end before is DataLoss.
  absl::StatusOr<absl::string_view> Take(int64_t bytes);

  std::unique_ptr<InputFile> input_;
  int64_t taken_ = 0;  // of the window, by the last call
  int64_t items_ = 0, width_ = 1;
};

// The labels of a file of images, by its name: train-labels-idx1-ubyte.gz of
// train-images-idx3-ubyte.gz. Errors: InvalidArgument for a name without "images".
absl::StatusOr<std::string> IdxLabelsOf(const std::string& images);

}  // namespace coxswain::data
