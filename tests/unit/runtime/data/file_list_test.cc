#include "runtime/data/file_list.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
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
  for (const char* name : {"d/b.csv", "d/a.csv", "d/.hidden", "d/_SUCCESS", "c.csv", "x[1].csv",
                           "d/_c.csv", "_tmp/a.csv", ".tmp/a.csv"}) {
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

TEST_CASE("file list: the mark of a directory that is complete has no rows, whatever its name") {
  DataFiles files;
  std::filesystem::create_directory(files.Path("d"));
  for (const char* name : {"d/a.csv", "d/DONE", "d/b.csv"}) files.Write(name, "x\n1\n");
  proto::DatasetSpec spec;
  spec.set_follow_end("DONE");
  const auto list = [&](const std::string& path) {
    spec.clear_paths();
    spec.add_paths(files.Path(path));
    const auto listed = WithFiles(spec).value();
    return Strings(listed.paths().begin(), listed.paths().end());
  };
  CHECK(list("d") == Strings{files.Path("d/a.csv"), files.Path("d/b.csv")});
  CHECK(list("d/*") == Strings{files.Path("d/a.csv"), files.Path("d/b.csv")});
  CHECK(list("d/DONE") == Strings{files.Path("d/DONE")});  // who names it means it
  spec.clear_follow_end();
  CHECK(list("d").size() == 3);
}

TEST_CASE("file list: a pattern matches what the shell's does") {
  DataFiles files;
  namespace fs = std::filesystem;
  fs::create_directories(files.Path("d/.hidden"));
  fs::create_directories(files.Path("e"));
  for (const char* name : {"d/a.csv", "d/.hidden/a.csv", "e/_a.csv", "e/b*.csv", "c.csv"}) {
    files.Write(name, "x\n1\n");
  }
  fs::create_symlink(files.Path("gone"), files.Path("e/dangling.csv"));
  const auto list = [&](const std::string& name) { return ListFiles(files.Path(name)).value(); };
  CHECK(list("*/a.csv") == Strings{files.Path("d/a.csv")});
  CHECK(list("?/*") ==
        Strings{files.Path("d/a.csv"), files.Path("e/b*.csv"), files.Path("e/dangling.csv")});
  CHECK(list("?/b\\*.csv") == Strings{files.Path("e/b*.csv")});
  CHECK(list("[!d]/../?/a\\.csv") == Strings{files.Path("e/../d/a.csv")});
  CHECK(list("*//a.csv") == Strings{files.Path("d/a.csv")});
}

// The superuser may read anything: somebody else for as long as `look` takes. False: it cannot be.
bool AsNobody(const std::function<void()>& look) {
  const bool superuser = geteuid() == 0;
  if (superuser && seteuid(65534) != 0) return false;
  look();
  if (superuser) REQUIRE(seteuid(0) == 0);
  return true;
}

TEST_CASE("file list: a directory that cannot be read is an error, not a directory without files") {
  DataFiles files;
  namespace fs = std::filesystem;
  using fs::perms;
  fs::permissions(files.Path(""), perms::all);
  for (const char* name : {"days/1", "days/2"}) {
    fs::create_directories(files.Path(name));
    files.Write(absl::StrCat(name, "/a.csv"), "x\n1\n");
  }
  // May not be listed; may not even be looked into.
  for (const perms left :
       {perms::owner_exec | perms::group_exec | perms::others_exec, perms::none}) {
    fs::permissions(files.Path("days/2"), left);
    for (const char* path : {"days/*/*.csv", "days/*/a.csv", "days/2"}) {
      absl::Status listed;
      if (!AsNobody([&] { listed = ListFiles(files.Path(path)).status(); })) return;
      CAPTURE(path, listed.ToString());
      if (left != perms::none && absl::EndsWith(path, "*/a.csv")) {
        CHECK(listed.ok());  // it need not be listed
        continue;
      }
      CHECK(absl::IsPermissionDenied(listed));
      CHECK_THAT(std::string(listed.message()),
                 Contains(files.Path("days/2: cannot be listed: Permission denied")));
    }
  }
  fs::permissions(files.Path("days/2"), perms::all);
  // Nor is what has come to nothing passed over.
  fs::create_symlink("loop", files.Path("days/loop"));
  const absl::Status listed = ListFiles(files.Path("days/*/*.csv")).status();
  CHECK(absl::IsUnavailable(listed));
  CHECK_THAT(std::string(listed.message()), Contains(files.Path("days/loop: cannot be listed: ")));
  // A link to nothing matches nothing.
  fs::remove(files.Path("days/loop"));
  fs::create_symlink("gone", files.Path("days/dangling"));
  CHECK(ListFiles(files.Path("days/*/*.csv")).value().size() == 2);
}

TEST_CASE("file list: directories beside or in place of files are told, and ** is refused") {
  DataFiles files;
  namespace fs = std::filesystem;
  fs::create_directories(files.Path("hv/day=1"));
  fs::create_directory(files.Path("hv/_temporary"));
  files.Write("hv/day=1/a.csv", "x\n1\n");
  const auto error = [&](const std::string& name) {
    return std::string(ListFiles(files.Path(name)).status().message());
  };
  CHECK_THAT(error("hv"), Contains("hv: wanted a file, found a directory without any; its 1 "
                                   "directory is not read; wanted one path for each, or a pattern "
                                   "such as 'DIR/*/*.csv'"));
  CHECK_THAT(error("hv/*"), Contains("found none; 1 directory is not read"));
  CHECK_THAT(error("hv/**/*.csv"), Contains("hv/**/*.csv: '**' is no pattern that goes into"));
  CHECK(ListFiles(files.Path("hv/**")).status().code() == absl::StatusCode::kInvalidArgument);
  files.Write("hv/b.csv", "x\n1\n");
  CHECK(ListFiles(files.Path("hv")).value() == Strings{files.Path("hv/b.csv")});
  files.Write("c**.csv", "x\n1\n");  // a name, as it is there
  CHECK(ListFiles(files.Path("c**.csv")).value() == Strings{files.Path("c**.csv")});
}

TEST_CASE("file list: a test file that is a training file is an error, whatever it is called") {
  DataFiles files;
  namespace fs = std::filesystem;
  fs::create_directory(files.Path("d"));
  files.Write("d/a.csv", "x\n1\n");
  files.Write("d/b.csv", "x\n1\n");
  files.Write("held.csv", "x\n1\n");
  fs::create_symlink(files.Path("d/b.csv"), files.Path("link.csv"));
  fs::create_hard_link(files.Path("d/b.csv"), files.Path("hard.csv"));
  const auto made = [&](const std::string& train, const std::string& test) {
    proto::DatasetSpec spec;
    spec.add_paths(files.Path(train));
    spec.mutable_split()->add_test_paths(files.Path(test));
    return CheckHeldOut(spec);
  };
  CHECK(made("d", "held.csv").ok());
  CHECK(made("d/a.csv", "link.csv").ok());
  for (const std::string test :
       {"d/b.csv", "d/*.csv", "d", "link.csv", "hard.csv", "d/../d/b.csv"}) {
    INFO(test);
    const absl::Status status = made("d/[b-z].csv", test);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()),
               Contains(files.Path("")) && Contains(" is a file of the training data, too"));
  }
}

TEST_CASE("file list: a file that is listed twice is an error, whatever it is called") {
  DataFiles files;
  namespace fs = std::filesystem;
  fs::create_directory(files.Path("d"));
  files.Write("d/a.csv", "x\n1\n");
  files.Write("d/b.csv", "x\n1\n");
  fs::create_symlink(files.Path("d/b.csv"), files.Path("link.csv"));
  const auto listed = [&](const Strings& paths, bool test) {
    proto::DatasetSpec spec;
    for (const std::string& path : paths) {
      if (test) {
        spec.mutable_split()->add_test_paths(files.Path(path));
      } else {
        spec.add_paths(files.Path(path));
      }
    }
    return WithFiles(spec).status();
  };
  const bool test = GENERATE(false, true);
  CHECK(listed({"d/a.csv", "link.csv"}, test).ok());
  for (const Strings& paths : {Strings{"d/b.csv", "d/b.csv"},
                               {"d/*.csv", "d/b*"},
                               {"d", "link.csv"},
                               {"d/b.csv", "d/../d/b.csv"}}) {
    const absl::Status status = listed(paths, test);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains("is among the files twice"));
  }
}

TEST_CASE("file list: a data set is made of them in their order") {
  DataFiles files;
  std::filesystem::create_directory(files.Path("d"));
  files.Write("d/2.csv", "x\n3\n");
  files.Write("d/1.csv", "x\n1\n2\n");
  files.Write("test_1.csv", "x\n1\n2\n");
  auto spec = CsvSpec(files.Path("d"));
  spec.mutable_split()->add_test_paths(files.Path("*_1*"));
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

TEST_CASE("file list: paths and names that are not UTF-8 are refused") {
  const DataFiles files;
  proto::DatasetSpec spec;
  spec.add_paths(files.Write("M\xfcller.csv", "x\n1\n"));
  const absl::Status refused = WithFiles(spec).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(absl::StrContains(refused.message(), "paths: wanted text in UTF-8, found "));
  CHECK(absl::StrContains(refused.message(), "M\\374ller.csv"));
  spec.set_paths(0, files.Write("M\xc3\xbcller.csv", "x\n1\n"));
  CHECK(WithFiles(spec).ok());
  const std::string bad = "M\xfcller";
  const auto refuses = [&spec](const std::function<void(proto::FeatureSpec*)>& set) {
    proto::DatasetSpec other = spec;
    set(other.add_features());
    return absl::IsInvalidArgument(WithFiles(other).status());
  };
  CHECK(refuses([&](proto::FeatureSpec* f) { f->set_vocabulary_file(bad); }));
  CHECK(refuses([&](proto::FeatureSpec* f) { f->set_name(bad); }));
  CHECK(refuses([&](proto::FeatureSpec* f) { f->add_vocabulary(bad); }));
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
