#include "worker_server/index_parts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/text_range.h"
#include "runtime/tensor/within_memory.h"
#include "worker_server/data_paths.h"

namespace coxswain::worker {

IndexParts::IndexParts(env::Env* env, env::EventLoop* loop, cluster::PendingTasks* tasks,
                       const cluster::DaemonOptions* options)
    : env_(env), loop_(loop), tasks_(tasks), options_(*options) {}

void IndexParts::Clear() {
  for (auto& [number, pass] : passes_) pass.shared->Stop();
  passes_.clear();
}

void IndexParts::Forget(uint64_t pass) {
  const auto it = passes_.find(pass);
  if (it == passes_.end()) return;
  it->second.shared->Stop();
  passes_.erase(it);
}

IndexParts::Pass* IndexParts::PassOf(uint64_t number) {
  if (passes_.count(number) == 0 && passes_.size() == kMostPasses) {
    Forget(std::min_element(passes_.begin(), passes_.end(), [](const auto& a, const auto& b) {
             return a.second.asked < b.second.asked;
           })->first);
  }
  Pass* const pass = &passes_[number];
  pass->asked = ++requests_;
  return pass;
}

absl::Status IndexParts::Named(const absl::Status& status) const {
  return Annotate(status, absl::StrCat("/job:worker/task:", options_.task));
}

void IndexParts::Answer(const Reply& reply, absl::StatusOr<proto::PartIndexed> found) const {
  proto::ControlReply message;
  if (found.ok()) {
    *message.mutable_part_indexed() = *std::move(found);
  } else {
    *message.mutable_status() = cluster::ToProto(Named(found.status()));
  }
  reply(std::move(message), {});
}

void IndexParts::Handle(const proto::IndexPart& request, Reply reply) {
  loop_->AssertOnLoop();
  if (request.first_open() == std::numeric_limits<int64_t>::max()) {
    Forget(request.pass());
    Answer(reply, proto::PartIndexed());
    return;
  }
  Pass* const pass = PassOf(request.pass());
  pass->parts.erase(pass->parts.begin(), pass->parts.lower_bound(request.first_open()));
  if (request.has_text()) {
    CountText(*pass, request.text(), std::move(reply));
  } else if (request.has_read()) {
    Read(pass, request, std::move(reply));
  } else if (request.has_before()) {
    AddUp(pass, request, std::move(reply));
  } else {
    Answer(reply, proto::PartIndexed());
  }
}

void IndexParts::CountText(const Pass& pass, proto::TextRange range, Reply reply) {
  auto checked = data::CheckSpec(range.spec());
  absl::Status wrong = checked.status();
  if (wrong.ok()) wrong = ResolvePaths(options_.roots, &*checked);
  auto token = tasks_->Start();
  if (wrong.ok() && !token) wrong = absl::CancelledError("the worker ends");
  if (!wrong.ok()) {
    Answer(reply, wrong);
    return;
  }
  *range.mutable_spec() = *std::move(checked);
  env_->pool()->Schedule([this, range = std::move(range), reply = std::move(reply),
                          shared = pass.shared, token = std::move(token)] {
    absl::StatusOr<proto::PartIndexed> found = proto::PartIndexed();
    auto places = WithinMemory(
        [&] { return data::CountPlacesOf(range, [&shared] { return shared->stopped(); }); });
    if (places.ok()) {
      *found->mutable_text() = *std::move(places);
    } else {
      found = places.status();
    }
    Answer(reply, std::move(found));
  });
}

void IndexParts::Read(Pass* pass, const proto::IndexPart& request, Reply reply) {
  proto::PartOfFiles part = request.read();
  auto checked = data::CheckSpec(part.spec());
  absl::Status wrong = checked.status();
  if (wrong.ok()) wrong = ResolvePaths(options_.roots, &*checked);
  auto token = tasks_->Start();
  if (wrong.ok() && !token) wrong = absl::CancelledError("the worker ends");
  if (!wrong.ok()) {
    Answer(reply, wrong);
    return;
  }
  *part.mutable_spec() = *std::move(checked);
  if (request.has_before()) {
    env_->pool()->Schedule([this, part = std::move(part), before = request.before(),
                            shared = pass->shared, reply = std::move(reply),
                            token = std::move(token)] {
      proto::PartIndexed found;
      auto sums =
          WithinMemory([&] { return data::FilePart::ReadBehind(part, before, shared.get()); });
      if (sums.ok()) *found.mutable_sums() = *std::move(sums);
      Answer(reply, sums.ok() ? absl::StatusOr<proto::PartIndexed>(std::move(found))
                              : absl::StatusOr<proto::PartIndexed>(sums.status()));
    });
    return;
  }
  Held& held = pass->parts[request.part()];
  held.rows = nullptr;
  held.load = ++last_load_;
  env_->pool()->Schedule([this, part = std::move(part), of = request.pass(),
                          number = request.part(), load = held.load, shared = pass->shared,
                          reply = std::move(reply), token = std::move(token)]() mutable {
    absl::StatusOr<Rows> rows =
        WithinMemory([&] { return data::FilePart::Read(part, shared.get()); });
    loop_->Post(
        [this, of, number, load, rows = std::move(rows), reply = std::move(reply),
         token = std::move(token)]() mutable { OnRead(of, number, load, std::move(rows), reply); });
  });
}

void IndexParts::OnRead(uint64_t pass, int64_t part, uint64_t load, absl::StatusOr<Rows> rows,
                        const Reply& reply) {
  loop_->AssertOnLoop();
  const auto of = passes_.find(pass);
  Held* held = nullptr;
  if (of != passes_.end()) {
    const auto it = of->second.parts.find(part);
    if (it != of->second.parts.end() && it->second.load == load) held = &it->second;
  }
  if (!rows.ok()) {
    if (held != nullptr) of->second.parts.erase(part);
    Answer(reply, rows.status());
    return;
  }
  proto::PartIndexed found;
  found.set_end((*rows)->end());
  found.set_rows((*rows)->rows());
  if (held != nullptr) held->rows = *std::move(rows);
  Answer(reply, std::move(found));
}

void IndexParts::AddUp(Pass* pass, const proto::IndexPart& request, Reply reply) {
  std::map<int64_t, Held>& parts = pass->parts;
  const auto held = parts.find(request.part());
  auto token = tasks_->Start();
  if (held == parts.end() || held->second.rows == nullptr || !token) {
    Answer(reply, absl::NotFoundError(absl::StrCat("part ", request.part(), " is not here")));
    return;
  }
  Rows rows = std::move(held->second.rows);
  parts.erase(held);
  env_->pool()->Schedule([this, rows = std::move(rows), before = request.before(),
                          reply = std::move(reply), token = std::move(token)] {
    proto::PartIndexed found;
    found.set_end(rows->end());
    auto sums = WithinMemory([&] { return rows->AddUp(before); });
    if (sums.ok()) *found.mutable_sums() = *std::move(sums);
    Answer(reply, sums.ok() ? absl::StatusOr<proto::PartIndexed>(std::move(found))
                            : absl::StatusOr<proto::PartIndexed>(sums.status()));
  });
}

}  // namespace coxswain::worker
