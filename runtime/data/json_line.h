// One line of JSON, an object, and the values in it that somebody reads. simdjson is included by
// its .cc only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace coxswain::data {

struct JsonValue {
  enum class Kind { kMissing, kText, kBool, kList, kObject };

  Kind kind = Kind::kMissing;     // not there, or null
  std::string text;               // of kText: a string, or a number in its shortest form
  bool truth = false;             // of kBool
  std::vector<std::string> list;  // of kList: as text, which of a null is empty
  std::vector<bool> nulls;        // parallel to it
};

// Thread model: one thread.
class JsonLine {
 public:
  JsonLine();
  ~JsonLine();
  JsonLine(const JsonLine&) = delete;
  JsonLine& operator=(const JsonLine&) = delete;

  // False when it is no JSON object; problem() says what is wrong.
  bool Parse(absl::string_view line);
  // Of the last line: the value of a key, or, where there is no such key, of the path that it
  // spells: "device.os" is `os` of the object `device`. False when the key is not there at all, or
  // the value is a list of what is no value; problem() says so then and is empty else.
  bool Get(const std::string& key, JsonValue* value);
  // The keys of the last line's object.
  std::vector<std::string> Keys() const;
  const std::string& problem() const { return problem_; }

 private:
  struct Document;

  std::unique_ptr<Document> document_;
  std::string problem_;
};

}  // namespace coxswain::data
