#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/function/frame.h"
#include "runtime/graph/attr.h"
#include "runtime/net/message_type.h"

namespace coxswain::function {
namespace {

// All dtypes, ranks 0 to 3, an empty tensor, none, and a slice of a larger buffer.
std::vector<Tensor> SampleTensors() {
  const Tensor rows = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{3, 2}).value();
  return {Tensor::Scalar<int64_t>(-5),
          Tensor::FromVector<double>({1.5, -2.5}),
          rows.SliceRows(1, 3),
          Tensor(DType::kF32, Shape{0, 7}),
          Tensor(),
          Tensor::FromVector<int32_t>({1, 2, 3, 4}, Shape{1, 2, 2}).value(),
          Tensor::Scalar<bool>(true),
          Tensor::FromVector<BFloat16>({BFloat16::FromFloat(1), BFloat16::FromFloat(2)})};
}

absl::Status SampleStatus() {
  return WithDetail(absl::UnavailableError("/job:ps/task:1: it went away"),
                    {ErrorCause::kTaskLost, true, "/job:ps/task:1", 0xfeedfacecafebeefu});
}

SegmentRequest SampleSegmentRequest() {
  SegmentRequest r;
  r.session = 1ull << 60;
  r.call = 2;
  r.closure = 3;
  r.plan = 4;
  r.attempt = 5;
  r.step = 6;
  r.segment = 7;
  r.seed = ~0ull;
  r.tensors = SampleTensors();
  return r;
}
SegmentReply SampleSegmentReply() { return {77, SampleStatus(), SampleTensors()}; }
ClosureRequest SampleClosureRequest() {
  ClosureRequest r;
  r.session = 1;
  r.closure = 2;
  r.plan = 3;
  r.attempt = 4;
  r.seed = 5;
  r.dataset = 6;
  r.ticket = {Part::kValidation, 8, 512, 1024};
  r.steps = 9;
  r.ahead = {Part::kTraining, 9, 0, 512};
  r.arguments = SampleTensors();
  return r;
}
ClosureReply SampleClosureReply() { return {1, 2, 3, 4, SampleStatus(), SampleTensors()}; }

void CheckSame(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    INFO(i);
    CHECK(AttrValue(found[i]) == AttrValue(wanted[i]));  // dtype, shape and bytes
  }
}

void CheckSampleStatus(const absl::Status& status) {
  CHECK(status == SampleStatus());
  const auto detail = GetDetail(status);
  REQUIRE(detail.has_value());
  CHECK(detail->cause == ErrorCause::kTaskLost);
  CHECK(detail->retryable);
  CHECK(detail->task == "/job:ps/task:1");
  CHECK(detail->incarnation == 0xfeedfacecafebeefu);
}

TEST_CASE("a segment request comes back as it was", "[frame]") {
  auto r = DecodeSegmentRequest(Encode(SampleSegmentRequest()));
  REQUIRE(r.ok());
  const SegmentRequest w = SampleSegmentRequest();
  CHECK(r->session == w.session);
  CHECK(r->call == w.call);
  CHECK(r->closure == w.closure);
  CHECK(r->plan == w.plan);
  CHECK(r->attempt == w.attempt);
  CHECK(r->step == w.step);
  CHECK(r->segment == w.segment);
  CHECK(r->seed == w.seed);
  CheckSame(r->tensors, w.tensors);
}

TEST_CASE("a segment request may say on which GPU rows are wanted, in any kind of step",
          "[frame]") {
  SegmentRequest r = SampleSegmentRequest();
  CHECK(DecodeSegmentRequest(Encode(SampleSegmentRequest()))->rows_on == -1);
  r.rows_on = 3;
  for (const bool sync : {false, true}) {
    if (sync) r.sync = {.first = 3, .count = 2, .after = 1};
    const auto decoded = DecodeSegmentRequest(Encode(r));
    REQUIRE(decoded.ok());
    CHECK(decoded->rows_on == 3);
    CHECK(decoded->segment == r.segment);
    CHECK(decoded->seed == r.seed);
    CHECK(static_cast<bool>(decoded->sync) == sync);
    CheckSame(decoded->tensors, SampleTensors());
  }
}

TEST_CASE("a segment reply comes back with its typed status", "[frame]") {
  auto r = DecodeSegmentReply(Encode(SampleSegmentReply()));
  REQUIRE(r.ok());
  CHECK(r->call == 77);
  CheckSampleStatus(r->status);
  CheckSame(r->tensors, SampleTensors());
  auto fine = DecodeSegmentReply(Encode(SegmentReply{1, absl::OkStatus(), {}}));
  REQUIRE(fine.ok());
  CHECK(fine->status.ok());
  CHECK(fine->tensors.empty());
  // Without a detail, without a message, with any bytes in the message.
  for (const absl::Status& s :
       {absl::InternalError(""), absl::InvalidArgumentError(absl::string_view("a\0\n\xff", 4))}) {
    auto plain = DecodeSegmentReply(Encode(SegmentReply{1, s, {}}));
    REQUIRE(plain.ok());
    CHECK(plain->status == s);
  }
}

TEST_CASE("a closure request comes back as it was", "[frame]") {
  auto r = DecodeClosureRequest(Encode(SampleClosureRequest()));
  REQUIRE(r.ok());
  const ClosureRequest w = SampleClosureRequest();
  CHECK(r->session == w.session);
  CHECK(r->closure == w.closure);
  CHECK(r->plan == w.plan);
  CHECK(r->attempt == w.attempt);
  CHECK(r->seed == w.seed);
  CHECK(r->dataset == w.dataset);
  CHECK(r->ticket == w.ticket);
  CHECK(r->steps == w.steps);
  CHECK(r->ahead == w.ahead);
  CheckSame(r->arguments, w.arguments);
  ClosureRequest nowhere = SampleClosureRequest();
  nowhere.ahead = {};
  auto again = DecodeClosureRequest(Encode(std::move(nowhere)));
  REQUIRE(again.ok());
  CHECK(again->ahead.size() == 0);
  CheckSame(again->arguments, w.arguments);
}

TEST_CASE("closures of synchronous steps say so, and others travel as if there were none",
          "[frame]") {
  const SyncStep step{.first = 2, .count = 3, .after = 1, .mean = true};
  const auto same = [&](const SyncStep& found) {
    CHECK(found.first == step.first);
    CHECK(found.count == step.count);
    CHECK(found.after == step.after);
    CHECK(found.mean == step.mean);
  };
  SegmentRequest segment = SampleSegmentRequest();
  const size_t without = Encode(SampleSegmentRequest()).header.size();
  CHECK_FALSE(DecodeSegmentRequest(Encode(SampleSegmentRequest()))->sync);
  segment.sync = step;
  segment.segment = SegmentRequest::kHeldEverywhere;
  CHECK(Encode(segment).header.size() == without + 21);
  const auto decoded = DecodeSegmentRequest(Encode(segment));
  REQUIRE(decoded.ok());
  CHECK(decoded->segment == SegmentRequest::kHeldEverywhere);
  CHECK(decoded->closure == 3);
  same(decoded->sync);
  CheckSame(decoded->tensors, SampleTensors());

  ClosureRequest closure = SampleClosureRequest();
  CHECK_FALSE(DecodeClosureRequest(Encode(SampleClosureRequest()))->sync);
  closure.sync = step;
  auto request = DecodeClosureRequest(Encode(closure));
  REQUIRE(request.ok());
  same(request->sync);
  CHECK(request->ahead == closure.ahead);
  closure.ahead = {};
  request = DecodeClosureRequest(Encode(closure));
  REQUIRE(request.ok());
  same(request->sync);

  // One with backups has 4 bytes more, a free one none.
  segment.sync = {.first = 2, .count = 1, .after = 1, .mean = true, .backup = 2};
  CHECK(Encode(segment).header.size() == without + 25);
  const auto backups = DecodeSegmentRequest(Encode(segment));
  REQUIRE(backups.ok());
  CHECK(backups->sync.backup == 2);
  CHECK(backups->sync.mean);
  CHECK_FALSE(backups->sync.free);
  closure.sync = {.first = 2, .count = 3, .free = true};
  request = DecodeClosureRequest(Encode(closure));
  REQUIRE(request.ok());
  CHECK(request->sync.free);
  CHECK_FALSE(request->sync.mean);
  CHECK_FALSE(request->sync.each);
  closure.sync = {.first = 2, .count = 3, .after = 1, .each = true};
  request = DecodeClosureRequest(Encode(closure));
  REQUIRE(request.ok());
  CHECK(request->sync.each);
  CHECK_FALSE(request->sync.free);

  for (const SyncStep wrong : {SyncStep{.first = 4, .count = 3}, SyncStep{.first = 2, .count = 0},
                               SyncStep{.first = 2, .count = 1, .backup = 1, .free = true},
                               SyncStep{.first = 2, .count = 1, .after = 1, .free = true},
                               SyncStep{.first = 2, .count = 1, .mean = true, .each = true},
                               SyncStep{.first = 2, .count = 1, .backup = kMostReplicas + 1},
                               SyncStep{.first = 2, .count = 3, .after = 2},
                               SyncStep{.first = 1, .count = kMostReplicas + 1}}) {
    segment.sync = closure.sync = wrong;
    CHECK(DecodeSegmentRequest(Encode(segment)).status().code() ==
          absl::StatusCode::kInvalidArgument);
    CHECK(DecodeClosureRequest(Encode(closure)).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("a closure reply comes back with its typed status", "[frame]") {
  auto r = DecodeClosureReply(Encode(SampleClosureReply()));
  REQUIRE(r.ok());
  CHECK(r->session == 1);
  CHECK(r->closure == 2);
  CHECK(r->attempt == 3);
  CHECK(r->steps_done == 4);
  CheckSampleStatus(r->status);
  CheckSame(r->results, SampleTensors());
}

TEST_CASE("tensors travel without a copy of their bytes", "[frame]") {
  SegmentReply reply;
  reply.tensors = SampleTensors();
  const std::vector<Tensor> kept = reply.tensors;
  const net::Message message = Encode(std::move(reply));
  REQUIRE(message.payload.size() == kept.size());
  CHECK(message.payload[2].data() == kept[2].raw());
  CHECK(message.payload[2].size() == 16);  // the slice, not the whole buffer
  auto back = DecodeSegmentReply(message);
  REQUIRE(back.ok());
  CHECK(back->tensors[2].raw() == kept[2].raw());
}

struct Kind {
  const char* name;
  net::Message message;
  std::function<absl::Status(net::Message)> decode;
};

// Reads every byte of what was decoded, so that a sanitizer sees a tensor that is too long.
int64_t Touch(const std::vector<Tensor>& tensors) {
  int64_t sum = 0;
  for (const Tensor& t : tensors) {
    for (size_t i = 0; i < t.bytes(); ++i) sum += static_cast<const unsigned char*>(t.raw())[i];
  }
  return sum;
}

std::vector<Kind> AllKinds() {
  return {{"segment request", Encode(SampleSegmentRequest()),
           [](net::Message m) {
             auto r = DecodeSegmentRequest(std::move(m));
             if (r.ok()) Touch(r->tensors);
             return r.status();
           }},
          {"segment reply", Encode(SampleSegmentReply()),
           [](net::Message m) {
             auto r = DecodeSegmentReply(std::move(m));
             if (r.ok()) Touch(r->tensors);
             return r.status();
           }},
          {"closure request", Encode(SampleClosureRequest()),
           [](net::Message m) {
             auto r = DecodeClosureRequest(std::move(m));
             if (r.ok()) Touch(r->arguments);
             return r.status();
           }},
          {"closure reply", Encode(SampleClosureReply()), [](net::Message m) {
             auto r = DecodeClosureReply(std::move(m));
             if (r.ok()) Touch(r->results);
             return r.status();
           }}};
}

TEST_CASE("a frame that is cut off or too long is an error", "[frame]") {
  for (const Kind& kind : AllKinds()) {
    INFO(kind.name);
    REQUIRE(kind.decode(kind.message).ok());
    for (size_t size = 0; size < kind.message.header.size(); ++size) {
      INFO(size);
      net::Message torn = kind.message;
      torn.header.resize(size);
      CHECK(kind.decode(torn).code() == absl::StatusCode::kInvalidArgument);
    }
    net::Message longer = kind.message;
    longer.header += '\0';
    CHECK(kind.decode(longer).code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("a frame whose slices do not fit its header is an error", "[frame]") {
  for (const Kind& kind : AllKinds()) {
    INFO(kind.name);
    net::Message fewer = kind.message;
    fewer.payload.pop_back();
    CHECK(kind.decode(fewer).code() == absl::StatusCode::kInvalidArgument);
    net::Message more = kind.message;
    more.payload.push_back(Buffer::Allocate(4));
    CHECK(kind.decode(more).code() == absl::StatusCode::kInvalidArgument);
    for (size_t i = 0; i < kind.message.payload.size(); ++i) {
      net::Message other = kind.message;
      other.payload[i] = Buffer::Allocate(other.payload[i].size() + 1);
      CHECK(kind.decode(other).code() == absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST_CASE("a frame with a flipped byte never crashes", "[frame]") {
  for (const Kind& kind : AllKinds()) {
    INFO(kind.name);
    int refused = 0;
    for (size_t i = 0; i < kind.message.header.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        net::Message bad = kind.message;
        bad.header[i] = static_cast<char>(bad.header[i] ^ (1 << bit));
        refused += !kind.decode(std::move(bad)).ok();
      }
    }
    CHECK(refused > 0);
  }
}

TEST_CASE("a frame of another kind is an error", "[frame]") {
  const std::vector<Kind> kinds = AllKinds();
  for (const Kind& one : kinds) {
    for (const Kind& other : kinds) {
      if (&one == &other) continue;
      CHECK(one.decode(other.message).code() == absl::StatusCode::kInvalidArgument);
      net::Message disguised = other.message;
      disguised.type = one.message.type;
      one.decode(disguised).IgnoreError();  // anything but a crash
    }
  }
}

TEST_CASE("messages that travel as one come apart as they were", "[frame]") {
  std::vector<net::Message> parts = {Encode(SampleSegmentRequest()), net::Message{7, "", {}},
                                     Encode(SegmentReply{9, absl::OkStatus(), SampleTensors()})};
  const std::vector<net::Message> before = parts;
  const net::Message joined = JoinMessages(net::MessageType::kFrames, std::move(parts));
  CHECK(joined.type == static_cast<uint16_t>(net::MessageType::kFrames));
  const auto after = SplitMessages(joined);
  REQUIRE(after.ok());
  REQUIRE(after->size() == before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK((*after)[i].type == before[i].type);
    CHECK((*after)[i].header == before[i].header);
    REQUIRE((*after)[i].payload.size() == before[i].payload.size());
    for (size_t p = 0; p < before[i].payload.size(); ++p) {
      CHECK((*after)[i].payload[p].data() == before[i].payload[p].data());
    }
  }
}

TEST_CASE("messages are joined as long as the whole stays within a bound, in order", "[frame]") {
  for (const size_t most : {size_t{1}, size_t{400}, size_t{1000}, size_t{5000}, SIZE_MAX}) {
    std::vector<net::Message> parts;
    size_t largest = 0;
    for (uint16_t i = 0; i < 40; ++i) {
      net::Message part{i, std::string(i % 7, 'h'), {}};
      for (int slice = 0; slice < i % 3; ++slice) part.payload.push_back(Buffer::Allocate(i * 9u));
      largest = std::max(largest, part.wire_bytes());
      parts.push_back(std::move(part));
    }
    std::vector<uint16_t> order;
    size_t alone = 0;
    for (net::Message& m : JoinMessagesWithin(most, net::MessageType::kFrames, std::move(parts))) {
      const size_t bytes = m.wire_bytes();
      if (m.type != static_cast<uint16_t>(net::MessageType::kFrames)) {
        ++alone;
        CHECK(bytes <= largest);
        order.push_back(m.type);
        continue;
      }
      CHECK(bytes <= most);
      const auto split = SplitMessages(std::move(m));
      REQUIRE(split.ok());
      for (const net::Message& part : *split) order.push_back(part.type);
    }
    INFO("at most " << most);
    CHECK(order.size() == 40);
    CHECK(std::is_sorted(order.begin(), order.end()));
    CHECK(alone == (most == 1 ? 40u : alone));
    if (most == SIZE_MAX) CHECK(alone == 0);
  }
}

TEST_CASE("messages that travel as one and are torn are an error", "[frame]") {
  const net::Message joined = JoinMessages(
      net::MessageType::kFrames, {Encode(SampleSegmentRequest()), net::Message{7, "abc", {}}});
  for (size_t size = 0; size < joined.header.size(); ++size) {
    net::Message cut = joined;
    cut.header.resize(size);
    CHECK(absl::IsInvalidArgument(SplitMessages(cut).status()));
  }
  net::Message longer = joined;
  longer.header += 'x';
  CHECK(absl::IsInvalidArgument(SplitMessages(longer).status()));
  net::Message fewer = joined;
  fewer.payload.pop_back();
  CHECK(absl::IsInvalidArgument(SplitMessages(fewer).status()));
  net::Message more = joined;
  more.payload.push_back(Buffer::Allocate(8));
  CHECK(absl::IsInvalidArgument(SplitMessages(more).status()));
  for (size_t i = 0; i < joined.header.size(); ++i) {
    net::Message flipped = joined;
    flipped.header[i] = static_cast<char>(flipped.header[i] ^ 0x80);
    static_cast<void>(SplitMessages(std::move(flipped)));  // whatever it says, it says it
  }
}

}  // namespace
}  // namespace coxswain::function
