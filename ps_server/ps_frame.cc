// The stages of a frame: decoding and checks, finding its lanes, running its pieces there or alone
// in several lanes, and the reply.
#include "ps_server/ps_frame.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/device/device_runtime.h"
#include "runtime/tensor/within_memory.h"

namespace coxswain::ps {
namespace {

// Whose updates come now.
ClosureStep StepOf(const function::SegmentRequest& request, env::Env* env) {
  return {.closure = request.closure,
          .step = request.step,
          .seconds = absl::ToDoubleSeconds(env->Monotonic()),
          .seed = request.seed};
}

}  // namespace

void PsFrame::Run(const FrameContext* context, std::shared_ptr<const PsDirectory> directory,
                  FrameSender sender, net::Message message, bool counted) {
  auto frame = std::make_shared<PsFrame>(context, std::move(directory), std::move(sender));
  if (!counted) {
    frame->bytes_received_ = static_cast<int64_t>(message.header.size() + message.payload_bytes());
  }
  absl::Status s = CatchAllocationErrors([&] { return frame->Decode(std::move(message)); });
  if (!s.ok()) {
    // Frames of another generation arrive late after a recovery; other mismatches are errors.
    if (!GetDetail(s)) {
      LogWarning("closes the connection of /job:worker/task:", frame->sender_.worker, ": ",
                 s.message());
    }
    frame->sender_.connection->Close(std::move(s));
    return;
  }
  frame->Start();
}

absl::Status PsFrame::Decode(net::Message message) {
  joined_ = message.type == static_cast<uint16_t>(net::MessageType::kFrames);
  if (!joined_) return Add(std::move(message));
  ASSIGN_OR_RETURN(std::vector<net::Message> parts, function::SplitMessages(std::move(message)));
  for (net::Message& segment : parts) RETURN_IF_ERROR(Add(std::move(segment)));
  return absl::OkStatus();
}

absl::Status PsFrame::Add(net::Message message) {
  Segment& segment = segments_.emplace_back();
  ASSIGN_OR_RETURN(segment.request, function::DecodeSegmentRequest(std::move(message)));
  segment.status = directory_->gate.Check(segment.request.session);
  if (!segment.status.ok()) return absl::OkStatus();
  if (sender_.generation != directory_->generation) {
    return WithDetail(
        absl::UnavailableError(absl::StrCat("/job:worker/task:", sender_.worker,
                                            " was set up for generation ", sender_.generation, "; ",
                                            context_->task, " is at ", directory_->generation)),
        {ErrorCause::kTaskLost, true, context_->task, context_->incarnation});
  }
  context_->env->FaultPoint("ps.segment.received");
  if (absl::Status s = FindSegment(&segment); !s.ok()) {
    segment.cut = nullptr;
    segment.held_everywhere = false;
    segment.status = Refused(s);
  }
  return absl::OkStatus();
}

absl::Status PsFrame::FindSegment(Segment* segment) {
  function::SegmentRequest& request = segment->request;
  const auto plan = directory_->plans.find(request.plan);
  if (plan != directory_->plans.end() && request.sync &&
      request.segment == function::SegmentRequest::kHeldEverywhere) {
    segment->plan = plan->second.get();
    segment->held_everywhere = true;
    segment->pieces.resize(segment->plan->lanes.size());
    return absl::OkStatus();
  }
  if (plan == directory_->plans.end() || request.segment >= plan->second->segments.size()) {
    return absl::NotFoundError(
        absl::StrCat("no segment ", request.segment, " of plan ", request.plan));
  }
  segment->plan = plan->second.get();
  segment->cut = &plan->second->segments[request.segment];
  segment->pieces.resize(segment->cut->pieces.size());
  if (segment->pieces.size() <= 1) return absl::OkStatus();
  // Checked as a whole, so that all pieces run or none.
  RETURN_IF_ERROR(segment->cut->whole->CheckArguments(request.tensors));
  segment->results.resize(segment->cut->whole->function().results.size());
  for (size_t i = 0; i < segment->pieces.size(); ++i) {
    for (const LanePiece::Input& input : segment->cut->pieces[i].inputs) {
      Tensor& tensor = request.tensors[static_cast<size_t>(input.argument)];
      segment->pieces[i].arguments.push_back(input.last ? std::move(tensor) : tensor);
    }
  }
  return absl::OkStatus();
}

PsFrame::Needs PsFrame::FindLanes(bool* alone) const {
  Needs needs;
  for (const Segment& segment : segments_) {
    if (segment.held_everywhere) {
      const absl::Duration expected = segment.plan->apply_pace->expected();
      for (const int lane : segment.plan->lanes) needs.push_back({lane, expected});
    }
    if (segment.cut == nullptr) continue;
    if (segment.cut->pieces.empty()) {
      *alone = true;
      const absl::Duration expected = segment.cut->pace->expected();
      for (const int lane : segment.cut->lanes) needs.push_back({lane, expected});
    }
    for (const LanePiece& piece : segment.cut->pieces) {
      needs.push_back({piece.lane, piece.pace->expected()});
    }
  }
  std::sort(needs.begin(), needs.end(),
            [](const Need& a, const Need& b) { return a.lane < b.lane; });
  size_t kept = 0;
  for (const Need& need : needs) {
    if (kept > 0 && needs[kept - 1].lane == need.lane) {
      needs[kept - 1].expected += need.expected;
    } else {
      needs[kept++] = need;
    }
  }
  needs.resize(kept);
  if (needs.empty()) needs.push_back({0, absl::ZeroDuration()});
  return needs;
}

void PsFrame::Start() {
  const auto& lanes = context_->lanes;
  bool alone = false;
  Needs needs = FindLanes(&alone);
  if (alone) {
    StartAlone(needs);
    return;
  }
  lanes_left_.store(static_cast<int>(needs.size()), std::memory_order_relaxed);
  // Frames of several workers that arrive at the same time begin with different lanes.
  const int first = sender_.worker % static_cast<int>(lanes.size());
  const auto begin =
      std::find_if(needs.begin(), needs.end(), [first](const Need& n) { return n.lane >= first; });
  std::rotate(needs.begin(), begin, needs.end());
  absl::Duration all;
  for (const Need& need : needs) all += need.expected;
  const bool is_long = all > kBorrowedTime;
  for (const Need& need : needs) {
    Lane* const lane = lanes[static_cast<size_t>(need.lane)].get();
    auto run = [self = shared_from_this(), lane] { self->RunInLane(lane); };
    if (is_long) {
      lane->PostLong(std::move(run));
    } else {
      lane->Post(std::move(run));
    }
  }
}

void PsFrame::StartAlone(const Needs& needs) {
  cluster::PendingTasks::Token token = context_->tasks->Start();
  if (!token) return;  // the PS ends
  std::vector<Lane*> held;
  absl::Duration expected;
  for (const Need& need : needs) {
    held.push_back(context_->lanes[static_cast<size_t>(need.lane)].get());
    expected += need.expected;
  }
  auto run = [self = shared_from_this(), token = std::move(token), held] { self->RunAlone(held); };
  Lane::RunAlone(held, std::move(run), expected > kBorrowedTime);
}

ClosureId PsFrame::WaitsFor(Lane* lane, bool held_everywhere) const {
  ClosureId waits_for = 0;
  for (const Segment& segment : segments_) {
    const SyncStep& sync = segment.request.sync;
    if (!Runs(segment) || segment.held_everywhere != held_everywhere) continue;
    if (!sync || lane->store()->sync().Applied(sync.after)) continue;
    // Other lanes take no part in this plan's steps.
    const std::vector<int>& lanes = segment.plan->lanes;
    if (std::binary_search(lanes.begin(), lanes.end(), lane->index())) {
      waits_for = std::max(waits_for, sync.after);
    }
  }
  return waits_for;
}

ClosureId PsFrame::TellLane(Lane* lane) {
  if (const ClosureId after = WaitsFor(lane, /*held_everywhere=*/true); after != 0) return after;
  for (Segment& segment : segments_) {
    if (segment.held_everywhere) HeldEverywhere(&segment, lane);
  }
  return WaitsFor(lane, /*held_everywhere=*/false);
}

bool PsFrame::Park(Lane* lane, ClosureId after, absl::AnyInvocable<void()> again) {
  // As in Start: of all lanes, for those that it waits in may go on one behind the other.
  absl::Duration expected;
  bool alone = false;
  for (const Need& need : FindLanes(&alone)) expected += need.expected;
  if (lane->Park(after, std::move(again), expected > kBorrowedTime)) return true;
  const absl::Status why = absl::ResourceExhaustedError(
      absl::StrCat("more than ", Lane::kMostParked,
                   " frames wait for the end of a synchronous step, that of closure ", after));
  for (Segment& segment : segments_) {
    if (!Runs(segment)) continue;
    if (segment.pieces.empty()) segment.status = Refused(why);
    for (size_t i = 0; i < segment.pieces.size(); ++i) {
      const int of = segment.held_everywhere ? segment.plan->lanes[i] : segment.cut->pieces[i].lane;
      PieceRun& piece = segment.pieces[i];
      if ((alone || of == lane->index()) && !piece.told) piece.status = why;
    }
  }
  return false;
}

void PsFrame::HeldEverywhere(Segment* segment, Lane* lane) {
  const std::vector<int>& lanes = segment->plan->lanes;
  const auto at = std::lower_bound(lanes.begin(), lanes.end(), lane->index());
  if (at == lanes.end() || *at != lane->index()) return;
  PieceRun& piece = segment->pieces[static_cast<size_t>(at - lanes.begin())];
  if (std::exchange(piece.told, true)) return;  // before the frame waited
  const function::SegmentRequest& request = segment->request;
  const absl::Duration began = context_->env->Monotonic();
  trace::TraceScope apply(context_->trace, trace::SpanKind::kHold, request.closure, request.step);
  const auto applied = lane->store()->HeldEverywhere(request.sync, StepOf(request, context_->env));
  piece.status = applied.status();
  if (!applied.ok() || !*applied) return;
  apply.set_kind(trace::SpanKind::kApply);
  apply.set_staleness((*applied)->staleness);
  apply.End();
  segment->plan->apply_pace->Add(context_->env->Monotonic() - began);
  context_->env->FaultPoint("ps.segment.applied");
  lane->Unpark();
}

void PsFrame::RunInLane(Lane* lane) {
  if (lane->setup != directory_->setup) overtaken_.store(true, std::memory_order_relaxed);
  bool runs = !overtaken_.load(std::memory_order_relaxed);
  if (const ClosureId after = runs ? TellLane(lane) : ClosureId(0); after != 0) {
    if (Park(lane, after, [self = shared_from_this(), lane] { self->RunInLane(lane); })) return;
    runs = false;
  }
  for (Segment& segment : segments_) {
    if (!runs || overtaken_.load(std::memory_order_relaxed)) break;
    if (segment.cut == nullptr) continue;
    for (size_t i = 0; i < segment.pieces.size(); ++i) {
      const LanePiece& piece = segment.cut->pieces[i];
      if (piece.lane != lane->index()) continue;
      const absl::Duration began = context_->env->Monotonic();
      segment.pieces[i].status = RunPiece(&segment, i, {lane->store()});
      piece.pace->Add(context_->env->Monotonic() - began);
    }
  }
  if (lanes_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) Answer(lane);
}

absl::Status PsFrame::RunPiece(Segment* segment, size_t piece, SegmentTransaction::Stores stores) {
  const LanePiece& what = segment->cut->pieces[piece];
  const bool cut = segment->pieces.size() > 1;
  std::vector<Tensor>& arguments =
      cut ? segment->pieces[piece].arguments : segment->request.tensors;
  ASSIGN_OR_RETURN(std::vector<Tensor> results,
                   RunFunction(*segment, *what.function, std::move(arguments), std::move(stores)));
  if (!cut) {
    segment->results = std::move(results);
    return absl::OkStatus();
  }
  for (size_t i = 0; i < results.size(); ++i) {
    segment->results[static_cast<size_t>(what.results[i])] = std::move(results[i]);
  }
  return absl::OkStatus();
}

// Segments with dependent shards in several lanes. This task holds all of its lanes.
void PsFrame::RunAlone(const std::vector<Lane*>& lanes) {
  SegmentTransaction::Stores stores;
  for (Lane* lane : lanes) {
    if (lane->setup != directory_->setup) overtaken_.store(true, std::memory_order_relaxed);
    stores.push_back(lane->store());
  }
  std::pair<Lane*, ClosureId> waits{nullptr, 0};
  for (Lane* lane : lanes) {  // all of them, before the frame waits in one
    if (overtaken_.load(std::memory_order_relaxed)) break;
    const ClosureId after = TellLane(lane);
    if (after != 0 && waits.first == nullptr) waits = {lane, after};
  }
  if (waits.first != nullptr) {
    // All lanes are released, and taken again.
    const auto again = [self = shared_from_this()] {
      bool alone = false;
      self->StartAlone(self->FindLanes(&alone));
    };
    if (!Park(waits.first, waits.second, again)) Answer(lanes[0]);
    return;
  }
  for (Segment& segment : segments_) {
    if (overtaken_.load(std::memory_order_relaxed)) break;
    if (segment.cut == nullptr) continue;
    for (size_t i = 0; i < segment.pieces.size(); ++i) {
      segment.pieces[i].status = RunPiece(&segment, i, stores);
    }
    if (!segment.pieces.empty()) continue;
    const absl::Duration began = context_->env->Monotonic();
    auto results =
        RunFunction(segment, *segment.cut->whole, std::move(segment.request.tensors), stores);
    segment.cut->pace->Add(context_->env->Monotonic() - began);
    if (results.ok()) {
      segment.results = *std::move(results);
    } else {
      segment.status = Refused(results.status());
    }
  }
  Answer(lanes[0]);
}

absl::StatusOr<std::vector<Tensor>> PsFrame::RunFunction(const Segment& of,
                                                         const function::CompiledFunction& function,
                                                         std::vector<Tensor> arguments,
                                                         SegmentTransaction::Stores stores) {
  const function::SegmentRequest& request = of.request;
  SegmentTransaction transaction(std::move(stores));
  if (context_->in_process && request.rows_on >= 0) {
    transaction.TakeRowsOn({DeviceType::kGpu, static_cast<int16_t>(request.rows_on)});
  }
  transaction.CountStaleness({request.closure, request.attempt, request.step}, &of.plan->updated);
  trace::TraceRecorder* const trace = context_->trace;
  const trace::TraceScope segment(trace, trace::SpanKind::kSegment, request.closure, request.step);
  function::RunOptions options;
  options.step = {request.session, request.closure, request.step, request.seed};
  options.pool = context_->env->pool();
  options.variables = &transaction;
  trace::TraceScope run(trace, trace::SpanKind::kGather, request.closure, request.step);
  ASSIGN_OR_RETURN(std::vector<Tensor> results,
                   WithinMemory([&] { return function.Run(std::move(arguments), options); }));
  RETURN_IF_ERROR(transaction.FinishReads());
  if (results.empty()) run.set_kind(trace::SpanKind::kStage);
  run.End();
  trace::TraceScope apply(results.empty() ? trace : nullptr,
                          request.sync ? trace::SpanKind::kHold : trace::SpanKind::kApply,
                          request.closure, request.step);
  CommitResult commit;
  if (request.sync) {
    ASSIGN_OR_RETURN(commit, transaction.Hold(request.sync, StepOf(request, context_->env)));
  } else {
    commit = transaction.Commit(StepOf(request, context_->env));
  }
  apply.set_staleness(commit.staleness);
  apply.End();
  context_->env->FaultPoint("ps.segment.applied");
  RETURN_IF_ERROR(commit.status);
  if (commit.gone > 0) {
    return WithDetail(absl::UnavailableError("a shard went away during the step"),
                      {ErrorCause::kTaskLost, true, context_->task, context_->incarnation});
  }
  return results;
}

void PsFrame::Answer(Lane* lane) {
  if (overtaken_.load(std::memory_order_relaxed)) {
    sender_.connection->Close(
        WithDetail(absl::UnavailableError(absl::StrCat(context_->task, " was set up anew")),
                   {ErrorCause::kTaskLost, true, context_->task, context_->incarnation}));
    return;
  }
  if (bytes_received_ >= 0) {
    ++lane->traffic.received;
    lane->traffic.bytes_received += bytes_received_;
  }
  ++lane->traffic.answered;
  std::vector<net::Message> replies;
  for (Segment& segment : segments_) {
    net::Message message = EncodeReply(&segment);
    lane->traffic.bytes_sent += static_cast<int64_t>(message.payload_bytes());
    if (!joined_) {
      sender_.connection->Send(std::move(message));
      return;
    }
    replies.push_back(std::move(message));
  }
  const size_t most = sender_.connection->max_message_bytes();
  for (net::Message& m :
       function::JoinMessagesWithin(most, net::MessageType::kFrameReplies, std::move(replies))) {
    sender_.connection->Send(std::move(m));
  }
}

net::Message PsFrame::EncodeReply(Segment* segment) const {
  net::Message message = function::Encode(ReplyOf(segment));
  const size_t bytes = message.wire_bytes(), most = sender_.connection->max_message_bytes();
  if (bytes <= most) return message;
  function::SegmentReply refusal;
  refusal.call = segment->request.call;
  refusal.status = function::TooLargeToSend(absl::StrCat("the answer of ", context_->task), bytes,
                                            most, context_->task, context_->incarnation);
  return function::Encode(std::move(refusal));
}

function::SegmentReply PsFrame::ReplyOf(Segment* segment) const {
  function::SegmentReply reply;
  reply.call = segment->request.call;
  reply.status = std::move(segment->status);
  for (const PieceRun& piece : segment->pieces) {
    if (reply.status.ok() && !piece.status.ok()) reply.status = Refused(piece.status);
  }
  if (reply.status.ok()) reply.tensors = std::move(segment->results);
  return reply;
}

absl::Status PsFrame::Refused(const absl::Status& why) const {
  // Of a GPU of this PS, not of the worker's. This PS is about to end; but in the process of the
  // coordinator it cannot, and nobody starts it again.
  if (device::IsDeviceLost(why)) {
    const bool ends = !context_->in_process;
    return WithDetail(absl::UnavailableError(absl::StrCat(context_->task, ": ", why.message())),
                      {ends ? ErrorCause::kTaskLost : ErrorCause::kApplication, ends,
                       context_->task, context_->incarnation});
  }
  absl::Status status = Annotate(why, context_->task);
  if (GetDetail(status)) return status;
  return WithDetail(std::move(status),
                    {ErrorCause::kApplication, false, context_->task, context_->incarnation});
}

}  // namespace coxswain::ps
