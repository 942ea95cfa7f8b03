// Paths of requests: below which directories they lead, whatever links there are.
#include "runtime/env/roots.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/data_files.h"
#include "tests/testing/forwarding.h"

namespace coxswain::env {
namespace {

namespace fs = std::filesystem;

// A root with a file and a directory, and a secret beside it.
struct Tree {
  Tree() {
    fs::create_directories(files.Path("root/dir"));
    fs::create_directories(files.Path("root-beside"));
    fs::create_directories(files.Path("outside"));
    files.Write("root/file", "inside");
    files.Write("outside/file", "outside");
    base = fs::canonical(files.Path("root")).parent_path().string();
    auto made = Roots::Make({files.Path("root")});
    REQUIRE(made.ok());
    roots = *made;
  }
  void Link(const std::string& name, const std::string& target) const {
    REQUIRE(symlink(target.c_str(), files.Path(name).c_str()) == 0);
  }
  bool Below(const std::string& path) const {
    const auto resolved = roots.Resolve(path);
    INFO(path << ": " << resolved.status());
    if (!resolved.ok()) {
      CHECK((absl::IsPermissionDenied(resolved.status()) ||
             absl::IsInvalidArgument(resolved.status())));
    }
    return resolved.ok();
  }
  std::string In(const std::string& name) const { return absl::StrCat(base, "/", name); }

  const DataFiles files;
  std::string base;
  Roots roots;
};

TEST_CASE("an address of an object store is taken below such a root, and nowhere else", "[roots]") {
  const Tree t;
  CHECK(absl::IsPermissionDenied(t.roots.Resolve("s3://clicks/a.csv").status()));
  auto roots = Roots::Make({"s3://clicks/2026/", t.In("root")});
  REQUIRE(roots.ok());
  CHECK(*roots->Resolve("s3://clicks/2026/a.csv") == "s3://clicks/2026/a.csv");
  CHECK(*roots->Resolve("s3://clicks/2026") == "s3://clicks/2026");
  CHECK(roots->Resolve(t.In("root/file")).ok());
  for (const char* address : {"s3://clicks/2025/a.csv", "s3://clicks/20260/a.csv", "s3://clicks",
                              "s3://other/2026/a.csv", "s3:/clicks/2026/a.csv"}) {
    CHECK_FALSE(roots->Resolve(address).ok());
  }
  // The root of all files of this machine has none of a store.
  CHECK_FALSE(Roots::Make({"/"})->Resolve("s3://clicks/a.csv").ok());
}

TEST_CASE("a path below a root is taken, whether the file is there or not", "[roots]") {
  const Tree t;
  for (const char* name : {"root", "root/file", "root/dir", "root/none", "root/none/none",
                           "root/./dir//x", "root/dir/../file", "outside/../root/file"}) {
    CHECK(t.Below(t.In(name)));
  }
  CHECK(*t.roots.Resolve(t.In("root/dir/../file")) == t.In("root/file"));
}

TEST_CASE("a path that leads elsewhere is refused, and the refusal names the roots", "[roots]") {
  const Tree t;
  for (const char* name : {"outside/file", "root/../outside/file", "root/dir/../../outside/file",
                           "root-beside/file", "rootfile", "", "root/.."}) {
    CHECK_FALSE(t.Below(t.In(name)));
  }
  CHECK_FALSE(t.Below("/"));
  CHECK_FALSE(t.Below("/etc/passwd"));
  CHECK_FALSE(t.Below("root/file"));  // not absolute
  CHECK_FALSE(t.Below(""));
  CHECK_FALSE(t.Below(std::string("/a\0b", 4)));
  const absl::Status refused = t.roots.Resolve(t.In("outside/file")).status();
  CHECK(absl::StrContains(refused.message(), t.In("root")));
  CHECK(absl::StrContains(refused.message(), "--root"));
}

TEST_CASE("no link leads out of a root, also none to what is not there", "[roots]") {
  const Tree t;
  t.Link("root/to_file", "../outside/file");
  t.Link("root/to_dir", "../outside");
  t.Link("root/absolute", t.In("outside/file"));
  t.Link("root/dangling", t.In("outside/none"));  // writing there would make it
  t.Link("root/chain", "dir/next");
  t.Link("root/dir/next", "../../outside/file");
  t.Link("root/loop", "loop");
  for (const char* name : {"root/to_file", "root/to_dir", "root/to_dir/file", "root/to_dir/none",
                           "root/absolute", "root/dangling", "root/chain", "root/loop"}) {
    CHECK_FALSE(t.Below(t.In(name)));
  }
  // Links within are followed, and a link to the root is one into it.
  t.Link("root/inner", "dir/../file");
  t.Link("door", "root");
  CHECK(*t.roots.Resolve(t.In("root/inner")) == t.In("root/file"));
  CHECK(*t.roots.Resolve(t.In("door/file")) == t.In("root/file"));
  const absl::Status refused = t.roots.Resolve(t.In("root/to_file")).status();
  CHECK(absl::StrContains(refused.message(), t.In("outside/file")));
}

TEST_CASE("several roots, a root that is a link, and one that is no directory", "[roots]") {
  const Tree t;
  t.Link("door", "outside");
  const auto two = Roots::Make({t.In("root"), t.In("door")});
  REQUIRE(two.ok());
  CHECK(two->Resolve(t.In("root/file")).ok());
  CHECK(two->Resolve(t.In("outside/file")).ok());
  CHECK(two->Resolve(t.In("door/file")).ok());
  CHECK_FALSE(two->Resolve(t.In("root-beside/x")).ok());
  CHECK(absl::IsNotFound(Roots::Make({t.In("none")}).status()));
  CHECK(absl::IsInvalidArgument(Roots::Make({t.In("root/file")}).status()));
  CHECK(Roots::Make({"/"})->Resolve("/etc/passwd").ok());
  CHECK(Roots().everywhere());
  CHECK(*Roots().Resolve("anything") == "anything");
}

TEST_CASE("files outside the roots can be neither read, written, linked nor removed", "[roots]") {
  const Tree t;
  const auto env = NewRootedEnv(NewRealEnv(1), t.roots);
  FileSystem* const files = env->files();
  const std::string out = t.In("outside/file"), in = t.In("root/file");
  const auto denied = [](const absl::Status& status) {
    INFO(status);
    return absl::IsPermissionDenied(status);
  };
  CHECK(denied(files->Read(out).status()));
  CHECK(denied(files->Map(out).status()));
  CHECK(denied(files->Size(out).status()));
  CHECK(denied(files->Create(out).status()));
  CHECK(denied(files->CreateLarge(out).status()));
  CHECK(denied(files->WriteAtomically(out, "x")));
  CHECK(denied(files->Rename(in, t.In("outside/new"))));
  CHECK(denied(files->Rename(out, t.In("root/new"))));
  CHECK(denied(files->Link(in, t.In("outside/new"))));
  CHECK(denied(files->Link(out, t.In("root/new"))));
  CHECK(denied(files->Exchange(in, out)));
  CHECK(denied(files->SyncDirectory(t.In("outside"))));
  CHECK(denied(files->MakeDirs(t.In("outside/new"))));
  CHECK(denied(files->List(t.In("outside")).status()));
  CHECK(denied(files->RemoveAll(out)));
  CHECK(denied(files->Lock(out, "x").status()));
  CHECK(denied(files->TakeLock(out, "x").status()));
  CHECK_FALSE(files->Exists(out));
  CHECK(*NewRealFileSystem()->Read(out) == "outside");

  CHECK(*files->Read(in) == "inside");
  CHECK(files->Link(in, t.In("root/dir/second")).ok());
  CHECK(files->Exists(t.In("root/dir/second")));
  CHECK(files->WriteAtomically(t.In("root/new"), "x").ok());
  CHECK(files->RemoveAll(t.In("root/new")).ok());
}

// Counts the loops of each kind.
class CountingEnv final : public testing::ForwardingEnv {
 public:
  explicit CountingEnv(int* computing) : computing_(computing) {}
  std::unique_ptr<EventLoop> NewComputeLoop() override {
    ++*computing_;
    return ForwardingEnv::NewLoop();
  }

 private:
  int* const computing_;
};

TEST_CASE("a daemon with roots computes on loops that are made for it", "[env]") {
  const Tree t;
  int computing = 0;
  const auto env = NewRootedEnv(std::make_unique<CountingEnv>(&computing), t.roots);
  REQUIRE(env->NewComputeLoop() != nullptr);
  CHECK(computing == 1);
  REQUIRE(env->NewLoop() != nullptr);
  CHECK(computing == 1);
}

}  // namespace
}  // namespace coxswain::env
