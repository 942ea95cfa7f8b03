// What a saved model may replace, and what is found out before training.
#include "coordinator/model/model_directory.h"

#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/data_files.h"
#include "tests/testing/saved_models.h"
#include "tests/testing/training_job.h"

namespace coxswain::model {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Names NamesIn(const std::string& directory) {
  return env::NewRealFileSystem()->List(directory).value_or(Names{"cannot be listed"});
}

void PutModel(const std::string& directory) {
  WriteModel(directory, {{.name = "user",
                          .values = Tensor::FromVector<float>({1, 2}),
                          .table = true,
                          .words = {"a", "b"}}});
}

// The message; empty: it can be saved there. The directory above is left as it was in any case.
std::string Refused(const std::string& directory, int64_t bytes = 0) {
  const fs::path above = fs::path(directory).parent_path();
  const Names before = NamesIn(above);
  const absl::Status status = CheckCanSave(directory, bytes);
  CHECK(NamesIn(above) == before);
  CHECK(status.ok() == status.message().empty());
  return std::string(status.message());
}

TEST_CASE("a model replaces what is not there, what is empty, and a saved model", "[model]") {
  const DataFiles dir;
  CHECK(Refused(dir.Path("new")).empty());
  CHECK(Refused(dir.Path("new/")).empty());
  CHECK(Refused(dir.Path("some/where/new")).empty());
  CHECK_FALSE(fs::exists(dir.Path("some")));
  fs::create_directory(dir.Path("empty"));
  CHECK(Refused(dir.Path("empty")).empty());
  PutModel(dir.Path("model"));
  CHECK(Refused(dir.Path("model")).empty());
  CHECK(Refused(dir.Path("empty/../model/")).empty());
  // A link to a model means that model.
  fs::create_directory_symlink(dir.Path("model"), dir.Path("link"));
  CHECK(Refused(dir.Path("link")).empty());
  CHECK(ResolveModelDirectory(dir.Path("link")).value() == fs::canonical(dir.Path("model")));
  // One that lists its files may have others than those that are known here.
  fs::create_directories(dir.Path("later/more"));
  dir.Write("later/model.json",
            R"({"format": "coxswain-model", "files": ["job.yaml", "more/statistics"]})");
  dir.Write("later/more/statistics", "");
  CHECK(Refused(dir.Path("later")).empty());
  dir.Write("later/more/mine", "");
  CHECK(absl::StrContains(Refused(dir.Path("later")), "holds more/mine beside a saved model"));
}

TEST_CASE("a directory that holds something else is refused, and the file is named", "[model]") {
  const DataFiles dir;
  for (const std::string name : {"job.yaml", ".git/HEAD", "a/b/c", "vocabulary/words.txt"}) {
    INFO(name);
    fs::create_directories(fs::path(dir.Path("project/" + name)).parent_path());
    dir.Write("project/" + name, "mine");
    CHECK(absl::StrContains(Refused(dir.Path("project")), "it holds " + name.substr(0, 1)));
    fs::remove_all(dir.Path("project"));
  }
  for (const std::string name : {"notes.txt", "checkpoints/checkpoint-000001/manifest.json",
                                 "vocabulary/user.csv", "item.safetensors", ".hidden"}) {
    INFO(name);
    PutModel(dir.Path("model"));
    fs::create_directories(fs::path(dir.Path("model/" + name)).parent_path());
    dir.Write("model/" + name, "mine");
    const std::string said = Refused(dir.Path("model"));
    CHECK(absl::StrContains(said, absl::StrCat("holds ", name.substr(0, name.find('/')))));
    CHECK(absl::StrContains(said, "beside a saved model"));
    fs::remove_all(dir.Path("model"));
  }
  // Another program's model.json makes no model.
  fs::create_directory(dir.Path("other"));
  dir.Write("other/model.json", R"({"format": "layers-model"})");
  CHECK(absl::StrContains(Refused(dir.Path("other")), "is not a saved model"));
  CHECK(absl::StrContains(Refused(dir.Write("file", "")), "is no directory"));
  CHECK_FALSE(Refused(dir.Path("file/model")).empty());
  fs::create_directory_symlink(dir.Path("nothing"), dir.Path("link"));
  CHECK(absl::StrContains(Refused(dir.Path("link")), "is a link to nothing"));
}

TEST_CASE("a save's own files are known by their names, and others are not", "[model]") {
  const DataFiles files;
  files.Write("train.csv", "n,x,y\n1,a,0\n2,b,1\n3,a,1\n");
  TrainingJob job(files,
                  "name: named\ndataset: {path: train.csv}\nfeatures:\n"
                  "  - {name: n, kind: numeric}\n  - {name: x, kind: categorical}\n"
                  "label: {column: y}\nmodel: {kind: mlp, hidden: [4]}\n"
                  "train: {batch_size: 2}\n");
  job.Steps(1);
  job.SaveInputs();
  for (const std::string& saved :
       {job.Save(files.Path("m"), /*slots=*/true), job.directory() + "/inputs"}) {
    const std::vector<std::string> names = FilesBelow(saved);
    CHECK(names.size() >= 4);
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK(IsSavedFile(name));
    }
  }
  for (const char* begun : {"model.json.7-1.tmp", "features.json.7-1.tmp", "probe"}) {
    CHECK(IsSavedFile(begun));
  }
  for (const char* other : {"notes.txt", "model.json.bak", "in/x.safetensors", "train.csv"}) {
    CHECK_FALSE(IsSavedFile(other));
  }
}

TEST_CASE("the working directory and those above it are refused", "[model]") {
  const DataFiles dir;
  fs::create_directories(dir.Path("project/here"));
  const fs::path before = fs::current_path();
  fs::current_path(dir.Path("project/here"));
  const std::string here(CheckCanSave(".", 0).message()), above(CheckCanSave("..", 0).message()),
      root(CheckCanSave("/", 0).message());
  const absl::Status below = CheckCanSave("model", 0);
  fs::current_path(before);
  for (const std::string& said : {here, above, root}) {
    CHECK(absl::StrContains(said, "this program works in"));
  }
  CHECK(below.ok());
}

TEST_CASE("a mount point is refused, as it cannot be renamed", "[model]") {
  const DataFiles dir;
  const std::string mounted = dir.Path("mounted");
  fs::create_directory(mounted);
  // A file system may be the same one at both places.
  if (mount(mounted.c_str(), mounted.c_str(), "", MS_BIND, nullptr) != 0) {
    WARN("skipped: may not mount here");
    return;
  }
  CHECK(absl::StrContains(Refused(mounted), "is a mount point"));
  CHECK(Refused(mounted + "/model").empty());
  umount2(mounted.c_str(), MNT_DETACH);
}

TEST_CASE("a place without room for the model is refused before training", "[model]") {
  const DataFiles dir;
  CHECK(Refused(dir.Path("model"), 1000).empty());
  const std::string said = Refused(dir.Path("model"), std::numeric_limits<int64_t>::max());
  CHECK(absl::StrContains(said, "of free space, and the model needs 9223372036854 MB"));
}

TEST_CASE("a place that may not be written is refused before training", "[model]") {
  const DataFiles dir;
  fs::create_directory(dir.Path("locked"));
  fs::permissions(dir.Path("locked"), fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(dir.Path(""), fs::perms::all);
  // The superuser may write anywhere: be somebody else for a moment.
  const bool superuser = geteuid() == 0;
  if (superuser && seteuid(65534) != 0) return;
  const absl::Status status = CheckCanSave(dir.Path("locked/model"), 0);
  if (superuser) REQUIRE(seteuid(0) == 0);
  CHECK(absl::IsPermissionDenied(status));
  CHECK(absl::StrContains(status.message(), "locked"));
}

}  // namespace
}  // namespace coxswain::model
