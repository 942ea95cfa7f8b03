// The files of a data set read into columns, before parts, vocabularies and statistics are known.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "runtime/data/bad_rows.h"
#include "runtime/data/columns.h"
#include "runtime/data/row_chain.h"
#include "runtime/data/row_places.h"
#include "runtime/data/side_table.h"
#include "runtime/data/vocabulary.h"

namespace coxswain::data {

struct TableFeature {
  std::vector<double> numbers;  // numeric; missing values are replaced
  std::vector<float> vectors;   // vector: `width` numbers per row, as in the file
  // For a vector of several columns: the number of rows that have the number of each column so far.
  // Columns are filled row by row, or several rows of one column at a time.
  std::vector<size_t> element_rows;
  // Categorical. While the vocabulary is to be learned (null), the ids are those of `texts`.
  RaggedIds lists;  // multi-valued
  IdArray ids;      // one value
  Interner texts;
  int64_t known = 0;  // the number of first `texts` whose ids are fixed, see DatasetSpec.known
  std::shared_ptr<const Vocabulary> vocabulary;
  // Of one that keeps names, which is read like one whose vocabulary is to be learned: what its ids
  // are made by when all texts are known.
  std::shared_ptr<const Vocabulary> hashes;
};

// A column whose texts name groups of rows.
struct KeyColumn {
  Interner names;
  std::vector<int32_t> ids;
};

struct Table {
  int64_t rows = 0;
  RowPlaces places;
  std::shared_ptr<const SideTables> side_tables;  // null when the spec has no joins
  int64_t own_rows = 0;                           // rows of `paths`; those of test_paths follow
  std::vector<TableFeature> features;  // parallel to the spec's; histories are left empty
  std::vector<float> labels;           // empty when the label is a feature or there is none
  std::vector<float> weights;          // of rows; empty where the label has none
  std::vector<std::vector<float>> named_labels;       // parallel to NamedLabels of the spec
  std::map<std::string, KeyColumn> keys;              // the columns of holdout_per and group_by
  std::map<std::string, std::vector<double>> orders;  // those of `by`
  uint64_t content_hash = 0;                          // of all files, in order, unpacked
  BadRows bad_rows;                                   // that are none of the rows
  RowChain chain;  // of own_rows, in the columns that are used; its mark is at spec.trained
};

class TableRows;  // runtime/data/table_rows.h

// The side table that is joined by a feature's column and that is the feature's vocabulary_file; or
// null, and then the file is a list.
const proto::JoinSpec* TableOfValues(const proto::FeatureSpec& feature,
                                     const proto::DatasetSpec& spec);

// Vocabularies by feature; null for a feature that has none yet.
using KnownVocabularies = std::vector<std::shared_ptr<const Vocabulary>>;

// Binds the columns that the spec uses to the columns of `table`, which must be empty and must not
// move. Reads vocabularies that are neither `known` nor to be learned from their files, and side
// tables from theirs unless `table` has them. Errors: those of vocabulary files and of SideTables.
absl::Status BindColumns(const proto::DatasetSpec& spec, const KnownVocabularies& known,
                         Table* table, TableRows* rows);

// Reads the files of a spec that CheckSpec returned.
// Errors: InvalidArgument "file:line:column: field 3 ("rating"): wanted ..., found ..."; NotFound
// for a missing file or column; ResourceExhausted for 2^32 - 1 rows or more; those of InputFile.
absl::StatusOr<Table> ReadTable(const proto::DatasetSpec& spec);

}  // namespace coxswain::data
