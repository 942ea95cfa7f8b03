// The sink of a column that rows get from a side table by their key.
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/data/names.h"
#include "runtime/data/sinks.h"

namespace coxswain::data {
namespace {

class JoinedSink : public FieldSink {
 public:
  JoinedSink(std::shared_ptr<const SideTables> tables, int table, const std::string& column,
             std::unique_ptr<FieldSink> sink)
      : tables_(std::move(tables)),
        table_(tables_->table(table)),
        column_name_(column),
        column_(table_.Column(column)),
        sink_(std::move(sink)) {}

  bool Append(absl::string_view key) override {
    // Rows of the same key often stand together.
    if (row_ < 0 || key != key_) {
      key_.assign(key.data(), key.size());
      row_ = table_.Row(key);
    }
    if (row_ < 0) return AppendNothing();
    const absl::string_view field = table_.Field(row_, column_);
    return table_.IsMissing(field) ? sink_->AppendMissing() : sink_->Append(field);
  }
  bool AppendMissing() override {
    row_ = -1;
    return AppendNothing();
  }
  std::string Wanted() const override {
    const std::string& path = table_.spec().path();
    if (row_ < 0 && table_.spec().required()) return absl::StrCat("a key of ", path);
    if (row_ < 0) {
      return absl::StrCat("a key of ", path, ", for ", Quoted(column_name_), " has to be ",
                          sink_->Wanted());
    }
    return absl::StrCat("a key for which ", Quoted(column_name_), " in ", path, ":",
                        table_.line(row_), " is ", sink_->Wanted(), " and not ",
                        Quoted(table_.Field(row_, column_)));
  }

 private:
  bool AppendNothing() { return !table_.spec().required() && sink_->AppendMissing(); }

  const std::shared_ptr<const SideTables> tables_;
  const SideTable& table_;
  const std::string column_name_;
  const int column_;
  std::unique_ptr<FieldSink> sink_;
  std::string key_;
  int64_t row_ = -1;  // of the last key
};

}  // namespace

std::unique_ptr<FieldSink> NewJoinedSink(std::shared_ptr<const SideTables> tables, int table,
                                         const std::string& column,
                                         std::unique_ptr<FieldSink> sink) {
  return std::make_unique<JoinedSink>(std::move(tables), table, column, std::move(sink));
}

}  // namespace coxswain::data
