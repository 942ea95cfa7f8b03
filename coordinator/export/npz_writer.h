// Arrays as numpy.load reads them: a zip file of .npy files, stored as they are. Written in one go:
// memory does not grow with the arrays, and neither they nor the file have a bound of 4 GiB
// (zip64).
//
// By hand because that is all of the format that is needed, and a library for it would be one more
// thing to install wherever this is built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "runtime/env/file_system.h"

namespace coxswain::exporter {

class NpzWriter {
 public:
  // Errors of all calls: those of the file system.
  static absl::StatusOr<std::unique_ptr<NpzWriter>> Create(env::FileSystem* files,
                                                           const std::string& path);
  // The next array; its bytes follow, row-major. numpy has no bf16: InvalidArgument.
  absl::Status BeginArray(const std::string& name, DType dtype, const Shape& shape);
  absl::Status Append(const void* data, size_t bytes);
  // Errors: also Internal when more or fewer bytes came than the array has.
  absl::Status EndArray();
  // An array of no dimension whose only element is this text.
  absl::Status AddText(const std::string& name, const std::string& text);
  // Writes the directory; syncs and closes.
  absl::Status Finish();

 private:
  struct Member {
    std::string name;
    uint64_t offset = 0, bytes = 0;
    uint32_t crc32 = 0;
  };

  explicit NpzWriter(std::unique_ptr<env::WritableFile> file) : file_(std::move(file)) {}
  absl::Status BeginMember(const std::string& name, const std::string& description, uint64_t bytes);
  absl::Status Write(absl::string_view bytes);
  // Of the member that is open.
  absl::Status WriteContent(const void* data, size_t bytes);

  std::unique_ptr<env::WritableFile> file_;
  uint64_t offset_ = 0;
  uint64_t left_ = 0;  // bytes of the open array that did not come yet
  std::vector<Member> members_;
};

}  // namespace coxswain::exporter
