#include "runtime/data/idx_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::data {
namespace {

constexpr unsigned char kBytes = 8;               // the type of the items
constexpr int64_t kMostBytes = int64_t{1} << 20;  // of an item

uint32_t BigEndian(absl::string_view bytes) {
  uint32_t number = 0;
  for (const char c : bytes) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IdxReader>> IdxReader::Open(const std::string& path,
                                                           int dimensions) {
  ASSIGN_OR_RETURN(auto input, InputFile::Open(path));
  std::unique_ptr<IdxReader> reader(new IdxReader(std::move(input)));
  RETURN_IF_ERROR(reader->ReadHeader(dimensions));
  return reader;
}

std::unique_ptr<IdxReader> IdxReader::OfBytes(const std::string& path, std::vector<char> bytes,
                                              int64_t items, int64_t width) {
  std::unique_ptr<IdxReader> reader(new IdxReader(InputFile::OfBytes(path, std::move(bytes))));
  reader->items_ = items;
  reader->width_ = width;
  return reader;
}

absl::StatusOr<absl::string_view> IdxReader::Take(int64_t bytes) {
  Consume();
  while (input_->end() - input_->begin() < bytes) {
    if (input_->at_end()) {
      return absl::DataLossError(absl::StrCat(input_->path(), ": wanted ", bytes,
                                              " bytes more, found the end of the file after ",
                                              input_->end() - input_->begin()));
    }
    RETURN_IF_ERROR(input_->More());
  }
  taken_ = bytes;
  return absl::string_view(input_->begin(), static_cast<size_t>(bytes));
}

absl::Status IdxReader::ReadHeader(int dimensions) {
  const auto error = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(input_->path(), ": ", what...));
  };
  ASSIGN_OR_RETURN(const absl::string_view magic, Take(4));
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(magic[i]); };
  if (byte(0) != 0 || byte(1) != 0) {
    return error("wanted an IDX file, whose first two bytes are 0, found ", int{byte(0)}, " and ",
                 int{byte(1)});
  }
  if (byte(2) != kBytes) {
    return error("wanted unsigned bytes (type 8), found type ", int{byte(2)});
  }
  const int found = byte(3);
  if (dimensions == 1 ? found != 1 : found < 2 || found > 4) {
    return error("wanted ",
                 dimensions == 1 ? "labels, of 1 dimension" : "images, of 2 to 4 dimensions",
                 ", found ", found);
  }
  for (int i = 0; i < found; ++i) {
    ASSIGN_OR_RETURN(const absl::string_view number, Take(4));
    const int64_t size = BigEndian(number);
    if (i == 0) {
      items_ = size;
    } else {
      width_ *= size;  // three of 32 bits at most, each but the last below 2^20
      if (width_ < 1 || width_ > kMostBytes) {
        return error("wanted images of 1 to ", kMostBytes, " bytes, found ", width_);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> IdxReader::Next(int64_t items) { return Take(items * width_); }

absl::Status IdxReader::CheckEnd() {
  Consume();
  while (input_->begin() == input_->end() && !input_->at_end()) RETURN_IF_ERROR(input_->More());
  if (input_->begin() == input_->end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      input_->path(), ": wanted the end of the file after ", items_, " items, found more bytes"));
}

absl::StatusOr<std::string> IdxLabelsOf(const std::string& images) {
  const size_t name = images.rfind('/') == std::string::npos ? 0 : images.rfind('/') + 1;
  std::string labels = images;
  const size_t at = labels.find("images", name);
  if (at == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        images, ": wanted a name with \"images\" in it, so that its labels are known: those of ",
        "train-images-idx3-ubyte.gz are in train-labels-idx1-ubyte.gz"));
  }
  labels.replace(at, 6, "labels");
  const size_t idx = labels.find("idx3", name);
  if (idx != std::string::npos) labels.replace(idx, 4, "idx1");
  return labels;
}

}  // namespace coxswain::data
