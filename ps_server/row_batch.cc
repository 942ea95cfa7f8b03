#include "ps_server/row_batch.h"

#include <algorithm>
#include <utility>

#include "ps_server/device_rows.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::ps {
namespace {

// So much does not wait for more: its copy may as well begin.
constexpr size_t kMostBytes = size_t{4} << 20;

}  // namespace

RowBatch::~RowBatch() {
  for (const Work& work : waiting_) {
    COX_CHECK(!work.is_update(), "an update of rows in the memory of a GPU was dropped");
    work.of->waits_in_ = nullptr;
  }
}

void RowBatch::Add(Work work) {
  bytes_ += work.bytes;
  work.of->waits_in_ = this;
  waiting_.push_back(std::move(work));
  if (bytes_ > kMostBytes) status_.Update(Run());
}

absl::Status RowBatch::Run() noexcept {
  std::vector<Work> works = std::exchange(waiting_, {});
  bytes_ = 0;
  for (const Work& work : works) work.of->waits_in_ = nullptr;
  for (auto begin = works.begin(); begin != works.end();) {
    const auto* const stream = begin->of->stream_.get();
    const auto end = std::stable_partition(
        begin, works.end(), [stream](const Work& w) { return w.of->stream_.get() == stream; });
    RunTogether(absl::MakeSpan(&*begin, static_cast<size_t>(end - begin)));
    begin = end;
  }
  return std::exchange(status_, absl::OkStatus());
}

void RowBatch::RunTogether(absl::Span<Work> works) {
  DeviceRows* const first = works[0].of;
  size_t bytes = 0;
  for (const Work& work : works) {
    work.of->LetGo();
    bytes += work.bytes;
  }
  absl::StatusOr<DeviceRows::Slab> slab = first->Allocate(bytes);
  if (absl::IsResourceExhausted(slab.status())) {
    // What earlier work has held may be what is wanted.
    for (const Work& work : works) work.of->Synchronize().IgnoreError();
    slab = first->Allocate(bytes);
  }
  if (absl::IsResourceExhausted(slab.status()) && works.size() > 1) {
    for (Work& work : works) RunTogether(absl::MakeSpan(&work, 1));
    return;
  }
  if (!slab.ok()) {
    for (Work& work : works) OnError(&work, slab.status());
    return;
  }
  size_t at = 0;
  for (const Work& work : works) {
    work.of->Fill(work, static_cast<char*>(slab->host.data()) + at);
    at += work.bytes;
  }
  const absl::Status copied = first->stream_->CopyToDevice(slab->device, slab->host);
  std::vector<Buffer> used = {slab->host};
  std::vector<absl::Status> statuses(works.size(), copied);
  std::vector<Buffer> places;
  bool updates = false;
  at = 0;
  for (size_t i = 0; i < works.size(); ++i) {
    Work& work = works[i];
    places.push_back(slab->device.Slice(at, work.bytes));
    at += work.bytes;
    updates = updates || work.is_update();
    if (work.is_update() && work.gradient.device() != Device{}) {
      used.push_back(work.gradient.buffer());
    }
    if (statuses[i].ok()) statuses[i] = work.of->Enqueue(work, places[i]);
    // At once, for the next may be another update of the same rows.
    if (!statuses[i].ok()) OnError(&work, statuses[i]);
  }
  // Behind all that is found: so each kind is one behind the other.
  for (size_t i = 0; i < works.size(); ++i) {
    if (!statuses[i].ok()) continue;
    statuses[i] = works[i].of->EnqueueGiven(works[i], places[i]);
    if (!statuses[i].ok()) OnError(&works[i], statuses[i]);
  }
  first->Keep(std::move(used));
  // Nobody may come for long.
  if (const absl::Status begun = updates ? first->stream_->Flush() : absl::OkStatus();
      !begun.ok()) {
    for (const Work& work : works) {
      if (work.is_update()) work.of->Fail(begun);
    }
  }
}

void RowBatch::OnError(Work* work, const absl::Status& why) {
  if (work->is_update()) {
    work->of->OnUpdateNotEnqueued(*work, why);
  } else {
    const absl::Status checked = work->of->Checked(why);
    status_.Update(device::IsDeviceLost(checked) ? checked
                                                 : Annotate(checked, work->of->plan_.who));
  }
}

}  // namespace coxswain::ps
