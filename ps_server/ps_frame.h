// A frame of a worker and its way through a PS: segments of steps, cut into pieces that run in the
// lanes of their shards; the last piece to end sends the reply.
//
// Thread model: Run is called on the connection's thread or on the daemon's loop. An idle lane runs
// its pieces in that call; so a frame costs no wake-up, and frames of several workers run at the
// same time in different lanes. But a frame that has a piece which never ran, or whose pieces
// recently took longer than kBorrowedTime together, goes to the loops' own threads: these work at
// the same time, the connection goes on reading and pings are answered. Frames of one connection
// keep their order in each lane, except for those that need several lanes at once.
//
// A frame of a synchronous step waits in each lane until the previous step is applied there; its
// updates are held (sync_steps.h). The message that all PS hold a closure's updates is a frame
// without a segment, which goes to every lane of its plan's shards. It may come in one message with
// segments of the next step, which wait for what it says: so each lane hears it first, and then the
// rest waits.
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

// The part of the daemon's state that frames need. Immutable: the daemon publishes a new one.
struct PsDirectory {
  cluster::SessionGate gate;
  uint64_t session = 0;  // of the daemon's
  bool session_used = false;
  Generation generation = 0;
  // Counts generations and ends of sessions. A lane with another value refuses the frame.
  uint64_t setup = 0;
  absl::flat_hash_map<PlanId, std::shared_ptr<const LanePlan>> plans;
};

// State that all frames of a PS share. It outlives them.
struct FrameContext {
  env::Env* env = nullptr;
  trace::TraceRecorder* trace = nullptr;
  cluster::PendingTasks* tasks = nullptr;
  std::string task;         // name of this PS
  bool in_process = false;  // workers are in this process: rows may stay on a GPU
  Incarnation incarnation = 0;
  std::vector<std::unique_ptr<Lane>> lanes;
};

struct FrameSender {
  std::shared_ptr<net::Connection> connection;
  int worker = 0;
  Generation generation = 0;  // the generation that the worker was set up for
};

class PsFrame : public std::enable_shared_from_this<PsFrame> {
 public:
  // Runs the segments of a kFrame or kFrames message and replies. Closes the connection instead if
  // the worker was set up for another generation, if the message is malformed, or if the PS is set
  // up again before all pieces have run. `counted`: the daemon has counted the message.
  static void Run(const FrameContext* context, std::shared_ptr<const PsDirectory> directory,
                  FrameSender sender, net::Message message, bool counted);

  PsFrame(const FrameContext* context, std::shared_ptr<const PsDirectory> directory,
          FrameSender sender)
      : context_(context), directory_(std::move(directory)), sender_(std::move(sender)) {}

 private:
  struct PieceRun {
    std::vector<Tensor> arguments;
    absl::Status status;
    bool told = false;  // of `held_everywhere`: this lane has heard it
  };
  struct Segment {
    function::SegmentRequest request;  // its tensors belong to the pieces
    const LaneSegment* cut = nullptr;  // null: the segment does not run
    const LanePlan* plan = nullptr;
    // True if this tells the plan's lanes that all PS hold a closure's updates; each lane has a
    // piece, and `cut` is null.
    bool held_everywhere = false;
    absl::InlinedVector<PieceRun, 1> pieces;  // pieces of the segment
    absl::Status status;                      // why the segment does not run
    std::vector<Tensor> results;
  };

  // A lane that the frame needs, and how long its work there is expected to take.
  struct Need {
    int lane = 0;
    absl::Duration expected;
  };
  using Needs = absl::InlinedVector<Need, 8>;

  // Errors: the connection must be closed.
  absl::Status Decode(net::Message message);
  absl::Status Add(net::Message message);
  absl::Status FindSegment(Segment* segment);
  static bool Runs(const Segment& segment) {
    return segment.cut != nullptr || segment.held_everywhere;
  }
  // The lanes, ascending; `*alone`: the frame needs all of them at once.
  Needs FindLanes(bool* alone) const;
  void Start();
  void StartAlone(const Needs& needs);
  void RunInLane(Lane* lane);
  void RunAlone(const std::vector<Lane*>& lanes);
  // The step for which one of the segments must wait in this lane; 0: none. First those that say
  // what others wait for.
  ClosureId WaitsFor(Lane* lane, bool held_everywhere) const;
  // Runs the segments that say that updates are held everywhere. Returns the step for which one of
  // the segments must wait; 0: all others may run.
  ClosureId TellLane(Lane* lane);
  // Calls `again` when that step is applied. Or refuses everything that would run in this lane, and
  // returns false.
  bool Park(Lane* lane, ClosureId after, absl::AnyInvocable<void()> again);
  void HeldEverywhere(Segment* segment, Lane* lane);
  absl::Status RunPiece(Segment* segment, size_t piece, SegmentTransaction::Stores stores);
  absl::StatusOr<std::vector<Tensor>> RunFunction(const Segment& of,
                                                  const function::CompiledFunction& function,
                                                  std::vector<Tensor> arguments,
                                                  SegmentTransaction::Stores stores);
  void Answer(Lane* lane);
  function::SegmentReply ReplyOf(Segment* segment) const;
  // A reply that is too large to be sent becomes an error.
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
