#include "runtime/data/stream/index_making.h"

#include <vector>

#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/names.h"
#include "runtime/data/stream/cut_search.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/text_places.h"
#include "runtime/data/trained_rows.h"

namespace coxswain::data {
namespace {

using proto::DatasetIndex;
using proto::DatasetSpec;

absl::StatusOr<proto::TimeCuts> FindCuts(const DatasetSpec& spec, const IndexOptions& options,
                                         const ReadRows& read) {
  DatasetSpec read_spec = SpecOfCuts(spec);
  CutSearch search(read_spec);
  int64_t kept_rows = 0;
  for (int pass = 1; !search.ranges().empty(); ++pass) {
    LogInfo("data set: split.by: the values of ", Quoted(spec.split().by()), " are counted",
            pass == 1 ? "" : " again, where there are many");
    const std::vector<proto::ValueRange> ranges = search.ranges();
    IndexDraft draft(read_spec, options, ranges);
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
  IndexDraft draft(spec, options);
  if (!spec.split().by().empty()) {
    for (const std::string& path : spec.paths()) {
      ASSIGN_OR_RETURN(files.emplace_back(), IdentifyFile(path));
    }
    const absl::StatusOr<proto::TimeCuts> cuts = FindCuts(spec, options, read);
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
