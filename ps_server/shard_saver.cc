#include "ps_server/shard_saver.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/shard_file.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;

}  // namespace

// Consecutive bytes of one file, and what the pool must know to write them.
struct ShardSaver::Chunk {
  bool first = false;
  bool last = false;
  std::string path;
  std::vector<SafetensorsEntry> entries;        // of the first
  std::map<std::string, std::string> metadata;  // of the first
  Buffer memory;
  char* bytes = nullptr;  // in it, aligned to kDirectBlock
  size_t size = 0;
};

ShardSaver::ShardSaver(Env* env, EventLoop* loop, PendingTasks* tasks, std::string directory)
    : env_(env),
      loop_(loop),
      tasks_(tasks),
      directory_(std::move(directory)),
      began_(env->Monotonic()) {}

absl::StatusOr<std::shared_ptr<ShardSaver>> ShardSaver::Create(Env* env, EventLoop* loop,
                                                               PendingTasks* tasks,
                                                               const ShardStore& store,
                                                               const proto::SaveShards& request) {
  std::shared_ptr<ShardSaver> saver(new ShardSaver(env, loop, tasks, request.directory()));
  RETURN_IF_ERROR(saver->Cut(store, request));
  return saver;
}

absl::Status ShardSaver::Cut(const ShardStore& store, const proto::SaveShards& request) {
  for (const ShardId id : request.shards()) {
    ASSIGN_OR_RETURN(const Shard* shard, store.Get(id));
    ASSIGN_OR_RETURN(ShardStore::Cut cut, store.Snapshot(id));
    File file;
    *file.saved.mutable_shard() = shard->spec();
    file.saved.set_file(ShardFileName(id));
    file.saved.set_ledger(std::move(cut.ledger));
    file.saved.set_rows_pulled(static_cast<uint64_t>(cut.pulled));
    file.saved.set_rows_pushed(static_cast<uint64_t>(cut.pushed));
    file.saved.set_applied(cut.snapshot->applied());
    file.saved.set_gradient_steps(cut.snapshot->gradient_steps());
    if (cut.snapshot->hash()) *file.saved.mutable_hash() = *cut.snapshot->hash();
    file.entries = ShardFileEntries(*shard, cut.snapshot->hash());
    file.snapshot = std::move(cut.snapshot);
    files_.push_back(std::move(file));
  }
  stalled_ += env_->Monotonic() - began_;
  return absl::OkStatus();
}

void ShardSaver::Start(Done done) {
  done_ = std::move(done);
  if (files_.empty()) {
    Finish(absl::OkStatus());
  } else {
    NextChunk();
  }
}

void ShardSaver::Stop(absl::Status why) {
  if (stopped()) return;
  stopped_ = std::move(why);
  for (File& file : files_) file.snapshot.reset();
}

void ShardSaver::NextChunk() {
  PendingTasks::Token token = tasks_->Start();
  if (!token) {
    Finish(absl::CancelledError("the task ends"));
    return;
  }
  env_->pool()->Schedule(
      [self = shared_from_this(), token = std::move(token), chunk = ReadChunk()]() mutable {
        absl::Status status = self->WriteChunk(chunk);
        chunk.memory = Buffer();
        EventLoop* loop = self->loop_;
        loop->Post([self = std::move(self), token = std::move(token), status = std::move(status),
                    last = chunk.last] { self->OnWritten(status, last); });
      });
}

ShardSaver::Chunk ShardSaver::ReadChunk() {
  const absl::Duration began = env_->Monotonic();
  const File& file = files_[file_];
  Chunk chunk;
  chunk.path = absl::StrCat(directory_, "/", file.saved.file());
  chunk.first = part_ == 0 && offset_ == 0;
  if (chunk.first) {
    chunk.entries = file.entries;
    chunk.metadata = ShardFileMetadata(file.saved.shard());
  }
  const int tensors = file.snapshot->tensors();
  int64_t left = -offset_;
  for (int p = part_; p < tensors; ++p) left += file.snapshot->tensor_bytes(p);
  const auto size = static_cast<size_t>(std::min(kChunkBytes, left));
  chunk.memory = Buffer::Allocate(size + kDirectBlock);
  const auto address = reinterpret_cast<uintptr_t>(chunk.memory.data());
  chunk.bytes = static_cast<char*>(chunk.memory.data()) + (kDirectBlock - address % kDirectBlock);
  while (chunk.size < size) {
    const int64_t part_bytes = file.snapshot->tensor_bytes(part_);
    const int64_t n = std::min(static_cast<int64_t>(size - chunk.size), part_bytes - offset_);
    const absl::Status copied =
        file.snapshot->CopyBytes(offset_, n, part_, chunk.bytes + chunk.size);
    COX_CHECK(copied.ok(), copied.ToString());
    chunk.size += static_cast<size_t>(n);
    offset_ += n;
    if (offset_ == part_bytes) {
      ++part_;
      offset_ = 0;
    }
  }
  chunk.last = static_cast<int64_t>(size) == left;
  stalled_ += env_->Monotonic() - began;
  return chunk;
}

absl::Status ShardSaver::WriteChunk(const Chunk& chunk) {
  if (chunk.first) {
    ASSIGN_OR_RETURN(writer_, SafetensorsWriter::Create(env_->files(), chunk.path, chunk.entries,
                                                        chunk.metadata));
  }
  RETURN_IF_ERROR(writer_->Append(chunk.bytes, chunk.size));
  return chunk.last ? writer_->Finish() : absl::OkStatus();
}

void ShardSaver::OnWritten(const absl::Status& status, bool last) {
  if (stopped() || !status.ok()) {
    Finish(stopped() ? stopped_ : status);
    return;
  }
  if (last) {
    File& file = files_[file_];
    file.saved.set_bytes(writer_->bytes());
    file.saved.set_crc32(writer_->crc32());
    file.snapshot.reset();  // updates need not copy its rows any more
    writer_.reset();
    ++file_;
    part_ = 0;
    env_->FaultPoint("ps.save.file");
  }
  if (file_ == files_.size()) {
    Finish(absl::OkStatus());
  } else {
    NextChunk();
  }
}

void ShardSaver::Finish(const absl::Status& status) {
  writer_.reset();
  const std::vector<File> files = std::move(files_);
  Done done = std::exchange(done_, nullptr);
  if (!status.ok()) {
    done(status);
    return;
  }
  proto::ShardsSaved saved;
  for (const File& file : files) *saved.add_shards() = file.saved;
  saved.set_seconds(absl::ToDoubleSeconds(env_->Monotonic() - began_));
  saved.set_stall_seconds(absl::ToDoubleSeconds(stalled_));
  done(std::move(saved));
}

}  // namespace coxswain
