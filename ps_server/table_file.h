// Rows of tables in a file, for tables that are larger than memory (`device: disk`).
//
// The file is mapped, so the system keeps the pages in memory that are used most, and writes back
// those that have changed. It is not kept: a parameter server that ends has lost its rows, as it
// has those in memory, and they come back from the checkpoint.
//
// A page that is not in memory is read when it is touched, one after the other. So rows that are
// about to be touched are asked for together, and the disk reads many at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ps_server/shard_parts.h"

namespace coxswain::ps {

// Of VariableSpec.device.
inline constexpr char kOnDisk[] = "disk";

// Copies are handles on one file without a name, which is gone with the last of them and the last
// of its mappings.
class TableFile {
 public:
  TableFile() = default;
  // Errors: those of env::OpenUnnamedFile.
  static absl::StatusOr<TableFile> Create(const std::string& directory);

  bool valid() const { return file_ != nullptr; }
  // Sets the bytes [begin, end) aside on the disk, zero, and maps them to `to`. All are multiples
  // of a page. Errors: those of env::SetAside; then nothing has changed.
  absl::Status Map(size_t begin, size_t end, char* to) const;

 private:
  struct File;
  std::shared_ptr<const File> file_;
};

// To be called before these rows of the block are touched: has the system read what is not in
// memory. Does not wait, and does nothing where the rows are not in a file.
void ReadAhead(const TableMemory& memory, size_t row_stride, const int64_t* rows, int64_t n);
// The same for rows [begin, begin + n).
void ReadAhead(const TableMemory& memory, size_t row_stride, int64_t begin, int64_t n);

}  // namespace coxswain::ps
