#include "runtime/data/join_counts.h"

#include <memory>
#include <string>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/file_list.h"
#include "runtime/data/side_table.h"
#include "runtime/data/sinks.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/table.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

// Takes keys, and counts those that a table lacks.
class CountingSink : public FieldSink {
 public:
  CountingSink(const SideTable& table, int64_t* without) : table_(table), without_(without) {}

  bool Append(absl::string_view key) override {
    if (table_.Row(key) < 0) ++*without_;
    return true;
  }
  bool AppendMissing() override {
    ++*without_;
    return true;
  }
  std::string Wanted() const override { return "a key"; }

 private:
  const SideTable& table_;
  int64_t* const without_;
};

// Joins, and no columns but those that they are joined by.
proto::DatasetSpec OnlyJoins(const proto::DatasetSpec& spec) {
  proto::DatasetSpec keys;
  keys.set_format(spec.format());
  *keys.mutable_joins() = spec.joins();
  return keys;
}

}  // namespace

absl::StatusOr<JoinCounts> CountJoins(proto::DatasetSpec spec) {
  if (spec.joins().empty()) return JoinCounts();
  ASSIGN_OR_RETURN(spec, WithFiles(std::move(spec)));
  ASSIGN_OR_RETURN(spec, CheckSpec(std::move(spec)));
  ASSIGN_OR_RETURN(const std::shared_ptr<const SideTables> tables,
                   SideTables::Read(OnlyJoins(spec)));
  JoinCounts counts;
  counts.without.resize(static_cast<size_t>(tables->size()));
  Table table;
  TableRows rows(&table, /*mark=*/0);
  rows.LeaveOutChain();
  const DataFormat& format = FormatOf(spec);
  for (int i = 0; i < tables->size(); ++i) {
    std::string column = spec.joins(i).left_on();
    std::unique_ptr<FieldSink> sink =
        std::make_unique<CountingSink>(tables->table(i), &counts.without[static_cast<size_t>(i)]);
    for (int from = tables->Find(column); from >= 0; from = tables->Find(column)) {
      sink = NewJoinedSink(tables, from, column, std::move(sink));
      column = spec.joins(from).left_on();
    }
    rows.Bind(column, format.Checked(column, std::move(sink)));
  }
  if (spec.max_bad_rows() > 0) RETURN_IF_ERROR(rows.PassOverBadRows(spec, spec.max_bad_rows()));
  for (const auto& paths : {spec.paths(), spec.split().test_paths()}) {
    for (const std::string& path : paths) {
      table.places.StartFile(path);
      RETURN_IF_ERROR(format.Read(spec, path, &rows));
    }
  }
  counts.rows = table.rows;
  return counts;
}

}  // namespace coxswain::data
