// `coxswain train --trace`: what each kind of cluster leaves in the file.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>

#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

struct Span {
  int64_t begin = 0, end = 0;
  uint64_t closure = 0;
  uint32_t step = 0;
  int64_t staleness = -1;
  int64_t bytes = -1;
};

// Spans by process ("/job:ps/task:0") and then by name; those of threads also by thread.
struct Trace {
  std::map<std::string, std::map<std::string, std::vector<Span>>> spans;
  std::map<std::pair<std::string, int>, std::vector<Span>> threads;
  nlohmann::json summary;
};

// Checks the form of every event on the way.
Trace ReadTrace(const std::string& path) {
  Trace trace;
  std::map<int, std::string> processes;
  std::map<std::tuple<int, std::string, int64_t>, std::pair<std::string, Span>> open;
  for (const nlohmann::json& event : ReadJson(path)) {
    const std::string phase = event["ph"], name = event["name"];
    const int pid = event["pid"];
    if (phase == "M") {
      if (name == "process_name") processes[pid] = event["args"]["name"];
      if (name == "trace") trace.summary = event["args"];
      continue;
    }
    REQUIRE(processes.count(pid) == 1);
    Span span;
    span.begin = span.end = event["ts"];
    if (phase == "e") {
      const auto it = open.find({pid, event["cat"], event["id"]});
      REQUIRE(it != open.end());
      it->second.second.end = span.end;
      trace.spans[processes[pid]][it->second.first].push_back(it->second.second);
      open.erase(it);
      continue;
    }
    span.closure = event["args"]["closure"];
    span.step = event["args"]["step"];
    span.staleness = event["args"].value("staleness", int64_t{-1});
    span.bytes = event["args"].value("bytes", int64_t{-1});
    if (phase == "b") {
      open[{pid, event["cat"], event["id"]}] = {name, span};
      continue;
    }
    if (phase == "X") {
      span.end += event["dur"].get<int64_t>();
      trace.threads[{processes[pid], event["tid"]}].push_back(span);
    } else {
      REQUIRE(phase == "i");
    }
    trace.spans[processes[pid]][name].push_back(span);
  }
  CHECK(open.empty());
  return trace;
}

bool Overlap(const Span& a, const Span& b) { return a.begin < b.end && b.begin < a.end; }
bool Within(const Span& a, const Span& b) { return a.begin >= b.begin && a.end <= b.end; }

// The spans of one thread are apart or one within the other.
void CheckNesting(const Trace& trace) {
  for (const auto& [thread, all] : trace.threads) {
    std::vector<Span> spans = all, outer;
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    int crossing = 0;
    for (const Span& span : spans) {
      while (!outer.empty() && outer.back().end <= span.begin) outer.pop_back();
      if (!outer.empty() && !Within(span, outer.back())) ++crossing;
      outer.push_back(span);
    }
    CAPTURE(thread.first, thread.second);
    CHECK(crossing == 0);
  }
}

// Every one of `inner` lies in a span of `outer` that is of the same closure.
void CheckWithin(const std::vector<Span>& inner, const std::vector<Span>& outer) {
  std::multimap<uint64_t, Span> by_closure;
  for (const Span& span : outer) by_closure.emplace(span.closure, span);
  int outside = 0;
  for (const Span& span : inner) {
    const auto [first, last] = by_closure.equal_range(span.closure);
    if (std::none_of(first, last, [&](const auto& o) { return Within(span, o.second); })) ++outside;
  }
  CHECK(outside == 0);
}

void CheckTrace(const Trace& trace, int num_ps, int num_workers, int64_t steps) {
  size_t done = 0, called = 0;
  for (int w = 0; w < num_workers; ++w) {
    const std::string task = "/job:worker/task:" + std::to_string(w);
    REQUIRE(trace.spans.count(task) == 1);
    const auto& spans = trace.spans.at(task);
    for (const char* name : {"closure", "step", "input", "compute"}) {
      CAPTURE(task, name);
      REQUIRE(spans.count(name) == 1);
    }
    CheckWithin(spans.at("step"), spans.at("closure"));
    CheckWithin(spans.at("input"), spans.at("closure"));
    done += spans.at("step").size();
    for (int p = 0; p < num_ps; ++p) {
      const auto calls = spans.find("calls to ps:" + std::to_string(p));
      REQUIRE(calls != spans.end());
      CheckWithin(calls->second, spans.at("closure"));
      called += calls->second.size();
    }
  }
  CHECK(done >= static_cast<size_t>(steps));  // and those of evaluations
  size_t segments = 0;
  for (int p = 0; p < num_ps; ++p) {
    const std::string task = "/job:ps/task:" + std::to_string(p);
    REQUIRE(trace.spans.count(task) == 1);
    const auto& spans = trace.spans.at(task);
    for (const char* name : {"segment", "gather", "apply"}) REQUIRE(spans.count(name) == 1);
    segments += spans.at("segment").size();
  }
  CHECK(segments >= called);  // one for each lane that a call needs
  REQUIRE(trace.spans.count("/job:coordinator") == 1);
  const auto& scheduled = trace.spans.at("/job:coordinator").at("closure");
  CHECK(scheduled.size() >= static_cast<size_t>(steps));
  // On one clock: a worker's attempt lies between the coordinator's Schedule and its result.
  for (int w = 0; w < num_workers; ++w) {
    CheckWithin(trace.spans.at("/job:worker/task:" + std::to_string(w)).at("closure"), scheduled);
  }
  CheckNesting(trace);
  CHECK(trace.summary["dropped"] == 0);
}

// Whether a worker waited for a PS for one closure while it worked on another.
bool CallsOverlapOtherSteps(const Trace& trace, const std::string& worker) {
  const auto& spans = trace.spans.at(worker);
  for (const auto& [name, calls] : spans) {
    if (name.rfind("calls", 0) != 0) continue;
    for (const Span& call : calls) {
      for (const Span& step : spans.at("step")) {
        if (step.closure != call.closure && Overlap(call, step)) return true;
      }
    }
  }
  return false;
}

TEST_CASE("a trace shows all tasks on one clock, and a step's calls beside the next closure",
          "[trace]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), file = files.Path("trace.json");
  const std::vector<std::string> arguments = {"train", job,        "--trace",
                                              file,    "--report", files.Path("report.json")};
  const auto train = [&](const std::vector<std::string>& where) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), where.begin(), where.end());
    const auto result = Coxswain(all);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    CHECK_THAT(result.err, Contains("spans in " + file));
    return ReadJson(files.Path("report.json"))["steps"].get<int64_t>();
  };
  SECTION("in one process") {
    const int64_t steps = train({"--in-process"});
    CheckTrace(ReadTrace(file), 1, 1, steps);
  }
  SECTION("in processes of this machine") {
    const int64_t steps = train({"--local", "2x2"});
    const Trace trace = ReadTrace(file);
    CheckTrace(trace, 2, 2, steps);
    CHECK(CallsOverlapOtherSteps(trace, "/job:worker/task:0"));
  }
  SECTION("of synchronous steps, what is held and what is applied") {
    const std::string mode =
        GENERATE("{mode: sync, replicas: 2}", "{mode: hybrid, group_size: 2}",
                 "{mode: sync, replicas: 2, reduce: none}", "{mode: sync, replicas: 1, backup: 1}");
    CAPTURE(mode);
    const int64_t steps = train({"--local", "1x2", "--set", "train.consistency=" + mode});
    const Trace trace = ReadTrace(file);
    const auto& spans = trace.spans.at("/job:ps/task:0");
    const bool in_order = mode.find("none") != std::string::npos;
    int64_t applied = 0, late = 0;
    for (const Span& span : spans.at("apply")) {
      ++applied;
      CHECK(span.staleness >= 0);
      if (span.staleness > 0) ++late;
    }
    CHECK(applied >= steps / 2);  // of each lane
    // The second of two that are applied in order is late by the first; groups by one another.
    if (in_order) CHECK(late > 0);
    if (mode.find("sync") != std::string::npos && !in_order) CHECK(late == 0);
    CHECK(spans.at("hold").size() >= static_cast<size_t>(applied));
  }
  SECTION("on daemons, with checkpoints") {
    Daemons daemons(files, 1, 1);
    // Longer and longer, until a checkpoint is written before the job is over.
    int64_t steps = 0, written = 0;
    for (int epochs = 30; written == 0 && epochs < 10'000; epochs *= 4) {
      const std::string folder = files.Path("checkpoints" + std::to_string(epochs));
      steps =
          train({"--cluster", daemons.cluster_file(), "--checkpoint-dir", folder, "--set",
                 "checkpoint.every_steps=20", "--set", "train.epochs=" + std::to_string(epochs)});
      written = ReadJson(files.Path("report.json"))["checkpoint"]["written"];
    }
    REQUIRE(written > 0);
    const Trace trace = ReadTrace(file);
    CheckTrace(trace, 1, 1, steps);
    CHECK(trace.spans.at("/job:coordinator").count("checkpoint") == 1);
    CHECK(trace.spans.at("/job:ps/task:0").count("checkpoint cut") == 1);
    CHECK(trace.spans.at("/job:ps/task:0").count("checkpoint files") == 1);
    // Recording ended with the job: the next one finds nothing of it.
    const auto again = Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--trace",
                                 files.Path("again.json"), "--set", "train.epochs=1"});
    REQUIRE(again.code == 0);
    CheckNesting(ReadTrace(files.Path("again.json")));
  }
}

TEST_CASE("a trace of a job on GPUs shows each step's copies and what is computed between them",
          "[trace]") {
  const DataFiles files;
  const std::string file = files.Path("trace.json");
  const auto result = Coxswain({"train", WriteMatrixFactorization(files), "--in-process", "--trace",
                                file, "--set", "train.device=gpu", "--set", "train.epochs=1"},
                               {{"COXSWAIN_GPUS", "fake"}});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const Trace trace = ReadTrace(file);
  const auto& spans = trace.spans.at("/job:worker/task:0");
  for (const std::string track : {"copies to gpu:0", "copies from gpu:0", "computing on gpu:0"}) {
    CAPTURE(track);
    REQUIRE(spans.count(track) == 1);
    CHECK(spans.at(track).size() >= spans.at("step").size());
    CheckWithin(spans.at(track), spans.at("step"));
    const bool copies = track.rfind("copies", 0) == 0;
    for (const Span& span : spans.at(track)) CHECK((span.bytes > 0) == copies);
  }
}

TEST_CASE("a trace that cannot be written is said before the job begins", "[trace]") {
  const DataFiles files;
  const auto result = Coxswain({"train", WriteMatrixFactorization(files), "--in-process", "--trace",
                                files.Path("no/such/folder/trace.json")});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("--trace"));
}

}  // namespace
}  // namespace coxswain
