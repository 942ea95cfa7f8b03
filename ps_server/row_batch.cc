#include "ps_server/row_batch.h"

#include <algorithm>
#include <utility>

#include "ps_server/device_rows.h"
#include "runtime/base/logging.h"

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

absl::Status RowBatch::Run() {
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
  // What was given comes behind all that is found: so each kind is one behind the other.
  for (const bool given : {false, true}) {
    at = 0;
    for (size_t i = 0; i < works.size(); ++i) {
      const Work& work = works[i];
      const Buffer there = slab->device.Slice(at, work.bytes);
      at += work.bytes;
      if (!statuses[i].ok()) continue;
      if (given) {
        statuses[i] = work.of->EnqueueGiven(work, there);
      } else {
        statuses[i] = work.of->Enqueue(work, there);
        if (work.is_update() && work.gradient.device() != Device{}) {
          used.push_back(work.gradient.buffer());
        }
      }
    }
  }
  first->Keep(std::move(used));
  for (size_t i = 0; i < works.size(); ++i) {
    if (!statuses[i].ok()) OnError(&works[i], statuses[i]);
  }
}

void RowBatch::OnError(Work* work, const absl::Status& why) {
  if (work->is_update()) {
    work->of->OnUpdateNotEnqueued(*work, why);
  } else {
    status_.Update(work->of->Checked(why));
  }
}

}  // namespace coxswain::ps
