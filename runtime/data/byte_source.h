// The bytes of a file from its begin to its end, unpacked where they are gzip or zstd. The only
// place that knows zlib's and zstd's readers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain::data {

// Whether a file that begins so is zstd: a frame, or one that is skipped and stands before one.
bool IsZstd(absl::string_view begin);
// Whether it is a stream of zlib, in the forms that no text and no TFRecord begins with. `begin`:
// some hundred bytes, or all.
bool IsZlib(absl::string_view begin);

// Thread model: one thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Takes the descriptor, which is at the beginning of what it reads. Of a pipe, zstd and zlib are
  // not recognised. `name` is for messages. Errors: ResourceExhausted without memory.
  static absl::StatusOr<std::unique_ptr<ByteSource>> OfDescriptor(const std::string& name, int fd);

  // How many bytes were written to `out`: fewer than `bytes` only at the end. Errors: DataLoss for
  // what is damaged or torn; InvalidArgument for a directory; Unavailable with the system's reason.
  // Messages begin with the name.
  virtual absl::StatusOr<size_t> Read(char* out, size_t bytes) = 0;
  // Whether it unpacks; known after the first read.
  virtual bool packed() const = 0;
};

}  // namespace coxswain::data
