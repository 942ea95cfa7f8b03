// The parts that are open: which are to be read, by whom, and which were read; then the events of
// the pass, and what is done here because no worker can.
//
// A part goes from waiting to being read to read. When it is the first one, it is added up where it
// was read, and taken into the index. Whatever goes wrong with a worker makes its parts wait again.
#include "runtime/data/stream/index_pass.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/file_error.h"
#include "runtime/data/hash.h"
#include "runtime/data/input_file.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/file_part.h"
#include "runtime/data/stream/first_row.h"
#include "runtime/data/stream/index_draft.h"
#include "runtime/data/stream/index_making.h"
#include "runtime/data/stream/part_answers.h"
#include "runtime/data/stream/part_plan.h"

namespace coxswain::data {
namespace {

using proto::DatasetIndex;
using proto::DatasetSpec;

// Parts that a worker has at a time: some that it reads, and some that wait for those in front.
constexpr int kPartsOfWorker = 4;
// A part, with what is made of it, is a small share of `dataset.memory`.
constexpr int64_t kPartsInMemory = 32;
// A worker that was not there is asked again after so long.
constexpr absl::Duration kRetry = absl::Milliseconds(500);
// A wait without an answer is reported after so long, and again.
constexpr absl::Duration kSilence = absl::Minutes(1);

// Whether the worker did not get at a file.
bool IsFileError(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsPermissionDenied(status) ||
         absl::IsUnavailable(status) || absl::IsFailedPrecondition(status);
}

class IndexPass {
 public:
  IndexPass(const DatasetSpec& spec, const IndexOptions& options, IndexDraft* draft)
      : spec_(spec),
        readers_(*options.workers),
        by_lines_(!FormatOf(spec).has_groups()),
        draft_(*draft),
        plan_(spec, std::min(options.part_bytes, SizesOf(spec.stream()).memory / kPartsInMemory),
              &shared_, draft->ranges()),
        workers_(static_cast<size_t>(std::max(0, options.workers->count()))),
        patience_(options.patience) {}
  ~IndexPass();
  absl::Status Run();

 private:
  enum class State { kWaiting, kReading, kRead, kAdding, kFailed };
  struct Part {
    int64_t number = 0;  // of all parts; none comes twice
    PlannedPart plan;
    State state = State::kWaiting;
    bool confirmed = false;  // the next part begins where this one ends
    int worker = -1;         // that reads it or has read it
    uint64_t ask = 0;        // the request that is under way; 0: none
    int64_t end = 0;         // once it is read
    int64_t rows = -1;       // the same
    absl::Status failed;     // on a worker
  };
  struct Worker {
    int parts = 0;       // that it has
    bool there = true;   // when it was last asked
    bool usable = true;  // it knows what a part is, and has not kept all waiting
    bool asked = false;  // at all
    bool lost = false;   // which was said
  };

  // A range of the bytes of a file, whose end is a guess.
  bool IsGuessed(const PlannedPart& plan) const { return by_lines_ && plan.read.end() > 0; }
  absl::Status Plan();
  absl::Status Assign();
  // A worker for another part, the first one or not; -1: none.
  int FreeWorker(bool first) const;
  absl::Status Ask(Part* part, bool read, bool add);
  absl::Status OnAnswer(const PartAnswer& answer);
  void OnWorkerLost(int number);
  void Release(Part* part);
  // Finds out which parts begin where the one in front ends; plans those behind again that do not.
  absl::Status Confirm();
  // What the rows in front of the first part come to.
  absl::StatusOr<proto::IndexState> Before() const;
  // Takes the first part into the index.
  absl::Status Add(const proto::IndexedPart& sums);
  absl::Status EndFiles(const PlannedPart& plan);
  // Reads the first part here.
  absl::Status DoFirst();
  absl::StatusOr<proto::IndexedPart> ReadRange(Part* part, bool* as_planned);
  bool MustDoFirst() const;
  // For the first part, which a worker has.
  absl::Duration Patience() const;
  // Nothing has come for so long. A worker that is there and does not answer, because its disk
  // hangs or it is stopped, must not keep all waiting for ever.
  void OnSilence(absl::Duration waited);

  const DatasetSpec& spec_;
  PartReaders& readers_;
  const bool by_lines_;
  IndexDraft& draft_;
  PartFiles shared_;
  PartPlan plan_;
  std::deque<Part> parts_;  // that are open, in the order of the files
  int64_t last_part_ = 0;
  std::vector<Worker> workers_;
  const absl::Duration patience_;
  uint64_t last_ask_ = 0;
  const std::shared_ptr<PartAnswers> answers_ = std::make_shared<PartAnswers>();
  // Of the file that the next part goes on with, see IndexState.
  int64_t line_ = 0;
  std::string content_;
  bool own_files_over_ = false;
};

IndexPass::~IndexPass() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].asked) EndPass(&readers_, static_cast<int>(i));
  }
}

absl::Status IndexPass::Plan() {
  while (parts_.size() < 2 + kPartsOfWorker * workers_.size()) {
    ASSIGN_OR_RETURN(std::optional<PlannedPart> next, plan_.Next());
    if (!next) return absl::OkStatus();
    Part& part = parts_.emplace_back();
    part.number = ++last_part_;
    part.plan = *std::move(next);
  }
  return absl::OkStatus();
}

int IndexPass::FreeWorker(bool first) const {
  int best = -1;
  for (size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    if (!worker.there || !worker.usable || (worker.parts >= kPartsOfWorker && !first)) continue;
    if (best < 0 || worker.parts < workers_[static_cast<size_t>(best)].parts) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

absl::Status IndexPass::Assign() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (part.state != State::kWaiting || (part.plan.in_turn && i > 0)) continue;
    const int worker = FreeWorker(/*first=*/i == 0);
    if (worker < 0) break;
    part.worker = worker;
    ++workers_[static_cast<size_t>(worker)].parts;
    RETURN_IF_ERROR(Ask(&part, /*read=*/true, /*add=*/part.plan.in_turn));
  }
  if (!parts_.empty() && parts_[0].state == State::kRead) {
    return Ask(&parts_[0], /*read=*/false, /*add=*/true);
  }
  return absl::OkStatus();
}

absl::Status IndexPass::Ask(Part* part, bool read, bool add) {
  part->state = add ? State::kAdding : State::kReading;
  part->ask = ++last_ask_;
  proto::IndexPart request;
  request.set_part(part->number);
  request.set_first_open(parts_[0].number);
  if (read) *request.mutable_read() = part->plan.read;
  if (add) {
    ASSIGN_OR_RETURN(*request.mutable_before(), Before());
  }
  workers_[static_cast<size_t>(part->worker)].asked = true;
  readers_.Ask(part->worker, std::move(request),
               [answers = answers_, ask = part->ask,
                worker = part->worker](absl::StatusOr<proto::PartIndexed> found) {
                 answers->Add({ask, worker, std::move(found)});
               });
  return absl::OkStatus();
}

void IndexPass::Release(Part* part) {
  if (part->worker >= 0) --workers_[static_cast<size_t>(part->worker)].parts;
  part->worker = -1;
  part->ask = 0;
  part->rows = -1;
  part->state = State::kWaiting;
}

void IndexPass::OnWorkerLost(int number) {
  Worker& worker = workers_[static_cast<size_t>(number)];
  if (!std::exchange(worker.lost, true)) {
    LogWarning("data set: worker ", number,
               " is lost while the index is made; others read its parts");
  }
  worker.there = false;
  for (Part& part : parts_) {
    if (part.worker == number) Release(&part);
  }
}

absl::Status IndexPass::OnAnswer(const PartAnswer& answer) {
  const auto at = std::find_if(parts_.begin(), parts_.end(),
                               [&](const Part& part) { return part.ask == answer.ask; });
  if (at == parts_.end()) return absl::OkStatus();  // given up meanwhile
  const absl::Status& status = answer.found.status();
  if (IsWorkerLost(status)) {
    OnWorkerLost(answer.worker);
    return absl::OkStatus();
  }
  workers_[static_cast<size_t>(answer.worker)].lost = false;
  const bool added = at->state == State::kAdding;
  if (!status.ok()) {
    Release(&*at);
    if (absl::IsUnimplemented(status)) {
      workers_[static_cast<size_t>(answer.worker)].usable = false;  // it is of an older version
    } else if (!added || at->plan.in_turn) {
      at->state = State::kFailed;
      at->failed = status;
    }  // else it is not there any more: the worker was away for a moment
    return absl::OkStatus();
  }
  if (added) return Add(answer.found->sums());
  at->ask = 0;
  at->state = State::kRead;
  at->end = answer.found->end();
  at->rows = answer.found->rows();
  if (at->confirmed && IsGuessed(at->plan) && at->end != at->plan.read.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(at->plan.read.spec().paths(0), ": worker ", answer.worker,
                     " finds other rows than another worker; wanted the same files everywhere"));
  }
  return Confirm();
}

absl::Status IndexPass::Confirm() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (part.confirmed) continue;
    if (IsGuessed(part.plan)) {
      if (part.state != State::kRead) break;
      const PlannedPart& plan = part.plan;
      if (part.end <= plan.read.begin()) {  // not even a block: it is read here
        Release(&part);
        part.state = State::kFailed;
        break;
      }
      if (part.end != plan.read.end()) {
        for (; parts_.size() > i + 1; parts_.pop_back()) Release(&parts_.back());
        RETURN_IF_ERROR(plan_.GoOnAt(plan, part.end));
        part.plan.read.set_end(part.end);
        part.plan.ends_files = part.end == plan.read.files(0).bytes();
      }
    }
    part.confirmed = true;
    if (i + 1 == parts_.size()) plan_.GoOn();
  }
  return absl::OkStatus();
}

absl::StatusOr<proto::IndexState> IndexPass::Before() const {
  const PlannedPart& plan = parts_[0].plan;
  const int32_t last_file = plan.first_file + plan.read.files_size() - 1;
  ASSIGN_OR_RETURN(proto::IndexState before, draft_.State(parts_[0].rows, last_file));
  if (plan.begins_files) before.clear_query();  // queries end with their file
  if (!IsGuessed(plan)) return before;
  before.set_line(plan.begins_files ? plan.line : line_);
  before.set_content(plan.begins_files ? plan.content : content_);
  return before;
}

absl::Status IndexPass::Add(const proto::IndexedPart& sums) {
  Release(&parts_[0]);
  const PlannedPart plan = std::move(parts_[0].plan);
  parts_.pop_front();
  // Who was away may be back.
  for (Worker& worker : workers_) worker.there = true;
  if (plan.read.test() && !std::exchange(own_files_over_, true)) {
    RETURN_IF_ERROR(draft_.EndOwnFiles());
  }
  for (int i = 0; plan.begins_files && i < plan.read.files_size(); ++i) {
    draft_.BeginFile(plan.read.spec().paths(i), plan.read.files(i));
  }
  RETURN_IF_ERROR(draft_.AddPart(sums, plan.first_file));
  line_ = sums.after().line();
  content_ = sums.after().content();
  return plan.ends_files ? EndFiles(plan) : absl::OkStatus();
}

absl::Status IndexPass::EndFiles(const PlannedPart& plan) {
  if (IsGuessed(plan)) {
    StreamHash content;
    if (!content.Restore(content_)) {
      return absl::InvalidArgumentError("a part of a file came without the hash of its bytes");
    }
    const std::string& path = plan.read.spec().paths(0);
    draft_.rows()->AddContent(FormatOf(spec_).ContentOf(path, content.Finish()));
  }
  const int files = plan.read.files_size();
  for (int i = 0; i < files; ++i) {
    RETURN_IF_ERROR(draft_.EndFile(plan.read.spec().paths(i), plan.first_file + i));
  }
  return absl::OkStatus();
}

bool IndexPass::MustDoFirst() const {
  if (parts_.empty()) return false;
  const bool alone = FreeWorker(/*first=*/true) < 0;
  return parts_[0].state == State::kFailed || (parts_[0].state == State::kWaiting && alone);
}

// First as planned, then as much as the longest record and a block take: if there is not even a
// block in that, something is wrong in it.
absl::StatusOr<proto::IndexedPart> IndexPass::ReadRange(Part* part, bool* as_planned) {
  proto::PartOfFiles read = part->plan.read;
  read.set_line(part->plan.begins_files ? part->plan.line : line_);
  auto rows = FilePart::Read(read, &shared_);
  *as_planned = rows.ok() && (*rows)->end() > read.begin();
  if (!*as_planned) {
    const int64_t most = SizesOf(spec_.stream()).block_bytes + 2 * int64_t{kMaxRecordBytes};
    read.set_end(std::min(read.files(0).bytes(), std::max(read.begin() + most, read.end())));
    ASSIGN_OR_RETURN(rows, FilePart::Read(read, &shared_));
    if ((*rows)->end() <= read.begin()) {
      return InFile(
          absl::OutOfRangeError(absl::StrCat(
              read.spec().paths(0), ": a line or quoted record of more than ",
              kMaxRecordBytes >> 20, " MiB, at line ", read.line(), "; is a quote not closed?")),
          read.spec().paths(0));
    }
  }
  part->end = (*rows)->end();
  part->rows = (*rows)->rows();
  part->state = State::kRead;
  ASSIGN_OR_RETURN(const proto::IndexState before, Before());
  return (*rows)->AddUp(before);
}

absl::Status IndexPass::DoFirst() {
  Part& part = parts_[0];
  if (part.plan.in_turn && IsFileError(part.failed)) {
    // It would take long to read all of it: that it can be read says enough.
    const std::string& path = part.plan.read.spec().paths(0);
    RETURN_IF_ERROR(CheckUnchanged(path, part.plan.read.files(0), /*same_machine=*/true));
    RETURN_IF_ERROR(InFile(FindFirstRow(spec_, path, &shared_).status(), path));
    return InFile(part.failed, path);
  }
  bool as_planned = true;
  absl::StatusOr<proto::IndexedPart> sums;
  if (IsGuessed(part.plan)) {
    sums = ReadRange(&part, &as_planned);
  } else {
    ASSIGN_OR_RETURN(const proto::IndexState before, Before());
    sums = FilePart::ReadBehind(part.plan.read, before, &shared_);
  }
  RETURN_IF_ERROR(sums.status());
  if (as_planned && !part.failed.ok()) return part.failed;
  RETURN_IF_ERROR(Confirm());
  return Add(*sums);
}

absl::Duration IndexPass::Patience() const {
  const proto::PartOfFiles& read = parts_[0].plan.read;
  int64_t bytes = 0;
  for (const proto::IndexedFile& file : read.files()) bytes += file.bytes();
  if (IsGuessed(parts_[0].plan)) bytes = read.end() - read.begin();
  return patience_ + absl::Seconds(bytes >> 20);
}

void IndexPass::OnSilence(absl::Duration waited) {
  const Part& part = parts_[0];
  if (part.worker < 0) return;
  const bool over = waited >= Patience();
  if (over || absl::ToInt64Milliseconds(waited) % absl::ToInt64Milliseconds(kSilence) == 0) {
    LogWarning("data set: no part of the index has come for ", absl::FormatDuration(waited),
               over ? "; no longer waits for worker " : "; waits for worker ", part.worker,
               ", which reads ", part.plan.read.spec().paths(0));
  }
  if (!over) return;
  const int silent = part.worker;
  workers_[static_cast<size_t>(silent)].usable = false;
  for (Part& one : parts_) {
    if (one.worker == silent) Release(&one);
  }
}

absl::Status IndexPass::Run() {
  absl::Duration waited;
  while (true) {
    RETURN_IF_ERROR(Plan());
    if (parts_.empty()) break;
    RETURN_IF_ERROR(Assign());
    if (MustDoFirst()) {
      RETURN_IF_ERROR(DoFirst());
      continue;
    }
    const std::vector<PartAnswer> answers = answers_->Take(kRetry);
    for (const PartAnswer& answer : answers) RETURN_IF_ERROR(OnAnswer(answer));
    if (!answers.empty()) {
      waited = absl::ZeroDuration();
      continue;
    }
    for (Worker& worker : workers_) worker.there = true;
    waited += kRetry;
    OnSilence(waited);
  }
  LogInfo("data set: ", draft_.ranges().empty() ? "indexed" : "split.by is counted", " in ",
          last_part_, " parts by ", workers_.size(), " workers");
  return own_files_over_ ? absl::OkStatus() : draft_.EndOwnFiles();
}

}  // namespace

void EndPass(PartReaders* readers, int worker) {
  proto::IndexPart request;
  request.set_first_open(std::numeric_limits<int64_t>::max());
  readers->Ask(worker, std::move(request), [](const absl::StatusOr<proto::PartIndexed>&) {});
}

absl::Status ReadByWorkers(const DatasetSpec& spec, const IndexOptions& options,
                           IndexDraft* draft) {
  return IndexPass(spec, options, draft).Run();
}

absl::StatusOr<DatasetIndex> BuildIndexOnWorkers(const DatasetSpec& spec,
                                                 const IndexOptions& options) {
  return MakeIndex(spec, options, ReadByWorkers);
}

}  // namespace coxswain::data
