#include "runtime/data/side_table_files.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/file_identity.h"

namespace coxswain::data {

absl::StatusOr<SideTableReading> SideTableReading::Read(const proto::DatasetSpec& spec) {
  SideTableReading reading;
  if (spec.joins_size() == 0) return reading;
  auto files = std::make_shared<SideTableFiles>();
  uint64_t hash = 0;
  for (const proto::JoinSpec& join : spec.joins()) {
    ASSIGN_OR_RETURN(reading.identities_.emplace_back(), IdentifyFile(join.path()));
    ASSIGN_OR_RETURN(const auto file, OpenDataFile(join.path()));
    std::string& content = files->contents.emplace_back(file->size(), '\0');
    RETURN_IF_ERROR(file->Read(0, content.data(), content.size()));
    hash = HashPair(hash, HashText(content));
  }
  files->version = absl::StrFormat("%016x", hash);
  reading.files_ = std::move(files);
  return reading;
}

absl::Status SideTableReading::CheckUnchanged(const proto::DatasetSpec& spec) const {
  for (size_t i = 0; i < identities_.size(); ++i) {
    const std::string& path = spec.joins(static_cast<int>(i)).path();
    RETURN_IF_ERROR(data::CheckUnchanged(path, identities_[i], /*same_machine=*/true));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
