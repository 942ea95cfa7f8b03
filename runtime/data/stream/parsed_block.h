// A block of a data set in memory: its rows as numbers and ids, in the form that batches need.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/analysis.h"
#include "runtime/data/columns.h"
#include "runtime/data/row_places.h"
#include "runtime/data/split.h"
#include "runtime/data/stream/checked_files.h"
#include "runtime/data/stream/group_file.h"
#include "runtime/data/stream/held_out_rows.h"
#include "runtime/data/stream/kept_files.h"
#include "runtime/data/stream/reads_ahead.h"
#include "runtime/data/stream/row_cells.h"
#include "runtime/data/stream/time_cuts.h"
#include "runtime/data/stream/unpacked_files.h"
#include "runtime/data/table.h"
#include "runtime/data/text_parts.h"

namespace coxswain::data {

class OpenArrowFiles;  // runtime/data/arrow/open_arrow_files.h
class GroupFiles;      // group_files.h
class GroupRanges;     // group_ranges.h

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
  // By row: what the file of the spec's history says; that of its known items, where there is one
  // and the block has rows that are not training rows.
  std::vector<GroupedRow> of_history, of_known;
  int64_t first_row = 0;  // of the data set
  RowPlaces places;
  int64_t bytes = 0;  // its memory
};

// The memory that the rows of a table of one block take as a ParsedBlock.
int64_t ParsedBytes(const proto::DatasetSpec& spec, const Table& rows);

// The state of a streamed data set that does not depend on its rows. Thread model: immutable.
struct StreamedSpec {
  proto::DatasetSpec spec;  // as CheckSpec returned it
  // For blocks: less the columns that only name groups and order their rows, which were looked at
  // before. For those whose rows are all of one part, which the index says: less that of split.by.
  proto::DatasetSpec of_blocks, of_one_part;
  TimeCuts cuts;                    // of split.by
  std::vector<bool> runs_held_out;  // of a text
  std::shared_ptr<const proto::DatasetIndex> index;
  KnownVocabularies vocabularies;            // by feature
  std::vector<NumericTransform> transforms;  // by feature; only for numeric ones
  std::shared_ptr<const SideTables> side_tables;
  std::vector<std::string> beside;            // by file: see DataFormat::ReadBeside
  std::shared_ptr<UnpackedFiles> unpacked;    // thread-safe
  std::shared_ptr<KeptFiles> kept;            // thread-safe
  std::shared_ptr<ReadsAhead> ahead;          // thread-safe
  std::shared_ptr<OpenArrowFiles> arrow;      // thread-safe; reads through these two
  std::shared_ptr<GroupRanges> group_ranges;  // thread-safe
  int64_t groups_ahead = 0;                   // bytes of row groups that may be on their way
  std::shared_ptr<GroupFiles> groups;         // thread-safe
  std::optional<GroupTarget> history, known;  // those that the spec's batches have values of
  std::shared_ptr<CheckedFiles> checked;      // thread-safe

  const std::string& path(int file) const;  // by its number in the index
  int64_t bytes() const;                    // what it takes of `dataset.memory`
  const std::string& path(const proto::IndexedBlock& block) const { return path(block.file()); }
};

// Makes a StreamedSpec from a checked spec and its index. Errors: InvalidArgument for an index that
// does not fit the spec; those of SideTables::Read and of DataFormat::ReadBeside;
// FailedPrecondition for a file beside that is not the one that was indexed.
absl::StatusOr<std::shared_ptr<const StreamedSpec>> MakeStreamedSpec(
    proto::DatasetSpec spec, std::shared_ptr<const proto::DatasetIndex> index);

// Decompresses the compressed files, and makes the group files. Errors: those of UnpackedFiles and
// GroupFiles.
absl::Status PrepareFiles(const StreamedSpec& data);

// The part of each row of a block of rows that are examples each. Thread model: one thread.
class BlockParts {
 public:
  // `table` has the rows, and the values of split.by where they decide. All must outlive it.
  BlockParts(const StreamedSpec& data, const proto::IndexedBlock& block, const Table& table);
  // Rows of the block from 0; never smaller than before.
  Part Of(int64_t row);

 private:
  const StreamedSpec& data_;
  const proto::IndexedBlock& block_;
  const PartDraw draw_;
  std::optional<Part> only_;
  const double* values_ = nullptr;  // of split.by
  RowMarks held_out_;
  RowMarks validation_;  // those among them of the validation part
};

// Reads the rows of a block, without what later ones have of its last query, by a spec of fewer
// columns. `vocabularies`: by its features. Errors: as ParseBlock.
absl::Status ReadRowsOfBlock(const StreamedSpec& data, const proto::DatasetSpec& spec,
                             const KnownVocabularies& vocabularies,
                             const proto::IndexedBlock& block, Table* table);

// Reads a block from its file. Errors: FailedPrecondition when the file's bytes are not those that
// were indexed, see file_identity.h; those of RandomAccessFile and of the format.
absl::StatusOr<std::shared_ptr<const ParsedBlock>> ParseBlock(const StreamedSpec& data,
                                                              int64_t block);

}  // namespace coxswain::data
