// Keys that fill in members of structs and fields of messages.
#include "coordinator/job/bound_key.h"

#include <catch2/catch.hpp>

#include "protos/variable.pb.h"

namespace coxswain::job {

namespace {
enum class Colour { kRed, kBlue };
}  // namespace
template <>
struct EnumWords<Colour> {
  static constexpr EnumWord<Colour> kAll[] = {{"blue", Colour::kBlue}, {"red", Colour::kRed}};
};

namespace {

struct Inner {
  std::vector<int64_t> widths;
};
struct Outer {
  bool flag = false;
  int64_t count = 7;
  double rate = 0;
  std::string name;
  std::vector<std::string> names;
  Colour colour = Colour::kRed;
  Inner inner;
  std::optional<Inner> maybe;
};

constexpr SchemaKey kInnerKeys[] = {Key<&Inner::widths>("widths", "[]", "")};
constexpr SchemaSection kInner = {"inner", "", kInnerKeys};
constexpr SchemaKey kKeys[] = {
    Key<&Outer::flag>("flag", "true", ""),
    Key<&Outer::count>("count", "", "").Min(1),
    Key<&Outer::rate>("rate", "0.5", ""),
    Key<&Outer::name>("name", "", ""),
    Key<&Outer::names>("names", "", ""),
    Key<&Outer::colour>("colour", "blue", ""),
    Key<&Outer::inner>("inner", "{}", "").Of(&kInner),
    Key<&Outer::maybe>("maybe", "", "").Of(&kInner),
    SchemaKey(KeyType::kInt, "unbound", "3", ""),
};
constexpr SchemaSection kFile = {"", "", kKeys};

Outer Read(const std::string& text, std::string* problems = nullptr) {
  config::YamlNode root = config::ParseYaml(text, "a.yaml").value();
  Problems found;
  std::map<std::string, std::string> locations;
  SchemaChecker(&found, &locations, kFile).Check(&root);
  if (problems != nullptr) *problems = std::string(found.status().message());
  Outer outer;
  ReadKeys(kKeys, SectionView(&root), &outer);
  return outer;
}

TEST_CASE("a key has its member's type, and an enum's words in their order") {
  CHECK(kKeys[0].type == KeyType::kBool);
  CHECK(kKeys[1].type == KeyType::kInt);
  CHECK(kKeys[2].type == KeyType::kReal);
  CHECK(kKeys[3].type == KeyType::kString);
  CHECK(kKeys[4].type == KeyType::kStrings);
  CHECK(kKeys[5].type == KeyType::kChoice);
  CHECK(std::string(kKeys[5].choices) == "blue red");
  CHECK(kKeys[6].type == KeyType::kSection);
  CHECK(kKeys[7].type == KeyType::kSection);
  CHECK(kKeys[3].Choices("a b").type == KeyType::kChoice);
}

TEST_CASE("bound keys fill in members, with defaults, and leave those that have none") {
  const Outer empty = Read("flag: false");
  CHECK_FALSE(empty.flag);
  CHECK(empty.count == 7);
  CHECK(empty.rate == 0.5);
  CHECK(empty.colour == Colour::kBlue);
  CHECK_FALSE(empty.maybe.has_value());
  const Outer full = Read(
      "{count: 3, rate: 2, name: n, names: [a, b], colour: red, inner: {widths: [4, 5]}, maybe: "
      "{widths: [6]}}");
  CHECK(ShowKeys(kKeys, full) ==
        "flag: true, count: 3, rate: 2, name: n, names: [a, b], colour: red, inner: {widths: [4, "
        "5]}, maybe: {widths: [6]}");
}

TEST_CASE("what is wrong with a bound key is told as of any other") {
  std::string problems;
  Read("{count: 0, colour: green}", &problems);
  CHECK_THAT(problems,
             Catch::Contains("count: wanted integer >= 1; found '0'") &&
                 Catch::Contains("colour: wanted one of blue, red; found the text 'green'"));
}

TEST_CASE("a word that an enum does not have changes nothing") {
  Colour colour = Colour::kBlue;
  CHECK_FALSE(FromWord("green", &colour));
  CHECK(colour == Colour::kBlue);
  CHECK(std::string(ToWord(Colour::kRed)) == "red");
}

TEST_CASE("bound keys fill in the fields of a message") {
  constexpr SchemaKey keys[] = {
      Field<proto::LearningRateSchedule>(KeyType::kString, "kind", nullptr, ""),
      Field<proto::LearningRateSchedule>(KeyType::kInt, "warmup_steps", "", ""),
      Field<proto::LearningRateSchedule>(KeyType::kReal, "decay_rate", "", ""),
      Field<proto::LearningRateSchedule>(KeyType::kBool, "staircase", "", ""),
      Field<proto::LearningRateSchedule>(KeyType::kInts, "boundaries", "", ""),
      Field<proto::LearningRateSchedule>(KeyType::kReals, "factors", "", ""),
  };
  const config::YamlNode root =
      config::ParseYaml(
          "{kind: x, warmup_steps: 9, staircase: true, boundaries: [1, 2], "
          "factors: [0.5]}",
          "a.yaml")
          .value();
  proto::LearningRateSchedule schedule;
  schedule.set_decay_rate(0.25);
  ReadKeys(keys, SectionView(&root), &schedule);
  CHECK(schedule.kind() == "x");
  CHECK(schedule.warmup_steps() == 9);
  CHECK(schedule.decay_rate() == 0.25);
  CHECK(schedule.staircase());
  CHECK(schedule.boundaries_size() == 2);
  CHECK(schedule.factors(0) == 0.5);
}

}  // namespace
}  // namespace coxswain::job
