#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/testing/paths.h"
#include "tests/tidy/rules.h"

namespace coxswain::tidy {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

// A source file with one include. Put together here, so that this file includes nothing of it.
std::string Source(const std::string& header, bool angle = false) {
  return absl::StrCat("#pragma once\n#", "include ", angle ? "<" : "\"", header, angle ? ">" : "\"",
                      "\n");
}

bool MayInclude(const std::string& path, const std::string& header) {
  return CheckSource(path, Source(header)).empty();
}

// The tree's files: no version control, no build folders, nothing hidden but .ci.
std::set<std::string> Files() {
  const fs::path root = COXSWAIN_SOURCE_DIR;
  std::set<std::string> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory()) {
      const bool build = it.depth() == 0 && absl::StartsWith(name, "build");
      if ((name[0] == '.' && name != ".ci") || build) it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      files.insert(it->path().lexically_relative(root).generic_string());
    }
  }
  return files;
}

std::string Read(const std::string& path) {
  std::ifstream in(fs::path(COXSWAIN_SOURCE_DIR) / path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool IsSource(const std::string& path) {
  const Strings endings = {".h", ".cc", ".cu", ".cuh"};
  return std::any_of(endings.begin(), endings.end(),
                     [&](const std::string& ending) { return absl::EndsWith(path, ending); });
}

void Append(Strings* to, const Strings& more) { to->insert(to->end(), more.begin(), more.end()); }

TEST_CASE("the tree keeps its own rules") {
  const std::set<std::string> files = Files();
  std::set<std::string> paths = files;  // and the folders
  for (const std::string& file : files) {
    for (fs::path p = fs::path(file).parent_path(); !p.empty(); p = p.parent_path()) {
      paths.insert(p.generic_string());
    }
  }
  Strings findings = CheckReadmes(files);
  int sources = 0;
  std::map<std::string, std::string> source_texts;
  for (const std::string& file : files) {
    const std::string text = Read(file);
    if (text.find('\0') != std::string::npos) continue;  // no text
    Append(&findings, CheckText(file, text));
    if (IsSource(file)) {
      ++sources;
      Append(&findings, CheckSource(file, text));
      Append(&findings, CheckNamespaces(file, text));
      source_texts[file] = text;
    }
    if (absl::EndsWith(file, ".md")) {
      Append(&findings, CheckLinks(file, text, [&](const std::string& p) {
        return p == "." || paths.count(p) > 0;
      }));
    }
  }
  Append(&findings, CheckTypeNames(source_texts));
  INFO(absl::StrJoin(findings, "\n"));
  CHECK(findings.empty());
  CHECK(sources > 50);  // it did look at the tree
}

TEST_CASE("a test's name does not look like an option") {
  const std::string begin = "TEST_CASE";
  CHECK(CheckSource("tests/unit/a_test.cc", begin + "(\"a --flag is read\") {\n").empty());
  CHECK(CheckSource("tests/unit/a_test.cc", begin + "(\"--flag is read\") {\n").size() == 1);
  CHECK(CheckSource("tests/unit/a_test.cc", begin + "(\n    \"--flag\") {\n").size() == 1);
}

TEST_CASE("comments keep to the width") {
  const std::string fits = "  //" + std::string(96, 'x'), wide = fits + "x";
  CHECK(CheckSource("runtime/base/a.cc", fits + "\n").empty());
  CHECK(CheckSource("runtime/base/a.cc", wide + "\n") ==
        Strings{"runtime/base/a.cc:1: a comment of at most 100 columns, found 101"});
}

TEST_CASE("a data format that is compared by its name is found") {
  const std::string begin = "bool IsText(const Spec& spec) { return spec.format() ";
  CHECK(CheckSource("coordinator/predict/a.cc", begin + "== \"text\"; }\n").size() == 1);
  CHECK(CheckSource("coordinator/predict/a.cc", begin + "!= \"text\"; }\n").size() == 1);
  CHECK(CheckSource("coordinator/predict/a.cc", begin + "== other.format(); }\n").empty());
}

TEST_CASE("a type has a name of its own") {
  const std::string one = "namespace coxswain {\nstruct Row {\n};\n}  // namespace coxswain\n";
  CHECK(CheckTypeNames({{"ps_server/a.h", one}, {"coordinator/b.h", one}}) ==
        Strings{"ps_server/a.h:2: coxswain::Row is defined in coordinator/b.h:2 too"});
  CHECK(CheckTypeNames({{"ps_server/a.h", one}, {"tests/sim/b.cc", one}}).size() == 1);
  CHECK(CheckTypeNames({{"tests/unit/a_test.cc", one}, {"tests/sim/b.cc", one}}).empty());

  const std::string own =
      "namespace coxswain {\nnamespace {\nstruct Row {\n};\n}  // namespace\n"
      "}  // namespace coxswain\n";
  CHECK(CheckTypeNames({{"ps_server/a.cc", own}, {"coordinator/b.h", one}}).empty());
  const std::string other = "namespace coxswain::ps {\nclass Row final : public Base {\n";
  CHECK(CheckTypeNames({{"ps_server/a.h", other}, {"coordinator/b.h", one}}).empty());
  CHECK(CheckTypeNames({{"ps_server/a.h", other}, {"ps_server/b.h", other}}).size() == 1);
  const std::string special = "namespace coxswain {\ntemplate <>\nstruct Row<a::B> {\n";
  const std::string another = "namespace coxswain {\ntemplate <>\nstruct Row<C> {\n";
  CHECK(CheckTypeNames({{"ps_server/a.h", one}, {"coordinator/b.h", special}}).empty());
  CHECK(CheckTypeNames({{"ps_server/a.h", another}, {"coordinator/b.h", special}}).empty());
  CHECK(CheckTypeNames({{"ps_server/a.h", special}, {"coordinator/b.h", special}}) ==
        Strings{"ps_server/a.h:3: coxswain::Row<a::B> is defined in coordinator/b.h:3 too"});
  const std::string within =
      "namespace coxswain {\nstruct Table::Row {\n  struct Row {\nstruct Row;\n";
  CHECK(CheckTypeNames({{"ps_server/a.cc", within}, {"coordinator/b.h", one}}).empty());
}

TEST_CASE("a type lies in its folder's namespace") {
  const auto in = [](const std::string& scope) {
    return absl::StrCat("namespace ", scope, " {\nstruct Row {\n};\n}  // namespace ", scope, "\n");
  };
  CHECK(CheckNamespaces("ps_server/a.h", in("coxswain::ps")).empty());
  CHECK(CheckNamespaces("ps_server/a.h", in("coxswain::ps::internal")).empty());
  CHECK(CheckNamespaces("ps_server/a.h", in("coxswain")) ==
        Strings{"ps_server/a.h:2: Row is defined in namespace coxswain, the folder's is "
                "coxswain::ps"});
  CHECK(CheckNamespaces("ps_server/a.h", in("coxswain::psalm")).size() == 1);
  CHECK(CheckNamespaces("kernels/optimizers/a.h", in("coxswain::kernels")).empty());
  CHECK(CheckNamespaces("kernels/cuda/a.h", in("coxswain::kernels")).size() == 1);
  CHECK(CheckNamespaces("runtime/base/a.h", in("coxswain")).empty());
  CHECK(CheckNamespaces("tests/unit/a_test.cc", in("anything")).empty());
  const std::string forward =
      "namespace coxswain::net {\nclass A;\n}  // namespace coxswain::net\n";
  CHECK(CheckNamespaces("ps_server/a.h", forward).empty());
  const std::string special = "namespace coxswain::job {\ntemplate <>\nstruct Words<a::B> {\n";
  CHECK(CheckNamespaces("ps_server/a.h", special).empty());
}

TEST_CASE("the services never include each other") {
  CHECK(MayInclude("ps_server/a.h", "ps_server/b.h"));
  CHECK(MayInclude("ps_server/a.h", "kernels/register.h"));
  CHECK(MayInclude("ps_server/a.h", "protos/graph.pb.h"));
  CHECK_FALSE(MayInclude("ps_server/a.h", "worker_server/b.h"));
  CHECK_FALSE(MayInclude("worker_server/a.h", "ps_server/b.h"));
  CHECK_FALSE(MayInclude("worker_server/a.h", "coordinator/b.h"));
  CHECK_FALSE(MayInclude("coordinator/a.h", "ps_server/b.h"));
  CHECK_FALSE(MayInclude("coordinator/cluster/a.h", "worker_server/b.h"));
  CHECK(MayInclude("coordinator/local/a.h", "ps_server/b.h"));
  CHECK(MayInclude("coordinator/local/a.h", "worker_server/b.h"));
  CHECK_FALSE(MayInclude("coordinator/local/a.h", "tests/testing/b.h"));
  CHECK_FALSE(MayInclude("coordinator/localities/a.h", "ps_server/b.h"));
}

TEST_CASE("the coordinator's library knows neither jobs nor the command line") {
  CHECK(MayInclude("coordinator/api/a.h", "coordinator/core/b.h"));
  CHECK(MayInclude("coordinator/model/a.h", "coordinator/api/b.h"));
  CHECK(MayInclude("coordinator/cli/a.h", "coordinator/runner/b.h"));
  CHECK(MayInclude("coordinator/chaos/a.h", "coordinator/observe/b.h"));
  CHECK_FALSE(MayInclude("coordinator/observe/a.h", "coordinator/core/b.h"));
  CHECK(MayInclude("coordinator/main.cc", "coordinator/cli/b.h"));
  CHECK_FALSE(MayInclude("coordinator/core/a.h", "coordinator/api/b.h"));
  CHECK_FALSE(MayInclude("coordinator/api/a.h", "coordinator/model/b.h"));
  CHECK_FALSE(MayInclude("coordinator/model/a.h", "coordinator/runner/b.h"));
  CHECK_FALSE(MayInclude("coordinator/runner/a.h", "coordinator/cli/b.h"));
}

TEST_CASE("public headers include each other and Abseil only") {
  const std::string cluster = "coordinator/public/coxswain/cluster.h";
  CHECK(MayInclude(cluster, "coxswain/tensor.h"));
  CHECK(MayInclude(cluster, "coxswain/strategy.h"));
  CHECK(MayInclude(cluster, "absl/status/status.h"));
  CHECK_FALSE(MayInclude(cluster, "protos/control.pb.h"));
  CHECK_FALSE(MayInclude(cluster, "coordinator/core/controller.h"));
  CHECK_FALSE(MayInclude(cluster, "runtime/base/ids.h"));
  CHECK_FALSE(MayInclude("runtime/public/coxswain/tensor.h", "coxswain/cluster.h"));
  CHECK(MayInclude("runtime/base/a.h", "coxswain/status.h"));
  CHECK(MayInclude("kernels/a.h", "coxswain/tensor.h"));
  CHECK(MayInclude("coordinator/core/a.h", "coxswain/cluster.h"));
  CHECK_FALSE(MayInclude("kernels/a.h", "coxswain/cluster.h"));
  CHECK_FALSE(MayInclude("runtime/data/a.h", "coxswain/strategy.h"));
}

// Adds the public header `name` and all that it includes of them.
void Reach(const std::string& name, std::set<std::string>* reached) {
  if (!reached->insert(name).second) return;
  for (const std::string& file : Files()) {
    if (!absl::EndsWith(file, absl::StrCat("/public/", name))) continue;
    for (absl::string_view line : absl::StrSplit(Read(file), '\n')) {
      if (!absl::ConsumePrefix(&line, "#include \"")) continue;
      if (absl::StartsWith(line, "coxswain/"))
        Reach(std::string(line.substr(0, line.find('"'))), reached);
    }
  }
}

TEST_CASE("classes and public headers keep to their sizes, which are printed") {
  std::vector<ClassSize> classes;
  for (const std::string& file : Files()) {
    if (!IsSource(file) || absl::StartsWith(file, "tests/")) continue;
    for (const ClassSize& size : ClassSizes(file, Read(file))) classes.push_back(size);
  }
  std::sort(classes.begin(), classes.end(),
            [](const ClassSize& a, const ClassSize& b) { return a.members > b.members; });
  REQUIRE(classes.size() > 50);
  std::set<std::string> headers;
  Reach("coxswain/coxswain.h", &headers);
  REQUIRE(headers.count("coxswain/tensor.h") == 1);
  std::cout << headers.size() << " public headers in a program that trains; most members:";
  for (int i = 0; i < 5; ++i) {
    std::cout << (i > 0 ? ", " : " ") << classes[i].name << " " << classes[i].members;
  }
  std::cout << std::endl;
  CHECK(headers.size() <= 10);
  CHECK(classes[0].members <= kMostMembers);
}

TEST_CASE("the members of a class are counted") {
  const std::string text =
      "class A {\n public:\n  int x() const { return x_; }\n\n private:\n  int x_ = 0;\n"
      "  std::map<int, int> y_;  // why\n  bool z_ ABSL_GUARDED_BY(mu_) = false;\n"
      "  std::function<void(int)> done_;\n  char text_[8];\n"
      "  absl::flat_hash_map<std::string, std::function<void(int)>>\n      calls_;\n"
      "  void F(int a,\n         int b_ = 0);\n};\n"
      "struct B {};\n";
  const std::vector<ClassSize> sizes = ClassSizes("a.h", text);
  REQUIRE(sizes.size() == 1);
  CHECK(sizes[0].name == "A");
  CHECK(sizes[0].members == 6);
}

TEST_CASE("includes go down the house only") {
  CHECK_FALSE(MayInclude("runtime/function/a.h", "kernels/matmul.h"));
  CHECK_FALSE(MayInclude("runtime/function/a.h", "ps_server/shard.h"));
  CHECK_FALSE(MayInclude("kernels/a.h", "worker_server/b.h"));
  CHECK_FALSE(MayInclude("kernels/a.h", "tests/testing/b.h"));
  CHECK(MayInclude("tests/unit/a_test.cc", "ps_server/shard.h"));
  CHECK(MayInclude("runtime/function/a.h", "runtime/net/transport.h"));
  CHECK(MayInclude("runtime/graph/a.h", "runtime/tensor/limits.h"));
  CHECK_FALSE(MayInclude("runtime/graph/a.h", "runtime/net/transport.h"));
  CHECK_FALSE(MayInclude("runtime/graph/a.h", "runtime/function/plan.h"));
  CHECK_FALSE(MayInclude("runtime/tensor/a.h", "runtime/data/dataset.h"));
  CHECK_FALSE(MayInclude("runtime/base/a.h", "runtime/env/env.h"));
  CHECK_FALSE(MayInclude("examples/program/main.cc", "runtime/tensor/tensor.h"));
  CHECK(MayInclude("examples/program/main.cc", "coxswain/coxswain.h"));
}

TEST_CASE("a library is included by its wrapper only") {
  CHECK(MayInclude("runtime/net/a.cc", "grpcpp/server.h"));
  CHECK_FALSE(MayInclude("runtime/function/a.cc", "grpcpp/server.h"));
  CHECK_FALSE(MayInclude("ps_server/main.cc", "grpc/grpc.h"));
  CHECK_FALSE(CheckSource("ps_server/main.cc", Source("grpcpp/server.h", true)).empty());
  CHECK(CheckSource("kernels/cpu/a.cc", Source("dnnl.hpp", true)).empty());
  CHECK(MayInclude("kernels/cpu/a.cc", "dnnl.hpp"));
  CHECK_FALSE(CheckSource("kernels/a.cc", Source("dnnl.hpp", true)).empty());
  CHECK(CheckSource("kernels/cuda/a.cu", Source("cuda_runtime.h", true)).empty());
  CHECK_FALSE(CheckSource("kernels/a.cu", Source("cuda_runtime.h", true)).empty());
  CHECK_FALSE(CheckSource("ps_server/a.cc", Source("cublas_v2.h", true)).empty());
  CHECK(MayInclude("coordinator/job/a.cc", "yaml-cpp/yaml.h"));
  CHECK_FALSE(MayInclude("runtime/graph/a.cc", "yaml-cpp/yaml.h"));
  CHECK(MayInclude("coordinator/cli/a.cc", "CLI/CLI.hpp"));
  CHECK_FALSE(MayInclude("worker_server/worker.cc", "CLI/CLI.hpp"));
  CHECK_FALSE(MayInclude("kernels/a.cc", "nlohmann/json.hpp"));
  CHECK_FALSE(MayInclude("runtime/net/a.cc", "spdlog/spdlog.h"));
  CHECK_FALSE(MayInclude("kernels/a.cc", "catch2/catch.hpp"));
}

TEST_CASE("includes the toolchain cannot take are found however they are written") {
  CHECK_FALSE(CheckSource("runtime/base/a.cc", Source("format", true)).empty());
  CHECK_FALSE(CheckSource("runtime/base/a.cc", Source("ranges", true)).empty());
  CHECK_FALSE(CheckSource("kernels/a.cc", absl::StrCat("  #  ", "include  <ranges>\n")).empty());
  CHECK(CheckSource("kernels/a.cc", "// #include <ranges>\n").empty());
  CHECK_FALSE(MayInclude("runtime/base/a.cc", "ids.h"));
  CHECK_FALSE(MayInclude("runtime/base/a.cc", "../base/ids.h"));
  CHECK_FALSE(CheckSource("kernels/a.cc", absl::StrCat("std::", "string_view x;\n")).empty());
}

TEST_CASE("headers need a guard and files an end") {
  CHECK_FALSE(CheckSource("kernels/a.h", "int x;\n").empty());
  CHECK_FALSE(CheckSource("kernels/a.cuh", "// #pragma once\n").empty());
  CHECK(CheckSource("kernels/a.cc", "int x;\n").empty());
  std::string text = "// All of it.\n";
  for (int i = 0; i < 799; ++i) text += "\n";
  CHECK(CheckSource("kernels/a.cc", text).empty());
  CHECK_FALSE(CheckSource("kernels/a.cc", text + "int x;").empty());
}

TEST_CASE("a long file begins with how it is cut") {
  std::string text = "#include <string>\n";
  for (int i = 0; i < 199; ++i) text += "\n";
  CHECK(CheckSource("kernels/a.cc", text).empty());
  CHECK(CheckSource("kernels/a.cc", text + "\n") ==
        Strings{"kernels/a.cc:1: a file of more than 200 lines begins with how it is cut"});
  CHECK(CheckSource("kernels/a.cc", "// First this, then that.\n" + text).empty());
  CHECK(CheckSource("tests/unit/a_test.cc", text + "\n").empty());
}

TEST_CASE("a finding names file and line") {
  const std::string text = absl::StrCat("// one\n#", "include \"tests/a.h\"\n");
  const Strings found = CheckSource("kernels/a.cc", text);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "kernels/a.cc:2: kernels/ may not include tests/, found 'tests/a.h'");
}

TEST_CASE("unfinished work is found, words that contain its marks are not") {
  CHECK_FALSE(CheckText("README.md", absl::StrCat("// TO", "DO(me): later\n")).empty());
  CHECK_FALSE(CheckText("dev", absl::StrCat("# FIX", "ME\n")).empty());
  CHECK(CheckText("dev", absl::StrCat("kTO", "DO_LIST mktemp X", "XXXXX\n")).empty());
}

TEST_CASE("tests that sleep are found, benchmarks may") {
  const std::string text = absl::StrCat("std::this_thread::sleep", "_for(s);\n");
  CHECK_FALSE(CheckSource("tests/unit/a_test.cc", text).empty());
  CHECK(CheckSource("tests/bench/a.cc", text).empty());
}

TEST_CASE("clocks are read in the Env and at the edges that the simulator replaces, only") {
  for (const char* clock : {"absl::Now()", "std::chrono::steady_clock::now()", "time(nullptr)",
                            "gettimeofday(&now, nullptr)", "clock_gettime(CLOCK_REALTIME, &t)"}) {
    INFO(clock);
    const std::string text = absl::StrCat("const auto t = ", clock, ";\n");
    for (const char* path : {"coordinator/core/a.cc", "ps_server/a.cc", "worker_server/a.cc",
                             "kernels/a.cc", "runtime/cluster/a.cc", "runtime/environment.cc"}) {
      CHECK_FALSE(CheckSource(path, text).empty());
    }
    for (const char* path : {"runtime/env/a.cc", "runtime/net/a.cc", "tests/sim/a.cc"}) {
      CHECK(CheckSource(path, text).empty());
    }
  }
  CHECK(CheckSource("ps_server/a.cc", "env->Now(); env->Monotonic(); Uptime(nullptr);\n").empty());
}

TEST_CASE("links to files resolve from the page's folder") {
  const auto exists = [](const std::string& path) {
    return path == "docs/job.md" || path == "docs" || path == "README.md";
  };
  CHECK(CheckLinks("README.md", "[a](docs/job.md) [b](docs/) [c](#there)\n", exists).empty());
  CHECK(CheckLinks("docs/job.md", "[up](../README.md#top) [x](https://a.b/c)\n", exists).empty());
  CHECK(CheckLinks("README.md", "```\n[a](none.md)\n```\n", exists).empty());
  CHECK(CheckLinks("docs/job.md", "[a](job.md) and [b](README.md)\n", exists) ==
        Strings{"docs/job.md:1: link to nowhere: README.md"});
  CHECK(CheckLinks("README.md", "\n[a](docs/job.yaml \"t\")\n", exists).size() == 1);
}

TEST_CASE("a folder of the house without a README is found") {
  CHECK(CheckReadmes({"kernels/a.cc", "kernels/README.md", "dev", "cmake/a.cmake"}).empty());
  CHECK(CheckReadmes({"kernels/a.cc"}).size() == 1);
  CHECK(CheckReadmes({"runtime/README.md", "runtime/net/a.cc"}) ==
        Strings{"runtime/net/README.md:1: the folder has no README"});
}

}  // namespace
}  // namespace coxswain::tidy
