#include "runtime/data/stream/group_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset_keys.h"
#include "runtime/data/hash.h"
#include "runtime/data/names.h"
#include "runtime/data/stream/group_file_maker.h"

namespace coxswain::data {
namespace {

constexpr uint64_t kVersion = 1;  // of what such a file has

// What it depends on. Not how the data set is cut into blocks.
uint64_t KeyOf(const StreamedSpec& data, const GroupTarget& target) {
  proto::DatasetSpec spec = data.spec;
  spec.clear_shuffle();
  spec.clear_example_ids();
  spec.clear_per_worker();
  uint64_t key = HashPair(kVersion, HashSpec(std::move(spec)));
  for (const uint64_t number :
       {data.index->content_hash(), static_cast<uint64_t>(data.index->own_rows()),
        static_cast<uint64_t>(data.index->rows()), static_cast<uint64_t>(target.feature),
        HashText(target.group_by), HashText(target.by), uint64_t{target.held_out},
        uint64_t{target.only_positive}}) {
    key = HashPair(key, number);
  }
  return key;
}

}  // namespace

absl::StatusOr<GroupFiles::File> GroupFiles::Open(const StreamedSpec& data,
                                                  const GroupTarget& target) {
  absl::MutexLock lock(&mu_);
  for (const auto& [of, file] : opened_) {
    if (of == target) return file;
  }
  const uint64_t key = KeyOf(data, target);
  const std::string of = absl::StrCat("data set: the rows of each ", Quoted(target.group_by));
  if (!copies_.has_directory()) {
    return absl::FailedPreconditionError(absl::StrCat(
        of, ": there is no directory for a file of them: wanted dataset.cache_directory, or HOME ",
        "in the environment"));
  }
  SharedCopies::Wanted wanted;
  wanted.name = absl::StrFormat("%016x.groups", key);
  wanted.of = of;
  wanted.doing = "sorting them";
  wanted.fits = [key](const env::RandomAccessFile& file) { return GroupFile::Fits(file, key); };
  wanted.write = [&](int file) {
    GroupFileOutput output;
    output.file = file;
    output.path = copies_.PathOf(wanted.name);
    output.make_room = [&](int64_t bytes) {
      return copies_.MakeRoom(bytes, wanted.name, "dataset.streaming: false");
    };
    return MakeGroupFile(data, target, key, output);
  };
  ASSIGN_OR_RETURN(auto copy, copies_.Open(wanted));
  ASSIGN_OR_RETURN(File file, GroupFile::Open(std::move(copy)));
  opened_.emplace_back(target, file);
  return file;
}

}  // namespace coxswain::data
