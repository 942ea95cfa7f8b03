// Where the fields of a row go: each sink turns the text of one column into values of one kind.
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
  // False when the text is not what Wanted says.
  virtual bool Append(absl::string_view text) = 0;
  // As Append, of a field that the file says nothing of.
  virtual bool AppendMissing() { return Append(""); }
  // Of files whose values have types. Where a number is wanted, a truth is 1 or 0.
  virtual bool AppendBool(bool truth) { return Append(truth ? "true" : "false"); }
  // Whether a row may have a list of values, of any length.
  virtual bool TakesLists() const { return false; }
  virtual bool AppendList(absl::Span<const std::string> values) {
    (void)values;
    return false;
  }
  virtual std::string Wanted() const = 0;

  // Of some rows: the first whose field is not what Wanted says, or -1.
  virtual int64_t AppendFields(const FieldColumn& fields);

  // For files of columns. Appends a value for each row; the number of the first row whose value is
  // not what Wanted says, or -1. What is not overridden gets the texts of the values, and
  // AppendMissing for the others.
  virtual int64_t AppendColumn(const ColumnValues& values);
};

// The sink of a feature that is read from a column of text. `feature` outlives it and has its
// vocabulary when that is not to be learned.
std::unique_ptr<FieldSink> NewFeatureSink(const proto::FeatureSpec& spec, TableFeature* feature);
// The sink of one of the columns of a feature of kind vector.
std::unique_ptr<FieldSink> NewElementSink(const proto::FeatureSpec& spec, int element,
                                          TableFeature* feature);
std::unique_ptr<FieldSink> NewLabelSink(const proto::LabelSpec& spec, std::vector<float>* labels);
std::unique_ptr<FieldSink> NewWeightSink(std::vector<float>* weights);
std::unique_ptr<FieldSink> NewKeySink(KeyColumn* key);
// Of a key: gives `sink` the field that stands in a column of `tables`' table for it.
std::unique_ptr<FieldSink> NewJoinedSink(std::shared_ptr<const SideTables> tables, int table,
                                         const std::string& column,
                                         std::unique_ptr<FieldSink> sink);
// Of numbers, and of dates and times (seconds since 1970).
std::unique_ptr<FieldSink> NewOrderSink(std::vector<double>* values);

}  // namespace coxswain::data
