#include "tests/tidy/rules.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace coxswain::tidy {
namespace {

using Strings = std::vector<std::string>;

constexpr size_t kMaxLines = 800;
constexpr size_t kMaxColumns = 100;
constexpr size_t kNeedsNoMap = 200;  // lines of a .cc file that does not say how it is cut

// protos <- runtime <- kernels <- {ps_server | worker_server | coordinator} <- tests
const std::map<std::string, Strings>& AllowedFolders() {
  static const auto* const allowed = new std::map<std::string, Strings>{
      {"protos", {"protos"}},
      {"runtime", {"protos", "runtime"}},
      {"kernels", {"protos", "runtime", "kernels"}},
      {"ps_server", {"protos", "runtime", "kernels", "ps_server"}},
      {"worker_server", {"protos", "runtime", "kernels", "worker_server"}},
      {"coordinator", {"protos", "runtime", "kernels", "coordinator"}},
      {"examples", {}},  // programs of one's own: the public header only
  };
  return *allowed;
}

// The layers of runtime/, each with what it may use: there is no cycle.
const std::map<std::string, Strings>& AllowedLayers() {
  static const auto* const allowed = new std::map<std::string, Strings>{
      {"public", {"public"}},
      {"base", {"base", "public"}},
      {"env", {"base", "env", "public", "tensor"}},
      {"tensor", {"base", "public", "tensor"}},
      {"graph", {"base", "env", "graph", "public", "tensor"}},
      {"trace", {"base", "env", "public", "trace"}},
      {"config", {"base", "config", "env", "public"}},
      {"net", {"base", "env", "net", "public", "tensor"}},
      {"device", {"base", "device", "env", "graph", "public", "tensor"}},
      {"data", {"base", "data", "env", "graph", "public", "tensor"}},
      {"checkpoint", {"base", "checkpoint", "data", "env", "public", "tensor"}},
      {"function",
       {"base", "data", "device", "env", "function", "graph", "net", "public", "tensor", "trace"}},
      {"metrics", {"base", "data", "env", "metrics", "net", "public"}},
      {"cluster",
       {"base", "cluster", "config", "data", "device", "env", "graph", "metrics", "net", "public",
        "tensor", "trace"}},
  };
  return *allowed;
}

// The rooms of coordinator/: the library that programs link (core, local, api), jobs (job, model,
// runner), and the command line's tools, which may use them all.
const std::map<std::string, Strings>& AllowedRooms() {
  static const auto* const allowed = new std::map<std::string, Strings>{
      {"public", {"public"}},  // declarations, plain structs among them, which all may use
      {"core", {"public", "core"}},
      {"local", {"public", "local"}},
      {"api", {"public", "core", "local", "api"}},
      {"job", {"public", "core", "job"}},
      {"model", {"public", "api", "job", "model"}},
      {"predict", {"public", "api", "job", "model", "predict"}},
      {"runner", {"public", "core", "api", "job", "model", "runner"}},
      {"export", {"public", "api", "model", "predict", "export"}},
      {"generate", {"generate"}},
      {"serve", {"public", "model", "predict", "serve"}},
      {"sidecar", {"public", "job", "model", "runner", "sidecar"}},
      {"observe", {"observe"}},
      {"chaos", {"public", "local", "job", "observe", "chaos"}},
  };
  return *allowed;
}

// A library and the only places that may include it.
struct Library {
  std::string name;
  Strings headers;  // prefixes
  Strings places;   // prefixes of paths
};

const std::vector<Library>& Libraries() {
  static const auto* const libraries = new std::vector<Library>{
      {"gRPC",
       {"grpc/", "grpcpp/"},
       {"runtime/net/", "tests/unit/runtime/net/", "tests/bench/bench_net"}},
      {"oneDNN", {"dnnl", "oneapi/dnnl/"}, {"kernels/cpu/"}},
      {"CUDA",
       {"cuda", "cublas", "cudnn", "curand", "cusparse", "cub/", "thrust/", "nccl", "nvtx"},
       {"kernels/cuda/"}},
      {"Apache Arrow", {"arrow/", "parquet/"}, {"runtime/data/arrow/plugin/", "tests/arrow/"}},
      {"yaml-cpp", {"yaml-cpp/"}, {"runtime/config/", "runtime/cluster/", "coordinator/"}},
      {"CLI11",
       {"CLI/"},
       {"coordinator/", "runtime/cluster/daemon_main.cc", "tests/bench/", "tests/unit/docs/"}},
      {"nlohmann-json",
       {"nlohmann/"},
       {"runtime/cluster/", "runtime/checkpoint/", "coordinator/", "tests/"}},
      {"simdjson", {"simdjson"}, {"runtime/data/json_line.cc"}},
      {"cpp-httplib",
       {"httplib"},
       {"coordinator/serve/http_server.cc", "coordinator/serve/http_connection.",
        "tests/unit/coordinator/serve/", "tests/integration/serve_", "tests/s3/"}},
      {"prometheus-cpp",
       {"prometheus/"},
       {"coordinator/serve/serve_metrics.cc", "runtime/metrics/metrics_endpoint.cc"}},
      {"civetweb", {"CivetServer", "civetweb"}, {"runtime/metrics/metrics_endpoint.cc"}},
      {"spdlog", {"spdlog/"}, {"runtime/base/logging.cc"}},
      {"Catch2", {"catch2/"}, {"tests/"}},
  };
  return *libraries;
}

std::string Finding(absl::string_view path, size_t line, absl::string_view what) {
  return absl::StrCat(path, ":", line, ": ", what);
}

std::string TopFolder(absl::string_view path) {
  const size_t slash = path.find('/');
  return slash == absl::string_view::npos ? "" : std::string(path.substr(0, slash));
}

// "tensor" of "runtime/tensor/shape.h" within "runtime/".
std::string FolderWithin(absl::string_view path, absl::string_view top) {
  return absl::ConsumePrefix(&path, top) ? TopFolder(path) : "";
}

std::string Layer(absl::string_view path) { return FolderWithin(path, "runtime/"); }

bool Contains(const Strings& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool StartsWithAny(absl::string_view text, const Strings& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return absl::StartsWith(text, prefix); });
}

// What an include directive names: `runtime/base/ids.h`; empty for any other line.
std::string Included(absl::string_view line, bool* quoted) {
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "#")) return "";
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "include")) return "";
  line = absl::StripLeadingAsciiWhitespace(line);
  if (line.size() < 2 || (line[0] != '"' && line[0] != '<')) return "";
  *quoted = line[0] == '"';
  const size_t end = line.find(*quoted ? '"' : '>', 1);
  return end == absl::string_view::npos ? "" : std::string(line.substr(1, end - 1));
}

// The public headers of values; the others are the coordinator's.
constexpr std::array<absl::string_view, 4> kPublicValues = {"dataset.h", "optimizers.h", "status.h",
                                                            "tensor.h"};

// Where an included header lies: "runtime/public/coxswain/tensor.h" of "coxswain/tensor.h".
std::string PathOf(const std::string& header) {
  absl::string_view name = header;
  if (!absl::ConsumePrefix(&name, "coxswain/")) return header;
  const bool value =
      std::find(kPublicValues.begin(), kPublicValues.end(), name) != kPublicValues.end();
  return absl::StrCat(value ? "runtime" : "coordinator", "/public/", header);
}

bool IsPublic(absl::string_view path) { return absl::StrContains(path, "/public/coxswain/"); }

// Why `path` may not include `written`; empty if it may.
std::string WhyNotInclude(const std::string& path, const std::string& written, bool quoted) {
  const bool program = absl::StartsWith(path, "examples/");
  const std::string header = program ? written : PathOf(written);
  if (quoted && IsPublic(path) && !IsPublic(header) && !absl::StartsWith(header, "absl/")) {
    return absl::StrCat("a public header includes public headers and Abseil's, found '", written,
                        "'");
  }
  if (header == "format" || header == "ranges") {
    return absl::StrCat("<", header, "> is not in the toolchain");
  }
  for (const Library& library : Libraries()) {
    if (!StartsWithAny(header, library.headers)) continue;
    if (StartsWithAny(path, library.places)) return "";
    return absl::StrCat("only ", absl::StrJoin(library.places, ", "), " may include ", library.name,
                        ", found '", header, "'");
  }
  if (absl::StrContains(header, "../") || (quoted && !absl::StrContains(header, '/'))) {
    return absl::StrCat("include '", header, "' by its path from the repository's root");
  }

  const std::string from = TopFolder(path), to = TopFolder(header);
  const auto& folders = AllowedFolders();
  const bool house = folders.count(to) > 0 || to == "tests";
  const auto allowed = folders.find(from);
  if (house && allowed != folders.end() && !Contains(allowed->second, to)) {
    // Only here may a service know the others: it runs a whole cluster in one process.
    const bool local = absl::StartsWith(path, "coordinator/local/") &&
                       (to == "ps_server" || to == "worker_server");
    if (!local) return absl::StrCat(from, "/ may not include ", to, "/, found '", header, "'");
  }

  if (const std::string layer = Layer(path); !layer.empty()) {
    const auto allowed_layers = AllowedLayers().find(layer);
    if (allowed_layers == AllowedLayers().end()) {
      return absl::StrCat("runtime/", layer, "/ has no place among the layers of tests/tidy");
    }
    if (to == "runtime" && !Contains(allowed_layers->second, Layer(header))) {
      return absl::StrCat("runtime/", layer, "/ may only include runtime/{",
                          absl::StrJoin(allowed_layers->second, ","), "}, found '", header, "'");
    }
  }
  // Arithmetic, which ops are made of.
  if (absl::StartsWith(path, "kernels/cpu/") && to == "kernels" &&
      !absl::StartsWith(header, "kernels/cpu/")) {
    return absl::StrCat("kernels/cpu/ may only include kernels/cpu/, found '", header, "'");
  }
  const auto rooms = AllowedRooms().find(FolderWithin(path, "coordinator/"));
  if (rooms != AllowedRooms().end() && to == "coordinator" &&
      !Contains(rooms->second, FolderWithin(header, "coordinator/"))) {
    return absl::StrCat("coordinator/", rooms->first, "/ may only include coordinator/{",
                        absl::StrJoin(rooms->second, ","), "}, found '", header, "'");
  }
  return "";
}

// Where `word` stands alone in `line`: the letters, digits and underscores around it are not its
// own.
bool HasWord(absl::string_view line, absl::string_view word) {
  const auto is_word = [](char c) { return absl::ascii_isalnum(c) || c == '_'; };
  for (size_t at = line.find(word); at != absl::string_view::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(line[at - 1])) && (end == line.size() || !is_word(line[end]))) {
      return true;
    }
  }
  return false;
}

// Production code, where it reads the clocks that the Env does not give, and why it may. What the
// simulator runs reads no other clock than its own, or a world could not be run again.
struct ClockReader {
  std::string place;  // a prefix of paths
  std::string reason;
};

const std::vector<ClockReader>& ClockReaders() {
  static const auto* const readers = new std::vector<ClockReader>{
      {"runtime/env/", "gives the clocks to all others"},
      {"runtime/data/stream/cache_directory", "compares with the times of real files"},
      {"runtime/net/", "real sockets; the simulator has a transport of its own"},
      {"coordinator/local/", "waits for real processes"},
      {"coordinator/chaos/", "kills real processes, at real times"},
      {"coordinator/observe/", "the calling thread waits for daemons"},
      {"coordinator/api/", "the program's thread waits for the coordinator's loop"},
      {"coordinator/runner/", "times what the program's thread did, for its report"},
      {"coordinator/serve/", "times the requests of its clients, and ends slow ones"},
      {"coordinator/cli/", "what people look at"},
  };
  return *readers;
}

// The clock that `line` reads though `path` may not; empty if there is none.
std::string ForbiddenClock(const std::string& path, absl::string_view line) {
  const std::string folder = TopFolder(path);
  if (folder == "tests" || folder == "examples") return "";
  const auto may = [&](const ClockReader& reader) { return absl::StartsWith(path, reader.place); };
  if (std::any_of(ClockReaders().begin(), ClockReaders().end(), may)) return "";
  for (const char* clock :
       {"absl::Now", "absl::GetCurrentTimeNanos", "steady_clock", "system_clock",
        "high_resolution_clock", "clock_gettime", "gettimeofday", "time(nullptr)", "time(NULL)"}) {
    if (HasWord(line, clock)) return clock;
  }
  return "";
}

// Words that no source file may use, and why. Split in two, so that this file may hold them.
std::string ForbiddenWord(const std::string& path, absl::string_view line) {
  if (absl::StrContains(line, absl::StrCat("std::", "string_view"))) {
    return "Debian's Abseil takes absl::string_view, not the standard one";
  }
  // One more format is one more file, and no further line among those that read data.
  if (!absl::StartsWith(path, "tests/") && (absl::StrContains(line,
                                                              "format() "
                                                              "== \"") ||
                                            absl::StrContains(line,
                                                              "format() "
                                                              "!= \""))) {
    return "a data format is asked what it is like, and not compared by its name";
  }
  if (absl::StartsWith(path, "tests/") && !absl::StartsWith(path, "tests/bench/")) {
    for (const char* word : {"sleep"
                             "_for",
                             "sleep"
                             "_until",
                             "Sleep"
                             "For",
                             "u"
                             "sleep"}) {
      if (HasWord(line, word)) return absl::StrCat("tests do not sleep, found '", word, "'");
    }
  }
  if (const std::string clock = ForbiddenClock(path, line); !clock.empty()) {
    return absl::StrCat("the time comes from the Env, found '", clock, "'");
  }
  return "";
}

std::vector<absl::string_view> Lines(const std::string& text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// The targets of `[text](target)` in a line of Markdown.
Strings Targets(absl::string_view line) {
  Strings targets;
  for (size_t at = line.find("]("); at != absl::string_view::npos; at = line.find("](", at)) {
    at += 2;
    const size_t end = line.find(')', at);
    if (end == absl::string_view::npos) break;
    const Strings parts = absl::StrSplit(line.substr(at, end - at), ' ');  // (target "title")
    targets.push_back(parts[0]);
  }
  return targets;
}

// The type that a line at namespace scope begins to define; empty if it defines none. Indented
// lines are within a type or a function.
std::string DefinedType(absl::string_view line) {
  absl::ConsumePrefix(&line, "enum ");
  if (!absl::ConsumePrefix(&line, "class ") && !absl::ConsumePrefix(&line, "struct ")) return "";
  if (!absl::StrContains(line, '{')) return "";
  std::string name(line.substr(0, line.find_first_of(" {:<")));
  if (absl::StartsWith(name, "ABSL_")) {
    line.remove_prefix(std::min(line.size(), name.size() + 1));
    name = std::string(line.substr(0, line.find_first_of(" {:<")));
  }
  if (absl::StrContains(line, absl::StrCat(name, "::"))) return "";
  // A specialisation is another type than its template.
  const size_t end = line.rfind('>');
  const bool special = line.size() > name.size() && line[name.size()] == '<';
  return special && end != absl::string_view::npos ? std::string(line.substr(0, end + 1)) : name;
}

// A folder's namespace within coxswain; empty: coxswain itself, for what everybody needs (base,
// tensor) and what programs see. The longest match holds.
const std::map<std::string, std::string>& FolderNamespaces() {
  static const auto* const all = new std::map<std::string, std::string>{
      {"runtime/base/", ""},
      {"runtime/tensor/", ""},
      {"runtime/public/", ""},
      {"runtime/env/", "env"},
      {"runtime/net/", "net"},
      {"runtime/graph/", "graph"},
      {"runtime/function/", "function"},
      {"runtime/data/", "data"},
      {"runtime/checkpoint/", "checkpoint"},
      {"runtime/cluster/", "cluster"},
      {"runtime/config/", "config"},
      {"runtime/device/", "device"},
      {"runtime/trace/", "trace"},
      {"kernels/", "kernels"},
      {"kernels/cuda/", "cuda"},
      {"ps_server/", "ps"},
      {"worker_server/", "worker"},
      {"coordinator/public/", ""},
      {"coordinator/api/", ""},
      {"coordinator/core/", "core"},
      {"coordinator/job/", "job"},
      {"coordinator/model/", "model"},
      {"coordinator/cli/", "cli"},
      {"coordinator/chaos/", "chaos"},
      {"coordinator/export/", "exporter"},
      {"coordinator/generate/", "generate"},
      {"coordinator/local/", "local"},
      {"coordinator/observe/", "observe"},
      {"coordinator/predict/", "predict"},
      {"coordinator/runner/", "runner"},
      {"coordinator/serve/", "serve"},
      {"coordinator/sidecar/", "sidecar"},
  };
  return *all;
}

// "coxswain::ps" for a file of ps_server; none for a folder that has no rule.
std::optional<std::string> NamespaceOf(const std::string& path) {
  std::optional<std::string> found;
  size_t longest = 0;
  for (const auto& [folder, name] : FolderNamespaces()) {
    if (!absl::StartsWith(path, folder) || folder.size() < longest) continue;
    longest = folder.size();
    found = name.empty() ? "coxswain" : absl::StrCat("coxswain::", name);
  }
  return found;
}

// Calls `visit(scope, type, line)` for each type that is defined at namespace scope and that other
// files can name. Lines count from 1.
template <typename Visit>
void ForEachType(const std::string& text, const Visit& visit) {
  Strings namespaces;
  const std::vector<absl::string_view> lines = Lines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::string_view line = lines[i];
    if (absl::ConsumePrefix(&line, "namespace ")) {
      namespaces.emplace_back(line.substr(0, line.find(" {")));
      if (line == "{") namespaces.back() = "";
    } else if (absl::StartsWith(line, "}  // namespace") && !namespaces.empty()) {
      namespaces.pop_back();
    }
    const std::string type = DefinedType(line);
    // What is in a namespace without a name is a file's own.
    if (type.empty() || Contains(namespaces, "")) continue;
    visit(absl::StrJoin(namespaces, "::"), type, i + 1);
  }
}

}  // namespace

Strings CheckTypeNames(const std::map<std::string, std::string>& texts) {
  std::map<std::string, std::pair<std::string, size_t>> first;
  Strings findings;
  for (const auto& entry : texts) {
    const std::string& path = entry.first;
    ForEachType(entry.second, [&](const std::string& scope, const std::string& type, size_t line) {
      const std::string name = absl::StrCat(scope, "::", type);
      const auto [found, is_new] = first.try_emplace(name, path, line);
      if (is_new || found->second.first == path) return;
      const auto& [other, other_line] = found->second;
      if (absl::StartsWith(path, "tests/") && absl::StartsWith(other, "tests/")) return;
      findings.push_back(Finding(
          path, line, absl::StrCat(name, " is defined in ", other, ":", other_line, " too")));
    });
  }
  return findings;
}

Strings CheckNamespaces(const std::string& path, const std::string& text) {
  Strings findings;
  const std::optional<std::string> wanted = NamespaceOf(path);
  if (!wanted) return findings;
  ForEachType(text, [&](const std::string& scope, const std::string& type, size_t line) {
    // A specialisation lies where its template does; a C interface in no namespace.
    if (scope.empty() || absl::StrContains(type, '<') || scope == *wanted ||
        absl::StartsWith(scope, absl::StrCat(*wanted, "::"))) {
      return;
    }
    findings.push_back(Finding(
        path, line,
        absl::StrCat(type, " is defined in namespace ", scope, ", the folder's is ", *wanted)));
  });
  return findings;
}

Strings CheckSource(const std::string& path, const std::string& text) {
  Strings findings;
  const std::vector<absl::string_view> lines = Lines(text);
  if (lines.size() > kMaxLines) {
    findings.push_back(Finding(
        path, lines.size(), absl::StrCat("at most ", kMaxLines, " lines, found ", lines.size())));
  }
  const bool production = !absl::StartsWith(path, "tests/") && !absl::StartsWith(path, "examples/");
  if (production && absl::EndsWith(path, ".cc") && lines.size() > kNeedsNoMap &&
      !absl::StartsWith(lines[0], "//")) {
    findings.push_back(Finding(
        path, 1,
        absl::StrCat("a file of more than ", kNeedsNoMap, " lines begins with how it is cut")));
  }
  const bool header = absl::EndsWith(path, ".h") || absl::EndsWith(path, ".cuh");
  if (header && std::find(lines.begin(), lines.end(), "#pragma once") == lines.end()) {
    findings.push_back(Finding(path, 1, "a header needs #pragma once"));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    // Of code the formatter sees to it; comments are left as they were typed.
    const bool comment = absl::StartsWith(absl::StripLeadingAsciiWhitespace(lines[i]), "//");
    if (comment && lines[i].size() > kMaxColumns) {
      findings.push_back(Finding(
          path, i + 1,
          absl::StrCat("a comment of at most ", kMaxColumns, " columns, found ", lines[i].size())));
    }
    const std::string begin = absl::StrCat("TEST_", "CASE(");
    if (absl::StartsWith(lines[i], begin + "\"-") ||
        (lines[i] == begin && i + 1 < lines.size() && absl::StartsWith(lines[i + 1], "    \"-"))) {
      findings.push_back(Finding(
          path, i + 1, "CTest runs a test by its name, which the program takes for an option"));
    }
    bool quoted = false;
    const std::string included = Included(lines[i], &quoted);
    const std::string why =
        included.empty() ? ForbiddenWord(path, lines[i]) : WhyNotInclude(path, included, quoted);
    if (!why.empty()) findings.push_back(Finding(path, i + 1, why));
  }
  return findings;
}

namespace {

// `code` without what is between angle brackets: "std::function<void(int)> done_;" has no argument.
std::string WithoutTemplateArguments(absl::string_view code) {
  std::string rest;
  int depth = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '<') ++depth;
    if (depth == 0) rest.push_back(code[i]);
    if (code[i] == '>' && depth > 0 && code[i - 1] != '-') --depth;
  }
  return rest;
}

// Whether a statement of a class declares a member: "  Type name_;", " = ...;", "{...};",
// " ABSL_GUARDED_BY(...)".
bool DeclaresMember(absl::string_view statement) {
  const std::string code = WithoutTemplateArguments(statement);
  const size_t end = std::min({code.find("_;"), code.find("_{"), code.find("_ "), code.find("_[")});
  return end != std::string::npos && !absl::StrContains(code.substr(0, end), '(');
}

}  // namespace

std::vector<ClassSize> ClassSizes(const std::string&, const std::string& text) {
  std::vector<ClassSize> sizes;
  ClassSize current;
  std::string statement;  // of a class, as far as it was read
  for (absl::string_view line : Lines(text)) {
    if (absl::StartsWith(line, "class ") && absl::EndsWith(line, "{")) {
      const Strings words = absl::StrSplit(line, ' ');
      current = {words[1], 0};
    } else if (line == "};") {
      if (current.members > 0) sizes.push_back(current);
      current = {};
      statement.clear();
    } else if (!current.name.empty() && absl::StartsWith(line, "  ")) {
      const absl::string_view code = line.substr(0, line.find("//"));
      const bool begins = line.size() > 2 && line[2] != ' ';
      if (begins) statement.clear();
      if (!begins && statement.empty()) continue;  // within a function's body
      absl::StrAppend(&statement, " ", absl::StripAsciiWhitespace(code));
      if (!absl::StrContains(code, ';') && !absl::StrContains(code, '{')) continue;
      current.members += DeclaresMember(statement) ? 1 : 0;
      statement.clear();
    }
  }
  return sizes;
}

Strings CheckText(const std::string& path, const std::string& text) {
  Strings findings;
  const std::vector<absl::string_view> lines = Lines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* word : {"TO"
                             "DO",
                             "FIX"
                             "ME",
                             "X"
                             "XX"}) {
      if (HasWord(lines[i], word)) {
        findings.push_back(Finding(path, i + 1, absl::StrCat("unfinished work: ", word)));
      }
    }
  }
  return findings;
}

Strings CheckLinks(const std::string& path, const std::string& text,
                   const std::function<bool(const std::string&)>& exists) {
  Strings findings;
  bool code = false;
  const std::vector<absl::string_view> lines = Lines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(lines[i]), "```")) code = !code;
    if (code) continue;
    for (const std::string& target : Targets(lines[i])) {
      if (absl::StrContains(target, "://") || absl::StartsWith(target, "mailto:")) continue;
      const std::string file(target.substr(0, target.find('#')));
      if (file.empty()) continue;
      const auto folder = std::filesystem::path(path).parent_path();
      std::string resolved = (folder / file).lexically_normal().generic_string();
      while (absl::EndsWith(resolved, "/")) resolved.pop_back();
      if (!exists(resolved)) {
        findings.push_back(Finding(path, i + 1, absl::StrCat("link to nowhere: ", target)));
      }
    }
  }
  return findings;
}

Strings CheckReadmes(const std::set<std::string>& files) {
  std::set<std::string> folders;
  for (const std::string& file : files) {
    const std::string top = TopFolder(file);
    if (!AllowedFolders().count(top) && top != "deploy" && top != "tests") continue;
    folders.insert(top);
    if (!Layer(file).empty()) folders.insert(absl::StrCat("runtime/", Layer(file)));
  }
  Strings findings;
  for (const std::string& folder : folders) {
    const std::string readme = absl::StrCat(folder, "/README.md");
    if (!files.count(readme)) findings.push_back(Finding(readme, 1, "the folder has no README"));
  }
  return findings;
}

}  // namespace coxswain::tidy
