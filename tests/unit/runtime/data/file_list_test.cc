#include "runtime/data/file_list.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;

TEST_CASE("file list: files, directories and patterns, sorted by name") {
  DataFiles files;
  std::filesystem::create_directory(files.Path("d"));
  for (const char* name : {"d/b.csv", "d/a.csv", "d/.hidden", "d/_SUCCESS", "c.csv", "x[1].csv"}) {
    files.Write(name, "x\n1\n");
  }
  const auto list = [&](const std::string& name) { return ListFiles(files.Path(name)).value(); };
  CHECK(list("c.csv") == Strings{files.Path("c.csv")});
  CHECK(list("gone.csv") == Strings{files.Path("gone.csv")});
  CHECK(list("d") == Strings{files.Path("d/a.csv"), files.Path("d/b.csv")});
  CHECK(list("*.csv") == Strings{files.Path("c.csv"), files.Path("x[1].csv")});
  CHECK(list("*/?.csv") == Strings{files.Path("d/a.csv"), files.Path("d/b.csv")});
  CHECK(list("x[1].csv") == Strings{files.Path("x[1].csv")});
  CHECK_THAT(std::string(ListFiles(files.Path("*.tsv")).status().message()),
             Contains("*.tsv: wanted files that match, found none"));
  std::filesystem::create_directory(files.Path("e"));
  CHECK_THAT(std::string(ListFiles(files.Path("e")).status().message()),
             Contains("found a directory without any"));
}

TEST_CASE("file list: a data set is made of them in their order") {
  DataFiles files;
  std::filesystem::create_directory(files.Path("d"));
  files.Write("d/2.csv", "x\n3\n");
  files.Write("d/1.csv", "x\n1\n2\n");
  auto spec = CsvSpec(files.Path("d"));
  spec.mutable_split()->add_test_paths(files.Path("d/*1*"));
  AddNumeric(&spec, "x");
  const auto data = MustLoad(spec);
  CHECK(Values<float>(*data, AllOf(*data, Part::kTraining), "x") == std::vector<float>{1, 2, 3});
  CHECK(Values<float>(*data, AllOf(*data, Part::kTest), "x") == std::vector<float>{1, 2});
}

// By reflection, so that a field that is new is not forgotten.
void FillPaths(google::protobuf::Message* message, std::set<std::string>* filled) {
  const google::protobuf::Descriptor& type = *message->GetDescriptor();
  const google::protobuf::Reflection& fields = *message->GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type.field(i);
    if (field->name() == "trained") continue;  // tells of a split, and opens nothing
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      FillPaths(field->is_repeated() ? fields.AddMessage(message, field)
                                     : fields.MutableMessage(message, field),
                filled);
      continue;
    }
    const std::string& name = field->name();
    if (name != "path" && !absl::EndsWith(name, "paths") && !absl::EndsWith(name, "_file"))
      continue;
    const std::string value = absl::StrCat("file ", filled->size());
    filled->insert(value);
    if (field->is_repeated()) {
      fields.AddString(message, field, value);
    } else {
      fields.SetString(message, field, value);
    }
  }
}

TEST_CASE("file list: whatever a spec names is among the files that a daemon's root bounds") {
  proto::DatasetSpec spec;
  std::set<std::string> wanted, found;
  FillPaths(&spec, &wanted);
  CHECK(wanted.size() >= 8);
  for (const std::string* path : FilesOf(&spec)) found.insert(*path);
  CHECK(found == wanted);
  proto::DatasetSpec empty;
  CHECK(FilesOf(&empty).empty());
}

}  // namespace
}  // namespace coxswain::data
