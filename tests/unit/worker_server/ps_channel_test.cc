// A worker's channel to a PS that is silent, slow, or gone.
#include <limits>

#include "tests/testing/fake_tasks.h"
#include "worker_server/ps_channel.h"

namespace coxswain::worker {
namespace {

using namespace testing;

// Looks at silence within the timeout, as documented.
constexpr int kTicks = 4;

struct Setup {
  explicit Setup(size_t max_message_bytes = std::numeric_limits<size_t>::max())
      : Setup(net::NewInProcessTransport(max_message_bytes)) {}
  std::unique_ptr<net::Transport> transport;
  FakePs ps{transport.get(), "ps:2"};
  TestEnv env;
  ManualLoop loop;
  std::shared_ptr<PsChannel> channel;
  Mailbox<absl::Status> ready;
  Mailbox<std::pair<int, absl::Status>> done;

  explicit Setup(std::unique_ptr<net::Transport> made) : transport(std::move(made)) {
    PsChannel::Options options;
    options.address = "ps:2";
    options.ps = 2;
    options.incarnation = 77;
    options.session = 5;
    options.generation = 3;
    channel = std::make_shared<PsChannel>(&env, &loop, transport.get(), options);
  }
  ~Setup() { channel->Close(absl::CancelledError("the test is over")); }

  void Open() {
    channel->Open([this](absl::Status status) { ready.Put(std::move(status)); });
  }
  void MustOpen() {
    Open();
    REQUIRE(ready.Take("the greeting").ok());
    Settle();
  }
  // The transport opens one connection after the other. When it has come to the next one, it is
  // done with that of the channel, and from then on all is handled in the test's thread.
  void Settle() {
    ps.accepted.Take("the channel's connection");
    transport->Connect("ps:2", absl::Seconds(1), nullptr);
    ps.accepted.Take("the next connection");
    CHECK(ps.closed.Take("its end").ok());
  }
  void Call(int number, PsChannel::Travel travel = PsChannel::Travel::kAtOnce, int64_t rows = 0) {
    function::SegmentRequest request;
    if (rows > 0) request.tensors = {Tensor(DType::kF32, Shape{rows})};
    request.session = 5;
    request.closure = static_cast<ClosureId>(number);
    channel->Call(
        std::move(request),
        [this, number](absl::StatusOr<std::vector<Tensor>> result) {
          done.Put({number, result.status()});
        },
        travel);
  }
  void CallInStep(int number, const SyncStep& step, PsChannel::Travel travel) {
    function::SegmentRequest request;
    request.session = 5;
    request.closure = static_cast<ClosureId>(number);
    request.sync = step;
    channel->Call(
        std::move(request),
        [this, number](absl::StatusOr<std::vector<Tensor>> result) {
          done.Put({number, result.status()});
        },
        travel);
  }
  // Whether exactly these closures' frames have come, as `messages` messages.
  void ExpectFrames(const std::vector<ClosureId>& closures, bool as_one) {
    for (const ClosureId closure : closures) {
      CHECK(ps.frames.Take("a frame").request.closure == closure);
    }
    CHECK(ps.frames.empty());
    if (as_one) CHECK(ps.joined.Take("that they came as one") == closures.size());
    CHECK(ps.joined.empty());
  }
};

TEST_CASE("a channel says for which generation its worker was set up", "[worker]") {
  Setup s;
  s.MustOpen();
  const proto::HelloRequest hello = s.ps.hellos.Take("the hello");
  CHECK(hello.role() == proto::WORKER);
  CHECK(hello.generation() == 3);
  CHECK(hello.session() == 5);
  CHECK(hello.expected_incarnation() == 77);
}

TEST_CASE("a PS that says nothing at all is pinged, and then its calls fail as task lost",
          "[worker]") {
  Setup s;
  s.ps.answers_pings = false;
  s.MustOpen();
  s.Call(1);
  s.Call(2);
  s.ps.frames.Take("the first frame");
  s.loop.Fire();
  s.loop.Fire();  // the greeting was heard until here, at the latest
  s.loop.Fire();
  s.ps.pings.Take("a ping");
  CHECK(s.done.empty());
  s.loop.Fire();
  s.loop.Fire();
  for (const int number : {1, 2}) {
    const auto [call, status] = s.done.Take("a failed call");
    CHECK(call == number);
    CHECK(status.code() == absl::StatusCode::kUnavailable);
    CHECK(CauseOf(status) == ErrorCause::kTaskLost);
    CHECK(GetDetail(status)->retryable);
    CHECK(TaskOf(status) == "/job:ps/task:2");
    CHECK(GetDetail(status)->incarnation == 77);
  }
  CHECK(s.ps.pings.empty());
  CHECK(s.ps.pings.empty());
  CHECK_FALSE(s.ps.closed.Take("the end of the stream").ok());
  CHECK(s.loop.Fire() == 0);
}

TEST_CASE("a PS that computes for long but answers pings is waited for", "[worker]") {
  Setup s;
  s.MustOpen();
  s.Call(1);
  const FakePs::Frame frame = s.ps.frames.Take("the frame");
  for (int i = 0; i < 10 * kTicks; ++i) {
    REQUIRE(s.loop.Fire() == 1);
  }
  CHECK(s.done.empty());
  int pings = 0;
  for (; !s.ps.pings.empty(); ++pings) CHECK(s.ps.pings.Take("a ping").session() == 5);
  CHECK(pings >= 10);
  frame.Answer({});
  CHECK(s.done.Take("the call's end").second.ok());
}

TEST_CASE("one timer watches a channel, and none does when nothing is awaited", "[worker]") {
  Setup s;
  s.MustOpen();
  for (int i = 0; i < 1000; ++i) {
    s.Call(i);
    s.ps.frames.Take("a frame").Answer({});
    REQUIRE(s.done.Take("a call's end").second.ok());
  }
  CHECK(s.loop.started() == 1);
  CHECK(s.loop.Fire() == 1);
  CHECK(s.loop.Fire() == 0);
  CHECK(s.ps.pings.empty());
  s.Call(1);
  CHECK(s.loop.started() == 2);
  s.ps.frames.Take("a frame").Answer({});
}

TEST_CASE("silence before a call is no silence of the PS", "[worker]") {
  Setup s;
  s.MustOpen();
  s.Call(1);
  s.ps.frames.Take("a frame").Answer({});
  s.done.Take("a call's end");
  for (int i = 0; i < 10; ++i) s.loop.Fire();
  s.Call(2);
  for (int i = 1; i < kTicks; ++i) s.loop.Fire();
  CHECK(s.done.empty());
  s.ps.frames.Take("a frame").Answer({});
  CHECK(s.done.Take("a call's end").second.ok());
}

TEST_CASE("a PS that never answers the hello is task lost", "[worker]") {
  Setup s;
  s.ps.greets = false;
  s.ps.answers_pings = false;
  s.Open();
  s.Settle();
  for (int i = 0; i <= kTicks; ++i) s.loop.Fire();
  const absl::Status status = s.ready.Take("the refusal");
  CHECK(CauseOf(status) == ErrorCause::kTaskLost);
  CHECK(TaskOf(status) == "/job:ps/task:2");
}

TEST_CASE("to open a channel that is open is answered at once and connects nothing", "[worker]") {
  Setup s;
  s.MustOpen();
  s.ps.hellos.Take("the hello");
  s.Open();
  s.Open();
  CHECK(s.ready.Take("the second greeting").ok());
  CHECK(s.ready.Take("the third greeting").ok());
  CHECK(s.ps.hellos.empty());
}

TEST_CASE("a channel whose stream broke connects anew when it is opened again", "[worker]") {
  Setup s;
  s.MustOpen();
  s.Call(1);
  s.ps.frames.Take("the frame").connection->Close(absl::UnavailableError("gone"));
  CHECK(CauseOf(s.done.Take("the call's end").second) == ErrorCause::kTaskLost);
  CHECK_FALSE(s.ps.closed.Take("the end of the stream").ok());
  s.MustOpen();
  s.Call(2);
  s.ps.frames.Take("the frame").Answer({});
  CHECK(s.done.Take("the call's end").second.ok());
}

TEST_CASE("a closed channel ends all its calls in their order, and takes no more", "[worker]") {
  Setup s;
  s.MustOpen();
  for (int i = 0; i < 100; ++i) s.Call(i);
  const absl::Status reason = absl::AbortedError("closed");
  s.channel->Close(reason);
  for (int i = 0; i < 100; ++i) {
    const auto [number, status] = s.done.Take("a failed call");
    CHECK(number == i);
    CHECK(status == reason);
  }
  s.Call(7);
  CHECK(s.done.Take("a refused call").second == reason);
  s.Open();
  CHECK(s.ready.Take("a refusal") == reason);
  CHECK_FALSE(s.ps.closed.Take("the end of the stream").ok());
}

using Travel = PsChannel::Travel;

TEST_CASE("the last frame of a step takes along the first of another while threads have work",
          "[worker]") {
  Setup s;  // one compute thread
  s.MustOpen();
  s.channel->BeginWork();
  s.Call(1, Travel::kFirst);  // one step computes and none is ready to: at once
  s.ExpectFrames({1}, false);
  s.channel->BeginWork();
  s.Call(2, Travel::kFirst);
  s.Call(3, Travel::kFirst);
  CHECK(s.ps.frames.empty());
  s.Call(9, Travel::kAtOnce);  // a frame in the middle of a step goes by itself
  s.ExpectFrames({9}, false);
  s.Call(4, Travel::kEndsWork);
  s.ExpectFrames({4, 2, 3}, true);  // the update first: who looks up sees it
  s.Call(5, Travel::kEndsWork);
  s.ExpectFrames({5}, false);
}

TEST_CASE("what waits to be taken along goes alone when the other step fails", "[worker]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginWork();
  s.channel->BeginWork();
  s.Call(1, Travel::kFirst);
  CHECK(s.ps.frames.empty());
  s.channel->EndWork();
  s.ExpectFrames({1}, false);
}

TEST_CASE("a last frame waits for the step that is about to look up rows", "[worker]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginWork();
  s.channel->BeginStart();
  SECTION("and goes with its first frame") {
    s.Call(1, Travel::kEndsWork);
    CHECK(s.ps.frames.empty());
    s.Call(2, Travel::kFirst);
    s.ExpectFrames({1, 2}, true);
  }
  SECTION("and goes alone when that step looks up nothing here") {
    s.Call(1, Travel::kEndsWork);
    CHECK(s.ps.frames.empty());
    s.channel->EndStart();
    s.ExpectFrames({1}, false);
  }
}

TEST_CASE("a last frame does not wait for long for a step that has to wait for its data",
          "[worker]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginWork();
  s.channel->BeginWork();
  s.channel->BeginStart();
  s.Call(1, Travel::kEndsWork);
  const uint64_t timers = s.loop.started();
  s.loop.Fire();  // it may have come just before
  s.Call(2, Travel::kEndsWork);
  CHECK(s.ps.frames.empty());
  s.loop.Fire();
  s.ExpectFrames({1, 2}, true);
  // Nothing is held, so the next one waits for a whole tick again.
  s.channel->BeginWork();
  s.Call(3, Travel::kEndsWork);
  s.loop.Fire();
  CHECK(s.ps.frames.empty());
  s.channel->EndStart();
  s.ExpectFrames({3}, false);
  // In the usual case, where data is there, no frame costs a timer of its own.
  const uint64_t started = s.loop.started();
  CHECK(started > timers);
  for (int i = 0; i < 100; ++i) {
    s.channel->BeginWork();
    s.channel->BeginStart();
    s.Call(4, Travel::kEndsWork);
    s.Call(5, Travel::kFirst);
    s.channel->EndStart();
    s.ExpectFrames({4, 5}, true);
  }
  CHECK(s.loop.started() <= started + 1);
}

TEST_CASE("frames that wait for others fail when the channel closes", "[worker]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginWork();
  s.channel->BeginWork();
  s.channel->BeginWork();
  s.Call(1, Travel::kFirst);
  s.channel->BeginStart();
  s.Call(2, Travel::kEndsWork);
  s.channel->Close(absl::CancelledError("over"));
  CHECK(s.done.Take("the update's end").second.message() == "over");
  CHECK(s.done.Take("the look-up's end").second.message() == "over");
  s.Call(3, Travel::kFirst);
  CHECK(s.done.Take("the end of one that came late").second.message() == "over");
  CHECK(s.ps.frames.empty());
}

// Closures of synchronous steps: 1 and 2 are of one, 3 of the next.
constexpr SyncStep kStep{.first = 1, .count = 2}, kNextStep{.first = 3, .count = 1, .after = 1};

TEST_CASE("the first call of a closure goes with the last confirmation of the step before it",
          "[worker][sync]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginInStep(1);
  s.channel->BeginInStep(1);
  s.CallInStep(3, kNextStep, Travel::kFollows);
  CHECK(s.ps.frames.empty());
  s.CallInStep(1, kStep, Travel::kAlone);  // a push of theirs
  s.ExpectFrames({1}, false);
  s.CallInStep(1, kStep, Travel::kConfirms);  // not the last: nobody waits for it here
  s.ExpectFrames({1}, false);
  s.CallInStep(2, kStep, Travel::kConfirms);
  s.ExpectFrames({2, 3}, true);
  s.CallInStep(4, {.first = 4, .count = 1, .after = 3}, Travel::kFollows);
  s.ExpectFrames({4}, false);    // nothing of step 3 is under way here
  CHECK(s.loop.started() == 2);  // that of the stream, and one for what waits
}

TEST_CASE("a first call goes alone when the closure that it waits for ends without a confirmation",
          "[worker][sync]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginInStep(1);
  s.CallInStep(3, kNextStep, Travel::kFollows);
  CHECK(s.ps.frames.empty());
  s.channel->EndInStep(1);
  s.ExpectFrames({3}, false);
}

TEST_CASE("a first call does not wait for a closure that hangs", "[worker][sync]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginInStep(1);
  s.CallInStep(3, kNextStep, Travel::kFollows);
  s.loop.Fire();
  CHECK(s.ps.frames.empty());
  s.loop.Fire();
  s.ExpectFrames({3}, false);
  s.loop.Fire();
  CHECK(s.ps.frames.empty());
  s.CallInStep(1, kStep, Travel::kConfirms);
  s.ExpectFrames({1}, false);
}

TEST_CASE("a confirmation whose answer is late is sent once more by itself, and answered once",
          "[worker][sync]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginInStep(1);
  s.CallInStep(3, kNextStep, Travel::kFollows);
  s.CallInStep(1, kStep, Travel::kConfirms);
  const FakePs::Frame confirmation = s.ps.frames.Take("the confirmation");
  const FakePs::Frame look_up = s.ps.frames.Take("the look-up");
  SECTION("not if the answer has come") {
    confirmation.Answer({});
    CHECK(s.done.Take("the confirmation's end").first == 1);
    for (int i = 0; i < 3; ++i) s.loop.Fire();
    CHECK(s.ps.frames.empty());
  }
  SECTION("if it has not") {
    s.loop.Fire();
    CHECK(s.ps.frames.empty());
    s.loop.Fire();
    const FakePs::Frame again = s.ps.frames.Take("the same again");
    CHECK(again.request.closure == 1);
    CHECK(again.request.sync.first == 1);
    s.loop.Fire();
    s.loop.Fire();
    CHECK(s.ps.frames.empty());
    again.Answer({});
    CHECK(s.done.Take("the confirmation's end") == std::pair<int, absl::Status>{1, {}});
    confirmation.Answer({});
    look_up.Answer({});
    CHECK(s.done.Take("the look-up's end") == std::pair<int, absl::Status>{3, {}});
    CHECK(s.done.empty());
  }
}

TEST_CASE("what waits for a step fails when the channel closes", "[worker][sync]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginInStep(1);
  s.CallInStep(3, kNextStep, Travel::kFollows);
  s.channel->Close(absl::CancelledError("over"));
  CHECK(s.done.Take("the look-up's end").second.message() == "over");
  s.CallInStep(4, kNextStep, Travel::kFollows);
  CHECK(s.done.Take("the end of one that came late").second.message() == "over");
  s.CallInStep(1, kStep, Travel::kConfirms);
  CHECK(s.done.Take("the confirmation's end").second.message() == "over");
}

// Closures of free steps; this worker computes one at a time.
constexpr SyncStep kFree{.first = 1, .count = 8, .free = true};

TEST_CASE("the confirmation of a free step's closure goes with the next frame of another one",
          "[worker][free]") {
  Setup s;
  s.MustOpen();
  for (int i = 0; i < 3; ++i) s.channel->BeginFree();
  s.channel->BeginLastFrame();
  s.CallInStep(1, kFree, Travel::kAtOnce);  // its gradients
  s.ExpectFrames({1}, false);
  s.CallInStep(1, kFree, Travel::kRides);
  CHECK(s.ps.frames.empty());
  s.CallInStep(2, kFree, Travel::kFirst);
  s.ExpectFrames({1, 2}, true);
  s.CallInStep(3, kFree, Travel::kFirst);
  s.ExpectFrames({3}, false);  // nothing waits any more
}

TEST_CASE("a confirmation does not wait where the worker would have no work meanwhile",
          "[worker][free]") {
  Setup s;
  s.MustOpen();
  SECTION("no other closure has frames to send") {
    s.channel->BeginFree();
    s.channel->BeginLastFrame();
    s.CallInStep(1, kFree, Travel::kRides);
    s.ExpectFrames({1}, false);
  }
  SECTION("only the one that it computes, and no place is free") {
    s.channel->BeginFree();
    s.channel->BeginFree();
    s.channel->BeginLastFrame();
    s.CallInStep(1, kFree, Travel::kRides);
    s.ExpectFrames({1}, false);
  }
  SECTION("a place is free: another closure is on its way") {
    for (int i = 0; i < 3; ++i) s.channel->BeginFree();
    for (int i = 0; i < 2; ++i) s.channel->BeginLastFrame();
    s.channel->EndFree();
    s.CallInStep(2, kFree, Travel::kRides);
    CHECK(s.ps.frames.empty());
    s.channel->BeginFree();
    s.CallInStep(4, kFree, Travel::kFirst);
    s.ExpectFrames({2, 4}, true);
  }
}

TEST_CASE("a confirmation goes alone when the closures that it waits for send nothing",
          "[worker][free]") {
  Setup s;
  s.MustOpen();
  for (int i = 0; i < 3; ++i) s.channel->BeginFree();
  s.channel->BeginLastFrame();
  s.CallInStep(1, kFree, Travel::kRides);
  SECTION("they end") {
    s.channel->EndFrames();
    CHECK(s.ps.frames.empty());  // there is one more
    s.channel->EndFrames();
    s.ExpectFrames({1}, false);
  }
  SECTION("they hang") {
    s.loop.Fire();
    CHECK(s.ps.frames.empty());
    s.CallInStep(2, kFree, Travel::kRides);
    s.loop.Fire();
    s.ExpectFrames({1}, false);  // the other has waited for one tick only
    s.loop.Fire();
    s.ExpectFrames({2}, false);
  }
  SECTION("the channel closes") {
    s.channel->Close(absl::CancelledError("over"));
    CHECK(s.done.Take("the confirmation's end").second.message() == "over");
    s.CallInStep(2, kFree, Travel::kRides);
    CHECK(s.done.Take("the end of one that came late").second.message() == "over");
    s.channel->EndFrames();
    CHECK(s.ps.frames.empty());
  }
}

TEST_CASE("a confirmation goes with an update that itself waits for look-ups", "[worker][free]") {
  Setup s;
  s.MustOpen();
  for (int i = 0; i < 3; ++i) s.channel->BeginFree();
  s.channel->BeginLastFrame();
  s.CallInStep(1, kFree, Travel::kRides);
  s.channel->BeginWork();
  s.channel->BeginStart();
  s.channel->BeginLastFrame();
  s.CallInStep(2, kFree, Travel::kEndsWork);
  CHECK(s.ps.frames.empty());
  s.CallInStep(3, kFree, Travel::kFirst);
  s.ExpectFrames({1, 2, 3}, true);
}

TEST_CASE("every call of a joined frame gets its own answer", "[worker]") {
  Setup s;
  s.MustOpen();
  s.channel->BeginWork();
  s.channel->BeginStart();
  s.Call(1, Travel::kEndsWork);
  s.Call(2, Travel::kFirst);
  const FakePs::Frame update = s.ps.frames.Take("the update");
  const FakePs::Frame look_up = s.ps.frames.Take("the look-up");
  std::vector<net::Message> replies;
  replies.push_back(
      function::Encode(function::SegmentReply{look_up.request.call, absl::OkStatus(), {}}));
  replies.push_back(
      function::Encode(function::SegmentReply{update.request.call, absl::AbortedError("no"), {}}));
  update.connection->Send(
      function::JoinMessages(net::MessageType::kFrameReplies, std::move(replies)));
  CHECK(s.done.Take("an answer") == std::pair<int, absl::Status>{2, absl::OkStatus()});
  CHECK(s.done.Take("the other") == std::pair<int, absl::Status>{1, absl::AbortedError("no")});
}

TEST_CASE(
    "a call that is too large to be sent fails for good, and the stream and its others do not",
    "[worker]") {
  Setup s(8 << 10);
  s.MustOpen();
  s.Call(1);
  const FakePs::Frame before = s.ps.frames.Take("the frame before");
  SECTION("by itself") { s.Call(2, Travel::kAtOnce, 4096); }
  SECTION("among others") {
    s.channel->BeginWork();
    s.channel->BeginStart();
    s.Call(3, Travel::kEndsWork);
    s.Call(2, Travel::kFirst, 4096);
    s.ExpectFrames({3}, false);
  }
  const auto [call, status] = s.done.Take("the end of the large one");
  CHECK(call == 2);
  INFO(status);
  CHECK(absl::IsResourceExhausted(status));
  CHECK(CauseOf(status) == ErrorCause::kApplication);
  CHECK_FALSE(GetDetail(status)->retryable);
  CHECK(TaskOf(status) == "/job:ps/task:2");
  // To which PS, how many bytes, and how many there may be.
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith("the frame to /job:ps/task:2 has 16") &&
                 Catch::Contains("at most 8192 can travel at once"));
  before.Answer({});
  CHECK(s.done.Take("the end of the one before") ==
        std::pair<int, absl::Status>{1, absl::OkStatus()});
}

TEST_CASE("frames that are too large together do not go as one", "[worker]") {
  Setup s(8 << 10);
  s.MustOpen();
  s.channel->BeginWork();
  s.channel->BeginStart();
  s.Call(1, Travel::kEndsWork, 1500);
  s.Call(2, Travel::kFirst, 1500);
  s.ExpectFrames({1, 2}, false);
}

TEST_CASE("a PS whose joined reply is torn is lost", "[worker]") {
  Setup s;
  s.MustOpen();
  s.Call(1);
  net::Message torn =
      function::JoinMessages(net::MessageType::kFrameReplies, {net::Message{1, "x", {}}});
  torn.header.pop_back();
  s.ps.frames.Take("the frame").connection->Send(std::move(torn));
  CHECK(CauseOf(s.done.Take("the end of the call").second) == ErrorCause::kTaskLost);
}

}  // namespace
}  // namespace coxswain::worker
