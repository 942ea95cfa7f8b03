// `table stat`: a table as a whole. `table lookup`: rows by id or word, and those nearest to them.
#include "coordinator/cli/table_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/model/nearest.h"
#include "coordinator/model/row_names.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/table_stat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kBins = 12;
constexpr int kBarWidth = 40;
constexpr size_t kLineWidth = 100;

void PrintJson(const ordered_json& json) {
  std::printf("%s\n", json.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

std::string Percent(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  return absl::StrFormat("%.1f%%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

ordered_json ToJson(const model::SavedVariable& variable, const model::TableStat& stat) {
  const Shape shape = ShapeOfRows(variable, stat.rows);
  ordered_json json = {{"name", variable.name},
                       {"dtype", std::string(DTypeName(variable.dtype))},
                       {"shape", std::vector<int64_t>(shape.dims().begin(), shape.dims().end())},
                       {"rows", stat.rows},
                       {"bytes", stat.bytes},
                       {"norm",
                        {{"min", stat.norms.min()},
                         {"median", stat.norms.Quantile(0.5)},
                         {"max", stat.norms.max()},
                         {"histogram", stat.norms.Histogram(kBins)}}},
                       {"zero_rows", stat.zero_rows},
                       {"nan_values", stat.nan_values},
                       {"inf_values", stat.inf_values}};
  if (stat.knows_touched) json["never_updated_rows"] = stat.never_touched;
  return json;
}

void Print(const model::SavedVariable& variable, const model::TableStat& stat) {
  std::printf("%s  %s%s, %s rows, %s bytes\n", variable.name.c_str(),
              std::string(DTypeName(variable.dtype)).c_str(),
              ShapeOfRows(variable, stat.rows).ToString().c_str(), WithCommas(stat.rows).c_str(),
              WithCommas(static_cast<int64_t>(stat.bytes)).c_str());
  std::string notes = absl::StrCat("  zeros only: ", Percent(stat.zero_rows, stat.rows));
  if (stat.knows_touched) {
    absl::StrAppend(&notes, ", never updated: ", Percent(stat.never_touched, stat.rows));
  }
  if (stat.nan_values + stat.inf_values > 0) {
    absl::StrAppend(&notes, ", NaN: ", WithCommas(stat.nan_values),
                    ", infinite: ", WithCommas(stat.inf_values));
  }
  std::printf("%s\n", notes.c_str());
  if (stat.norms.count() == 0) return;
  std::printf("  norm of a row: min %.4g, median %.4g, max %.4g\n", stat.norms.min(),
              stat.norms.Quantile(0.5), stat.norms.max());
  const std::vector<int64_t> counts = stat.norms.Histogram(kBins);
  const int64_t most = std::max<int64_t>(1, *std::max_element(counts.begin(), counts.end()));
  const double width = (static_cast<double>(stat.norms.max()) - stat.norms.min()) / kBins;
  for (size_t i = 0; i < counts.size(); ++i) {
    std::string bar;
    // What is there is seen.
    const int64_t length = (counts[i] * kBarWidth + most - 1) / most;
    for (int64_t k = 0; k < length; ++k) bar += "█";
    std::printf("  %10.4g  %12s  %s\n", stat.norms.min() + static_cast<double>(i) * width,
                WithCommas(counts[i]).c_str(), bar.c_str());
    if (width == 0) break;  // all are of one length
  }
}

absl::Status Stat(const TableStatFlags& flags, const SavedFlags& from) {
  ASSIGN_OR_RETURN(const model::SavedSource source, OpenSaved(from));
  std::vector<std::string> names = flags.names;
  for (const model::SavedVariable& v : source.variables()) {
    if (flags.names.empty() && v.table) names.push_back(v.name);
  }
  ordered_json json = ordered_json::array();
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(const model::SavedRows rows, source.Open(names[i]));
    ASSIGN_OR_RETURN(const model::TableStat stat, model::ComputeTableStat(rows));
    if (flags.json) {
      json.push_back(ToJson(rows.variable(), stat));
      continue;
    }
    if (i > 0) std::printf("\n");
    Print(rows.variable(), stat);
    std::fflush(stdout);  // a large one takes its time
  }
  if (flags.json) PrintJson(json);
  if (!flags.json && names.empty()) std::printf("%s has no tables\n", source.path().c_str());
  return absl::OkStatus();
}

// A table with the words of its ids.
class NamedTable {
 public:
  static absl::StatusOr<NamedTable> Open(const SavedFlags& from, const std::string& name) {
    ASSIGN_OR_RETURN(model::SavedSource source, OpenSaved(from));
    if (source.is_checkpoint()) RETURN_IF_ERROR(model::NameRows(from.checkpoint_dir, &source));
    ASSIGN_OR_RETURN(model::SavedRows rows, source.Open(name));
    if (!rows.variable().table) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable ", data::Quoted(name), " is no table"));
    }
    NamedTable table(std::move(rows));
    ASSIGN_OR_RETURN(table.names_, model::RowNames::Read(source, table.rows_.variable()));
    return table;
  }

  const model::SavedRows& rows() const { return rows_; }
  absl::StatusOr<int64_t> IdOf(const std::string& key, bool is_id) const {
    if (names_.any() && !is_id) return names_.IdOf(key);
    int64_t id = 0;
    if (absl::SimpleAtoi(key, &id)) return id;
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted an id, found ", data::Quoted(key),
        is_id ? ""
              : ": no row of the table "
                "has a name here (those of values that are hashed are kept with keep_names)"));
  }
  // Empty when there is none.
  std::string WordOf(int64_t id) const { return names_.Of(id); }

 private:
  explicit NamedTable(model::SavedRows rows) : rows_(std::move(rows)) {}
  model::SavedRows rows_;
  model::RowNames names_;
};

struct FoundRow {
  int64_t id = 0;
  std::vector<float> values;
  std::vector<model::Neighbour> nearest;
};

absl::StatusOr<std::vector<FoundRow>> FindRows(const NamedTable& table,
                                               const TableLookupFlags& flags) {
  const model::SavedRows& rows = table.rows();
  std::vector<FoundRow> found;
  std::vector<model::NearestQuery> queries;
  for (const std::string& key : flags.keys) {
    FoundRow row;
    ASSIGN_OR_RETURN(row.id, table.IdOf(key, flags.ids));
    ASSIGN_OR_RETURN(const int64_t position, rows.FindId(row.id));
    if (position < 0) {
      return absl::NotFoundError(
          rows.variable().hash
              ? absl::StrCat("table ", data::Quoted(flags.table), " has no row of id ", row.id)
              : absl::StrCat("table ", data::Quoted(flags.table), " has rows 0 to ",
                             rows.rows() - 1, ", not ", row.id));
    }
    row.values.resize(static_cast<size_t>(rows.row_elements()));
    RETURN_IF_ERROR(rows.ReadFloats(position, 1, row.values.data()));
    queries.push_back({row.values, {row.id}});
    found.push_back(std::move(row));
  }
  if (flags.nearest == 0) return found;
  const auto pool =
      env::NewComputePool(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  ASSIGN_OR_RETURN(auto nearest, model::NearestRows(rows, queries, flags.nearest, pool.get()));
  for (size_t i = 0; i < found.size(); ++i) found[i].nearest = std::move(nearest[i]);
  return found;
}

double Norm(const std::vector<float>& values) {
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

ordered_json ToJson(const NamedTable& table, const FoundRow& row, bool nearest) {
  const auto named = [&table](int64_t id) {
    ordered_json json = {{"id", id}};
    if (const std::string word = table.WordOf(id); !word.empty()) json["word"] = word;
    return json;
  };
  ordered_json json = named(row.id);
  json["norm"] = Norm(row.values);
  json["values"] = row.values;
  if (!nearest) return json;
  json["nearest"] = ordered_json::array();
  for (const model::Neighbour& n : row.nearest) {
    ordered_json neighbour = named(n.id);
    neighbour["cosine"] = n.cosine;
    json["nearest"].push_back(std::move(neighbour));
  }
  return json;
}

void Print(const NamedTable& table, const FoundRow& row) {
  const std::string word = table.WordOf(row.id);
  std::printf("%s (id %lld), norm %.4g\n", word.empty() ? "row" : word.c_str(),
              static_cast<long long>(row.id), Norm(row.values));
  std::string line;
  for (float v : row.values) {
    const std::string number = absl::StrFormat(" %.6g", v);
    if (line.size() + number.size() > kLineWidth) {
      std::printf(" %s\n", line.c_str());
      line.clear();
    }
    line += number;
  }
  std::printf(" %s\n", line.c_str());
  for (const model::Neighbour& n : row.nearest) {
    const std::string name = table.WordOf(n.id);
    std::printf("  %7.4f  %s\n", n.cosine,
                name.empty() ? absl::StrCat(n.id).c_str() : name.c_str());
  }
}

absl::Status Lookup(const TableLookupFlags& flags) {
  // A few rows, without the bytes of all the others.
  ASSIGN_OR_RETURN(const NamedTable table,
                   ReadSaved(flags.from, model::Verify::kSizes, [&flags](const SavedFlags& one) {
                     return NamedTable::Open(one, flags.table);
                   }));
  ASSIGN_OR_RETURN(const std::vector<FoundRow> found, FindRows(table, flags));
  ordered_json json = ordered_json::array();
  for (size_t i = 0; i < found.size(); ++i) {
    if (flags.json) {
      json.push_back(ToJson(table, found[i], flags.nearest > 0));
      continue;
    }
    if (i > 0) std::printf("\n");
    Print(table, found[i]);
  }
  if (flags.json) PrintJson(json);
  return absl::OkStatus();
}

}  // namespace

int TableStatCommand(const TableStatFlags& flags) {
  const absl::Status status =
      ReadSaved(flags.from, model::Verify::kSizes,
                [&flags](const SavedFlags& one) { return Stat(flags, one); });
  return status.ok() ? static_cast<int>(kExitDone) : ComplainOfSaved(status);
}

int TableLookupCommand(const TableLookupFlags& flags) {
  const absl::Status status = Lookup(flags);
  return status.ok() ? static_cast<int>(kExitDone) : ComplainOfSaved(status);
}

}  // namespace coxswain::cli
