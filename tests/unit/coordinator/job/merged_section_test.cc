// Sections that are made of what each word of their selector brings.
#include "coordinator/job/merged_section.h"

#include <catch2/catch.hpp>

namespace coxswain::job {
namespace {

using enum KeyType;

constexpr SchemaKey kLeftKeys[] = {SchemaKey(kInt, "own", "1", "of the left"),
                                   SchemaKey(kInt, "both", "2", "shared")};
constexpr SchemaSection kLeft = {"part.sub", "", kLeftKeys};
constexpr SchemaKey kRightKeys[] = {SchemaKey(kInt, "both", "2", "shared")};
constexpr SchemaSection kRight = {"part.sub", "", kRightKeys};

constexpr SchemaKey kA[] = {SchemaKey(kInt, "size", "1", "of a").Min(1),
                            SchemaKey(kBool, "always", "true", "x"),
                            SchemaKey(kSection, "sub", "{}", "s").Of(&kLeft)};
constexpr SchemaKey kB[] = {SchemaKey(kSection, "sub", "{}", "s").Of(&kRight),
                            SchemaKey(kInt, "size", "2", "of b").Min(1),
                            SchemaKey(kBool, "always", "true", "x")};
constexpr SchemaKey kC[] = {SchemaKey(kBool, "always", "true", "x"),
                            SchemaKey(kInt, "size", "1", "of a").Min(1)};
constexpr KeysOfWord kWords[] = {{"a", kA}, {"b", kB}, {"c", kC}};

TEST_CASE("the very same key of several words is one line, and different ones lie together") {
  const MergedSection made(kWords, "part", SchemaKey(kChoice, "kind", nullptr, "which"));
  const SchemaSection& section = made.section();
  std::vector<std::string> lines;
  for (const SchemaKey& key : section.keys) {
    lines.push_back(std::string(key.name) + "|" + key.only + "|" + key.help);
  }
  CHECK(lines == std::vector<std::string>{"kind||which", "size|a c|of a", "size|b|of b",
                                          "sub|a b|s", "always||x"});
  CHECK(std::string(section.selector) == "kind");
  CHECK(std::string(section.keys[0].choices) == "a b c");
}

TEST_CASE("sections of one name become one, whose keys are for the words that bring them") {
  const MergedSection made(kWords, "part", SchemaKey(kChoice, "kind", nullptr, "which"));
  const SchemaSection* sub = made.section().keys[3].Sub();
  REQUIRE(sub != nullptr);
  REQUIRE(sub->keys.size() == 2);
  CHECK(std::string(sub->path) == "part.sub");
  CHECK(std::string(sub->keys[0].name) == "own");
  CHECK(std::string(sub->keys[0].only) == "a");
  CHECK(std::string(sub->keys[1].name) == "both");
  CHECK(std::string(sub->keys[1].only) == "");
}

}  // namespace
}  // namespace coxswain::job
