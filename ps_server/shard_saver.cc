// A save as it goes: cut, then for each shard what is to be written, linked or written in chunks
// that are read on the loop and written on the pool, and done.
#include "ps_server/shard_saver.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/delta_plan.h"
#include "ps_server/finite_scan.h"
#include "ps_server/shard_file.h"
#include "ps_server/shard_stream.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/tensor/within_memory.h"

namespace coxswain::ps {
namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;
// Of a delta: its rows lie apart, and are slower to read.
constexpr int64_t kDeltaChunkBytes = int64_t{1} << 20;
constexpr int64_t kRowsLookedAt = 1 << 16;  // at a time, for touched ones
constexpr int64_t kSample = 1 << 12;        // before, to see whether there are far too many

std::string LastName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

// A shard that is saved.
struct ShardSaver::File {
  enum class Stage : uint8_t {
    kFindTouched,
    kLinkBase,
    kWrite,
  };
  Stage stage = Stage::kWrite;
  proto::SavedShard saved;
  std::shared_ptr<const ShardSnapshot> snapshot;
  std::string fetched;     // see kFetchedMetadata
  proto::SavedShard base;  // unless all is written
  DeltaPlan plan;
  std::vector<int64_t> touched;  // among the rows below `looked_at`
  int64_t looked_at = 0;
  bool linked = false;
  std::string name;  // of the file that is written
  std::unique_ptr<ShardStream> stream;
  std::shared_ptr<FiniteScan> scan;  // belongs to the chunk that is being written

  void WriteWhole() {
    stage = Stage::kWrite;
    linked = false;
    touched = {};
    name = saved.file();
  }
};

// Consecutive bytes of one file, and what the pool must know to write them.
struct ShardSaver::Chunk {
  bool first = false;
  bool last = false;
  std::string path;
  std::vector<checkpoint::SafetensorsEntry> entries;  // of the first
  std::map<std::string, std::string> metadata;        // of the first
  Buffer memory;
  char* bytes = nullptr;  // in it, aligned to kDirectBlock
  size_t size = 0;
  std::vector<ShardStream::Piece> pieces;
  std::shared_ptr<FiniteScan> scan;
  // Set by the pool: rows of the file whose numbers are none.
  std::shared_ptr<std::vector<FiniteScan::Found>> not_finite;
};

ShardSaver::ShardSaver(env::Env* env, env::EventLoop* loop, cluster::PendingTasks* tasks,
                       std::string directory)
    : env_(env),
      loop_(loop),
      tasks_(tasks),
      directory_(std::move(directory)),
      began_(env->Monotonic()) {}

ShardSaver::~ShardSaver() = default;

absl::StatusOr<std::shared_ptr<ShardSaver>> ShardSaver::Create(env::Env* env, env::EventLoop* loop,
                                                               cluster::PendingTasks* tasks,
                                                               const ShardStore& store,
                                                               const proto::SaveShards& request) {
  std::shared_ptr<ShardSaver> saver(new ShardSaver(env, loop, tasks, request.directory()));
  RETURN_IF_ERROR(CatchAllocationErrors([&] { return saver->Cut(store, request); }));
  return saver;
}

absl::Status ShardSaver::Cut(const ShardStore& store, const proto::SaveShards& request) {
  std::map<ShardId, const proto::SavedShard*> bases;
  for (const proto::SavedShard& base : request.bases()) {
    bases[base.shard().id()] = &base;
    // They get second names in the directory of the request: nothing else is to get one.
    for (const checkpoint::ShardFile& file : checkpoint::FilesOf(base)) {
      if (IsShardFileName(LastName(file.file))) continue;
      return absl::InvalidArgumentError(absl::StrCat("wanted a file of shard ", base.shard().id(),
                                                     " in a checkpoint, found '", file.file, "'"));
    }
  }
  for (const ShardId id : request.shards()) {
    ASSIGN_OR_RETURN(const Shard* shard, store.Get(id));
    ASSIGN_OR_RETURN(ShardStore::Cut cut, store.Snapshot(id));
    File file;
    *file.saved.mutable_shard() = shard->spec();
    file.saved.set_file(ShardFileName(id));
    file.saved.set_ledger(std::move(cut.ledger));
    file.fetched = std::move(cut.fetched);
    file.saved.set_rows_pulled(static_cast<uint64_t>(cut.pulled));
    file.saved.set_rows_pushed(static_cast<uint64_t>(cut.pushed));
    file.saved.set_applied(cut.snapshot->applied());
    file.saved.set_gradient_steps(cut.snapshot->gradient_steps());
    if (cut.snapshot->hash()) *file.saved.mutable_hash() = *cut.snapshot->hash();
    file.snapshot = std::move(cut.snapshot);
    file.WriteWhole();
    if (const auto base = bases.find(id); base != bases.end()) {
      file.plan = PlanDelta(*base->second, shard->spec(), *file.snapshot, request);
      if (file.plan.kind != DeltaPlan::Kind::kWhole) file.base = *base->second;
      if (file.plan.kind == DeltaPlan::Kind::kNothing) file.stage = File::Stage::kLinkBase;
      if (file.plan.kind == DeltaPlan::Kind::kTouched) file.stage = File::Stage::kFindTouched;
    }
    files_.push_back(std::move(file));
  }
  stalled_ += env_->Monotonic() - began_;
  return absl::OkStatus();
}

void ShardSaver::Start(Done done) {
  done_ = std::move(done);
  Next();
}

void ShardSaver::Stop(absl::Status why) {
  if (stopped()) return;
  stopped_ = std::move(why);
  for (File& file : files_) {
    file.stream.reset();
    file.snapshot.reset();
  }
}

void ShardSaver::OnPool(absl::AnyInvocable<absl::Status()> work,
                        absl::AnyInvocable<void(const absl::Status&)> then) {
  cluster::PendingTasks::Token token = tasks_->Start();
  if (!token) {
    Finish(absl::CancelledError("the task ends"));
    return;
  }
  env_->pool()->Schedule([self = shared_from_this(), token = std::move(token),
                          work = std::move(work), then = std::move(then)]() mutable {
    absl::Status status = CatchAllocationErrors([&work] { return work(); });
    work = nullptr;  // the chunk's memory
    env::EventLoop* loop = self->loop_;
    loop->Post([self = std::move(self), token = std::move(token), status = std::move(status),
                then = std::move(then)]() mutable {
      if (self->stopped()) {
        self->Finish(self->stopped_);
      } else {
        then(status);
      }
    });
  });
}

void ShardSaver::Next() {
  if (file_ == files_.size()) {
    if (!std::exchange(unsynced_links_, false)) {
      Finish(absl::OkStatus());
      return;
    }
    OnPool([this] { return env_->files()->SyncDirectory(directory_); },
           [this](const absl::Status& status) { Finish(status); });
    return;
  }
  switch (files_[file_].stage) {
    case File::Stage::kFindTouched:
      // By way of the pool: a thread that brings frames is not to stay for all of it.
      OnPool([] { return absl::OkStatus(); }, [this](const absl::Status&) { FindTouched(); });
      return;
    case File::Stage::kLinkBase:
      LinkBase();
      return;
    case File::Stage::kWrite:
      WriteNext();
      return;
  }
}

void ShardSaver::FindTouched() {
  const absl::Duration began = env_->Monotonic();
  File& file = files_[file_];
  const absl::StatusOr<bool> few = WithinMemory([&] { return LookForTouched(&file); });
  stalled_ += env_->Monotonic() - began;
  if (!few.ok()) {
    Finish(Annotate(few.status(), file.saved.shard().variable().name()));
    return;
  }
  if (!*few) {
    file.WriteWhole();
  } else if (file.looked_at == file.snapshot->rows()) {
    file.stage = File::Stage::kLinkBase;
  }
  Next();
}

absl::StatusOr<bool> ShardSaver::LookForTouched(File* file) {
  const int64_t rows = file->snapshot->rows();
  const int64_t end = std::min(rows, file->looked_at + kRowsLookedAt);
  const int64_t since = file->base.applied();
  std::vector<int64_t>* const touched = &file->touched;
  if (file->looked_at == 0 && rows > kRowsLookedAt) {
    const int64_t step = rows / kSample;
    RETURN_IF_ERROR(file->snapshot->FindTouched(0, rows, since, touched, step));
    const int64_t about = static_cast<int64_t>(touched->size()) * step;
    touched->clear();
    if (about > file->plan.most_rows / 4 * 5) return false;
  }
  RETURN_IF_ERROR(file->snapshot->FindTouched(file->looked_at, end, since, touched));
  file->looked_at = end;
  return static_cast<int64_t>(touched->size()) <= file->plan.most_rows;
}

void ShardSaver::LinkBase() {
  OnPool([this, base = files_[file_].base] { return Link(base); },
         [this](const absl::Status& status) { OnLinked(status.ok()); });
}

absl::Status ShardSaver::Link(const proto::SavedShard& base) {
  env::FileSystem* files = env_->files();
  std::vector<std::string> linked;
  for (const checkpoint::ShardFile& file : checkpoint::FilesOf(base)) {
    const std::string name = absl::StrCat(directory_, "/", LastName(file.file));
    if (absl::Status status = files->Link(file.file, name); !status.ok()) {
      // All is written then, under the same names: never into the base's own files.
      for (const std::string& made : linked) RETURN_IF_ERROR(files->RemoveAll(made));
      return status;
    }
    linked.push_back(name);
  }
  return absl::OkStatus();
}

void ShardSaver::OnLinked(bool linked) {
  File& file = files_[file_];
  if (!linked) {
    file.WriteWhole();
    Next();
    return;
  }
  env_->FaultPoint("ps.save.linked");
  file.linked = unsynced_links_ = true;
  proto::SavedShard& saved = file.saved;
  saved.set_file(LastName(file.base.file()));
  saved.set_bytes(file.base.bytes());
  saved.set_crc32(file.base.crc32());
  for (const proto::SavedDelta& delta : file.base.deltas()) {
    *saved.add_deltas() = delta;
    saved.mutable_deltas()->rbegin()->set_file(LastName(delta.file()));
  }
  // What a hash table has beside its rows changes with every update.
  const bool changed =
      file.plan.kind == DeltaPlan::Kind::kTouched && (saved.has_hash() || !file.touched.empty());
  if (!changed) {
    FileDone();
    return;
  }
  proto::SavedDelta* delta = saved.add_deltas();
  file.name = DeltaFileName(saved.shard().id(), saved.deltas_size());
  delta->set_file(file.name);
  delta->set_rows(static_cast<int64_t>(file.touched.size()));
  file.stage = File::Stage::kWrite;
  Next();
}

void ShardSaver::WriteNext() {
  absl::StatusOr<Chunk> chunk = WithinMemory([this] { return ReadChunk(); });
  if (!chunk.ok()) {
    Finish(Annotate(chunk.status(), files_[file_].saved.shard().variable().name()));
    return;
  }
  const bool last = chunk->last;
  const auto not_finite = chunk->not_finite;
  OnPool([this, chunk = *std::move(chunk)] { return WriteChunk(chunk); },
         [this, last, not_finite](absl::Status status) {
           if (status.ok()) status = CheckFinite(*not_finite);
           if (status.ok()) {
             OnWritten(last);
           } else {
             Finish(status);
           }
         });
}

absl::StatusOr<ShardSaver::Chunk> ShardSaver::ReadChunk() {
  const absl::Duration began = env_->Monotonic();
  File& file = files_[file_];
  if (file.stream == nullptr) {
    file.stream = file.linked
                      ? std::make_unique<ShardStream>(file.snapshot, std::move(file.touched))
                      : std::make_unique<ShardStream>(file.snapshot);
    file.scan = std::make_shared<FiniteScan>(file.saved.shard(), *file.snapshot);
  }
  ShardStream& stream = *file.stream;
  Chunk chunk;
  chunk.path = absl::StrCat(directory_, "/", file.name);
  chunk.first = !stream.begun();
  if (chunk.first) {
    chunk.entries = stream.Entries();
    chunk.metadata = ShardFileMetadata(file.saved.shard());
    // A file that is linked, for nothing was applied since, has them all.
    if (!file.fetched.empty()) chunk.metadata[kFetchedMetadata] = std::move(file.fetched);
  }
  const int64_t size = std::min(file.linked ? kDeltaChunkBytes : kChunkBytes, stream.left());
  chunk.size = static_cast<size_t>(size);
  chunk.memory = Buffer::Allocate(chunk.size + env::kDirectBlock);
  const auto address = reinterpret_cast<uintptr_t>(chunk.memory.data());
  chunk.bytes =
      static_cast<char*>(chunk.memory.data()) + (env::kDirectBlock - address % env::kDirectBlock);
  ASSIGN_OR_RETURN(chunk.pieces, stream.Read(size, chunk.bytes));
  chunk.scan = file.scan;
  chunk.not_finite = std::make_shared<std::vector<FiniteScan::Found>>();
  chunk.last = stream.left() == 0;
  stalled_ += env_->Monotonic() - began;
  return chunk;
}

absl::Status ShardSaver::WriteChunk(const Chunk& chunk) {
  const char* data = chunk.bytes;
  for (const ShardStream::Piece& piece : chunk.pieces) {
    chunk.scan->Look(piece, data, chunk.not_finite.get());
    data += piece.bytes;
  }
  if (chunk.first) {
    // A file of this name may be a link to one of an older checkpoint.
    RETURN_IF_ERROR(env_->files()->RemoveAll(chunk.path));
    ASSIGN_OR_RETURN(writer_, checkpoint::SafetensorsWriter::Create(env_->files(), chunk.path,
                                                                    chunk.entries, chunk.metadata));
  }
  RETURN_IF_ERROR(writer_->Append(chunk.bytes, chunk.size));
  return chunk.last ? writer_->Finish() : absl::OkStatus();
}

absl::Status ShardSaver::CheckFinite(const std::vector<FiniteScan::Found>& found) const {
  if (found.empty()) return absl::OkStatus();
  const File& file = files_[file_];
  const ShardSnapshot& snapshot = *file.snapshot;
  const proto::VariableSpec& variable = file.saved.shard().variable();
  for (const FiniteScan::Found& f : found) {
    const int64_t row = file.stream->RowOf(f.row);
    if (!IsLive(snapshot, row)) continue;
    const std::string where =
        variable.table() ? absl::StrCat("table '", variable.name(), "', id ", IdOf(snapshot, row))
                         : absl::StrCat("variable '", variable.name(), "'");
    const std::string what =
        f.part == 0 ? "weights are"
                    : absl::StrCat("optimizer's '", snapshot.part(f.part).name, "' is");
    return WithDetail(
        absl::FailedPreconditionError(absl::StrCat(where, ": its ", what, " NaN or infinite")),
        {ErrorCause::kApplication, false, "", 0});
  }
  return absl::OkStatus();
}

void ShardSaver::OnWritten(bool last) {
  if (!last) {
    WriteNext();
    return;
  }
  File& file = files_[file_];
  file.saved.set_bytes_written(writer_->bytes());
  if (file.linked) {
    proto::SavedDelta& delta = *file.saved.mutable_deltas()->rbegin();
    delta.set_bytes(writer_->bytes());
    delta.set_crc32(writer_->crc32());
  } else {
    file.saved.set_bytes(writer_->bytes());
    file.saved.set_crc32(writer_->crc32());
  }
  writer_.reset();
  FileDone();
}

void ShardSaver::FileDone() {
  File& file = files_[file_++];
  file.stream.reset();
  file.scan.reset();
  file.snapshot.reset();  // updates need not copy its rows any more
  env_->FaultPoint("ps.save.file");
  Next();
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

}  // namespace coxswain::ps
