// A file that has vectors by word: word2vec's text format (GloVe's too), or a tensor of a
// safetensors or npz file with its rows' words beside it, one a line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"

namespace coxswain::model {

// Thread model: one thread.
class RowsFile {
 public:
  virtual ~RowsFile() = default;
  // Files that end in .safetensors or .npz are such, others word2vec's text, gzip and zstd
  // unpacked. One in a zip is read whole. Errors: NotFound; InvalidArgument for rows that have not
  // `dim` numbers; DataLoss.
  static absl::StatusOr<std::unique_ptr<RowsFile>> Open(const job::TableSpec::RowsFile& file,
                                                        int64_t dim);

  // The next word and its `dim` numbers; false at the end. Errors, by file and line:
  // InvalidArgument; those of InputFile, of SafetensorsReader and of ReadNpz.
  virtual absl::StatusOr<bool> Next(std::string* word, float* row) = 0;
};

}  // namespace coxswain::model
