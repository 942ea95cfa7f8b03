// JOB.yaml against its schema: finds every key that is unknown, missing, of a wrong type or out of
// range, and fills in the defaults that do not depend on other keys. What comes out can be read
// without looking at types again.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/job/schema.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain::job {

// Everything that is wrong with a file, in the order it was found.
class Problems {
 public:
  // `path` is the key that the message is about.
  void Add(const std::string& path, const std::string& where, const std::string& message);
  // Nothing is wrong with `path`, what is below it and what holds it.
  bool Good(const std::string& path) const;
  // InvalidArgument with a line for each of the first ones, cause kConfiguration.
  absl::Status status() const;

 private:
  static constexpr size_t kMostLines = 100;
  std::vector<std::string> lines_;
  size_t count_ = 0;
  std::set<std::string> paths_;
};

class SchemaChecker {
 public:
  // All must outlive the checker. `locations` gets "key.path" -> place for every key of the file.
  SchemaChecker(Problems* problems, std::map<std::string, std::string>* locations,
                const SchemaSection& file)
      : problems_(problems), locations_(locations), file_(file) {}

  // `root` is the whole file. Entries that are filled in have an empty `where`; a single value of a
  // list becomes a list of one.
  void Check(config::YamlNode* root) {
    root_ = root;
    CheckSection(file_, "", "", root);
  }

 private:
  void TakeDefault(const SchemaKey& key, config::YamlNode* section);
  std::string SelectorOf(absl::string_view path) const;
  void CheckSection(const SchemaSection& section, const std::string& path,
                    const std::string& inherited, config::YamlNode* node);
  void UnknownKey(const SchemaSection& section, const std::string& path,
                  const std::string& selected, const config::YamlEntry& entry);
  void FillIn(const SchemaKey& key, const std::string& path, const std::string& selected,
              config::YamlNode* node);
  void CheckValue(const SchemaKey& key, const std::string& path, const std::string& selected,
                  config::YamlNode* value);
  void CheckList(const SchemaKey& key, const std::string& path, config::YamlNode* value);
  void CheckScalar(const SchemaKey& key, const std::string& path, const config::YamlNode& value);

  Problems* problems_;
  std::map<std::string, std::string>* locations_;
  const SchemaSection& file_;
  const config::YamlNode* root_ = nullptr;
};

// A checked section. A value that is absent or has a problem reads as "", 0, false or an empty
// list.
class SectionView {
 public:
  explicit SectionView(const config::YamlNode* node) : node_(node) {}

  bool Has(absl::string_view key) const { return Find(key) != nullptr; }
  // It stands in the file, and is not filled in.
  bool Given(absl::string_view key) const;
  bool Bool(absl::string_view key) const;
  int64_t Int(absl::string_view key) const;
  double Real(absl::string_view key) const;
  std::string String(absl::string_view key) const;
  std::vector<std::string> Strings(absl::string_view key) const;
  std::vector<int64_t> Ints(absl::string_view key) const;
  std::vector<double> Reals(absl::string_view key) const;
  SectionView Sub(absl::string_view key) const { return SectionView(Find(key)); }
  std::vector<SectionView> Sections(absl::string_view key) const;
  std::vector<std::string> Keys() const;

 private:
  const config::YamlNode* Find(absl::string_view key) const;
  const config::YamlNode* node_;  // null: absent
};

// Applies `--set key.path=value` to the tree: replaces or adds the value; an empty value removes
// the key. Elements of lists go by index or by their `name`. A value that begins with [ or { or a
// quote is YAML, any other is taken as it is. Errors: InvalidArgument "--set ...: ..." when the
// flag cannot be read or the path leads nowhere.
absl::Status ApplyOverride(const std::string& flag, config::YamlNode* root);

}  // namespace coxswain::job
