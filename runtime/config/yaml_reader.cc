// The parser's events become a tree within bounds (TreeBuilder); nodes; reading files; and messages
// about names.
#include "runtime/config/yaml_reader.h"

#include <sys/stat.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/emitterstyle.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status.h"
#include "runtime/env/regular_file.h"

namespace coxswain::config {
namespace {

constexpr int kMaxDepth = 32;
constexpr int64_t kMaxNodes = 200000;  // an alias counts as often as it is used

std::string At(const std::string& name, const YAML::Mark& mark) {
  if (mark.is_null()) return name;
  return absl::StrCat(name, ":", mark.line + 1, ":", mark.column + 1);
}

// What ends the library's parser from within one of its events; ParseYaml catches it.
struct Refused {
  std::string message;
};

// Builds the tree from the parser's events. Depth, size and aliases are bounded here, while the
// text is read: a tree of the library's own would be there whole, loops of aliases included, before
// anything could be said about it.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& name, YamlNode* root) : name_(name), root_(root) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (WantsKey()) RefuseKey(mark);
    YamlNode* node = Add(mark);
    // The library places what is not there at whatever comes next.
    if (!open_.empty() && open_.back().is_map)
      node->where = open_.back().node->entries.back().where;
    Close(*node, anchor, 1, 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (WantsKey()) {
      YamlNode key;
      key.kind = YamlNode::Kind::kScalar;
      key.text = value;
      AddKey(mark, value);
      Remember(key, anchor, 1, 0);
      return;
    }
    YamlNode* node = Add(mark);
    node->kind = YamlNode::Kind::kScalar;
    node->text = value;
    node->quoted = tag == "!";
    Close(*node, anchor, 1, 0);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) Refuse(At(name_, mark), "an alias that is within its own anchor");
    const Anchored& from = known->second;
    if (WantsKey()) {
      if (from.node.kind != YamlNode::Kind::kScalar) RefuseKey(mark);
      AddKey(mark, from.node.text);
      return;
    }
    const std::string where = At(name_, mark);
    if (static_cast<int>(open_.size()) + from.height > kMaxDepth) RefuseDepth(where);
    Count(from.nodes - 1, where);
    YamlNode* node = Add(mark);
    *node = from.node;
    Close(*node, YAML::NullAnchor, from.nodes, from.height);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, anchor, /*is_map=*/false);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, anchor, /*is_map=*/true);
  }
  void OnMapEnd() override { End(); }

 private:
  // A list or a map whose end has not come yet.
  struct Collection {
    YamlNode* node;
    bool is_map;
    bool has_key = false;  // the last entry's value is to come
    YAML::anchor_t anchor;
    int64_t nodes_before;
    int height = 1;  // levels below the collection's own, so far
    absl::flat_hash_map<std::string, std::string> keys;  // and where they are
  };
  struct Anchored {
    YamlNode node;
    int64_t nodes;
    int height;
  };

  [[noreturn]] static void Refuse(const std::string& where, absl::string_view message) {
    throw Refused{absl::StrCat(where, ": ", message)};
  }
  [[noreturn]] static void RefuseDepth(const std::string& where) {
    Refuse(where, absl::StrCat("nested too deeply; wanted at most ", kMaxDepth, " levels"));
  }
  [[noreturn]] void RefuseKey(const YAML::Mark& mark) {
    Refuse(At(name_, mark),
           "a key must be a word, found a list or keys; perhaps a bracket is not closed");
  }

  bool WantsKey() const { return !open_.empty() && open_.back().is_map && !open_.back().has_key; }

  void Count(int64_t nodes, const std::string& where) {
    nodes_ += nodes;
    if (nodes_ > kMaxNodes) {
      Refuse(where, absl::StrCat("the document is too large; wanted at most ", kMaxNodes,
                                 " values, aliases counted as often as they are used"));
    }
  }

  void AddKey(const YAML::Mark& mark, const std::string& key) {
    Collection& map = open_.back();
    std::string where = At(name_, mark);
    const auto [first, is_new] = map.keys.try_emplace(key, where);
    if (!is_new) {
      Refuse(where, absl::StrCat("key '", key, "' is given twice, first at ", first->second));
    }
    YamlEntry& entry = map.node->entries.emplace_back();
    entry.key = key;
    entry.where = std::move(where);
    map.has_key = true;
  }

  // The node that comes next.
  YamlNode* Add(const YAML::Mark& mark) {
    YamlNode* node = root_;
    if (!open_.empty()) {
      YamlNode* parent = open_.back().node;
      node = open_.back().is_map ? &parent->entries.back().value : &parent->items.emplace_back();
    }
    node->where = At(name_, mark);
    Count(1, node->where);
    return node;
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, bool is_map) {
    if (WantsKey()) RefuseKey(mark);
    const int64_t before = nodes_;
    YamlNode* node = Add(mark);
    if (static_cast<int>(open_.size()) >= kMaxDepth) RefuseDepth(node->where);
    node->kind = is_map ? YamlNode::Kind::kMap : YamlNode::Kind::kList;
    open_.push_back({node, is_map, false, anchor, before, 1, {}});
  }

  void End() {
    const Collection ended = std::move(open_.back());
    open_.pop_back();
    Close(*ended.node, ended.anchor, nodes_ - ended.nodes_before, ended.height);
  }

  // `node` is whole, with this number of nodes and levels below it.
  void Close(const YamlNode& node, YAML::anchor_t anchor, int64_t nodes, int height) {
    Remember(node, anchor, nodes, height);
    if (open_.empty()) return;
    Collection& parent = open_.back();
    parent.has_key = false;
    parent.height = std::max(parent.height, height + 1);
  }

  void Remember(const YamlNode& node, YAML::anchor_t anchor, int64_t nodes, int height) {
    if (anchor == YAML::NullAnchor) return;
    Count(nodes, node.where);  // the copy takes as much memory as the node
    anchors_[anchor] = {node, nodes, height};
  }

  const std::string& name_;
  YamlNode* const root_;
  std::vector<Collection> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  int64_t nodes_ = 0;
};

// Refuses whatever comes after the one document. The library takes text that it cannot place, such
// as a ',' outside of brackets, for a document of its own, without reading on.
class NoMoreDocuments final : public YAML::EventHandler {
 public:
  NoMoreDocuments(const std::string& name, absl::string_view text) : name_(name), text_(text) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    const std::vector<absl::string_view> lines = absl::StrSplit(text_, '\n');
    absl::string_view rest;
    if (mark.line >= 0 && mark.line < static_cast<int>(lines.size()) && mark.column >= 0) {
      const absl::string_view line = lines[static_cast<size_t>(mark.line)];
      rest = line.substr(std::min(static_cast<size_t>(mark.column), line.size()));
    }
    const std::string where = At(name_, mark);
    if (!rest.empty() && absl::string_view(",]}").find(rest[0]) != absl::string_view::npos) {
      throw Refused{absl::StrCat(where, ": not valid YAML: unexpected '", rest.substr(0, 1), "'")};
    }
    throw Refused{absl::StrCat(where, ": a second document; one was expected")};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  const std::string& name_;
  const absl::string_view text_;
};

absl::Status TooLong(const std::string& where, size_t max_bytes) {
  return ConfigurationError(
      absl::StrCat(where, ": wanted a text of at most ", max_bytes, " bytes, found more"));
}

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
  if (text.size() > kMaxYamlBytes) return TooLong(name, kMaxYamlBytes);
  YamlNode root;
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    TreeBuilder builder(name, &root);
    if (!parser.HandleNextDocument(builder)) root.where = absl::StrCat(name, ":1:1");
    NoMoreDocuments end(name, text);
    parser.HandleNextDocument(end);
  } catch (const Refused& refused) {
    return ConfigurationError(refused.message);
  } catch (const YAML::Exception& e) {
    return ConfigurationError(absl::StrCat(At(name, e.mark), ": not valid YAML: ", e.msg));
  } catch (const std::exception& e) {
    return ConfigurationError(absl::StrCat(name, ": not valid YAML: ", e.what()));
  }
  return root;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) {
    const absl::Status regular = env::CheckRegular(path, status);
    if (!regular.ok()) return ConfigurationError(regular.message());
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text, block(size_t{1} << 16, '\0');
  while (file && text.size() <= max_bytes) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block, 0, static_cast<size_t>(file.gcount()));
  }
  // A directory opens, and fails when it is read.
  if (!file.is_open() || file.bad() || errno == EISDIR) {
    const int code = errno == 0 ? EIO : errno;
    return absl::ErrnoToStatus(code, absl::StrCat("cannot read '", path, "'"));
  }
  if (text.size() > max_bytes) return TooLong(path, max_bytes);
  return text;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(word, known);
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

std::string UnknownName(absl::string_view what, absl::string_view word,
                        const std::vector<std::string>& known) {
  constexpr size_t kShownNames = 40;
  const std::string hint = DidYouMean(word, known);
  const size_t shown = std::min(known.size(), kShownNames);
  std::string names =
      absl::StrJoin(known.begin(), known.begin() + static_cast<ptrdiff_t>(shown), ", ");
  if (shown < known.size()) absl::StrAppend(&names, " and ", known.size() - shown, " more");
  return absl::StrCat("unknown ", what, " '", word, "'", hint.empty() ? ";" : hint,
                      " there is: ", known.empty() ? "none" : names);
}

}  // namespace coxswain::config
