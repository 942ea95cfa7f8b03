#include "runtime/data/criteo.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/data/number.h"

namespace coxswain::data {
namespace {

using proto::FeatureSpec;

constexpr size_t kMaxDigits = 18;  // of an integer; a word has up to 16

bool IsInteger(absl::string_view text) {
  if (!text.empty() && text.front() == '-') text.remove_prefix(1);
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return !text.empty() && text.size() <= kMaxDigits;
}

bool IsWord(absl::string_view text) {
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return false;
  }
  return text.size() <= 16;
}

// One class for the three kinds of fields, which saves a virtual call per field.
class CheckedSink : public FieldSink {
 public:
  CheckedSink(char kind, std::unique_ptr<FieldSink> sink) : kind_(kind), sink_(std::move(sink)) {}
  bool Append(absl::string_view text) override { return Fits(text) && sink_->Append(text); }
  int64_t AppendFields(const FieldColumn& fields) override {
    int64_t fit = 0;
    while (fit < fields.rows() && Fits(fields[fit], fields.limit())) ++fit;
    const int64_t wrong = sink_->AppendFields(fields.First(fit));
    return wrong < 0 && fit < fields.rows() ? fit : wrong;
  }
  std::string Wanted() const override {
    switch (kind_) {
      case 'C':
        return "a word of up to 16 hexadecimal digits, or nothing";
      case 'I':
        return "an integer, or nothing";
      default:
        return "0 or 1";
    }
  }

 private:
  bool Fits(absl::string_view text) const {
    if (kind_ == 'C') return IsWord(text);
    if (kind_ == 'I') return text.empty() || IsInteger(text);
    return text == "0" || text == "1";
  }

  // The same, 8 characters at a time; bytes before `limit` may be read.
  bool Fits(absl::string_view text, const char* limit) const {
    if (kind_ == 'C' && text.size() - 1 < 8 && limit - text.data() >= 8) {
      return word::AreHexadecimal(word::Load(text.data(), text.size()));
    }
    return Fits(text);
  }

  const char kind_;  // the first letter of the column's name
  std::unique_ptr<FieldSink> sink_;
};

std::vector<std::string> MakeColumns() {
  std::vector<std::string> columns = {kCriteoLabel};
  for (int i = 1; i <= kCriteoNumbers; ++i) columns.push_back(absl::StrCat("I", i));
  for (int i = 1; i <= kCriteoWords; ++i) columns.push_back(absl::StrCat("C", i));
  return columns;
}

}  // namespace

const std::vector<std::string>& CriteoColumns() {
  static const auto* const columns = new std::vector<std::string>(MakeColumns());
  return *columns;
}

void AddCriteoFeatures(int64_t hash_buckets, proto::DatasetSpec* spec) {
  for (const std::string& column : CriteoColumns()) {
    if (column == kCriteoLabel) continue;
    FeatureSpec* feature = spec->add_features();
    feature->set_name(column);
    feature->set_column(column);
    if (column[0] == 'I') {
      feature->set_kind(FeatureSpec::NUMERIC);
      feature->set_normalization(FeatureSpec::LOG1P);
      continue;
    }
    feature->set_kind(FeatureSpec::CATEGORICAL);
    feature->set_hash_buckets(hash_buckets);
    if (hash_buckets == 0) feature->set_id("hash");
  }
}

std::unique_ptr<FieldSink> CheckedCriteoSink(const std::string& column,
                                             std::unique_ptr<FieldSink> sink) {
  return std::make_unique<CheckedSink>(column[0], std::move(sink));
}

}  // namespace coxswain::data
