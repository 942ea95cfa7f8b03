#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "coordinator/cli/trace_writer.h"
#include "nlohmann/json.hpp"
#include "runtime/trace/recorder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/forwarding.h"

namespace coxswain::cli {
namespace {

proto::TraceEvents DrainAll(trace::TraceRecorder* recorder) {
  proto::TraceEvents events;
  recorder->Drain(~size_t{0}, &events);
  return events;
}

TEST_CASE("a recorder keeps nothing until it is turned on", "[trace]") {
  const auto env = env::NewRealEnv(1);
  trace::TraceRecorder recorder(env.get(), 8);
  const auto us = [](int n) { return absl::Microseconds(n); };
  recorder.Record(trace::SpanKind::kClosure, us(1), us(2), 3);
  { const trace::TraceScope scope(&recorder, trace::SpanKind::kStep); }
  const trace::TraceScope nobody(nullptr, trace::SpanKind::kStep);
  CHECK(DrainAll(&recorder).name_size() == 0);
  recorder.Enable(true);
  recorder.Record(trace::SpanKind::kPsCall, us(10), us(25), 7, 2, 1);
  recorder.Instant(trace::SpanKind::kPsLost);
  recorder.Enable(false);
  recorder.Record(trace::SpanKind::kClosure, us(1), us(2), 3);
  const proto::TraceEvents events = DrainAll(&recorder);
  REQUIRE(events.name_size() == 2);
  CHECK(events.names(static_cast<int>(events.name(0))) == "call");
  CHECK(events.tracks(static_cast<int>(events.track(0))) == "calls to ps:1");
  CHECK(events.start_us(0) == 10);
  CHECK(events.duration_us(0) == 15);
  CHECK(events.closure(0) == 7);
  CHECK(events.step(0) == 2);
  CHECK(trace::IsInstantTrack(events.tracks(static_cast<int>(events.track(1)))));
  CHECK(events.dropped() == 0);
}

TEST_CASE("spans that find the recorder full are counted, and there is room again after a drain",
          "[trace]") {
  const auto env = env::NewRealEnv(1);
  trace::TraceRecorder recorder(env.get(), 8);
  recorder.Enable(true);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 1; i <= 11; ++i) {
      recorder.Record(trace::SpanKind::kClosure, absl::ZeroDuration(), absl::ZeroDuration(), i);
    }
    const proto::TraceEvents events = DrainAll(&recorder);
    REQUIRE(events.closure_size() == 8);
    for (int i = 0; i < 8; ++i) CHECK(events.closure(i) == static_cast<uint64_t>(i) + 1);
    CHECK(events.dropped() == 3);
  }
}

TEST_CASE("no span is lost uncounted or seen twice when many threads record and one drains",
          "[trace]") {
  constexpr int kThreads = 4, kSpans = 20000;
  const auto env = env::NewRealEnv(1);
  trace::TraceRecorder recorder(env.get(), 256);
  recorder.Enable(true);
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kSpans; ++i) {
        const absl::Duration start = absl::Microseconds(i);
        // Step and duration repeat the closure: a span of parts of two would show.
        const uint64_t id = static_cast<uint64_t>(t) * kSpans + static_cast<uint64_t>(i);
        recorder.Record(trace::SpanKind::kInput, start, start + absl::Microseconds(id), id,
                        static_cast<uint32_t>(id));
      }
      --running;
    });
  }
  std::set<uint64_t> seen;
  int64_t dropped = 0;
  bool whole = true, last = false;
  while (!last) {
    last = running == 0;
    const proto::TraceEvents events = DrainAll(&recorder);
    dropped += events.dropped();
    for (int i = 0; i < events.closure_size(); ++i) {
      whole = whole && events.step(i) == events.closure(i) &&
              events.duration_us(i) == static_cast<int64_t>(events.closure(i)) &&
              seen.insert(events.closure(i)).second;
    }
  }
  for (std::thread& t : threads) t.join();
  CHECK(whole);
  CHECK(static_cast<int64_t>(seen.size()) + dropped == int64_t{kThreads} * kSpans);
  CHECK(!seen.empty());
}

TEST_CASE("a task's clock is taken from the quickest answer", "[trace]") {
  TaskClock clock;
  clock.Read(1000, 501000, 3000);  // 499 ms ahead, known to a millisecond
  CHECK(clock.offset_us() == -499000);
  CHECK(clock.uncertainty_us() == 1000);
  clock.Read(5000, 504950, 5100);
  CHECK(clock.offset_us() == -499900);
  CHECK(clock.uncertainty_us() == 50);
  clock.Read(6000, 506600, 7000);  // wider, and no contradiction
  CHECK(clock.offset_us() == -499900);
  clock.Read(8000, 508500, 8010);  // narrower
  CHECK(clock.offset_us() == -500495);
  clock.Read(9000, 512000, 9100);  // it has drifted
  CHECK(clock.offset_us() == -502950);
}

TEST_CASE("a task that can read the coordinator's own clock is not moved", "[trace]") {
  TaskClock clock;
  clock.Read(1000, 1090, 1100);
  CHECK(clock.offset_us() == 0);
  CHECK(clock.uncertainty_us() == 50);
}

// A machine so slow that no two readings of its clock are the same.
class SlowEnv final : public testing::ForwardingEnv {
 public:
  absl::Duration Monotonic() override { return absl::Microseconds(++microseconds_); }

 private:
  std::atomic<int64_t> microseconds_{1'000'000};
};

TEST_CASE("the coordinator's own spans are not moved, however long it takes to fetch them",
          "[trace]") {
  SlowEnv env;
  const auto transport = net::NewInProcessTransport();
  core::Controller controller(&env, transport.get(), {});
  testing::Mailbox<std::vector<core::Controller::TaskTrace>> answers;
  TaskClock clock;
  for (int i = 0; i < 5; ++i) {
    controller.QueryTrace(true, [&](auto traces) { answers.Put(std::move(traces)); });
    const std::vector<core::Controller::TaskTrace> traces = answers.Take("an answer");
    REQUIRE(traces.size() == 1);
    CHECK(traces[0].task == "/job:coordinator");
    clock.Read(traces[0].asked_us, traces[0].events.now_us(), traces[0].answered_us);
    CHECK(clock.offset_us() == 0);
  }
}

core::Controller::TaskTrace MakeTrace(const std::string& task, int64_t ahead_us) {
  core::Controller::TaskTrace trace;
  trace.task = task;
  trace.incarnation = 5;
  trace.asked_us = 1000;
  trace.answered_us = 1100;
  trace.events.set_now_us(1050 + ahead_us);
  trace.events.set_dropped(2);
  const std::vector<std::string> tracks = {"thread 0", "steps", "events", "calls to ps:1"};
  for (const std::string& track : tracks) trace.events.add_tracks(track);
  trace.events.add_names("a \"name\"");
  for (uint32_t i = 0; i < tracks.size(); ++i) {
    trace.events.add_name(0);
    trace.events.add_track(i);
    trace.events.add_start_us(1040 + ahead_us);
    trace.events.add_duration_us(i == 2 ? 0 : 7);
    trace.events.add_closure(9);
    trace.events.add_step(i);
    trace.events.add_bytes(i == 3 ? 4096 : -1);
  }
  return trace;
}

TEST_CASE("a trace is JSON with every span on the coordinator's clock", "[trace]") {
  const DataFiles files;
  const std::string path = files.Path("trace.json");
  auto writer = TraceWriter::Create(path);
  REQUIRE(writer.ok());
  REQUIRE((*writer)->Add(MakeTrace("/job:worker/task:0", 5'000'000)).ok());
  REQUIRE((*writer)->Add(MakeTrace("/job:coordinator", 0)).ok());
  REQUIRE((*writer)->Close().ok());
  CHECK((*writer)->spans() == 8);
  CHECK((*writer)->dropped() == 4);
  std::ifstream in(path);
  const nlohmann::json events = nlohmann::json::parse(in);
  std::map<std::string, int> phases;
  for (const auto& event : events) {
    const std::string phase = event["ph"];
    ++phases[phase];
    if (phase == "M") continue;
    CHECK(event["ts"] == (phase == "e" ? 47 : 40));
    if (phase == "X") CHECK(event["dur"] == 7);
    if (phase == "X") CHECK(event["name"] == "a \"name\"");
    if (phase == "e") continue;
    CHECK(event["args"]["closure"] == 9);
    CHECK(event["args"].value("bytes", -1) == (event["args"]["step"] == 3 ? 4096 : -1));
  }
  CHECK(phases["X"] == 2);
  CHECK(phases["i"] == 2);
  CHECK(phases["b"] == 4);
  CHECK(phases["e"] == 4);
  CHECK(events.back()["args"]["dropped"] == 4);
}

TEST_CASE("what a task answers wrongly does not get into the trace", "[trace]") {
  const DataFiles files;
  auto writer = TraceWriter::Create(files.Path("trace.json"));
  REQUIRE(writer.ok());
  core::Controller::TaskTrace trace = MakeTrace("/job:ps/task:0", 0);
  trace.events.set_track(1, 99);
  CHECK(absl::IsInvalidArgument((*writer)->Add(trace)));
  trace = MakeTrace("/job:ps/task:0", 0);
  trace.events.mutable_start_us()->RemoveLast();
  CHECK(absl::IsInvalidArgument((*writer)->Add(trace)));
  CHECK((*writer)->spans() == 0);
  CHECK(!TraceWriter::Create(files.Path("no/such/folder/trace.json")).ok());
}

}  // namespace
}  // namespace coxswain::cli
