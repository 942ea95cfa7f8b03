#include "coordinator/serve/json_object.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "runtime/data/names.h"

namespace coxswain::serve {
namespace {

// Makes the value of a text, until something is wrong with it.
class BodyReader : public nlohmann::json_sax<RequestJson> {
 public:
  explicit BodyReader(size_t max_depth) : max_depth_(max_depth) {}

  const std::string& wrong() const { return wrong_; }
  RequestJson Take() { return std::move(body_); }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t& value) override { return Add(std::move(value)); }
  bool start_object(size_t) override { return Open(RequestJson::object()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(RequestJson::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& key) override {
    auto& object = open_.back()->get_ref<RequestJson::object_t&>();
    const auto [entry, is_new] = object.emplace(key, nullptr);
    value_of_key_ = &entry->second;
    if (is_new) return true;
    wrong_ = absl::StrCat("the body has an object with the key ", data::Quoted(key), " twice");
    return false;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const absl::string_view all = error.what();
    const size_t end = all.find("] ");
    wrong_ = absl::StrCat("the body is no JSON object: ",
                          end == absl::string_view::npos ? all : all.substr(end + 2));
    return false;
  }

 private:
  bool Add(RequestJson value) {
    Place(std::move(value));
    return true;
  }
  // Where it is, until something is added to the list that it is in.
  RequestJson* Place(RequestJson value) {
    if (open_.empty()) {
      body_ = std::move(value);
      return &body_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *value_of_key_ = std::move(value);
    return value_of_key_;
  }
  bool Open(RequestJson value) {
    if (open_.size() == max_depth_) {
      wrong_ = absl::StrCat("the body is no JSON object: wanted lists and objects at most ",
                            max_depth_, " deep in each other");
      return false;
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  const size_t max_depth_;
  std::string wrong_;
  RequestJson body_;
  std::vector<RequestJson*> open_;  // what the parser is in
  RequestJson* value_of_key_ = nullptr;
};

}  // namespace

absl::StatusOr<RequestJson> ParseObject(absl::string_view body, int max_depth) {
  BodyReader reader(static_cast<size_t>(max_depth));
  if (!RequestJson::sax_parse(body.begin(), body.end(), &reader)) {
    return absl::InvalidArgumentError(reader.wrong());
  }
  RequestJson json = reader.Take();
  if (!json.is_object()) return absl::InvalidArgumentError("the body is no JSON object");
  return json;
}

absl::Status CheckKeys(const RequestJson& object, const std::string& where,
                       const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (absl::c_linear_search(known, key)) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, where.empty() ? "" : ": ",
                                                   "there is no key ", data::Quoted(key), "; ",
                                                   data::Alternatives(key, known)));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::serve
