// A class for each kind of column: numbers, single ids, lists of ids, labels, keys.
#include "runtime/data/sinks.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/data/dates.h"
#include "runtime/data/list_label.h"
#include "runtime/data/names.h"
#include "runtime/data/number.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/utf8.h"

namespace coxswain::data {
namespace {

// Below what is rounded to infinity: the largest f32 is written with fewer digits than it has.
bool FitsFloat(double number) { return std::fabs(number) < 0x1.ffffffp127; }

constexpr char kWantedNumber[] = "a finite number (f32)";

// Parses a finite number, or a missing one. False for anything else.
bool ReadNumber(const ColumnValues& values, int64_t value, double missing, double* number) {
  const int64_t entry = values.Entry(value);
  *number = missing;
  if (entry != ColumnValues::kMissing && !values.Number(entry, number)) {
    std::string scratch;
    if (!absl::StripAsciiWhitespace(values.Text(entry, &scratch)).empty()) return false;
    *number = missing;
  }
  return FitsFloat(*number);
}

class NumberSink : public FieldSink {
 public:
  NumberSink(double missing, std::vector<double>* numbers) : missing_(missing), numbers_(numbers) {}
  bool Append(absl::string_view text) override {
    double number = 0;
    if (!ParseNumber(text, &number)) {
      if (!absl::StripAsciiWhitespace(text).empty()) return false;
      number = missing_;
    }
    numbers_->push_back(number);
    return FitsFloat(number);
  }
  bool AppendBool(bool truth) override { return Append(truth ? "1" : "0"); }
  std::string Wanted() const override { return kWantedNumber; }
  int64_t AppendFields(const FieldColumn& fields) override {
    const size_t before = numbers_->size();
    numbers_->resize(before + static_cast<size_t>(fields.rows()));
    double* out = numbers_->data() + before;
    for (int64_t row = 0; row < fields.rows(); ++row, ++out) {
      const absl::string_view text = fields[row];
      if (!ParseNumber(text, fields.limit(), out)) {
        if (!absl::StripAsciiWhitespace(text).empty()) return row;
        *out = missing_;
      }
      if (!FitsFloat(*out)) return row;
    }
    return -1;
  }
  int64_t AppendColumn(const ColumnValues& values) override {
    for (int64_t row = 0; row < values.rows(); ++row) {
      double number = 0;
      if (!ReadNumber(values, values.Of(row).begin, missing_, &number)) return row;
      numbers_->push_back(number);
    }
    return -1;
  }

 private:
  double missing_;
  std::vector<double>* numbers_;
};

// One of the columns of a vector.
class ElementSink : public FieldSink {
 public:
  ElementSink(const proto::FeatureSpec& spec, int element, TableFeature* feature)
      : missing_(spec.missing_value()),
        width_(static_cast<size_t>(spec.columns_size())),
        element_(static_cast<size_t>(element)),
        feature_(*feature) {
    feature_.element_rows.resize(width_);
  }
  bool Append(absl::string_view text) override {
    double number = 0;
    if (!ParseNumber(text, &number)) {
      if (!absl::StripAsciiWhitespace(text).empty()) return false;
      number = missing_;
    }
    float* const out = Rows(1);
    if (!FitsFloat(number)) return false;
    *out = static_cast<float>(number);
    return true;
  }
  std::string Wanted() const override { return kWantedNumber; }
  int64_t AppendColumn(const ColumnValues& values) override {
    float* out = Rows(static_cast<size_t>(values.rows()));
    for (int64_t row = 0; row < values.rows(); ++row, out += width_) {
      double number = 0;
      if (!ReadNumber(values, values.Of(row).begin, missing_, &number)) return row;
      *out = static_cast<float>(number);
    }
    return -1;
  }

 private:
  // The position of this element in the next rows; the first column that reaches a row adds it.
  float* Rows(size_t rows) {
    size_t& filled = feature_.element_rows[element_];
    const size_t first = filled;
    filled += rows;
    std::vector<float>& vectors = feature_.vectors;
    if (vectors.size() < filled * width_) vectors.resize(filled * width_);
    return vectors.data() + first * width_ + element_;
  }

  const double missing_;
  const size_t width_, element_;
  TableFeature& feature_;
};

// A vector from a column of lists.
class VectorSink : public FieldSink {
 public:
  VectorSink(const proto::FeatureSpec& spec, std::vector<float>* vectors)
      : missing_(spec.missing_value()),
        fills_(missing_ != 0 || std::signbit(missing_)),
        width_(spec.width()),
        vectors_(vectors) {}
  // For text files: numbers separated by white space.
  bool Append(absl::string_view text) override {
    const std::vector<absl::string_view> numbers =
        absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty());
    return AppendTexts(numbers);
  }
  bool AppendList(absl::Span<const std::string> values) override { return AppendTexts(values); }
  std::string Wanted() const override {
    return absl::StrCat("a list of ", width_, " finite numbers (f32)",
                        empty_ ? " (of an empty one, the feature's missing_value)" : "");
  }
  bool TakesLists() const override { return true; }
  int64_t AppendColumn(const ColumnValues& values) override {
    if (!values.has_lists()) return 0;
    const size_t before = vectors_->size();
    vectors_->resize(before + static_cast<size_t>(values.rows() * width_));
    float* out = vectors_->data() + before;
    for (int64_t row = 0; row < values.rows(); ++row) {
      const ColumnValues::Range range = values.Of(row);
      if (range.end == range.begin && fills_) {
        out = std::fill_n(out, width_, static_cast<float>(missing_));
        continue;
      }
      empty_ = range.end == range.begin;
      if (range.end - range.begin != width_) return row;
      for (int64_t i = range.begin; i < range.end; ++i) {
        double number = 0;
        if (!ReadNumber(values, i, missing_, &number)) return row;
        *out++ = static_cast<float>(number);
      }
    }
    return -1;
  }

 private:
  template <typename Texts>
  bool AppendTexts(const Texts& texts) {
    empty_ = texts.empty();
    if (empty_ && fills_) {
      vectors_->insert(vectors_->end(), static_cast<size_t>(width_), static_cast<float>(missing_));
      return true;
    }
    if (static_cast<int64_t>(texts.size()) != width_) return false;
    for (const auto& text : texts) {
      double number = 0;
      if (!ParseNumber(text, &number)) {
        if (!absl::StripAsciiWhitespace(text).empty()) return false;
        number = missing_;
      }
      if (!FitsFloat(number)) return false;
      vectors_->push_back(static_cast<float>(number));
    }
    return true;
  }

  const double missing_;
  const bool fills_;  // an empty list: where the feature says by what, see job_dataset.cc
  const int64_t width_;
  bool empty_ = false;  // the last one
  std::vector<float>* const vectors_;
};

constexpr char kWantedUtf8[] = "text in UTF-8";

// Returns the number of a text; -1 when it has none, and then `*bad` says whether it is invalid
// UTF-8. Only new texts are checked.
int32_t InternText(absl::string_view text, Interner* texts, bool* bad) {
  const int64_t before = texts->size();
  const int32_t id = texts->Intern(text);
  *bad = texts->size() > before && !IsUtf8(text);
  return *bad ? -1 : id;
}

// Texts to ids: by a fixed vocabulary, or by order of appearance for one that is to be learned.
class IdMaker {
 public:
  explicit IdMaker(TableFeature* feature) : feature_(feature) {}
  // Nullopt: the vocabulary lacks it, or it is wrong(), see Wanted.
  std::optional<int64_t> Id(absl::string_view text) {
    if (feature_->vocabulary == nullptr) {
      const int32_t id = InternText(text, &feature_->texts, &bad_text_);
      return id < 0 ? std::nullopt : std::optional<int64_t>(id);
    }
    bad_text_ = !IsUtf8(text);
    return bad_text_ ? std::nullopt : feature_->vocabulary->Find(text);
  }
  // Ids for `texts`, which are fields of `column`, or pieces of them. Returns the index of the
  // first without an id, or the number of texts.
  size_t Ids(absl::Span<const absl::string_view> texts, const FieldColumn& column, int64_t* ids) {
    bad_text_ = false;
    if (feature_->vocabulary == nullptr) {
      for (size_t i = 0; i < texts.size(); ++i) {
        ids[i] = InternText(texts[i], &feature_->texts, &bad_text_);
        if (ids[i] < 0) return i;
      }
      return texts.size();
    }
    const size_t good = BeforeBadUtf8(texts, column);
    const size_t found = feature_->vocabulary->FindAll(texts.subspan(0, good), column.limit(), ids);
    bad_text_ = found == good && good < texts.size();
    return found;
  }
  // The same, but -1 for a text that is left out (leaves_out): that does not end it.
  size_t IdsOfList(absl::Span<const absl::string_view> texts, const FieldColumn& column,
                   int64_t* ids) {
    if (!leaves_out()) return Ids(texts, column, ids);
    const size_t good = BeforeBadUtf8(texts, column);
    feature_->vocabulary->FindEach(texts.subspan(0, good), ids);
    bad_text_ = good < texts.size();
    return good;
  }
  // Lists are without texts that the vocabulary lacks, and no other id is negative.
  bool leaves_out() const {
    return feature_->vocabulary != nullptr && !feature_->vocabulary->unbounded();
  }
  // The last text is invalid, not merely left out.
  bool wrong() const { return bad_text_ || !leaves_out(); }
  std::string Wanted() const {
    if (bad_text_) return kWantedUtf8;
    if (feature_->vocabulary == nullptr) {
      return absl::StrCat("at most 2^31 - 1 different values",
                          feature_->hashes != nullptr ? " (without keep_names, any number)" : "");
    }
    if (feature_->vocabulary->unbounded()) return "an integer of 64 bits (the feature's id is raw)";
    return "a value of the vocabulary (other values need oov_buckets)";
  }

 private:
  // How many texts come before the first that is not UTF-8.
  static size_t BeforeBadUtf8(absl::Span<const absl::string_view> texts,
                              const FieldColumn& column) {
    size_t good = 0;
    while (good < texts.size() && (column.ascii() || IsUtf8(texts[good]))) ++good;
    return good;
  }

  TableFeature* feature_;
  bool bad_text_ = false;
};

// The ids of a column's values: an entry of a dictionary is looked up once.
class EntryIds {
 public:
  explicit EntryIds(IdMaker* maker) : maker_(*maker) {}
  // Before the first value of `values`.
  void Start(const ColumnValues& values) {
    if (values.batch() == batch_) return;
    batch_ = values.batch();
    ids_.assign(values.has_dictionary() ? static_cast<size_t>(values.entries()) : 0, std::nullopt);
  }
  std::optional<int64_t> Id(const ColumnValues& values, int64_t entry) {
    if (entry == ColumnValues::kMissing) return maker_.Id("");
    if (ids_.empty()) return maker_.Id(values.Text(entry, &scratch_));
    std::optional<int64_t>& id = ids_[static_cast<size_t>(entry)];
    if (!id) id = maker_.Id(values.Text(entry, &scratch_));
    return id;
  }

 private:
  IdMaker& maker_;
  uint64_t batch_ = 0;
  std::vector<std::optional<int64_t>> ids_;  // by entry, for those that have occurred
  std::string scratch_;
};

class IdSink : public FieldSink {
 public:
  explicit IdSink(TableFeature* feature) : maker_(feature), feature_(feature) {}
  bool Append(absl::string_view text) override {
    const std::optional<int64_t> id = maker_.Id(text);
    if (!id) return false;
    feature_->ids.push_back(*id);
    return true;
  }
  int64_t AppendFields(const FieldColumn& fields) override {
    const auto rows = static_cast<size_t>(fields.rows());
    texts_.resize(rows);
    ids_.resize(rows);
    for (size_t row = 0; row < rows; ++row) texts_[row] = fields[static_cast<int64_t>(row)];
    const size_t found = maker_.Ids(texts_, fields, ids_.data());
    feature_->ids.Append(absl::MakeConstSpan(ids_).subspan(0, found));
    return found == rows ? -1 : static_cast<int64_t>(found);
  }
  std::string Wanted() const override { return maker_.Wanted(); }
  int64_t AppendColumn(const ColumnValues& values) override {
    entries_.Start(values);
    for (int64_t row = 0; row < values.rows(); ++row) {
      const std::optional<int64_t> id = entries_.Id(values, values.Entry(values.Of(row).begin));
      if (!id) return row;
      feature_->ids.push_back(*id);
    }
    return -1;
  }

 private:
  IdMaker maker_;
  EntryIds entries_{&maker_};
  TableFeature* feature_;
  // Scratch for a call of AppendFields.
  std::vector<absl::string_view> texts_;
  std::vector<int64_t> ids_;
};

// Whether the empty text is a value of its own, and not one of those that are unknown.
bool KnowsEmpty(const Vocabulary* vocabulary) {
  if (vocabulary == nullptr || vocabulary->texts() == nullptr) return true;
  const std::optional<int64_t> id = vocabulary->Find("");
  return id && *id < static_cast<int64_t>(vocabulary->texts()->size());
}

class IdListSink : public FieldSink {
 public:
  IdListSink(const proto::FeatureSpec& spec, TableFeature* feature)
      : separator_(spec.value_separator()),
        weight_separator_(spec.weight_separator()),
        keeps_empty_(spec.values_of_rows() && KnowsEmpty(feature->vocabulary.get())),
        maker_(feature),
        feature_(feature) {}
  bool Append(absl::string_view text) override {
    const bool fits = text.empty() || (separator_.empty() ? AppendWords(text) : AppendPieces(text));
    feature_->lists.offsets.push_back(static_cast<int64_t>(feature_->lists.ids.size()));
    return fits;
  }
  int64_t AppendFields(const FieldColumn& fields) override {
    if (separator_.size() != 1 || !weight_separator_.empty()) {
      return FieldSink::AppendFields(fields);
    }
    pieces_.clear();
    ends_.clear();
    for (int64_t row = 0; row < fields.rows(); ++row) {
      CutAtSeparators(fields[row]);
      ends_.push_back(pieces_.size());
    }
    return AppendPieces(fields);
  }
  bool TakesLists() const override { return true; }
  bool AppendList(absl::Span<const std::string> values) override {
    bool fits = true;
    for (size_t i = 0; i < values.size() && fits; ++i) fits = AppendOne(values[i]);
    feature_->lists.offsets.push_back(static_cast<int64_t>(feature_->lists.ids.size()));
    return fits;
  }
  int64_t AppendColumn(const ColumnValues& values) override {
    if (!values.has_lists()) return FieldSink::AppendColumn(values);
    entries_.Start(values);
    for (int64_t row = 0; row < values.rows(); ++row) {
      const ColumnValues::Range range = values.Of(row);
      for (int64_t i = range.begin; i < range.end; ++i) {
        const int64_t entry = values.Entry(i);
        if (entry == ColumnValues::kMissing) {
          if (!AppendOne("")) return row;
          continue;
        }
        const absl::string_view text = values.Text(entry, &scratch_);
        if (text.empty() && !keeps_empty_) continue;
        if (!weight_separator_.empty()) {
          if (!AppendOne(text)) return row;
          continue;
        }
        const std::optional<int64_t> id = entries_.Id(values, entry);
        if (id) feature_->lists.ids.push_back(*id);
        if (!id && maker_.wrong()) return row;
      }
      feature_->lists.offsets.push_back(static_cast<int64_t>(feature_->lists.ids.size()));
    }
    return -1;
  }
  std::string Wanted() const override {
    if (wrong_.empty()) return maker_.Wanted();
    return absl::StrCat("a value, ", Quoted(weight_separator_),
                        " and a weight that is a finite number (f32) in place of ", Quoted(wrong_));
  }

 private:
  // Values outside of a vocabulary without buckets are left out, like unknown words of a text.
  bool AppendOne(absl::string_view text) {
    if (text.empty() && !keeps_empty_) return true;
    float weight = 1;
    if (!weight_separator_.empty() && !CutWeight(&text, &weight)) return false;
    const std::optional<int64_t> id = maker_.Id(text);
    if (id) feature_->lists.ids.push_back(*id);
    if (id && !weight_separator_.empty()) feature_->lists.weights.push_back(weight);
    return id || !maker_.wrong();
  }
  // Removes the weight, if there is one, from the end of `value`; the separator may also occur in
  // values.
  bool CutWeight(absl::string_view* value, float* weight) {
    const size_t end = value->rfind(weight_separator_);
    if (end == absl::string_view::npos) return true;
    double number = 0;
    if (end == 0 || !ParseNumber(value->substr(end + weight_separator_.size()), &number) ||
        !FitsFloat(number)) {
      wrong_ = std::string(*value);
      return false;
    }
    *weight = static_cast<float>(number);
    *value = value->substr(0, end);
    return true;
  }
  bool AppendPieces(absl::string_view text) {
    while (true) {
      const size_t end = text.find(separator_);
      if (!AppendOne(text.substr(0, end))) return false;
      if (end == absl::string_view::npos) return true;
      text.remove_prefix(end + separator_.size());
    }
  }
  void CutAtSeparators(absl::string_view text) {
    if (text.empty()) return;
    const char separator = separator_[0];
    for (const char *p = text.data(), *const end = p + text.size(); p <= end; ++p) {
      const char* const begin = p;
      while (p < end && *p != separator) ++p;
      if (p > begin || keeps_empty_) pieces_.emplace_back(begin, static_cast<size_t>(p - begin));
    }
  }
  // All pieces of all rows; ends_ has the end of each row.
  int64_t AppendPieces(const FieldColumn& fields) {
    RaggedIds& lists = feature_->lists;
    ids_.resize(pieces_.size());
    size_t row = 0;
    const auto end_rows = [&](size_t piece) {
      for (; row < ends_.size() && ends_[row] <= piece; ++row) {
        lists.offsets.push_back(static_cast<int64_t>(lists.ids.size()));
      }
    };
    const size_t good = maker_.IdsOfList(pieces_, fields, ids_.data());
    for (size_t piece = 0; piece < good; ++piece) {
      end_rows(piece);
      if (ids_[piece] >= 0 || !maker_.leaves_out()) lists.ids.push_back(ids_[piece]);
    }
    end_rows(good);
    return good < pieces_.size() ? static_cast<int64_t>(row) : -1;
  }
  bool AppendWords(absl::string_view text) {
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      while (i < text.size() && !absl::ascii_isspace(text[i])) ++i;
      if (!AppendOne(text.substr(begin, i - begin))) return false;
      while (i < text.size() && absl::ascii_isspace(text[i])) ++i;
    }
    return true;
  }

  const std::string separator_, weight_separator_;
  const bool keeps_empty_;
  std::string wrong_;  // a value with an invalid weight
  std::string scratch_;
  IdMaker maker_;
  EntryIds entries_{&maker_};
  TableFeature* feature_;
  // Of a call of AppendFields: the values of all its rows, and how many are in the rows up to each.
  std::vector<absl::string_view> pieces_;
  std::vector<size_t> ends_;
  std::vector<int64_t> ids_;
};

class LabelSink : public FieldSink {
 public:
  LabelSink(const proto::LabelSpec& spec, std::vector<float>* labels,
            const std::vector<float>* weights)
      : spec_(spec),
        comparison_(spec.positive_comparison()),
        threshold_(spec.positive_threshold()),
        present_(spec.positive_comparison() == kPresent),
        positive_(spec.positive_values().begin(), spec.positive_values().end()),
        labels_(labels),
        weights_(weights) {}
  bool Append(absl::string_view text) override {
    const bool empty = absl::StripAsciiWhitespace(text).empty();
    if (present_ || (empty && spec_.has_missing_value())) {
      return empty ? AppendMissing() : AppendNumber(1);
    }
    if (!positive_.empty()) {
      const bool positive = positive_.contains(text);
      if (!positive && empty) return AppendMissing();
      labels_->push_back(positive ? 1.0f : 0.0f);
      return true;
    }
    double number = 0;
    return ParseNumber(text, &number) && AppendNumber(number);
  }
  int64_t AppendFields(const FieldColumn& fields) override {
    if (!positive_.empty() || TakesEmpty()) return FieldSink::AppendFields(fields);
    for (int64_t row = 0; row < fields.rows(); ++row) {
      double number = 0;
      if (!ParseNumber(fields[row], fields.limit(), &number) || !AppendNumber(number)) return row;
    }
    return -1;
  }
  int64_t AppendColumn(const ColumnValues& values) override {
    if (!positive_.empty() || TakesEmpty()) return FieldSink::AppendColumn(values);
    for (int64_t row = 0; row < values.rows(); ++row) {
      const int64_t entry = values.Entry(values.Of(row).begin);
      double number = 0;
      if (entry == ColumnValues::kMissing || !values.Number(entry, &number)) return row;
      if (!AppendNumber(number)) return row;
    }
    return -1;
  }
  // A missing label must not count as a negative one, unless the spec says so.
  bool AppendMissing() override {
    if (present_) return AppendNumber(0);
    return spec_.has_missing_value() && AppendNumber(spec_.missing_value());
  }
  bool AppendBool(bool truth) override {
    return positive_.empty() ? Append(truth ? "1" : "0") : FieldSink::AppendBool(truth);
  }
  std::string Wanted() const override {
    if (!positive_.empty()) return "a label";
    if (!comparison_.empty()) {
      return absl::StrCat("a number, which label.positive compares (", comparison_, " ", threshold_,
                          "); what a missing one counts as is label.missing_value");
    }
    if (!spec_.bounded()) return kWantedNumber;
    return absl::StrCat("a label ", spec_.whole() ? "that is an integer " : "", "from ",
                        spec_.low(), " to ", spec_.high(), ", as the loss wants it (",
                        spec_.high() == 1 ? "label.positive: \"> 0\" compares numbers, " : "",
                        "label.positive_values names texts)");
  }

 private:
  // Whether an empty field is no error.
  bool TakesEmpty() const { return present_ || spec_.has_missing_value(); }
  bool AppendNumber(double number) {
    const bool counts = NextCounts();
    if (!FitsFloat(number)) {
      if (counts || !std::isfinite(number)) return false;
      number = 0;
    }
    if (!comparison_.empty() && !present_) number = Positive(number) ? 1 : 0;
    labels_->push_back(static_cast<float>(number));
    return !counts || InRange(number);
  }
  // A row of weight 0 has no part in the loss, whatever its label.
  bool NextCounts() const {
    const size_t row = labels_->size();
    return weights_ == nullptr || row >= weights_->size() || (*weights_)[row] > 0;
  }
  bool InRange(double number) const {
    if (!spec_.bounded()) return true;
    return number >= spec_.low() && number <= spec_.high() &&
           (!spec_.whole() || number == std::floor(number));
  }
  bool Positive(double number) const {
    if (comparison_ == ">") return number > threshold_;
    if (comparison_ == ">=") return number >= threshold_;
    if (comparison_ == "<") return number < threshold_;
    if (comparison_ == "<=") return number <= threshold_;
    if (comparison_ == "==") return number == threshold_;
    return number != threshold_;
  }

  const proto::LabelSpec spec_;
  std::string comparison_;
  double threshold_;
  bool present_;  // the label is whether the field is there
  absl::flat_hash_set<std::string> positive_;
  std::vector<float>* labels_;
  const std::vector<float>* weights_;
};

class WeightSink : public FieldSink {
 public:
  explicit WeightSink(std::vector<float>* weights) : weights_(weights) {}
  bool Append(absl::string_view text) override {
    double number = 0;
    if (!ParseNumber(text, &number) || !FitsFloat(number) || number < 0) return false;
    weights_->push_back(static_cast<float>(number));
    return true;
  }
  bool AppendBool(bool truth) override { return Append(truth ? "1" : "0"); }
  std::string Wanted() const override { return "a weight, a finite number (f32) of at least 0"; }

 private:
  std::vector<float>* weights_;
};

class KeySink : public FieldSink {
 public:
  explicit KeySink(KeyColumn* key) : key_(key) {}
  bool Append(absl::string_view text) override {
    const int32_t id = InternText(text, &key_->names, &bad_text_);
    key_->ids.push_back(id);
    return id >= 0;
  }
  std::string Wanted() const override {
    return bad_text_ ? kWantedUtf8 : "at most 2^31 - 1 different groups";
  }

 private:
  KeyColumn* key_;
  bool bad_text_ = false;
};

class OrderSink : public FieldSink {
 public:
  explicit OrderSink(std::vector<double>* values) : values_(values) {}
  bool Append(absl::string_view text) override {
    double value = 0;
    if (!ParseNumber(text, &value) && !ParseDate(text, &value)) return false;
    values_->push_back(value);
    return true;
  }
  std::string Wanted() const override {
    return "a number, or a date as in 2024-05-31 or 2024-05-31T12:30:00Z";
  }

 private:
  std::vector<double>* values_;
};

}  // namespace

std::unique_ptr<FieldSink> NewOrderSink(std::vector<double>* values) {
  return std::make_unique<OrderSink>(values);
}

int64_t FieldSink::AppendFields(const FieldColumn& fields) {
  for (int64_t row = 0; row < fields.rows(); ++row) {
    if (!Append(fields[row])) return row;
  }
  return -1;
}

int64_t FieldSink::AppendColumn(const ColumnValues& values) {
  std::string scratch;
  if (values.has_lists()) {
    std::vector<std::string> list;
    for (int64_t row = 0; row < values.rows(); ++row) {
      list.clear();
      const ColumnValues::Range range = values.Of(row);
      for (int64_t i = range.begin; i < range.end; ++i) {
        const int64_t entry = values.Entry(i);
        if (entry != ColumnValues::kMissing) list.emplace_back(values.Text(entry, &scratch));
      }
      if (!AppendList(list)) return row;
    }
    return -1;
  }
  for (int64_t row = 0; row < values.rows(); ++row) {
    const int64_t entry = values.Entry(values.Of(row).begin);
    const bool missing = entry == ColumnValues::kMissing;
    if (!(missing ? AppendMissing() : Append(values.Text(entry, &scratch)))) return row;
  }
  return -1;
}

std::unique_ptr<FieldSink> NewFeatureSink(const proto::FeatureSpec& spec, TableFeature* feature) {
  if (spec.kind() == proto::FeatureSpec::NUMERIC) {
    return std::make_unique<NumberSink>(spec.missing_value(), &feature->numbers);
  }
  if (spec.kind() == proto::FeatureSpec::VECTOR) {
    return std::make_unique<VectorSink>(spec, &feature->vectors);
  }
  if (spec.multi_valued()) return std::make_unique<IdListSink>(spec, feature);
  return std::make_unique<IdSink>(feature);
}

std::unique_ptr<FieldSink> NewElementSink(const proto::FeatureSpec& spec, int element,
                                          TableFeature* feature) {
  return std::make_unique<ElementSink>(spec, element, feature);
}

std::unique_ptr<FieldSink> NewLabelSink(const proto::LabelSpec& spec, std::vector<float>* labels,
                                        const std::vector<float>* weights) {
  if (!spec.value_separator().empty()) return NewListLabelSink(spec, labels);
  return std::make_unique<LabelSink>(spec, labels, weights);
}

std::unique_ptr<FieldSink> NewWeightSink(std::vector<float>* weights) {
  return std::make_unique<WeightSink>(weights);
}

std::unique_ptr<FieldSink> NewKeySink(KeyColumn* key) { return std::make_unique<KeySink>(key); }

}  // namespace coxswain::data
