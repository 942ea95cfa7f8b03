#include "runtime/data/libsvm_reader.h"

#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"
#include "runtime/data/number.h"

namespace coxswain::data {
namespace {

constexpr char kQuery[] = "qid:";

// Takes the next word off `rest`; empty at the end.
absl::string_view NextToken(absl::string_view* rest) {
  size_t begin = 0;
  while (begin < rest->size() && absl::ascii_isspace((*rest)[begin])) ++begin;
  size_t end = begin;
  while (end < rest->size() && !absl::ascii_isspace((*rest)[end])) ++end;
  const absl::string_view token = rest->substr(begin, end - begin);
  rest->remove_prefix(end);
  return token;
}

bool ParseFloat(absl::string_view text, float* number) {
  double value = 0;
  if (!ParseNumber(text, &value) || std::fabs(value) > std::numeric_limits<float>::max()) {
    return false;
  }
  *number = static_cast<float>(value);
  return true;
}

}  // namespace

bool IsNumberLabel(absl::string_view word) {
  float number = 0;
  return ParseFloat(word, &number);
}

absl::StatusOr<std::unique_ptr<LibsvmReader>> LibsvmReader::Open(const std::string& path,
                                                                 LibsvmFormat format) {
  ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines, LineReader::Open(path));
  return std::unique_ptr<LibsvmReader>(new LibsvmReader(std::move(lines), format));
}

absl::StatusOr<bool> LibsvmReader::Next() {
  while (true) {
    ASSIGN_OR_RETURN(const bool found, lines_->Next(&line_));
    if (!found) return false;
    absl::string_view rest = line_.substr(0, line_.find('#'));
    label_ = NextToken(&rest);
    if (label_.empty()) continue;
    ids_.clear();
    weights_.clear();
    if (format_.label_optional && absl::StrContains(label_, ':')) {
      if (!absl::StartsWith(label_, kQuery)) RETURN_IF_ERROR(ParsePair(label_));
      label_ = absl::string_view();
    } else if (format_.label_is_number && !IsNumberLabel(label_)) {
      return LabelError(kNumberLabel);
    }
    RETURN_IF_ERROR(ParseQuery(&rest));
    for (absl::string_view token = NextToken(&rest); !token.empty(); token = NextToken(&rest)) {
      RETURN_IF_ERROR(ParsePair(token));
    }
    return true;
  }
}

absl::Status LibsvmReader::ParseQuery(absl::string_view* rest) {
  if (!format_.query && !format_.label_optional) return absl::OkStatus();
  absl::string_view behind = *rest;
  const absl::string_view token = NextToken(&behind);
  query_ = token;
  const bool there = absl::ConsumePrefix(&query_, kQuery) && !query_.empty();
  if (there) *rest = behind;
  if (there || !format_.query) return absl::OkStatus();
  const char* const at = token.empty() ? line_.data() + line_.size() : token.data();
  return lines_->Error(line_, at,
                       absl::StrCat("wanted qid: and the query's name, found ", Quoted(token)));
}

absl::Status LibsvmReader::ParsePair(absl::string_view token) {
  const size_t colon = token.find(':');
  int64_t index = 0;
  if (colon == absl::string_view::npos || !ParseIndex(token.substr(0, colon), &index)) {
    const char* const hint =
        absl::StartsWith(token, kQuery) ? "; dataset.query: qid reads queries" : "";
    return lines_->Error(line_, token.data(),
                         absl::StrCat("wanted index:value, found ", Quoted(token), hint));
  }
  const int64_t id = format_.zero_based ? index : index - 1;
  if (id < 0 || (format_.features > 0 && id >= format_.features)) {
    const std::string first = format_.zero_based ? "0" : "1";
    const std::string range = format_.features > 0
                                  ? absl::StrCat("an index from ", first, " to ",
                                                 format_.features - (format_.zero_based ? 1 : 0))
                                  : absl::StrCat("an index of at least ", first);
    return lines_->Error(line_, token.data(), absl::StrCat("wanted ", range, ", found ", index));
  }
  float value = 0;
  const absl::string_view text = token.substr(colon + 1);
  if (!ParseFloat(text, &value)) {
    return lines_->Error(line_, text.data(),
                         absl::StrCat("wanted a finite number, found ", Quoted(text)));
  }
  ids_.push_back(id);
  weights_.push_back(value);
  return absl::OkStatus();
}

absl::Status LibsvmReader::LabelError(absl::string_view wanted) const {
  return lines_->Error(line_, label_.data(),
                       absl::StrCat("label: wanted ", wanted, ", found ", Quoted(label_)));
}

}  // namespace coxswain::data
