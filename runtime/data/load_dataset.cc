#include "runtime/data/load_dataset.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/file_error.h"
#include "runtime/data/file_list.h"
#include "runtime/data/side_table_files.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/index_file.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/env/file_system.h"

namespace coxswain::data {

namespace {

// A side table that is replaced while a data set is read is read again, so often in all.
constexpr int kMostAttempts = 3;

// `checked`: of `listed`.
absl::StatusOr<std::unique_ptr<Dataset>> LoadOnce(const proto::DatasetSpec& listed,
                                                  const proto::DatasetSpec& checked,
                                                  uint64_t reader, const IndexOptions& options) {
  ASSIGN_OR_RETURN(const bool streamed, IsStreamed(checked));
  if (!streamed) return Dataset::LoadInMemory(listed, reader);
  ASSIGN_OR_RETURN(auto index, FindOrMakeIndex(checked, env::NewRealFileSystem().get(), options));
  return Dataset::OpenStreamed(listed, std::move(index), reader, nullptr);
}

// The same with the files of its side tables.
absl::StatusOr<std::unique_ptr<Dataset>> LoadWithTables(const proto::DatasetSpec& listed,
                                                        const proto::DatasetSpec& checked,
                                                        uint64_t reader,
                                                        const IndexOptions& options) {
  const auto tables = SideTableReading::Read(checked);
  ASSIGN_OR_RETURN(auto dataset, LoadOnce(listed, checked, reader, options));
  RETURN_IF_ERROR(tables.status());  // whoever reads the rows has more to say of a file
  RETURN_IF_ERROR(tables->CheckUnchanged(checked));
  dataset->side_tables().Set(tables->files());
  return dataset;
}

bool IsChangedTable(const absl::Status& status, const proto::DatasetSpec& spec) {
  const auto file = FileOf(status);
  return IsChangedError(status) && file &&
         absl::c_any_of(spec.joins(), [&file](const auto& join) { return join.path() == *file; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> LoadDataset(const proto::DatasetSpec& spec,
                                                     uint64_t reader, IndexProgress progress,
                                                     PartReaders* workers) {
  ASSIGN_OR_RETURN(const proto::DatasetSpec listed, WithFiles(spec));
  ASSIGN_OR_RETURN(const proto::DatasetSpec checked, CheckSpec(listed));
  IndexOptions options;
  options.progress = std::move(progress);
  options.workers = workers;
  for (int attempt = 1;; ++attempt) {
    auto dataset = LoadWithTables(listed, checked, reader, options);
    const bool again = IsChangedTable(dataset.status(), checked) && attempt < kMostAttempts;
    if (!again) return dataset;
    LogInfo("data set: read again, as a joined table was replaced: ", dataset.status().message());
  }
}

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::Load(const proto::DatasetSpec& spec,
                                                       uint64_t reader) {
  return LoadDataset(spec, reader, nullptr);
}

}  // namespace coxswain::data
