// Tables of checkpoints that follow one another, in memory: each version has the rows that its
// files have, whatever was loaded before, and costs memory for what differs.
#include "coordinator/model/checkpoint_tables.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/env/file_system.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::Must;

constexpr int64_t kDim = 16;
constexpr size_t kRowBytes = kDim * sizeof(float);

struct Row {
  std::vector<float> values;
  int64_t id = 0;
  bool operator==(const Row& o) const { return values == o.values && id == o.id; }
};
using Places = std::vector<std::optional<Row>>;  // of a shard

// A checkpoint: what it holds, and the files that say so.
struct Saved {
  std::vector<Places> shards;
  TableFiles files;
};

class Checkpoints {
 public:
  Checkpoints(bool hash, int64_t rows, uint64_t seed = 1) : hash_(hash), random_(seed) {
    now_.resize(2);
    for (size_t s = 0; s < 2; ++s) now_[s].resize(static_cast<size_t>(rows / 2));
    for (Places& places : now_) {
      for (auto& place : places) place = NewRow();
    }
  }

  size_t Uniform(size_t below) { return random_() % below; }
  // Changes some rows. In a hash table ids also come, go, and move to other places.
  void Train(size_t changes) {
    for (size_t i = 0; i < changes; ++i) {
      Places& places = now_[Uniform(2)];
      const size_t place = Uniform(places.size());
      if (!hash_ || Uniform(3) == 0) {
        const int64_t id = places[place] ? places[place]->id : next_id_++;
        places[place] = NewRow();
        places[place]->id = id;
      } else if (Uniform(3) == 0) {
        std::swap(places[place], places[Uniform(places.size())]);
      } else if (Uniform(2) == 0) {
        places[place].reset();
      } else {
        places.push_back(NewRow());
      }
    }
  }
  // Writes all rows, or those that changed since an older checkpoint.
  Saved Save(const Saved* base = nullptr) {
    ++number_;
    Saved saved;
    saved.shards = now_;
    saved.files.name = "t";
    saved.files.path = absl::StrCat("checkpoint ", number_);
    saved.files.tensor = "weights";
    saved.files.row_elements = kDim;
    saved.files.layout.row_bytes = kRowBytes;
    saved.files.layout.hash = hash_;
    int64_t begin = 0;
    for (size_t s = 0; s < now_.size(); ++s) {
      saved.files.layout.begins.push_back(begin);
      begin += static_cast<int64_t>(now_[s].size());
      TableFiles::Shard shard;
      if (base != nullptr) shard = base->files.shards[s];
      shard.places = static_cast<int64_t>(now_[s].size());
      std::vector<int64_t> rows;
      for (int64_t p = 0; p < shard.places; ++p) {
        const auto at = static_cast<size_t>(p);
        const bool same = base != nullptr && at < base->shards[s].size() &&
                          base->shards[s][at] == now_[s][at] && Uniform(50) != 0;
        if (!same) rows.push_back(p);
      }
      const auto file = Write(s, rows, base != nullptr);
      if (base == nullptr) {
        shard.whole = file;
      } else {
        shard.deltas.push_back(file);
      }
      auto opened = checkpoint::RowFiles::Open(shard.whole, shard.deltas, shard.places);
      shard.rows = std::make_shared<const checkpoint::RowFiles>(Must(std::move(opened)));
      saved.files.shards.push_back(std::move(shard));
    }
    return saved;
  }
  void GoBackTo(const Saved& saved) { now_ = saved.shards; }
  int64_t ids() const { return next_id_; }

 private:
  Row NewRow() {
    Row row;
    for (int64_t i = 0; i < kDim; ++i) row.values.push_back(static_cast<float>(random_()));
    row.id = next_id_++;
    return row;
  }
  checkpoint::RowFiles::File Write(size_t shard, const std::vector<int64_t>& rows, bool delta) {
    const auto n = static_cast<int64_t>(rows.size());
    std::vector<checkpoint::SafetensorsEntry> entries = {{"weights", DType::kF32, Shape{n, kDim}}};
    if (hash_) entries.push_back({"id", DType::kI64, Shape{n}});
    if (hash_) entries.push_back({"count", DType::kI32, Shape{n}});
    if (delta) entries.push_back({checkpoint::kDeltaRows, DType::kI64, Shape{n}});
    std::vector<float> values;
    std::vector<int64_t> ids;
    std::vector<int32_t> counts;
    for (const int64_t place : rows) {
      const auto& row = now_[shard][static_cast<size_t>(place)];
      // A free place has anything in it.
      const std::vector<float> of = row ? row->values : std::vector<float>(kDim, 77.0f);
      values.insert(values.end(), of.begin(), of.end());
      ids.push_back(row ? row->id : 1);
      counts.push_back(row ? 3 : 0);
    }
    const std::string path = files_.Path(absl::StrCat(number_, "-", shard, ".safetensors"));
    auto out = Must(checkpoint::SafetensorsWriter::Create(system_.get(), path, entries));
    Must(out->Append(values.data(), values.size() * sizeof(float)));
    if (hash_) Must(out->Append(ids.data(), ids.size() * sizeof(int64_t)));
    if (hash_) Must(out->Append(counts.data(), counts.size() * sizeof(int32_t)));
    if (delta) Must(out->Append(rows.data(), rows.size() * sizeof(int64_t)));
    Must(out->Finish());
    return {path, out->bytes(), out->crc32(), true, n};
  }

  const bool hash_;
  std::mt19937 random_;
  const DataFiles files_;
  const std::unique_ptr<env::FileSystem> system_ = env::NewRealFileSystem();
  std::vector<Places> now_;
  int64_t next_id_ = 100;
  int number_ = 0;
};

bool IsRow(const char* found, const Row& wanted) {
  return found != nullptr && std::memcmp(found, wanted.values.data(), kRowBytes) == 0;
}

// How many rows are not what the checkpoint has.
int Wrong(const TableVersion& version, const Saved& saved, int64_t ids) {
  int wrong = 0;
  std::set<int64_t> there;
  int64_t position = 0;
  for (const Places& places : saved.shards) {
    for (const auto& row : places) {
      if (!saved.files.layout.hash) {
        wrong += !IsRow(version.Row(position), *row);
      } else if (row) {
        there.insert(row->id);
        wrong += !IsRow(version.RowOfId(row->id), *row);
      }
      ++position;
    }
  }
  for (int64_t id = 0; saved.files.layout.hash && id < ids; ++id) {
    if (there.count(id) == 0) wrong += version.RowOfId(id) != nullptr;
  }
  return wrong;
}

TEST_CASE("tables: after each of many deltas all rows are those of a whole read, to the bit",
          "[checkpoint_tables]") {
  for (const bool hash : {false, true}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(hash, seed);
      Checkpoints job(hash, 300, seed);
      CheckpointTables tables;
      std::vector<Saved> saved;
      // Versions that are still in use, by their checkpoints.
      std::map<size_t, std::shared_ptr<const TableVersion>> held;
      for (int i = 0; i < 60; ++i) {
        job.Train(job.Uniform(12));
        // Most build on the last but one; some on the last, and some are whole.
        const size_t back = job.Uniform(10) == 0 ? 1 : 2;
        const bool whole = saved.size() < back || job.Uniform(12) == 0;
        saved.push_back(job.Save(whole ? nullptr : &saved[saved.size() - back]));
        if (job.Uniform(8) == 0) continue;  // the next one came too soon
        held[saved.size() - 1] = Must(tables.Load(saved.back().files));
        if (job.Uniform(6) == 0) {  // somebody asks for an older one
          const size_t older = job.Uniform(saved.size());
          held[older] = Must(tables.Load(saved[older].files));
        }
        if (job.Uniform(15) == 0) {  // parameter servers were lost, and the job went back
          job.GoBackTo(saved[saved.size() - 1 - job.Uniform(std::min<size_t>(3, saved.size()))]);
        }
        for (const auto& [at, version] : held) CHECK(Wrong(*version, saved[at], job.ids()) == 0);
        while (held.size() > 4) held.erase(std::next(held.begin(), job.Uniform(held.size())));
      }
    }
  }
}

TEST_CASE("tables: of a checkpoint that builds on the last but one only the delta is read",
          "[checkpoint_tables]") {
  for (const bool hash : {false, true}) {
    CAPTURE(hash);
    Checkpoints job(hash, 20000);
    CheckpointTables tables;
    std::vector<Saved> saved;
    for (int i = 0; i < 6; ++i) {
      job.Train(40);
      saved.push_back(job.Save(i < 2 ? nullptr : &saved[saved.size() - 2]));
      const uint64_t before = tables.bytes_read();
      const auto version = Must(tables.Load(saved.back().files));
      const uint64_t read = tables.bytes_read() - before;
      uint64_t deltas = 0, all = 0;
      for (const TableFiles::Shard& shard : saved.back().files.shards) {
        if (!shard.deltas.empty()) deltas += shard.deltas.back().bytes;
        all += shard.whole.bytes;
      }
      CHECK(read == (i < 2 ? all : deltas));
      CHECK(Wrong(*version, saved.back(), job.ids()) == 0);
      CHECK(Must(tables.Load(saved.back().files)) == version);
      CHECK(tables.bytes_read() - before == read);
    }
  }
}

TEST_CASE("tables: memory is that of one model and of what changed, in many whole checkpoints too",
          "[checkpoint_tables]") {
  for (const bool hash : {false, true}) {
    for (const bool whole : {false, true}) {
      CAPTURE(hash, whole);
      Checkpoints job(hash, 20000);
      CheckpointTables tables;
      std::vector<Saved> saved;
      std::shared_ptr<const TableVersion> before, version;
      int64_t most = 0;
      for (int i = 0; i < 40; ++i) {
        job.Train(200);
        const bool delta = !whole && saved.size() >= 2 && i % 10 != 0;
        saved.push_back(job.Save(delta ? &saved[saved.size() - 2] : nullptr));
        before = version;  // still answers its requests
        version = Must(tables.Load(saved.back().files));
        most = std::max(most, tables.bytes_held());
      }
      before.reset();
      CheckpointTables one;
      const auto alone = Must(one.Load(saved.back().files));
      CAPTURE(most, tables.bytes_held(), one.bytes_held());
      // A step changes a hundredth of the rows, and at most as many pages of a hash table's ids as
      // there are ids that come and go.
      CHECK(most < one.bytes_held() * (hash ? 13 : 11) / 10);
      CHECK(tables.bytes_held() < one.bytes_held() * 11 / 10);
    }
  }
}

TEST_CASE("tables: what no version uses any more is given back", "[checkpoint_tables]") {
  Checkpoints job(false, 20000);
  CheckpointTables tables;
  const Saved first = job.Save();
  auto held = Must(tables.Load(first.files));
  const int64_t one = tables.bytes_held();
  job.Train(400000);  // all rows
  auto next = Must(tables.Load(job.Save().files));
  CHECK(tables.bytes_held() > one * 19 / 10);
  CHECK(Wrong(*held, first, job.ids()) == 0);
  held.reset();
  CHECK(tables.bytes_held() < one * 11 / 10);
}

TEST_CASE("tables: a torn, missing or altered delta is told by its name and changes nothing",
          "[checkpoint_tables]") {
  for (const bool hash : {false, true}) {
    CAPTURE(hash);
    Checkpoints job(hash, 2000);
    CheckpointTables tables;
    const Saved first = job.Save();
    job.Train(20);
    const Saved second = job.Save(&first);
    const auto version = Must(tables.Load(second.files));
    const int64_t bytes = tables.bytes_held();
    job.Train(20);
    Saved third = job.Save(&first);
    const std::string path = third.files.shards[1].deltas[0].path;
    const auto fails = [&](absl::StatusCode code, const std::string& what) {
      const absl::Status status = tables.Load(third.files).status();
      INFO(status.message());
      CHECK(status.code() == code);
      CHECK_THAT(std::string(status.message()), Contains(path) && Contains(what));
      CHECK(tables.bytes_held() == bytes);
      CHECK(Wrong(*version, second, job.ids()) == 0);
      CHECK(Must(tables.Load(second.files)) == version);
    };
    std::filesystem::rename(path, path + ".gone");
    fails(absl::StatusCode::kNotFound, "No such file");
    std::filesystem::copy_file(path + ".gone", path);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    fails(absl::StatusCode::kDataLoss, "");
    std::filesystem::remove(path);
    std::filesystem::copy_file(path + ".gone", path);
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-1, std::ios::end);
      file.put('\x55');
    }
    fails(absl::StatusCode::kDataLoss, "");
    std::filesystem::rename(path + ".gone", path);
    CHECK(Wrong(*Must(tables.Load(third.files)), third, job.ids()) == 0);
  }
}

TEST_CASE("tables: a hash table with an id that has two rows is refused", "[checkpoint_tables]") {
  Checkpoints job(true, 100);
  CheckpointTables tables;
  const Saved good = job.Save();
  const auto version = Must(tables.Load(good.files));
  Saved twice = good;
  twice.shards[0][3]->id = twice.shards[1][5]->id;
  job.GoBackTo(twice);
  const absl::Status status = tables.Load(job.Save(&good).files).status();
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Contains("has two rows"));
  CHECK(Wrong(*version, good, job.ids()) == 0);
  CHECK(Must(tables.Load(good.files)) == version);
}

TEST_CASE("tables: a manifest that claims more rows than its files can have is refused",
          "[checkpoint_tables]") {
  Checkpoints job(true, 100);
  CheckpointTables tables;
  Saved saved = job.Save();
  saved.files.shards[0].places = int64_t{1} << 50;
  CHECK(absl::IsDataLoss(tables.Load(saved.files).status()));
}

TEST_CASE("tables: readers of older versions are not disturbed by newer ones",
          "[checkpoint_tables]") {
  Checkpoints job(true, 1000);
  CheckpointTables tables;
  std::vector<Saved> saved;
  std::vector<std::thread> readers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 12; ++i) {
    job.Train(30);
    saved.push_back(job.Save(saved.size() < 2 ? nullptr : &saved[saved.size() - 2]));
    readers.emplace_back([version = Must(tables.Load(saved.back().files)), is = saved.back(),
                          &wrong, ids = job.ids()]() mutable {
      for (int pass = 0; pass < 5; ++pass) wrong += Wrong(*version, is, ids);
      version.reset();
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace coxswain::model
