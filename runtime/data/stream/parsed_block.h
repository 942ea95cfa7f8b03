// A block of a data set in memory: its rows as numbers and ids, in the form that batches need.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/analysis.h"
#include "runtime/data/columns.h"
#include "runtime/data/row_places.h"
#include "runtime/data/split.h"
#include "runtime/data/stream/kept_files.h"
#include "runtime/data/stream/row_cells.h"
#include "runtime/data/stream/time_cuts.h"
#include "runtime/data/stream/unpacked_files.h"
#include "runtime/data/table.h"
#include "runtime/data/text_parts.h"

namespace coxswain::data {

struct ParsedColumn {
  std::vector<float> numbers;  // numeric, vector: as in the batch
  IdArray ids;                 // categorical, one value
  RaggedIds lists;             // categorical, several values
};

// Thread model: immutable.
struct ParsedBlock {
  // All columns of one value in each row, if the rows are to be shuffled: then they are not below.
  // Its columns: the features, the label, the weight, and NamedLabels of the spec.
  RowCells cells;
  std::vector<ParsedColumn> columns;  // parallel to the spec's features
  std::vector<float> labels;          // empty when the label is a feature or there is none
  std::vector<float> weights;         // empty when rows have none
  std::vector<std::vector<float>> named_labels;  // parallel to NamedLabels of the spec
  // By part, from 0: its rows; or the first row of each query that begins in the block, and the row
  // behind its last one. Rows of such a query that lie in later blocks are here, too.
  PartRows rows, query_ends;
  // Of a text instead of all this: its places, as in Text, and their parts.
  std::vector<int32_t> tokens;
  TextParts text;
  int64_t first_row = 0;  // of the data set
  RowPlaces places;
  int64_t bytes = 0;  // its memory
};

// The memory that the rows of a table of one block take as a ParsedBlock.
int64_t ParsedBytes(const Table& rows);

// The state of a streamed data set that does not depend on its rows. Thread model: immutable.
struct StreamedSpec {
  proto::DatasetSpec spec;  // as CheckSpec returned it
  // For blocks whose rows are all of one part, which the index says: less the column of split.by.
  proto::DatasetSpec of_one_part;
  TimeCuts cuts;               // of split.by
  std::vector<bool> held_out;  // of a text, by run
  std::shared_ptr<const proto::DatasetIndex> index;
  KnownVocabularies vocabularies;            // by feature
  std::vector<NumericTransform> transforms;  // by feature; only for numeric ones
  std::shared_ptr<const SideTables> side_tables;
  std::shared_ptr<UnpackedFiles> unpacked;  // thread-safe
  std::shared_ptr<KeptFiles> kept;          // thread-safe

  const std::string& path(int file) const;  // by its number in the index
  const std::string& path(const proto::IndexedBlock& block) const { return path(block.file()); }
};

// Makes a StreamedSpec from a checked spec and its index. Errors: InvalidArgument for an index that
// does not fit the spec.
absl::StatusOr<std::shared_ptr<const StreamedSpec>> MakeStreamedSpec(
    proto::DatasetSpec spec, std::shared_ptr<const proto::DatasetIndex> index);

// Decompresses the compressed files. Errors: those of UnpackedFiles.
absl::Status UnpackFiles(const StreamedSpec& data);

// Reads a block from its file. Errors: FailedPrecondition when the file's bytes are not those that
// were indexed, see file_identity.h; those of RandomAccessFile and of the format.
absl::StatusOr<std::shared_ptr<const ParsedBlock>> ParseBlock(const StreamedSpec& data,
                                                              int64_t block);

}  // namespace coxswain::data
