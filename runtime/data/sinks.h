// Sinks for the fields of a row: each sink converts the text of one column to values of one kind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/column_values.h"
#include "runtime/data/field_scan.h"
#include "runtime/data/side_table.h"
#include "runtime/data/table.h"

namespace coxswain::data {

// Thread model: one thread.
class FieldSink {
 public:
  virtual ~FieldSink() = default;
  // False when the text is not of the form that Wanted describes.
  virtual bool Append(absl::string_view text) = 0;
  // As Append, for a field that is missing in the file.
  virtual bool AppendMissing() { return Append(""); }
  // For files with typed values. As a number, true is 1 and false is 0.
  virtual bool AppendBool(bool truth) { return Append(truth ? "true" : "false"); }
  // Whether a row may have a list of values, of any length.
  virtual bool TakesLists() const { return false; }
  virtual bool AppendList(absl::Span<const std::string> values) {
    (void)values;
    return false;
  }
  virtual std::string Wanted() const = 0;

  // Appends the fields of several rows; returns the first whose field is not of the form that
  // Wanted describes, or -1.
  virtual int64_t AppendFields(const FieldColumn& fields);

  // For files of columns. Appends a value for each row; returns the number of the first row whose
  // value is not of the form that Wanted describes, or -1. The default calls Append with the texts
  // of the values, and AppendMissing for nulls; for columns of lists AppendList, without the nulls
  // in them.
  virtual int64_t AppendColumn(const ColumnValues& values);
};

// The sink of a feature that is read from a column of text. `feature` must outlive it, and have a
// vocabulary unless that is to be learned.
std::unique_ptr<FieldSink> NewFeatureSink(const proto::FeatureSpec& spec, TableFeature* feature);
// The sink of one of the columns of a feature of kind vector.
std::unique_ptr<FieldSink> NewElementSink(const proto::FeatureSpec& spec, int element,
                                          TableFeature* feature);
// `weights`: of the rows, each of which is read before the row's label; null: there are none. The
// label of a row of weight 0 may be any number.
std::unique_ptr<FieldSink> NewLabelSink(const proto::LabelSpec& spec, std::vector<float>* labels,
                                        const std::vector<float>* weights = nullptr);
std::unique_ptr<FieldSink> NewWeightSink(std::vector<float>* weights);
std::unique_ptr<FieldSink> NewKeySink(KeyColumn* key);
// The sink of a key: looks up the key in a side table of `tables` and gives `sink` the field of its
// column.
std::unique_ptr<FieldSink> NewJoinedSink(std::shared_ptr<const SideTables> tables, int table,
                                         const std::string& column,
                                         std::unique_ptr<FieldSink> sink);
// The sink of a column in which these texts, and the numbers that are written so, stand for missing
// values. `in_lists`: also in lists, as empty texts.
std::unique_ptr<FieldSink> NewMissingValuesSink(std::vector<std::string> missing, bool in_lists,
                                                std::unique_ptr<FieldSink> sink);
// A sink for numbers, and for dates and times (seconds since 1970).
std::unique_ptr<FieldSink> NewOrderSink(std::vector<double>* values);

}  // namespace coxswain::data
