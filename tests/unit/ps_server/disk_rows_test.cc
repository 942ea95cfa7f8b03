// Shards whose rows are in files, beside the same in memory.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "kernels/optimizers/optimizer_info.h"
#include "ps_server/growing_storage.h"
#include "ps_server/shard_file.h"
#include "ps_server/shard_snapshot.h"
#include "ps_server/table_file.h"
#include "runtime/cluster/table_directory.h"
#include "tests/testing/data_files.h"
#include "tests/testing/hash_shards.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/registry.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Catch::Contains;
using Kind = graph::Update::Kind;
using testing::Apply;
using testing::BytesOf;
using testing::Ids;
using testing::KindsOfHashTables;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::SaveShard;
using testing::StepOfHashTable;
using testing::UpdateOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr int64_t kRows = 3000, kDim = 20;

// Shards with their rows in a directory.
class DiskShards {
 public:
  absl::StatusOr<std::unique_ptr<Shard>> Create(proto::ShardSpec spec,
                                                Shard::Fill fill = Shard::Fill::kInitialize) {
    spec.mutable_variable()->set_device(kOnDisk);
    return Shard::Create(spec, fill, &devices_);
  }
  std::unique_ptr<Shard> Make(const proto::ShardSpec& spec) {
    auto shard = Create(spec);
    INFO(shard.status().ToString());
    REQUIRE(shard.ok());
    return *std::move(shard);
  }
  RowDevices* devices() { return &devices_; }
  // Of which nothing else has files.
  std::string directory() const { return files_.Path(""); }

 private:
  const DataFiles files_;
  RowDevices devices_{nullptr, 0, &testing::ClusterOps(), nullptr, files_.Path("")};
};

// While it lives, files of this process are at most so large.
class LimitedFiles {
 public:
  explicit LimitedFiles(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~LimitedFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  const sighandler_t handler_;
};

proto::ShardSpec Table(const std::string& optimizer, int64_t rows = kRows,
                       DType dtype = DType::kF32) {
  proto::VariableSpec variable =
      VariableOf("users", {rows, kDim}, true, OptimizerOf(optimizer), dtype);
  variable.mutable_initializer()->set_kind("normal");
  variable.mutable_initializer()->set_stddev(0.1);
  variable.mutable_initializer()->set_seed(5);
  return WholeOf(variable);
}

proto::ShardSpec HashTable(const std::string& optimizer, const proto::HashTableSpec& hash = {}) {
  return testing::HashShardsOf(testing::HashTableOf("users", 6, OptimizerOf(optimizer), hash),
                               1)[0];
}

// All parts of both, bit for bit.
void CheckSame(Shard* a, Shard* b) {
  REQUIRE(a->parts() == b->parts());
  CHECK(a->applied() == b->applied());
  REQUIRE(a->rows() == b->rows());
  for (int p = 0; p < a->parts(); ++p) {
    INFO("part " << a->part(p).name);
    const Tensor of_a = a->ReadRows(0, a->rows(), p).value();
    const Tensor of_b = b->ReadRows(0, b->rows(), p).value();
    REQUIRE(of_a.shape() == of_b.shape());
    CHECK(std::memcmp(of_a.raw(), of_b.raw(), of_a.bytes()) == 0);
  }
  if (a->hash() == nullptr) return;
  CHECK((BytesOf(*a->Snapshot()) == BytesOf(*b->Snapshot())));  // not printed
  CHECK(a->hash()->evicted() == b->hash()->evicted());
}

// What `shard` is saved as is restored on disk and in memory, and is as `wanted` then.
void CheckRestored(Shard* shard, Shard* wanted, DiskShards* disk) {
  const DataFiles files;
  for (const char* device : {kOnDisk, ""}) {
    proto::SavedShard saved = SaveShard(*shard, *shard->Snapshot(), files.Write("s", ""));
    saved.mutable_shard()->mutable_variable()->set_device(device);
    auto loaded = LoadShard(env::NewRealFileSystem().get(), saved, disk->devices());
    INFO(loaded.status().ToString());
    REQUIRE(loaded.ok());
    CheckSame(loaded->shard.get(), wanted);
  }
}

// Mapped files of this directory.
struct Mapped {
  char* begin;
  size_t bytes;
};
std::vector<Mapped> MappedIn(const std::string& directory) {
  std::vector<Mapped> mapped;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!absl::StrContains(line, directory)) continue;
    uintptr_t begin = 0, end = 0;
    REQUIRE(std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2);
    mapped.push_back({reinterpret_cast<char*>(begin), end - begin});
  }
  return mapped;
}

// As the system does when memory is short.
void WriteToDisk(const std::string& directory) {
  for (const Mapped& mapped : MappedIn(directory)) {
    REQUIRE(msync(mapped.begin, mapped.bytes, MS_SYNC) == 0);
    madvise(mapped.begin, mapped.bytes, MADV_PAGEOUT);  // what can be
  }
}

void Train(int64_t steps, Shard* a, Shard* b) {
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t at = a->applied();
    const std::vector<int64_t> ids = {
        0, kRows - 1, 7, 10 + at % 500, 7, 1000 + at * 3 % 900, 2500 - at % 40};
    const Tensor values =
        RandomTensor(Shape{static_cast<int64_t>(ids.size()), kDim}, static_cast<uint64_t>(at));
    for (Shard* shard : {a, b}) {
      Apply(shard, UpdateOf(Kind::kSparse, shard->id(), values, Ids(ids)));
    }
  }
}

TEST_CASE("rows on disk begin and are updated to the same bits as in memory", "[disk_rows]") {
  for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
    const std::string kind(info.kind);
    if (kind == "adam") continue;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(kind, DTypeName(dtype));
      proto::ShardSpec spec = Table(kind, kRows, dtype);
      spec.mutable_variable()->mutable_optimizer()->set_ema_decay(dtype == DType::kF32 ? 0.9 : 0);
      DiskShards disk;
      const auto there = disk.Make(spec), here = Make(spec);
      CheckSame(there.get(), here.get());
      Train(20, there.get(), here.get());
      WriteToDisk(disk.directory());
      Train(20, there.get(), here.get());
      CheckSame(there.get(), here.get());
      const std::vector<int64_t> ids = {5, 0, kRows - 1, 1003, 5};
      CHECK(testing::ValuesOf<float>(there->Gather(Ids(ids)).value()) ==
            testing::ValuesOf<float>(here->Gather(Ids(ids)).value()));
    }
  }
}

TEST_CASE("hash table: rows on disk come, change and go to the same bits as in memory",
          "[disk_rows]") {
  for (const std::string optimizer : {"adagrad", "rowwise_adagrad", "lazy_adam"}) {
    for (const proto::HashTableSpec& kind : KindsOfHashTables()) {
      CAPTURE(optimizer, kind.ShortDebugString());
      DiskShards disk;
      const auto there = disk.Make(HashTable(optimizer, kind)),
                 here = Make(HashTable(optimizer, kind));
      for (uint64_t number = 0; number < 60; ++number) {
        if (number % 20 == 0) WriteToDisk(disk.directory());
        StepOfHashTable(there.get(), number);
        StepOfHashTable(here.get(), number);
      }
      CheckSame(there.get(), here.get());
    }
  }
}

TEST_CASE("a snapshot of rows on disk is as it was, and is restored on disk and in memory",
          "[disk_rows]") {
  for (const proto::HashTableSpec& kind : KindsOfHashTables()) {
    CAPTURE(kind.ShortDebugString());
    DiskShards disk;
    const auto there = disk.Make(HashTable("adagrad", kind)),
               here = Make(HashTable("adagrad", kind));
    const auto steps = [&](uint64_t begin, uint64_t end) {
      for (uint64_t number = begin; number < end; ++number) {
        StepOfHashTable(there.get(), number);
        StepOfHashTable(here.get(), number);
      }
    };
    steps(0, 50);
    const auto of_there = there->Snapshot(), of_here = here->Snapshot();
    steps(50, 90);
    WriteToDisk(disk.directory());
    CHECK((BytesOf(*of_there) == BytesOf(*of_here)));
    CheckRestored(there.get(), here.get(), &disk);
  }
}

TEST_CASE("a numbered table of several blocks is restored on disk and in memory with all its parts",
          "[disk_rows]") {
  constexpr int64_t kMany = 40'000;  // 6.4 MB with their accumulators
  DiskShards disk;
  const auto there = disk.Make(Table("adagrad", kMany)), here = Make(Table("adagrad", kMany));
  Train(20, there.get(), here.get());
  CheckRestored(there.get(), here.get(), &disk);
}

TEST_CASE("a snapshot of numbered rows on disk gives ranges and lists of rows as they were",
          "[disk_rows]") {
  DiskShards disk;
  const auto there = disk.Make(Table("adagrad")), here = Make(Table("adagrad"));
  Train(10, there.get(), here.get());
  const auto of_there = there->Snapshot(), of_here = here->Snapshot();
  WriteToDisk(disk.directory());
  Train(10, there.get(), here.get());
  for (int p = 0; p < of_here->parts(); ++p) {
    INFO(of_here->part(p).name);
    const int64_t bytes = of_here->tensor_bytes(p), begin = bytes / 3 + 1, n = bytes / 2;
    std::string x(static_cast<size_t>(n), 0), y = x;
    REQUIRE(of_there->CopyBytes(begin, n, p, x.data()).ok());
    REQUIRE(of_here->CopyBytes(begin, n, p, y.data()).ok());
    CHECK((x == y));
    const std::vector<int64_t> rows = {1, 7, 100, 1003, 2999};
    const int64_t listed = bytes / kRows * 5 - 3;
    REQUIRE(of_there->CopyRows(rows, 2, listed - 2, p, x.data()).ok());
    REQUIRE(of_here->CopyRows(rows, 2, listed - 2, p, y.data()).ok());
    CHECK((x == y));
  }
}

TEST_CASE("files of rows have no name, and are gone with their shard", "[disk_rows]") {
  DiskShards disk;
  {
    const auto numbered = disk.Make(Table("sgd")), hash = disk.Make(HashTable("sgd"));
    StepOfHashTable(hash.get(), 1);
    CHECK(std::filesystem::is_empty(disk.directory()));
    CHECK(MappedIn(disk.directory()).size() == 2);
    // What outlives its shard is there as long as it is read.
    const auto snapshot = numbered->Snapshot();
  }
  CHECK(MappedIn(disk.directory()).empty());
}

TEST_CASE("a table for which the disk has no room is refused, and says what is free",
          "[disk_rows]") {
  DiskShards disk;
  const LimitedFiles limited(4 << 20);
  const absl::Status refused = disk.Create(Table("adagrad", 1'000'000)).status();
  INFO(refused.ToString());
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(refused.message()), Contains("variable 'users'") && Contains("wanted ") &&
                                                 Contains("MiB in ") && Contains("free are "));
}

TEST_CASE("a hash table that the disk has no more room for refuses updates, and stays as it is",
          "[disk_rows]") {
  DiskShards disk;
  const auto there = disk.Make(HashTable("adagrad")), here = Make(HashTable("adagrad"));
  for (uint64_t number = 0; number < 10; ++number) {
    StepOfHashTable(there.get(), number);
    StepOfHashTable(here.get(), number);
  }
  {
    const LimitedFiles limited(1 << 20);
    const absl::Status refused = there->Reserve(100'000);
    INFO(refused.ToString());
    CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
    CHECK_THAT(std::string(refused.message()), Contains("'users'") && Contains("100000 more"));
  }
  CheckSame(there.get(), here.get());
  CHECK(there->Reserve(100'000).ok());
  StepOfHashTable(there.get(), 10);
  StepOfHashTable(here.get(), 10);
  CheckSame(there.get(), here.get());
}

TEST_CASE("a thousand hash tables on disk leave a process addresses for other things",
          "[disk_rows]") {
  DiskShards disk;
  std::vector<std::unique_ptr<Shard>> shards;
  for (int i = 0; i < 1000; ++i) shards.push_back(disk.Make(HashTable("sgd")));
  for (const size_t wanted : {0, 999}) StepOfHashTable(shards[wanted].get(), 1);
  CheckSame(shards[0].get(), shards[999].get());
  constexpr size_t kMuch = size_t{1} << 40;
  void* const mapped = mmap(nullptr, kMuch, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapped != MAP_FAILED);
  if (mapped != MAP_FAILED) munmap(mapped, kMuch);
  shards.clear();
  CHECK(AddressesLeft() > size_t{90} << 40);
}

TEST_CASE("what cannot be on disk is refused when it is made", "[disk_rows]") {
  DiskShards disk;
  proto::ShardSpec dense = Table("sgd");
  dense.mutable_variable()->set_table(false);
  for (const auto& [spec, says] :
       {std::pair{dense, "only of embedding tables"},
        std::pair{Table("adam"), "lazy_adam moves those that the update names"}}) {
    const absl::Status refused = disk.Create(spec).status();
    CAPTURE(refused.ToString());
    CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(refused.message()), Contains("device: disk") && Contains(says));
  }
  proto::ShardSpec unknown = Table("sgd");
  unknown.mutable_variable()->set_device("tape");
  CHECK_THAT(std::string(Shard::Create(unknown).status().message()),
             Contains("wanted gpu, disk or none, found tape"));
}

TEST_CASE("a PS that was not told where refuses rows on disk, and says what is wanted",
          "[disk_rows]") {
  proto::ShardSpec spec = Table("sgd");
  spec.mutable_variable()->set_device(kOnDisk);
  RowDevices none(nullptr, 0, &testing::ClusterOps(), nullptr);
  for (RowDevices* devices : {&none, static_cast<RowDevices*>(nullptr)}) {
    const absl::Status refused = Shard::Create(spec, Shard::Fill::kInitialize, devices).status();
    INFO(refused.ToString());
    CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
    CHECK_THAT(std::string(refused.message()), Contains("'users'") && Contains("--table-dir"));
  }
}

TEST_CASE("a directory of tables that is none is told at once", "[disk_rows]") {
  const DataFiles files;
  CHECK(cluster::CheckTableDirectory("").ok());
  CHECK(cluster::CheckTableDirectory(files.Path("")).ok());
  CHECK_THAT(std::string(cluster::CheckTableDirectory(files.Path("none")).message()),
             Contains("none"));
  CHECK_FALSE(cluster::CheckTableDirectory(files.Write("file", "")).ok());
  CHECK(std::filesystem::file_size(files.Path("file")) == 0);
}

}  // namespace
}  // namespace coxswain::ps
