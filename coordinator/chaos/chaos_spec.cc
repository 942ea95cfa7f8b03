// The schema of CHAOS.yaml, the values of one rule, and the file as a whole.
#include "coordinator/chaos/chaos_spec.h"

#include <algorithm>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/job/bound_key.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain::job {

template <>
struct EnumWords<chaos::FaultAction> {
  static constexpr EnumWord<chaos::FaultAction> kAll[] = {
      {"kill", chaos::FaultAction::kKill},
      {"stop", chaos::FaultAction::kStop},
      {"terminate", chaos::FaultAction::kTerminate}};
};

}  // namespace coxswain::job

namespace coxswain::chaos {
namespace {

using enum job::KeyType;

constexpr absl::Duration kLongest = absl::Hours(24 * 365);

constexpr job::SchemaKey kFaultKeys[] = {
    job::SchemaKey(
        kString, "task", nullptr,
        "target: `worker` or `ps` (a random one each time), `worker:1`, `ps:0` or `coordinator`"),
    job::Key<&FaultRule::action>("action", "kill",
                                 "`kill`: SIGKILL; `stop`: SIGSTOP, then SIGCONT after `stop_for`; "
                                 "`terminate`: SIGTERM, on which a task shuts down in order"),
    job::SchemaKey(kString, "every", "", "time between two faults; give this, `at` or `at_update`"),
    job::SchemaKey(kString, "after", "0s", "with `every`: time from which the intervals count"),
    job::SchemaKey(kInt, "count", "",
                   "with `every`: maximum number of faults; without it there is no limit")
        .Min(1),
    job::SchemaKey(kStrings, "at", "", "instead of `every`: times of the faults"),
    job::SchemaKey(kInts, "at_update", "",
                   "instead of times: a fault comes when a shard is first seen to have applied "
                   "this number of updates, however fast the machine is")
        .Min(1),
    job::SchemaKey(kString, "jitter", "0s",
                   "maximum random shift of each time, earlier or later; at most half of `every`"),
    job::SchemaKey(
        kStrings, "restart_delay", "500ms",
        "time from the end of the task to its restart; two times: a random one between them")
        .Only("kill terminate"),
    job::SchemaKey(
        kStrings, "stop_for", "3s",
        "how long the task is stopped; two times: a random one between them; a lease is 2 s")
        .Only("stop"),
};
constexpr job::SchemaSection kFault = {"faults[]", "action", kFaultKeys};

constexpr job::SchemaKey kFileKeys[] = {
    job::SchemaKey(kInt, "seed", "0", "random seed; the same seed gives the same schedule").Min(0),
    job::SchemaKey(kSections, "faults", nullptr, "a list: the faults").Of(&kFault),
    job::SchemaKey(kBool, "baseline", "true",
                   "first run the job once without faults, so that results can be compared"),
    job::SchemaKey(kBool, "visitation", "true",
                   "count how often each training example is used, in a table of its own"),
    job::SchemaKey(kString, "give_up_after", "10m",
                   "time without a training step after which the job is ended as failed"),
};
constexpr job::SchemaSection kFile = {"", "", kFileKeys};

// "5s", "500ms", "1m30s", or a number of seconds; not negative.
bool ReadDuration(const std::string& text, absl::Duration* duration) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    *duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, duration)) {
    return false;
  }
  return *duration >= absl::ZeroDuration() && *duration <= kLongest;
}

// Reads the values of one section, of which nothing is wrong by the schema.
class RuleReader {
 public:
  RuleReader(const job::SectionView& view, std::string path, job::Problems* problems,
             const std::map<std::string, std::string>& locations)
      : view_(view), path_(std::move(path)), problems_(problems), locations_(locations) {}

  void Error(absl::string_view key, absl::string_view what) const {
    const std::string full = path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
    auto it = locations_.find(full);
    if (it == locations_.end()) it = locations_.find(path_);
    problems_->Add(full, it == locations_.end() ? "" : it->second, absl::StrCat(full, ": ", what));
  }

  absl::Duration Time(absl::string_view key) const { return Parsed(key, view_.String(key)); }

  std::vector<absl::Duration> Times(absl::string_view key) const {
    std::vector<absl::Duration> times;
    for (const std::string& text : view_.Strings(key)) times.push_back(Parsed(key, text));
    return times;
  }

  // A time, or the first and the last of a range.
  DurationRange Range(absl::string_view key) const {
    if (!view_.Has(key)) return {};
    const std::vector<absl::Duration> times = Times(key);
    if (times.empty() || times.size() > 2 || times.front() > times.back()) {
      Error(key, "wanted a time, or two, the shorter one first");
      return {};
    }
    return {times.front(), times.back()};
  }

 private:
  absl::Duration Parsed(absl::string_view key, const std::string& text) const {
    absl::Duration duration;
    if (!ReadDuration(text, &duration)) {
      Error(key, absl::StrCat("wanted a time like 500ms, 5s or 1m30s; found '", text, "'"));
      return absl::ZeroDuration();
    }
    return duration;
  }

  const job::SectionView& view_;
  const std::string path_;
  job::Problems* problems_;
  const std::map<std::string, std::string>& locations_;
};

void ReadTarget(const RuleReader& reader, const std::string& text, FaultRule* rule) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  if (name == "worker") {
    rule->task = TaskKind::kWorker;
  } else if (name == "ps") {
    rule->task = TaskKind::kPs;
  } else if (name == "coordinator") {
    rule->task = TaskKind::kCoordinator;
  } else {
    reader.Error("task", config::UnknownName("task", name, {"worker", "ps", "coordinator"}));
    return;
  }
  if (colon == std::string::npos) return;
  if (rule->task == TaskKind::kCoordinator) {
    reader.Error("task", absl::StrCat("there is one coordinator; found '", text, "'"));
  } else if (!absl::SimpleAtoi(text.substr(colon + 1), &rule->index) || rule->index < 0) {
    reader.Error("task",
                 absl::StrCat("wanted a number after '", name, ":', from 0; found '", text, "'"));
  }
}

void ReadWhen(const RuleReader& reader, const job::SectionView& view, FaultRule* rule) {
  rule->jitter = reader.Time("jitter");
  const int ways = view.Has("every") + view.Has("at") + view.Has("at_update");
  if (ways != 1) {
    reader.Error("every",
                 ways == 0 ? "give every, at or at_update" : "give one of every, at and at_update");
    return;
  }
  if (!view.Has("every")) {
    for (const char* key : {"count", "after"}) {
      if (view.Given(key)) reader.Error(key, "only with every");
    }
  }
  if (view.Has("at")) {
    rule->at = reader.Times("at");
    return;
  }
  if (view.Has("at_update")) {
    rule->at_update = view.Ints("at_update");
    if (rule->at_update.empty()) reader.Error("at_update", "wanted a number of updates at least");
    std::sort(rule->at_update.begin(), rule->at_update.end());
    if (view.Given("jitter")) reader.Error("jitter", "only with every or at");
    return;
  }
  rule->every = reader.Time("every");
  rule->after = reader.Time("after");
  rule->count = view.Int("count");
  if (rule->every < absl::Milliseconds(10)) {
    reader.Error("every", "wanted at least 10ms");
  } else if (rule->jitter > rule->every / 2) {
    reader.Error("jitter", "wanted at most half of every");
  }
}

}  // namespace

const job::SchemaSection& ChaosSchema() { return kFile; }

absl::string_view TaskKindName(TaskKind kind) {
  constexpr absl::string_view kNames[] = {"worker", "ps", "coordinator"};
  return kNames[static_cast<size_t>(kind)];
}

absl::string_view FaultActionName(FaultAction action) {
  constexpr absl::string_view kNames[] = {"kill", "stop", "terminate"};
  return kNames[static_cast<size_t>(action)];
}

absl::StatusOr<ChaosSpec> ParseChaos(absl::string_view text, const std::string& file_name) {
  ASSIGN_OR_RETURN(config::YamlNode root, config::ParseYaml(text, file_name));
  job::Problems problems;
  std::map<std::string, std::string> locations;
  job::SchemaChecker(&problems, &locations, ChaosSchema()).Check(&root);
  ChaosSpec spec;
  const job::SectionView file(&root);
  if (root.kind == config::YamlNode::Kind::kMap && problems.Good("faults")) {
    const std::vector<job::SectionView> sections = file.Sections("faults");
    for (size_t i = 0; i < sections.size(); ++i) {
      const std::string path = absl::StrCat("faults.", i);
      const RuleReader reader(sections[i], path, &problems, locations);
      FaultRule rule;
      rule.where = locations[path];
      job::ReadKeys(kFaultKeys, sections[i], &rule);
      ReadTarget(reader, sections[i].String("task"), &rule);
      ReadWhen(reader, sections[i], &rule);
      rule.restart_delay = reader.Range("restart_delay");
      rule.stop_for = reader.Range("stop_for");
      spec.faults.push_back(std::move(rule));
    }
  }
  if (root.kind == config::YamlNode::Kind::kMap) {
    spec.seed = static_cast<uint64_t>(file.Int("seed"));
    spec.baseline = file.Bool("baseline");
    spec.visitation = file.Bool("visitation");
    if (problems.Good("give_up_after")) {
      const RuleReader reader(file, "", &problems, locations);
      spec.give_up_after = reader.Time("give_up_after");
      if (problems.Good("give_up_after") && spec.give_up_after < absl::Seconds(1)) {
        reader.Error("give_up_after", "wanted at least 1s");
      }
    }
  }
  RETURN_IF_ERROR(problems.status());
  return spec;
}

absl::StatusOr<ChaosSpec> ParseChaosFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, config::ReadTextFile(path));
  return ParseChaos(text, path);
}

absl::Status CheckTargets(const ChaosSpec& spec, int num_ps, int num_workers) {
  for (const FaultRule& rule : spec.faults) {
    if (rule.task == TaskKind::kCoordinator) continue;
    const int tasks = rule.task == TaskKind::kPs ? num_ps : num_workers;
    if (rule.index < tasks) continue;
    return config::ConfigurationError(absl::StrCat(rule.where, ": task ", TaskKindName(rule.task),
                                                   ":", rule.index, ": the cluster has ", tasks,
                                                   " of them, numbered from 0"));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::chaos
