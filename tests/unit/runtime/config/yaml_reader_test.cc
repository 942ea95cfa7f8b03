// Texts that are no YAML, or too much of it: each ends at once, with an error that has a place.
#include "runtime/config/yaml_reader.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/cluster/cluster_config.h"

namespace coxswain::config {
namespace {

std::string ErrorOf(absl::string_view text) {
  const auto root = ParseYaml(text, "u.yaml");
  REQUIRE_FALSE(root.ok());
  return std::string(root.status().message());
}

TEST_CASE("text that the YAML library cannot place is an error, not an endless list of documents",
          "[yaml]") {
  CHECK(ErrorOf(",\n") == "u.yaml:1:1: not valid YAML: unexpected ','");
  CHECK(ErrorOf("[a, b],\n") == "u.yaml:1:7: not valid YAML: unexpected ','");
  CHECK(ErrorOf("{a: b}, c\n") == "u.yaml:1:7: not valid YAML: unexpected ','");
  CHECK(ErrorOf("# a comment\n, a: b\n") == "u.yaml:2:1: not valid YAML: unexpected ','");
  CHECK(ErrorOf("a: b\n]\n") == "u.yaml:2:1: not valid YAML: illegal flow end");
  CHECK(absl::StrContains(ErrorOf("[a]]\n"), "u.yaml:1:4: not valid YAML: "));
}

TEST_CASE("what follows the one document is told with its place", "[yaml]") {
  CHECK(ErrorOf("a: b\n---\nc: d\n") == "u.yaml:2:1: a second document; one was expected");
  CHECK(ErrorOf("a: b\n...\nc: d\n") == "u.yaml:3:1: a second document; one was expected");
  CHECK(ErrorOf("[a] b\n") == "u.yaml:1:5: a second document; one was expected");
  for (const char* one : {"a: b\n", "---\na: b\n", "---\na: b\n...\n", "a: b # and a comment\n"}) {
    INFO(one);
    const auto root = ParseYaml(one, "u.yaml");
    REQUIRE(root.ok());
    REQUIRE(root->entries.size() == 1);
    CHECK(root->entries[0].value.text == "b");
  }
}

TEST_CASE("nesting, aliases and length of a YAML text are bounded", "[yaml]") {
  const auto nested = [](size_t levels) {
    return absl::StrCat(std::string(levels, '['), std::string(levels, ']'));
  };
  CHECK(ParseYaml(nested(32), "u.yaml").ok());
  CHECK(ErrorOf(nested(33)) == "u.yaml:1:33: nested too deeply; wanted at most 32 levels");
  for (const char* open : {"[", "{a: ", "- ", "? ", "{", "[{a: "}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += open;
    CHECK(absl::StartsWith(ErrorOf(deep), "u.yaml:1:"));
  }
  // By way of aliases, of which each level has one.
  std::string deep = "a0: &a0 [x]\n";
  for (int i = 1; i < 40; ++i) absl::StrAppend(&deep, "a", i, ": &a", i, " [*a", i - 1, "]\n");
  CHECK(ErrorOf(deep) == "u.yaml:32:12: nested too deeply; wanted at most 32 levels");
  CHECK(ErrorOf("a: &x [b, *x]\n") == "u.yaml:1:11: an alias that is within its own anchor");
  CHECK(ErrorOf("a: *x\n") == "u.yaml:1:4: not valid YAML: the referenced anchor is not defined");

  std::string many = "[";
  for (int i = 0; i < 200'000; ++i) many += "1,";
  CHECK(absl::StrContains(ErrorOf(many + "]"), "the document is too large"));
  CHECK(ErrorOf(std::string(kMaxYamlBytes + 1, ' ')) ==
        "u.yaml: wanted a text of at most 1048576 bytes, found more");
  // A file that never ends is not read at all.
  const auto endless = ReadTextFile("/dev/zero");
  REQUIRE_FALSE(endless.ok());
  CHECK(endless.status().message() ==
        "/dev/zero: wanted a file, found a device, which cannot be read several times");
  const auto large = ReadTextFile("/proc/self/maps", 10);
  REQUIRE_FALSE(large.ok());
  CHECK(large.status().message() ==
        "/proc/self/maps: wanted a text of at most 10 bytes, found more");
}

TEST_CASE("an alias stands for what its anchor names, as a value and as a key", "[yaml]") {
  const auto root = ParseYaml("a: &k word\nb: &m {x: [1, 2]}\nc: *m\n? *k\n: *k\n", "u.yaml");
  REQUIRE(root.ok());
  const YamlEntry* c = root->Find("c");
  REQUIRE(c != nullptr);
  const YamlEntry* x = c->value.Find("x");
  REQUIRE(x != nullptr);
  CHECK(x->value.items.size() == 2);
  CHECK(x->value.where == "u.yaml:2:11");
  const YamlEntry* word = root->Find("word");
  REQUIRE(word != nullptr);
  CHECK(word->where == "u.yaml:4:3");
  CHECK(word->value.text == "word");
}

TEST_CASE("a map of many keys is read in time that grows with their number", "[yaml]") {
  std::string text;
  for (int i = 0; i < 60'000; ++i) absl::StrAppend(&text, "k", i, ": 1\n");
  const auto root = ParseYaml(text, "u.yaml");
  REQUIRE(root.ok());
  CHECK(root->entries.size() == 60'000);
  CHECK(ErrorOf(text + "k0: 2\n") ==
        "u.yaml:60001:1: key 'k0' is given twice, first at u.yaml:1:1");
}

TEST_CASE("a TF_CONFIG that is too deep or too long is an error", "[yaml]") {
  CHECK_FALSE(cluster::ParseTfConfig(std::string(100'000, '[')).ok());
  CHECK_FALSE(cluster::ParseTfConfig(std::string(50'000, '[') + std::string(50'000, ']')).ok());
  CHECK_FALSE(cluster::ParseTfConfig(std::string(kMaxYamlBytes + 1, ' ')).ok());
}

}  // namespace
}  // namespace coxswain::config
