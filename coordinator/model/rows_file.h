// A file of vectors by word: word2vec's text format (also GloVe's), or a tensor of a safetensors or
// npz file with its rows' words in a second file, one per line.
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
  // The format is that of the extension for .safetensors and .npz; other files are word2vec's text,
  // also compressed by gzip or zstd. An npz array is read as a whole. `buckets`: so many of a
  // tensor's last rows may be without words, those of unknown values. Errors: NotFound;
  // InvalidArgument for rows that do not have `dim` numbers; DataLoss.
  static absl::StatusOr<std::unique_ptr<RowsFile>> Open(const job::TableSpec::RowsFile& file,
                                                        int64_t dim, int64_t buckets = 0);

  // Reads the next word and its `dim` numbers; false at the end. Errors, with file and line:
  // InvalidArgument; those of InputFile, of SafetensorsReader and of ReadNpz.
  virtual absl::StatusOr<bool> Next(std::string* word, float* row) = 0;
  // After the last word, the next row of unknown values; false at the end. Errors: as of Next.
  virtual absl::StatusOr<bool> NextBucket(float* /*row*/) { return false; }
};

}  // namespace coxswain::model
