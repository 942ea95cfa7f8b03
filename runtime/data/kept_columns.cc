// Texts of times; the sink of a column; which columns there are, and their values.
#include "runtime/data/kept_columns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/civil_time.h"
#include "runtime/base/status.h"
#include "runtime/data/arrow/arrow_file.h"
#include "runtime/data/names.h"
#include "runtime/data/table.h"
#include "runtime/data/table_rows.h"
#include "runtime/data/utf8.h"

namespace coxswain::data {
namespace {

using Kind = KeptTexts::Kind;

constexpr char kAll[] = "*";
constexpr double kDay = 86400;

// How a number of a file of columns is written.
enum class Form { kShortest, kFloat, kDate, kTime, kTimestamp };

struct Type {
  bool real = false;  // of numbers that have digits behind a point, of which times are some
  Form form = Form::kShortest;
  int digits = 0;  // of a second
  const char* zone = "";
};

// "timestamp[us, tz=UTC]" has 6.
int DigitsOf(absl::string_view type) {
  if (absl::StrContains(type, "[ms")) return 3;
  if (absl::StrContains(type, "[us")) return 6;
  return absl::StrContains(type, "[ns") ? 9 : 0;
}

// False for one whose values cannot be written as they are: what is read of them is not all that
// they are.
bool FindType(int32_t kind, absl::string_view name, Type* type) {
  absl::ConsumePrefix(&name, "dictionary<values=");
  if (kind != COX_ARROW_REAL) return kind != COX_ARROW_OTHER;
  type->real = true;
  type->digits = DigitsOf(name);
  if (absl::StartsWith(name, "double")) return true;
  if (absl::StartsWith(name, "float") || absl::StartsWith(name, "halffloat")) {
    type->form = Form::kFloat;
    return true;
  }
  if (absl::StartsWith(name, "date")) {
    type->form = Form::kDate;
    type->digits = 3;
    return true;
  }
  if (absl::StartsWith(name, "time32") || absl::StartsWith(name, "time64")) {
    type->form = Form::kTime;
    return true;
  }
  type->form = Form::kTimestamp;
  if (absl::StrContains(name, "tz=")) type->zone = "Z";
  // They come as seconds in 64 bits, which have no room for them.
  return absl::StartsWith(name, "timestamp") && type->digits < 9;
}

// Seconds since 1970 or since midnight, as ISO 8601 has them. Empty if there were digits that the
// number has no room for.
std::string TimeText(double seconds, const Type& type) {
  constexpr double kExact = 4503599627370496;  // 2^52: above it neighbours are more than 1/2 apart
  double scale = 1;
  for (int i = 0; i < type.digits; ++i) scale *= 10;
  if (!(std::abs(seconds) * scale < kExact)) return "";
  double whole = std::floor(seconds);
  auto part = static_cast<int64_t>(std::llround((seconds - whole) * scale));
  if (part == static_cast<int64_t>(scale)) {
    whole += 1;
    part = 0;
  }
  const absl::CivilSecond time = absl::CivilSecond(1970) + static_cast<int64_t>(whole);
  std::string text;
  if (type.form != Form::kTime) {
    text = absl::StrFormat("%04d-%02d-%02d", time.year(), time.month(), time.day());
    if (type.form == Form::kDate && std::fmod(seconds, kDay) == 0) return text;
    text += "T";
  }
  absl::StrAppendFormat(&text, "%02d:%02d:%02d", time.hour(), time.minute(), time.second());
  if (part != 0) {
    absl::StrAppendFormat(&text, ".%0*d", type.digits, part);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + type.zone;
}

// "nan" and "inf", too.
void AddNumber(double number, const Type& type, KeptTexts* texts) {
  char text[32];
  const auto end = type.form == Form::kFloat
                       ? std::to_chars(text, text + sizeof(text), static_cast<float>(number)).ptr
                       : std::to_chars(text, text + sizeof(text), number).ptr;
  const Kind kind = std::isfinite(number) ? Kind::kBare : Kind::kNone;
  texts->Add(std::isnan(number) ? "nan" : absl::string_view(text, static_cast<size_t>(end - text)),
             kind);
}

CoxArrowFormat ArrowFormatOf(const DataFormat& format) {
  return absl::string_view(format.name()) == "arrow" ? COX_ARROW_IPC : COX_ARROW_PARQUET;
}

class KeepSink final : public FieldSink {
 public:
  KeepSink(Type type, bool only_text, KeptTexts* texts)
      : type_(type), only_text_(only_text), texts_(*texts) {}

  bool Append(absl::string_view text) override {
    if (only_text_ && !IsUtf8(text)) return false;
    texts_.Add(text, Kind::kText);
    return true;
  }

  int64_t AppendColumn(const ColumnValues& values) override {
    std::string scratch;
    for (int64_t row = 0; row < values.rows(); ++row) {
      if (!AppendEntry(values, values.Entry(values.Of(row).begin), &scratch)) return row;
    }
    return -1;
  }

  std::string Wanted() const override {
    return type_.form == Form::kTimestamp ? "a time of which all digits are known, or nothing"
                                          : "text in UTF-8, which lines of JSON are";
  }

 private:
  bool AppendEntry(const ColumnValues& values, int64_t entry, std::string* scratch) {
    if (entry == ColumnValues::kMissing) {
      texts_.Add("", Kind::kNone);
      return true;
    }
    if (values.has_texts()) return Append(values.Text(entry, scratch));
    if (!type_.real) {
      texts_.Add(values.Text(entry, scratch), Kind::kBare);
      return true;
    }
    double number = 0;
    values.Number(entry, &number);  // also one that is not finite
    if (type_.form == Form::kShortest || type_.form == Form::kFloat) {
      AddNumber(number, type_, &texts_);
      return true;
    }
    const std::string text = TimeText(number, type_);
    texts_.Add(text, Kind::kText);
    return !text.empty();
  }

  const Type type_;
  const bool only_text_;
  KeptTexts& texts_;
};

absl::Status NotThere(const std::string& path, const std::string& name,
                      const std::vector<std::string>& columns) {
  return absl::NotFoundError(absl::StrCat(path, ": wanted a column ", Quoted(name),
                                          " to keep, found none of that name; ",
                                          Alternatives(name, columns)));
}

// Of a column of a file of columns. Errors: InvalidArgument for one that cannot be kept.
absl::StatusOr<Type> TypeIn(const ArrowFile& file, const std::string& name) {
  ASSIGN_OR_RETURN(const int32_t field, file.FindField(name));
  const CoxArrowField& found = file.fields()[static_cast<size_t>(field)];
  Type type;
  if (found.is_list == 0 && FindType(found.kind, found.type, &type)) return type;
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": column ", Quoted(name), ": wanted texts, numbers, dates or ",
                   "times of at most microseconds to keep, found ", found.type));
}

absl::StatusOr<std::vector<Type>> TypesIn(const DataFormat& format, const std::string& path,
                                          const std::vector<std::string>& names) {
  std::vector<Type> types(names.size());
  if (!format.has_groups()) return types;
  ASSIGN_OR_RETURN(const auto file, ArrowFile::Open(path, ArrowFormatOf(format)));
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(types[i], TypeIn(*file, names[i]));
  }
  return types;
}

}  // namespace

absl::StatusOr<KeptColumns> KeptColumns::Create(proto::DatasetSpec spec, const FileBlock& block,
                                                std::vector<std::string> names, bool only_text) {
  KeptColumns kept;
  const DataFormat& format = FormatOf(spec);
  std::vector<std::string> columns = block.columns;
  if (format.has_groups()) {
    ASSIGN_OR_RETURN(columns, format.GroupColumns(block.path));
  }
  if (columns.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(block.path, ": wanted rows with columns to keep (csv, criteo, parquet, ",
                     "arrow), found the format ", format.name()));
  }
  if (names == std::vector<std::string>{kAll}) names = columns;
  absl::flat_hash_map<absl::string_view, int> there;
  for (const std::string& column : columns) ++there[column];
  for (const std::string& name : names) {
    const auto found = there.find(name);
    if (found == there.end()) return NotThere(block.path, name, columns);
    // Another one of this name would be the second.
    if (found->second++ > 1) {
      return absl::InvalidArgumentError(absl::StrCat(block.path, ": wanted one column ",
                                                     Quoted(name), " to keep, found it twice"));
    }
  }
  kept.names_ = std::move(names);
  ASSIGN_OR_RETURN(const std::vector<Type> types, TypesIn(format, block.path, kept.names_));
  for (const Type& type : types) {
    kept.sinks_.push_back([type, only_text](KeptTexts* texts) {
      return std::make_unique<KeepSink>(type, only_text, texts);
    });
  }
  // A field that stands for nothing is kept as it is.
  spec.mutable_csv()->clear_missing_values();
  kept.spec_ = std::move(spec);
  return kept;
}

absl::StatusOr<KeptRows> KeptColumns::Read(FileBlock block) const {
  KeptRows kept(names_.size());
  Table table;
  TableRows rows(&table, 0);
  rows.LeaveOutChain();
  for (size_t i = 0; i < names_.size(); ++i) {
    rows.Bind(names_[i], sinks_[i](&kept[i]));
  }
  table.places.StartFile(block.path);
  RETURN_IF_ERROR(FormatOf(spec_).ReadBlock(spec_, std::move(block), &rows));
  return kept;
}

}  // namespace coxswain::data
