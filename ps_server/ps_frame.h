// A frame of a worker on its way through a PS: segments of steps, cut into pieces that run in the
// lanes of their shards; the last of them answers.
//
// Thread model: Run is called on the connection's thread or on the daemon's loop. A lane that is
// idle works on its pieces in that call; so a frame costs no wake-up, and frames of several workers
// run at the same time in different lanes. But pieces that have taken longer than kBorrowedTime of
// late, or never ran, go to the loops' own threads: the connection is read on meanwhile, and pings
// are answered. Frames of one connection keep their order in each lane, but for those that need
// several lanes at once.
//
// A frame of a synchronous step waits in each lane until the step before is applied there; its
// updates are held (sync_steps.h), and the one that says that they are held everywhere is a frame
// without a segment, which every lane of its plan's shards gets.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "ps_server/lane.h"
#include "ps_server/lane_plan.h"
#include "runtime/base/ids.h"
#include "runtime/cluster/pending_tasks.h"
#include "runtime/cluster/session_gate.h"
#include "runtime/env/env.h"
#include "runtime/function/frame.h"
#include "runtime/net/transport.h"
#include "runtime/trace/recorder.h"

namespace coxswain::ps {

// What frames must know of the daemon's state. Never changed: the daemon publishes another one.
struct PsDirectory {
  cluster::SessionGate gate;
  uint64_t session = 0;  // of the daemon's
  bool session_used = false;
  Generation generation = 0;
  // Counts generations and ends of sessions. A lane that is at another one refuses the frame.
  uint64_t setup = 0;
  absl::flat_hash_map<PlanId, std::shared_ptr<const LanePlan>> plans;
};

// What all frames of a PS share. Outlives them.
struct FrameContext {
  env::Env* env = nullptr;
  trace::TraceRecorder* trace = nullptr;
  cluster::PendingTasks* tasks = nullptr;
  std::string task;  // of this PS
  Incarnation incarnation = 0;
  std::vector<std::unique_ptr<Lane>> lanes;
};

struct FrameSender {
  std::shared_ptr<net::Connection> connection;
  int worker = 0;
  Generation generation = 0;  // that it was set up for
};

class PsFrame : public std::enable_shared_from_this<PsFrame> {
 public:
  // Runs what a kFrame or kFrames asks for. Answers, or closes the connection: of a worker that was
  // set up for another generation, of one whose message is torn, or when the PS is set up anew
  // before all pieces have run. `counted`: the daemon has counted the message.
  static void Run(const FrameContext* context, std::shared_ptr<const PsDirectory> directory,
                  FrameSender sender, net::Message message, bool counted);

  PsFrame(const FrameContext* context, std::shared_ptr<const PsDirectory> directory,
          FrameSender sender)
      : context_(context), directory_(std::move(directory)), sender_(std::move(sender)) {}

 private:
  struct PieceRun {
    std::vector<Tensor> arguments;
    absl::Status status;
  };
  struct Segment {
    function::SegmentRequest request;  // its tensors are the pieces'
    const LaneSegment* cut = nullptr;  // null: it does not run
    const LanePlan* plan = nullptr;
    // It tells that all of a closure's updates are held, to the plan's lanes, each of which has a
    // piece. Then there is no `cut`.
    bool held_everywhere = false;
    absl::InlinedVector<PieceRun, 1> pieces;  // as the segment's
    absl::Status status;                      // why it does not run
    std::vector<Tensor> results;
  };

  // A lane that the frame needs, and how long it will work there.
  struct Need {
    int lane = 0;
    absl::Duration expected;
  };
  using Needs = absl::InlinedVector<Need, 8>;

  // Errors: the connection is to be closed.
  absl::Status Decode(net::Message message);
  absl::Status Add(net::Message message);
  absl::Status FindSegment(Segment* segment);
  static bool Runs(const Segment& segment) {
    return segment.cut != nullptr || segment.held_everywhere;
  }
  // By lane, ascending; `*alone`: all at once.
  Needs FindLanes(bool* alone) const;
  void Start();
  void StartAlone(const Needs& needs);
  void RunInLane(Lane* lane);
  void RunAlone(const std::vector<Lane*>& lanes);
  // The step that one of the segments waits for in this lane; 0: none does.
  ClosureId WaitsFor(Lane* lane) const;
  // `again` is called when that step is applied; or all that would run in this lane is refused, and
  // false returned.
  bool Park(Lane* lane, ClosureId after, absl::AnyInvocable<void()> again);
  void HeldEverywhere(Segment* segment, Lane* lane);
  absl::Status RunPiece(Segment* segment, size_t piece, SegmentTransaction::Stores stores);
  absl::StatusOr<std::vector<Tensor>> RunFunction(const Segment& of,
                                                  const function::CompiledFunction& function,
                                                  std::vector<Tensor> arguments,
                                                  SegmentTransaction::Stores stores);
  void Answer(Lane* lane);
  function::SegmentReply ReplyOf(Segment* segment) const;
  // Says so when it is too large to be sent.
  net::Message EncodeReply(Segment* segment) const;
  absl::Status Refused(const absl::Status& why) const;

  const FrameContext* const context_;
  const std::shared_ptr<const PsDirectory> directory_;
  const FrameSender sender_;
  bool joined_ = false;
  int64_t bytes_received_ = -1;  // -1: counted already
  absl::InlinedVector<Segment, 2> segments_;
  std::atomic<int> lanes_left_{0};
  std::atomic<bool> overtaken_{false};
};

}  // namespace coxswain::ps
