// How an index is made, whoever reads the rows: in one pass; or, where it depends on the values of
// all rows which part a row is in, in a few more before that, which only count values.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/index_builder.h"
#include "runtime/data/stream/index_draft.h"

namespace coxswain::data {

// Reads the rows of a spec into a draft that has started, up to EndOwnFiles and the test files.
using ReadRows = std::function<absl::Status(const proto::DatasetSpec& spec,
                                            const IndexOptions& options, IndexDraft* draft)>;

// Errors: those of BuildIndex.
absl::StatusOr<proto::DatasetIndex> MakeIndex(const proto::DatasetSpec& spec,
                                              const IndexOptions& options, const ReadRows& read);

}  // namespace coxswain::data
