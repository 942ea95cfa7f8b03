// The bytes of a file from beginning to end, decompressed if they are gzip or zstd. The only
// wrapper of zlib's and zstd's readers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

// Whether a file with this beginning is zstd: it starts with a frame or a skippable frame.
bool IsZstd(absl::string_view begin);
// Whether it is a stream of zlib, in the forms that no text and no TFRecord begins with. `begin`:
// some hundred bytes, or all.
bool IsZlib(absl::string_view begin);

// Thread model: one thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Takes the descriptor, which is at the beginning of what it reads, and reads that beginning.
  // `name` is for messages. Errors: ResourceExhausted without memory; those of Read.
  static absl::StatusOr<std::unique_ptr<ByteSource>> OfDescriptor(const std::string& name, int fd);
  // The same of a file that may be far away: the bytes behind those that are used are asked for
  // meanwhile, by a thread.
  static absl::StatusOr<std::unique_ptr<ByteSource>> OfFile(
      std::unique_ptr<env::RandomAccessFile> file);

  // Returns the number of bytes written to `out`: fewer than `bytes` only at the end. Errors:
  // DataLoss for damaged or torn data; InvalidArgument for a directory; Unavailable with the
  // system's reason. Messages begin with the name.
  virtual absl::StatusOr<size_t> Read(char* out, size_t bytes) = 0;
  // Whether the data is compressed; known after the first read.
  virtual bool packed() const = 0;
};

}  // namespace coxswain::data
