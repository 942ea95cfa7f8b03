#include "runtime/data/stream/index_making.h"

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/names.h"
#include "runtime/data/stream/cut_search.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/held_out_rows.h"
#include "runtime/data/stream/text_places.h"
#include "runtime/data/time_split.h"
#include "runtime/data/trained_rows.h"

namespace coxswain::data {
namespace {

using proto::DatasetIndex;
using proto::DatasetSpec;

// By this process alone, whoever makes the index: nearly all that there is to do is to sort.
absl::StatusOr<std::unique_ptr<const HeldOutRows>> FindHeldOut(const DatasetSpec& spec,
                                                               const IndexOptions& options) {
  LogInfo("data set: split.holdout_per: the rows of each ", Quoted(spec.split().holdout_per()),
          " that are held out are looked for");
  const DatasetSpec read_spec = SpecOfHeldOut(spec);
  HeldOutSearch search(read_spec);
  IndexDraft draft(read_spec, options);
  draft.ShowTo([&](const Table& rows, int64_t first_row, int file) {
    return search.Add(rows, first_row, file);
  });
  RETURN_IF_ERROR(draft.Start());
  RETURN_IF_ERROR(ReadHere(read_spec, options, &draft));
  return search.Finish(RowsThatKeepParts(draft.since_training(), read_spec));
}

// The first row counts: all that have the value are behind the cut.
proto::TimeCuts CutsAtValues(const proto::SplitSpec& split) {
  proto::TimeCuts cuts;
  if (split.has_validation_from()) {
    cuts.mutable_all()->mutable_validation()->set_value(split.validation_from());
  }
  if (split.has_test_from()) cuts.mutable_all()->mutable_test()->set_value(split.test_from());
  return cuts;
}

absl::StatusOr<proto::TimeCuts> FindCuts(const DatasetSpec& spec, const IndexOptions& options,
                                         const ReadRows& read, const HeldOutRows* held_out) {
  proto::TimeCuts none;
  const auto& split = spec.split();
  if (SplitsAtValues(split)) return CutsAtValues(split);
  if (held_out != nullptr && !(split.validation_fraction() > 0 || split.test_fraction() > 0)) {
    none.set_kept_rows(held_out->kept_rows());
    none.mutable_all();
    return none;
  }
  DatasetSpec read_spec = SpecOfCuts(spec);
  CutSearch search(read_spec);
  int64_t kept_rows = 0;
  for (int pass = 1; !search.ranges().empty(); ++pass) {
    LogInfo("data set: split.by: the values of ", Quoted(spec.split().by()), " are counted",
            pass == 1 ? "" : " again, where there are many");
    const std::vector<proto::ValueRange> ranges = search.ranges();
    IndexDraft draft(read_spec, options, ranges);
    draft.HoldOut(held_out);
    RETURN_IF_ERROR(draft.Start());
    RETURN_IF_ERROR(read(read_spec, options, &draft));
    if (pass == 1) kept_rows = RowsThatKeepParts(draft.since_training(), read_spec);
    RETURN_IF_ERROR(search.Take(draft.counts(), kept_rows));
    // Which rows are the model's is known now: the column is enough.
    read_spec.clear_trained();
    read_spec = SpecOfCuts(read_spec);
  }
  return search.cuts();
}

// All passes have read the same.
absl::Status CheckFiles(const DatasetSpec& spec, const std::vector<proto::IndexedFile>& files) {
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string& path = spec.paths(static_cast<int>(i));
    RETURN_IF_ERROR(CheckUnchanged(path, files[i], /*same_machine=*/true));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DatasetIndex> MakeIndex(const DatasetSpec& spec, const IndexOptions& options,
                                       const ReadRows& read) {
  std::vector<proto::IndexedFile> files;
  std::unique_ptr<const HeldOutRows> held_out;
  IndexDraft draft(spec, options);
  const bool holds_out = !spec.split().holdout_per().empty();
  const bool has_cuts = !spec.split().by().empty();
  for (const std::string& path : spec.paths()) {
    if (!holds_out && !has_cuts) break;
    ASSIGN_OR_RETURN(files.emplace_back(), IdentifyFile(path));
  }
  if (holds_out) {
    ASSIGN_OR_RETURN(held_out, FindHeldOut(spec, options));
    draft.HoldOut(held_out.get());
  }
  if (has_cuts) {
    const absl::StatusOr<proto::TimeCuts> cuts = FindCuts(spec, options, read, held_out.get());
    if (absl::IsFailedPrecondition(cuts.status())) RETURN_IF_ERROR(CheckFiles(spec, files));
    RETURN_IF_ERROR(cuts.status());
    draft.Cut(*cuts);
  }
  RETURN_IF_ERROR(draft.Start());
  RETURN_IF_ERROR(read(spec, options, &draft));
  RETURN_IF_ERROR(CheckFiles(spec, files));
  ASSIGN_OR_RETURN(DatasetIndex index, draft.Finish());
  if (!FormatOf(spec).has_rows()) RETURN_IF_ERROR(CountPlaces(spec, options, &index));
  return index;
}

}  // namespace coxswain::data
