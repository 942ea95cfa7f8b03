// What a PS does with its shards for a coordinator: the members of PsService that make, restore,
// save, read and write them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/bf16.h"
#include "ps_server/ps_service.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/graph/serialize.h"
#include "runtime/tensor/within_memory.h"

namespace coxswain::ps {
namespace {

struct Rows {
  proto::ControlReply reply;
  std::vector<Buffer> payload;
};

int PartOf(const Shard& shard, const proto::ReadRows& request) {
  if (request.slot() != cluster::kAverages) return request.slot();
  return std::max(0, shard.averages());
}

// Averages are wider than weights in bf16.
Tensor AsStored(const Shard& shard, const proto::ReadRows& request, Tensor read) {
  const bool wider = request.slot() == cluster::kAverages && read.dtype() == DType::kF32 &&
                     shard.layout().dtype() == DType::kBF16;
  if (!wider) return read;
  Tensor stored(DType::kBF16, read.shape());
  kernels::ToBf16(read.data<float>(), read.num_elements(), stored.mutable_data<BFloat16>());
  return stored;
}

// As many as there are from `begin` on, and fit into one reply: how many places there are is known
// here alone.
absl::StatusOr<Rows> ReadIds(const Shard& shard, const proto::ReadRows& request) {
  const int64_t begin = std::clamp<int64_t>(request.begin(), 0, shard.rows());
  const int64_t count = std::clamp<int64_t>(request.count(), 0, shard.rows() - begin);
  ASSIGN_OR_RETURN(Shard::IdsAndRows read, shard.ReadIds(begin, count, PartOf(shard, request)));
  read.rows = AsStored(shard, request, std::move(read.rows));
  Rows result;
  proto::RowsRead* rows = result.reply.mutable_rows_read();
  rows->set_dtype(static_cast<int>(read.rows.dtype()));
  *rows->mutable_shape() = graph::ToProto(read.rows.shape());
  rows->set_next(read.end < shard.rows() ? read.end : 0);
  result.payload = {read.rows.buffer().Slice(0, read.rows.bytes()),
                    read.ids.buffer().Slice(0, read.ids.bytes())};
  return result;
}

Tensor GradientSteps(const Shard& shard) {
  Tensor steps(DType::kI64, Shape{1});
  *steps.mutable_data<int64_t>() = shard.gradient_steps() + shard.optimizer().earlier_steps();
  return steps;
}

absl::StatusOr<Rows> Read(const ShardStore& store, const proto::ReadRows& request) {
  ASSIGN_OR_RETURN(const Shard* shard, store.Get(request.shard()));
  Tensor read;
  if (request.slot() == cluster::kGradientSteps) {
    read = GradientSteps(*shard);
  } else if (shard->hash() != nullptr) {
    return ReadIds(*shard, request);
  } else {
    ASSIGN_OR_RETURN(read,
                     shard->ReadRows(request.begin(), request.count(), PartOf(*shard, request)));
    read = AsStored(*shard, request, std::move(read));
  }
  Rows result;
  proto::RowsRead* rows = result.reply.mutable_rows_read();
  rows->set_dtype(static_cast<int>(read.dtype()));
  *rows->mutable_shape() = graph::ToProto(read.shape());
  result.payload = {read.buffer().Slice(0, read.bytes())};
  return result;
}

// The part that is written: weights, a slot of the optimizer, or the averages.
absl::StatusOr<int> WrittenPart(const Shard& shard, const proto::WriteRows& request) {
  const int slot = request.slot();
  if (slot == cluster::kAverages && shard.averages() >= 0) return shard.averages();
  if (slot >= 0 && slot <= shard.optimizer().slots()) return slot;
  if (slot == cluster::kUses && shard.hash() != nullptr) return slot;
  return absl::InvalidArgumentError(absl::StrCat(
      "variable '", shard.spec().variable().name(), "': wanted one of its optimizer's ",
      shard.optimizer().slots(), " slots",
      shard.averages() >= 0 ? " or its averages" : ", it has no averages", ", found slot ", slot));
}

absl::Status Write(const ShardStore& store, const proto::WriteRows& request,
                   const net::Message& message) {
  ASSIGN_OR_RETURN(Shard * shard, store.Get(request.shard()));
  ASSIGN_OR_RETURN(const int part, WrittenPart(*shard, request));
  if (shard->hash() != nullptr) {
    ASSIGN_OR_RETURN(cluster::IdsAndRows written,
                     cluster::PayloadIdsAndRows(message, request.dtype(), request.shape()));
    return part == 0 ? shard->WriteIds(written.ids, written.rows, request.replace())
                     : shard->WritePartOfIds(written.ids, written.rows, part);
  }
  ASSIGN_OR_RETURN(Tensor rows, cluster::PayloadTensor(message, request.dtype(), request.shape()));
  return shard->WriteRows(request.begin(), rows, part);
}

// Makes a file and removes it.
absl::Status TryFile(env::FileSystem* files, const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, files->Create(path));
  absl::Status status = file->Append("try", 3);
  status.Update(file->Sync());  // some disks say only now that they are full
  status.Update(file->Close());
  status.Update(files->RemoveAll(path));
  return status;
}

}  // namespace

// What came of the files of one request.
struct PsService::Restore {
  Stamp stamp;
  Reply reply;
  std::vector<absl::StatusOr<LoadedShard>> shards;  // as in the request
  size_t left = 0;                                  // not read yet
};

int PsService::LaneOf(ShardId shard) const {
  loop()->AssertOnLoop();
  const auto found = shards_.find(shard);
  return found == shards_.end() ? -1 : found->second.lane;
}

absl::StatusOr<Lane*> PsService::FindLane(ShardId shard) const {
  const int lane = LaneOf(shard);
  if (lane >= 0) return frames_.lanes[static_cast<size_t>(lane)].get();
  return absl::NotFoundError(
      absl::StrCat("no shard ", shard, " here (", shards_.size(), " shards are)"));
}

void PsService::AddShard(LoadedShard added) {
  loop()->AssertOnLoop();
  const Shard& shard = *added.shard;
  int index = LaneOf(shard.id());
  if (index < 0) {
    std::vector<std::pair<int64_t, int>> load(frames_.lanes.size());  // bytes, shards
    for (const auto& [id, place] : shards_) {
      load[static_cast<size_t>(place.lane)].first += place.bytes;
      ++load[static_cast<size_t>(place.lane)].second;
    }
    index = static_cast<int>(std::min_element(load.begin(), load.end()) - load.begin());
  }
  added.shard->SetLane(index);
  shards_[shard.id()] = {index, shard.memory_bytes(), shard.spec().SerializeAsString()};
  Lane* const lane = frames_.lanes[static_cast<size_t>(index)].get();
  lane->Post([lane, added = std::move(added)]() mutable {
    lane->store()->Put(std::move(added.shard), std::move(added.ledger), added.pulled, added.pushed,
                       std::move(added.fetched));
  });
}

absl::StatusOr<bool> PsService::HasShard(const proto::ShardSpec& spec) const {
  const auto found = shards_.find(spec.id());
  if (found == shards_.end()) return false;
  if (found->second.spec == spec.SerializeAsString()) return true;
  return absl::AlreadyExistsError(absl::StrCat("shard ", spec.id(), " of variable '",
                                               spec.variable().name(),
                                               "' is there with another specification"));
}

void PsService::CreateShards(const proto::CreateShards& request, Reply reply) {
  std::vector<proto::ShardSpec> specs;
  for (const proto::ShardSpec& spec : request.shards()) {
    const auto has = HasShard(spec);
    if (!has.ok()) {
      ReplyStatus(reply, has.status());
      return;
    }
    if (!*has) specs.push_back(spec);
  }
  AfterRemovals(
      [this, stamp = MakeStamp(), specs = std::move(specs), reply = std::move(reply)]() mutable {
        MakeShards(stamp, std::move(specs), std::move(reply));
      });
}

void PsService::AfterRemovals(absl::AnyInvocable<void()> then) {
  InEveryLane([](Lane*) {}, std::move(then), /*is_long=*/true);
}

void PsService::MakeShards(const Stamp& stamp, std::vector<proto::ShardSpec> specs, Reply reply) {
  env()->pool()->Schedule([this, token = tasks_.Start(), stamp, specs = std::move(specs),
                           reply = std::move(reply)]() mutable {
    if (!token) return;  // the service ends
    absl::StatusOr<std::vector<std::unique_ptr<Shard>>> shards =
        std::vector<std::unique_ptr<Shard>>();
    for (const proto::ShardSpec& spec : specs) {
      auto shard = Shard::Create(spec, Shard::Fill::kInitialize, &row_devices_);
      if (!shard.ok()) {
        shards = Annotate(Unmade(shard.status()), TaskName());
        break;
      }
      shards->push_back(*std::move(shard));
    }
    loop()->Post(
        [this, token = std::move(token), stamp, shards = std::move(shards),
         reply = std::move(reply)]() mutable { OnShardsMade(stamp, std::move(shards), reply); });
  });
}

absl::Status PsService::Unmade(const absl::Status& why) const {
  if (!absl::IsFailedPrecondition(why)) return why;
  return WithDetail(why, {ErrorCause::kConfiguration, false, TaskName(), incarnation()});
}

void PsService::OnShardsMade(const Stamp& stamp,
                             absl::StatusOr<std::vector<std::unique_ptr<Shard>>> shards,
                             const Reply& reply) {
  absl::Status status = CheckStamp(stamp);
  if (status.ok()) status = shards.status();
  if (status.ok()) {
    for (std::unique_ptr<Shard>& shard : *shards) {
      const auto has = HasShard(shard->spec());
      status = has.status();
      if (!status.ok()) break;
      if (!*has) AddShard({.shard = std::move(shard)});
    }
    Publish();
  }
  ReplyStatus(reply, status);
}

void PsService::RestoreShards(const proto::RestoreShards& request, Reply reply) {
  auto restore = std::make_shared<Restore>();
  restore->stamp = MakeStamp();
  restore->reply = std::move(reply);
  restore->left = static_cast<size_t>(request.shards_size());
  restore->shards.resize(restore->left);
  AfterRemovals([this, restore, request] { ReadShards(restore, request); });
}

void PsService::ReadShards(const std::shared_ptr<Restore>& restore,
                           const proto::RestoreShards& request) {
  if (restore->left == 0 || !CheckStamp(restore->stamp).ok()) {
    restore->shards.clear();
    OnShardsRead(restore.get());
    return;
  }
  const cluster::PendingTasks::Token token = tasks_.Start();
  if (!token) return;  // the service ends
  for (int i = 0; i < request.shards_size(); ++i) {
    env()->pool()->Schedule([this, token, restore, i, saved = request.shards(i)] {
      auto shard = LoadShard(env()->files(), saved, &row_devices_);
      loop()->Post([this, token, restore, i, shard = std::move(shard)]() mutable {
        restore->shards[static_cast<size_t>(i)] = std::move(shard);
        if (--restore->left == 0) OnShardsRead(restore.get());
      });
    });
  }
}

void PsService::OnShardsRead(Restore* restore) {
  loop()->AssertOnLoop();
  absl::Status status = CheckStamp(restore->stamp);
  for (const auto& shard : restore->shards) {
    if (status.ok() && !shard.ok()) status = Unmade(shard.status());
  }
  if (status.ok()) {
    for (auto& shard : restore->shards) {
      AddShard(*std::move(shard));
    }
    Publish();
    env()->FaultPoint("ps.restore.done");
  }
  ReplyStatus(restore->reply, status);
}

void PsService::SaveShards(const proto::SaveShards& request, Reply reply) {
  if (save_ == nullptr) {
    StartSave(request, reply);
    return;
  }
  // A coordinator asks for the next one when it has given up the one before. That one's chunk which
  // is still being written may be of the same file.
  const absl::Status superseded =
      WithDetail(absl::AbortedError(
                     absl::StrCat("shards are to be saved into ", request.directory(), " instead")),
                 {ErrorCause::kCancelled, true, TaskName(), incarnation()});
  save_->Stop(superseded);
  if (waiting_save_) ReplyStatus(waiting_save_->reply, superseded);
  waiting_save_ = WaitingSave{request, std::move(reply)};
}

void PsService::StartSave(const proto::SaveShards& request, const Reply& reply) {
  for (const ShardId id : request.shards()) {
    if (const auto lane = FindLane(id); !lane.ok()) {
      ReplyStatus(reply, lane.status());
      return;
    }
  }
  const auto save = std::make_shared<LaneSave>(env(), loop(), &tasks_, trace(), request);
  save_ = save;  // until it is over, which it may be at once
  save->Start([this](ShardId id) { return FindLane(id).value(); },
              [this, reply](absl::StatusOr<proto::ShardsSaved> saved) {
                OnSaved(std::move(saved), reply);
              });
}

void PsService::OnSaved(absl::StatusOr<proto::ShardsSaved> saved, const Reply& reply) {
  loop()->AssertOnLoop();
  save_ = nullptr;
  if (saved.ok()) {
    proto::ControlReply message;
    *message.mutable_shards_saved() = *std::move(saved);
    reply(std::move(message), {});
  } else if (absl::IsNotFound(saved.status())) {
    // The coordinator has made it before it asked.
    ReplyStatus(reply, Annotate(saved.status(),
                                "the directory for checkpoints is not there; it must be one that "
                                "the coordinator and all parameter servers share"));
  } else {
    ReplyStatus(reply, saved.status());
  }
  if (auto waiting = std::exchange(waiting_save_, std::nullopt)) {
    StartSave(waiting->request, waiting->reply);
  }
}

void PsService::TryDirectory(const proto::TryDirectory& request, Reply reply) {
  // A name of its own each time: the request may be sent again while it is worked on.
  std::string path = absl::StrCat(request.directory(), "/try-", absl::Hex(env()->Random64()));
  env()->pool()->Schedule(
      [this, token = tasks_.Start(), path = std::move(path), reply = std::move(reply)] {
        if (!token) return;  // the service ends
        ReplyStatus(reply, TryFile(env()->files(), path));
      });
}

void PsService::ReadRows(const proto::ReadRows& request, const Reply& reply) {
  const auto lane = FindLane(request.shard());
  if (!lane.ok()) {
    ReplyStatus(reply, lane.status());
    return;
  }
  (*lane)->Post([lane = *lane, request, reply] {
    absl::StatusOr<Rows> rows = WithinMemory([&] { return Read(*lane->store(), request); });
    if (rows.ok()) {
      reply(std::move(rows->reply), std::move(rows->payload));
    } else {
      ReplyStatus(reply, rows.status());
    }
  });
}

void PsService::WriteRows(const proto::WriteRows& request, net::Message message,
                          const Reply& reply) {
  const auto lane = FindLane(request.shard());
  if (!lane.ok()) {
    ReplyStatus(reply, lane.status());
    return;
  }
  (*lane)->Post([lane = *lane, request, message = std::move(message), reply] {
    ReplyStatus(reply,
                CatchAllocationErrors([&] { return Write(*lane->store(), request, message); }));
  });
}

}  // namespace coxswain::ps
