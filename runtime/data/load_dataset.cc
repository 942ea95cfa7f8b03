#include "runtime/data/load_dataset.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/file_list.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/index_file.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/env/file_system.h"

namespace coxswain::data {

absl::StatusOr<std::unique_ptr<Dataset>> LoadDataset(const proto::DatasetSpec& spec,
                                                     uint64_t reader, IndexProgress progress,
                                                     PartReaders* workers) {
  ASSIGN_OR_RETURN(const proto::DatasetSpec listed, WithFiles(spec));
  ASSIGN_OR_RETURN(const proto::DatasetSpec checked, CheckSpec(listed));
  ASSIGN_OR_RETURN(const bool streamed, IsStreamed(checked));
  if (!streamed) return Dataset::LoadInMemory(listed, reader);
  IndexOptions options;
  options.progress = std::move(progress);
  options.workers = workers;
  ASSIGN_OR_RETURN(auto index, FindOrMakeIndex(checked, env::NewRealFileSystem().get(), options));
  return Dataset::OpenStreamed(listed, std::move(index), reader, nullptr);
}

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::Load(const proto::DatasetSpec& spec,
                                                       uint64_t reader) {
  return LoadDataset(spec, reader, nullptr);
}

}  // namespace coxswain::data
