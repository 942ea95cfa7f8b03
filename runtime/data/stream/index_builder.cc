// The pass of one process: each file is read from beginning to end, and cut into blocks, whose rows
// are added up and forgotten.
#include "runtime/data/stream/index_builder.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset_keys.h"
#include "runtime/data/file_error.h"
#include "runtime/data/hash.h"
#include "runtime/data/learned.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/block_cutter.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/index_draft.h"
#include "runtime/data/stream/index_making.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/table.h"

namespace coxswain::data {
namespace {

using proto::DatasetIndex;
using proto::DatasetSpec;

// Of what an index has. 2: hashes of Arrow's own files are of their dictionaries, too.
constexpr uint64_t kVersion = 2;
// Of one whose labels have weights. 3: those of rows of weight 0 are left out. 4: it has the
// weighted mean.
constexpr uint64_t kVersionOfWeighted = 4;

bool HasWeights(const DatasetSpec& spec) {
  return !spec.label().weight().empty() ||
         std::any_of(spec.labels().begin(), spec.labels().end(),
                     [](const proto::LabelSpec& label) { return !label.weight().empty(); });
}

absl::Status ReadFiles(const DatasetSpec& spec,
                       const google::protobuf::RepeatedPtrField<std::string>& paths, int32_t number,
                       BlockCutter* cutter, IndexDraft* draft) {
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(proto::IndexedFile identity, IdentifyFile(path));
    cutter->StartFile(draft->BeginFile(path, std::move(identity)));
    RETURN_IF_ERROR(InFile(FormatOf(spec).Read(spec, path, draft->rows()), path));
    // The file may have changed since the index was made.
    RETURN_IF_ERROR(draft->EndFile(path, number++));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadHere(const DatasetSpec& spec, const IndexOptions& /*options*/, IndexDraft* draft) {
  BlockCutter cutter(spec, draft->table(),
                     [draft](const proto::IndexedBlock& block) { return draft->AddBlock(block); });
  draft->rows()->set_listener(&cutter);
  RETURN_IF_ERROR(ReadFiles(spec, spec.paths(), 0, &cutter, draft));
  RETURN_IF_ERROR(draft->EndOwnFiles());
  return ReadFiles(spec, spec.split().test_paths(), spec.paths_size(), &cutter, draft);
}

uint64_t IndexKey(const DatasetSpec& spec) {
  DatasetSpec content = spec;
  content.clear_shuffle();
  content.clear_example_ids();
  content.clear_per_worker();
  const StreamSizes sizes = SizesOf(spec.stream());
  uint64_t key =
      HashPair(HasWeights(spec) ? kVersionOfWeighted : kVersion, HashSpec(std::move(content)));
  for (const int64_t number :
       {sizes.memory, sizes.block_bytes, sizes.window, int64_t{spec.paths_size()},
        int64_t{spec.split().test_paths_size()}}) {
    key = HashPair(key, static_cast<uint64_t>(number));
  }
  if (const uint64_t names = HashNames(spec); names != 0) key = HashPair(key, names);
  // Whether there are too many of them was found out when the index was made.
  if (spec.max_bad_rows() > 0) key = HashPair(key, static_cast<uint64_t>(spec.max_bad_rows()));
  return key;
}

std::vector<std::string> IndexedPaths(const DatasetSpec& spec) {
  // Of a job that follows they may be replaced: a worker that comes back reads what is there then.
  const bool has_tables = !(spec.followed() && spec.learned().empty());
  std::vector<std::string> paths(spec.paths().begin(), spec.paths().end());
  paths.insert(paths.end(), spec.split().test_paths().begin(), spec.split().test_paths().end());
  for (const proto::FeatureSpec& feature : spec.features()) {
    // The model's vocabularies and statistics are used instead.
    if (feature.vocabulary_file().empty() || FindLearned(spec, feature.name()) != nullptr) continue;
    if (!has_tables && TableOfValues(feature, spec) != nullptr) continue;
    paths.push_back(feature.vocabulary_file());
  }
  for (const proto::JoinSpec& join : spec.joins()) {
    if (has_tables) paths.push_back(join.path());
  }
  const int files = spec.paths_size() + spec.split().test_paths_size();
  for (int i = 0; i < files && FormatOf(spec).has_files_beside(); ++i) {
    // What is wrong with the name is told by who reads the file.
    const auto beside = FormatOf(spec).PathBeside(spec, paths[static_cast<size_t>(i)]);
    if (beside.ok() && !beside->empty()) paths.push_back(*beside);
  }
  return paths;
}

absl::StatusOr<DatasetIndex> BuildIndex(const DatasetSpec& spec, const IndexOptions& options) {
  IndexOptions here = options;
  here.workers = nullptr;
  return MakeIndex(spec, here, ReadHere);
}

}  // namespace coxswain::data
