// The form of rows to predict: as in the job's data, but without a label and parts, and with
// histories as lists of values.
#pragma once

#include <string>

#include "coordinator/job/job_spec.h"
#include "protos/dataset.pb.h"

namespace coxswain::predict {

// Separates the values of a history in a field of a file.
inline constexpr char kHistorySeparator[] = "|";

// The spec of such rows, of a job whose dataset.learned is filled in. A history becomes a
// multi-valued feature of its own name, with the vocabulary of the feature that it is of. `format`:
// "csv" (with a header), "jsonl", "parquet" or "arrow"; empty: the job's, or csv where that is read
// by the column.
proto::DatasetSpec RowsToPredict(const job::JobSpec& job, const std::string& format = "");

}  // namespace coxswain::predict
