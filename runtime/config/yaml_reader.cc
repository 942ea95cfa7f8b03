#include "runtime/config/yaml_reader.h"

#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr int kMaxDepth = 32;
constexpr int kMaxNodes = 200000;  // an alias counts as often as it is used

std::string At(const std::string& name, const YAML::Mark& mark) {
  if (mark.is_null()) return name;
  return absl::StrCat(name, ":", mark.line + 1, ":", mark.column + 1);
}

class Converter {
 public:
  explicit Converter(const std::string& name) : name_(name) {}

  absl::Status Convert(const YAML::Node& from, int depth, YamlNode* to) {
    to->where = At(name_, from.Mark());
    if (depth > kMaxDepth) return Error(to->where, "nested too deeply");
    if (++nodes_ > kMaxNodes) return Error(to->where, "the document is too large");
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return absl::OkStatus();
      case YAML::NodeType::Scalar:
        to->kind = YamlNode::Kind::kScalar;
        to->text = from.Scalar();
        to->quoted = from.Tag() == "!";
        return absl::OkStatus();
      case YAML::NodeType::Sequence:
        to->kind = YamlNode::Kind::kList;
        for (const auto& item : from) {
          RETURN_IF_ERROR(Convert(item, depth + 1, &to->items.emplace_back()));
        }
        return absl::OkStatus();
      case YAML::NodeType::Map:
        return ConvertMap(from, depth, to);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Error(const std::string& where, absl::string_view message) {
    return ConfigurationError(absl::StrCat(where, ": ", message));
  }

  absl::Status ConvertMap(const YAML::Node& from, int depth, YamlNode* to) {
    to->kind = YamlNode::Kind::kMap;
    for (const auto& pair : from) {
      const std::string where = At(name_, pair.first.Mark());
      if (!pair.first.IsScalar()) return Error(where, "a key must be a word");
      const std::string& key = pair.first.Scalar();
      if (const YamlEntry* first = to->Find(key)) {
        return Error(where,
                     absl::StrCat("key '", key, "' is given twice, first at ", first->where));
      }
      YamlEntry& entry = to->entries.emplace_back();
      entry.key = key;
      entry.where = where;
      RETURN_IF_ERROR(Convert(pair.second, depth + 1, &entry.value));
      // The library places what is not there at whatever comes next.
      if (entry.value.kind == YamlNode::Kind::kNull) entry.value.where = where;
    }
    return absl::OkStatus();
  }

  const std::string& name_;
  int nodes_ = 0;
};

}  // namespace

const YamlEntry* YamlNode::Find(absl::string_view key) const {
  for (const YamlEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

YamlEntry* YamlNode::Find(absl::string_view key) {
  return const_cast<YamlEntry*>(static_cast<const YamlNode*>(this)->Find(key));
}

std::string YamlNode::Describe() const {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "keys and values";
    case Kind::kScalar:
      break;
  }
  const std::string shown = text.size() > 40 ? text.substr(0, 37) + "..." : text;
  double number = 0;
  const bool is_number = !quoted && absl::SimpleAtod(text, &number);
  return absl::StrCat(is_number ? "" : "the text ", "'", shown, "'");
}

absl::Status ConfigurationError(absl::string_view message) {
  ErrorDetail detail;
  detail.cause = ErrorCause::kConfiguration;
  return WithDetail(absl::InvalidArgumentError(message), detail);
}

absl::StatusOr<YamlNode> ParseYaml(absl::string_view text, const std::string& name) {
  YamlNode root;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) {
      return ConfigurationError(
          absl::StrCat(At(name, documents[1].Mark()), ": a second document; one was expected"));
    }
    if (documents.empty()) {
      root.where = absl::StrCat(name, ":1:1");
      return root;
    }
    RETURN_IF_ERROR(Converter(name).Convert(documents[0], 0, &root));
  } catch (const YAML::Exception& e) {
    return ConfigurationError(absl::StrCat(At(name, e.mark), ": not valid YAML: ", e.msg));
  } catch (const std::exception& e) {
    return ConfigurationError(absl::StrCat(name, ": not valid YAML: ", e.what()));
  }
  return root;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  // A directory opens, and fails when it is read.
  if (!file || file.bad() || (errno == EISDIR)) {
    const int code = errno == 0 ? EIO : errno;
    return absl::ErrnoToStatus(code, absl::StrCat("cannot read '", path, "'"));
  }
  return text.str();
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(word, known);
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

std::string UnknownName(absl::string_view what, absl::string_view word,
                        const std::vector<std::string>& known) {
  const std::string hint = DidYouMean(word, known);
  return absl::StrCat("unknown ", what, " '", word, "'", hint.empty() ? ";" : hint,
                      " there is: ", known.empty() ? "none" : absl::StrJoin(known, ", "));
}

}  // namespace coxswain
