// Data in an object store: found, read in ranges and in whole, streamed; what goes wrong there.
#include <catch2/catch.hpp>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/data/data_file.h"
#include "runtime/data/file_list.h"
#include "runtime/data/input_file.h"
#include "runtime/data/remote_files.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/reads_ahead.h"
#include "tests/s3/object_store.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/streamed_specs.h"
#include "tests/testing/zlib_bytes.h"
#include "tests/testing/zstd_bytes.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;

std::string Csv(int from, int to) {
  std::string csv = "user,age,label\n";
  for (int i = from; i < to; ++i) absl::StrAppend(&csv, "u", i % 37, ",", i, ",", i % 2, "\n");
  return csv;
}

proto::DatasetSpec Clicks(const std::string& path) {
  proto::DatasetSpec spec = CsvSpec(path);
  AddCategorical(&spec, "user");
  AddNumeric(&spec, "age");
  spec.mutable_label()->set_column("label");
  spec.set_seed(11);
  spec.set_example_ids(true);
  return spec;
}

std::string Content(const std::string& path) {
  auto input = InputFile::Open(path);
  INFO(input.status().ToString());
  REQUIRE(input.ok());
  while (!(*input)->at_end()) REQUIRE((*input)->More().ok());
  return {(*input)->begin(), (*input)->end()};
}

TEST_CASE("remote files: objects are found by address, directory and pattern", "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  for (const char* const key :
       {"b/clicks/day=1/a.csv", "b/clicks/day=1/b.csv", "b/clicks/day=2/a.csv", "b/clicks/_DONE",
        "b/clicks/.hidden", "b/clicks/x.csv", "b/clicks/odd*name.csv", "b/top.csv"}) {
    store.Put(key, "x\n1\n");
  }
  CHECK(*ListFiles("s3://b/top.csv") == Strings{"s3://b/top.csv"});
  CHECK(*ListFiles("s3://b/clicks") ==
        Strings{"s3://b/clicks/odd*name.csv", "s3://b/clicks/x.csv"});
  CHECK(*ListFiles("s3://b/clicks/day=1/") ==
        Strings{"s3://b/clicks/day=1/a.csv", "s3://b/clicks/day=1/b.csv"});
  CHECK(*ListFiles("s3://b/clicks/day=*/a.csv") ==
        Strings{"s3://b/clicks/day=1/a.csv", "s3://b/clicks/day=2/a.csv"});
  CHECK(*ListFiles("s3://b/cl?cks/day=[12]/[b-z].csv") == Strings{"s3://b/clicks/day=1/b.csv"});
  // An object of that very name.
  CHECK(*ListFiles("s3://b/clicks/odd*name.csv") == Strings{"s3://b/clicks/odd*name.csv"});
  // Whoever opens it tells that it is not there.
  CHECK(*ListFiles("s3://b/none.csv") == Strings{"s3://b/none.csv"});
  CHECK(absl::IsNotFound(ListFiles("s3://b/none/*.csv").status()));
  CHECK_THAT(std::string(ListFiles("s3://*/a.csv").status().message()),
             Contains("a bucket's name"));
}

TEST_CASE("remote files: objects are read as they are, unpacked, and in ranges", "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  std::string text;
  while (text.size() < (size_t{9} << 20)) absl::StrAppend(&text, text.size(), " lines of text\n");
  DataFiles files;
  store.Put("b/plain", text);
  store.Put("b/empty", "");
  store.Put("b/zstd", ZstdBytes(text));
  store.Put("b/zlib", ZlibBytes(text));
  CHECK(Content("s3://b/plain") == text);
  CHECK(Content("s3://b/empty").empty());
  CHECK(Content("s3://b/zstd") == text);
  CHECK(Content("s3://b/zlib") == text);

  const auto file = OpenDataFile("s3://b/plain");
  REQUIRE(file.ok());
  CHECK((*file)->size() == text.size());
  CHECK((*file)->modified_ns() > 0);
  const int64_t before = store.bytes();
  std::string some(100, ' ');
  REQUIRE((*file)->Read(5'000'000, some.data(), some.size()).ok());
  CHECK(some == text.substr(5'000'000, 100));
  CHECK(store.bytes() == before + 100);
  CHECK(absl::IsOutOfRange((*file)->Read(text.size() - 1, some.data(), 2)));
}

TEST_CASE("remote files: a streamed data set is that of the same files on a disk", "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  const DataFiles files;
  const std::string first = Csv(0, 700), second = Csv(700, 1000);
  proto::DatasetSpec local = Clicks(files.Write("a.csv", first));
  local.add_paths(files.WriteGzip("b.csv.gz", second));
  store.Put("b/data/a.csv", first);
  store.Put("b/data/b.csv.zst", ZstdBytes(second));
  const auto whole = MustLoad(local);
  for (const int64_t block_bytes : {100, 3000, 1 << 20}) {
    const auto remote = MustLoad(Streamed(files, Clicks("s3://b/data"), block_bytes));
    REQUIRE(remote->index() != nullptr);
    CHECK(Examples(*remote, Part::kTraining, 1, 64) == Examples(*whole, Part::kTraining, 1, 64));
    CHECK(remote->trained_rows().SerializeAsString() == whole->trained_rows().SerializeAsString());
  }
  const auto held = MustLoad(Clicks("s3://b/data"));
  CHECK(held->index() == nullptr);
  CHECK(Examples(*held, Part::kTraining, 0, 50) == Examples(*whole, Part::kTraining, 0, 64));
}

// Runs tasks on a thread, one after the other.
class Behind {
 public:
  Behind() : thread_([this] { Run(); }) {}
  ~Behind() {
    {
      const absl::MutexLock lock(&mu_);
      ends_ = true;
    }
    thread_.join();
  }
  void Add(absl::AnyInvocable<void()> task) {
    const absl::MutexLock lock(&mu_);
    tasks_.push_back(std::move(task));
  }

 private:
  bool Due() const { return ends_ || !tasks_.empty(); }
  void Run() {
    while (true) {
      absl::AnyInvocable<void()> task;
      {
        const absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &Behind::Due));
        if (ends_) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  absl::Mutex mu_;
  std::deque<absl::AnyInvocable<void()>> tasks_;
  bool ends_ = false;
  std::thread thread_;
};

TEST_CASE("remote files: several blocks are asked for at the same time", "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  const DataFiles files;
  const std::string text = Csv(0, 4000);
  const auto whole = MustLoad(Clicks(files.Write("a.csv", text)));
  store.Put("b/a.csv", text);
  // A window's blocks are wanted together; in the order of the files only the next two are.
  proto::DatasetSpec shuffled = Streamed(files, Clicks("s3://b/a.csv"), 2000);
  shuffled.set_shuffle(true);
  const auto spec = CheckSpec(shuffled).value();
  const auto index = MustLoad(spec)->index();
  REQUIRE(index->blocks_size() > 20);
  Behind behind;
  const auto data = Dataset::OpenStreamed(spec, index, /*reader=*/0,
                                          [&](auto task) { behind.Add(std::move(task)); });
  REQUIRE(data.ok());
  store.Gather(6);
  const int before = store.requests();
  CHECK(Examples(**data, Part::kTraining, 1, 64) == Examples(*whole, Part::kTraining, 1, 64));
  CHECK(store.most_at_once() >= 6);
  // Nearly each once: one may be read at the moment when it is asked for.
  CHECK(store.requests() <= before + 2 * index->blocks_size());
}

TEST_CASE("remote files: what is asked for ahead is bounded, and let go when it is not wanted",
          "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  const std::string text = Csv(0, 1000);
  store.Put("b/a.csv", text);
  KeptFiles files;
  ReadsAhead ahead(&files, 250);
  std::vector<ReadsAhead::Range> ranges;
  for (int64_t i = 0; i < 20; ++i) ranges.push_back({"s3://b/a.csv", 100 * i, 100});
  std::string bytes(100, ' ');
  const auto take = [&](int64_t i) {
    return ahead.Take(ranges[static_cast<size_t>(i)], bytes.data());
  };
  ahead.Want(ranges);
  CHECK_FALSE(take(2));
  CHECK(take(1));
  CHECK(bytes == text.substr(100, 100));
  CHECK_FALSE(take(1));
  // The first one is not wanted any more.
  ahead.Want({ranges.begin() + 5, ranges.end()});
  CHECK_FALSE(take(0));
  CHECK(take(5));
  CHECK(bytes == text.substr(500, 100));
  CHECK(take(6));
  // One that is larger than there is room for comes all the same.
  ReadsAhead::Range large{"s3://b/a.csv", 0, 1000};
  ahead.Want({large, ranges[0]});
  bytes.resize(1000);
  CHECK(ahead.Take(large, bytes.data()));
  CHECK(bytes == text.substr(0, 1000));
  // Others know how many bytes there are.
  ahead.Want({ranges[3]});
  CHECK_FALSE(ahead.Take({"s3://b/a.csv", 300, 50}, bytes.data()));
  // Nobody takes these.
  ahead.Want(ranges);
  ahead.Want({{"s3://b/none.csv", 0, 10}});
  // What fails is left to who reads it.
  store.Deny("b");
  ahead.Want({ranges[4]});
  CHECK_FALSE(take(4));
}

// Tasks of the background: kept until they are let run, and then run where they are added.
class Held {
 public:
  void Add(absl::AnyInvocable<void()> task) {
    if (!running_) return held_.push_back(std::move(task));
    task();
  }
  void Run() {
    running_ = true;
    for (auto& task : std::exchange(held_, {})) task();
  }

 private:
  std::vector<absl::AnyInvocable<void()>> held_;
  bool running_ = false;
};

std::string BytesOfFile(const std::string& path) {
  const auto file = OpenDataFile(path);
  REQUIRE(file.ok());
  std::string bytes((*file)->size(), ' ');
  REQUIRE((*file)->Read(0, bytes.data(), bytes.size()).ok());
  return bytes;
}

// A file of 40 groups with a column that nobody reads, here and in the store.
struct Grouped {
  Grouped(const DataFiles& files, ObjectStore* store, const std::string& format) {
    std::string csv = "user,noise,age,label\n";
    for (int i = 0; i < 8000; ++i) {
      absl::StrAppend(&csv, "u", i % 37, ",", i * 7919 % 100'003, "x", i, ",", i, ",", i % 2, "\n");
    }
    path = WriteParquet(files, files.Write("a.csv", csv), "a." + format, 200,
                        {"user:text", "noise:text", "age:f64", "label:i8"});
    bytes = BytesOfFile(path);
    store->Put("b/a", bytes);
    local = Clicks(path);
    local.set_format(format);
    local.clear_csv();
    remote = local;
    remote.set_paths(0, "s3://b/a");
  }
  std::string path, bytes;
  proto::DatasetSpec local, remote;
};

TEST_CASE("remote files: several row groups are asked for at the same time, each once",
          "[remote]") {
  if (!HasArrow()) return;
  const std::string format = GENERATE("parquet", "arrow");
  ObjectStore store;
  store.Use();
  const DataFiles files;
  const Grouped grouped(files, &store, format);
  const auto whole = MustLoad(grouped.local);
  proto::DatasetSpec shuffled = Streamed(files, grouped.remote, 1 << 20);
  shuffled.set_shuffle(true);
  const auto spec = CheckSpec(shuffled).value();
  const auto index = MustLoad(spec)->index();
  REQUIRE(index->blocks_size() == 40);
  Held held;
  const auto data = Dataset::OpenStreamed(spec, index, /*reader=*/0,
                                          [&](auto task) { held.Add(std::move(task)); });
  REQUIRE(data.ok());
  // This opens the file and reads a group.
  REQUIRE((*data)->Read({Part::kTraining, 1, 0, 1}).ok());
  store.Gather(6);
  const int before = store.requests();
  const int64_t bytes = store.bytes();
  held.Run();
  CHECK(Examples(**data, Part::kTraining, 1, 64) == Examples(*whole, Part::kTraining, 1, 64));
  CHECK(store.most_at_once() >= 6);
  CHECK(store.requests() <= before + index->blocks_size());
  CHECK(store.bytes() <= bytes + static_cast<int64_t>(grouped.bytes.size()));
}

TEST_CASE("remote files: a row group is on its way while the one in front of it is indexed",
          "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  const DataFiles files;
  const Grouped grouped(files, &store, "parquet");
  // Its footer is asked for with 64 KiB in front of it.
  const auto behind = static_cast<int64_t>(grouped.bytes.size()) - (int64_t{64} << 10);
  REQUIRE(behind > 1 << 16);
  const auto whole = MustLoad(grouped.local);
  store.Gather(2, behind);
  const auto remote = MustLoad(grouped.remote);
  CHECK(store.most_at_once() == 2);
  CHECK(Examples(*remote, Part::kTraining, 0, 64) == Examples(*whole, Part::kTraining, 0, 64));
}

TEST_CASE("remote files: row groups that were asked for and do not come, or are others",
          "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  const DataFiles files;
  const Grouped grouped(files, &store, "parquet");
  const auto spec = CheckSpec(Streamed(files, grouped.remote, 1 << 20)).value();
  const auto index = MustLoad(spec)->index();
  Held held;
  const auto data = Dataset::OpenStreamed(spec, index, /*reader=*/0,
                                          [&](auto task) { held.Add(std::move(task)); });
  REQUIRE(data.ok());
  REQUIRE((*data)->Read({Part::kTraining, 0, 0, 1}).ok());
  held.Run();
  const auto read_all = [&] {
    absl::Status status;
    for (int64_t i = 0; i < (*data)->num_examples(Part::kTraining) && status.ok(); i += 100) {
      status = (*data)->Read({Part::kTraining, 0, i, i + 1}).status();
    }
    return status;
  };
  // An object that nobody may read at the moment is not one that changed.
  store.Deny("b");
  CHECK(absl::IsPermissionDenied(read_all()));
  store.Allow("b");
  CHECK(read_all().ok());
  // As long, and other.
  std::string other = grouped.bytes;
  for (size_t i = other.size() / 4; i < other.size() / 2; ++i) other[i] ^= 1;
  store.Put("b/a", other);
  (*data)->DropBlocks();
  CHECK_THAT(std::string(read_all().message()), Contains("s3://b/a: changed since it was indexed"));
}

TEST_CASE("remote files: of a Parquet object only the columns of a job are read", "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  const DataFiles files;
  std::string csv = "user,age,label,noise\n";
  for (int i = 0; i < 3000; ++i) {
    absl::StrAppend(&csv, "u", i % 37, ",", i, ",", i % 2, ",", i * 7919 % 100'003, "x", i, "\n");
  }
  const std::string path = WriteParquet(files, files.Write("a.csv", csv), "a.parquet", 500,
                                        {"user:text", "age:f64", "label:i8", "noise:text"});
  store.Put("b/a.parquet", BytesOfFile(path));
  proto::DatasetSpec spec = Clicks(path);
  spec.set_format("parquet");
  spec.clear_csv();
  const auto whole = MustLoad(spec);
  spec.set_paths(0, "s3://b/a.parquet");
  const auto remote = MustLoad(spec);
  CHECK(Examples(*remote, Part::kTraining, 0, 64) == Examples(*whole, Part::kTraining, 0, 64));
  const int64_t before = store.bytes();
  const auto streamed = MustLoad(Streamed(files, spec, 2000));
  const int requests = store.requests();
  CHECK(Examples(*streamed, Part::kTraining, 0, 64) == Examples(*whole, Part::kTraining, 0, 64));
  CHECK(store.bytes() > before);
  // The object stays open: each block is one request, and its footer was asked for once.
  CHECK(store.requests() - requests <= streamed->index()->blocks_size() + 4);
}

TEST_CASE("remote files: an object is the same while its content is", "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  const DataFiles files;
  store.Put("b/a.csv", Csv(0, 1000));
  const auto identity = IdentifyFile("s3://b/a.csv");
  REQUIRE(identity.ok());
  CHECK(CheckUnchanged("s3://b/a.csv", *identity, true).ok());
  const auto data = MustLoad(Streamed(files, Clicks("s3://b/a.csv"), 500));
  // As long, and other.
  std::string other = Csv(0, 1000);
  other[other.size() - 2] ^= 1;
  store.Put("b/a.csv", other);
  CHECK_THAT(std::string(CheckUnchanged("s3://b/a.csv", *identity, false).message()),
             Contains("s3://b/a.csv: changed since it was indexed"));
  absl::Status read;
  for (int64_t i = 0; i < data->num_examples(Part::kTraining) && read.ok(); ++i) {
    read = data->Read({Part::kTraining, 0, i, i + 1}).status();
  }
  CHECK_THAT(std::string(read.message()), Contains("changed since it was indexed"));
  store.Remove("b/a.csv");
  CHECK(absl::IsNotFound(CheckUnchanged("s3://b/a.csv", *identity, false)));
}

TEST_CASE("remote files: what a store refuses is told by address, and what may pass is tried again",
          "[remote]") {
  if (!HasArrow()) return;
  {
    ObjectStore store;
    store.Use();
    store.Put("b/a.csv", Csv(0, 10));
    store.Put("secret/a.csv", Csv(0, 10));
    store.Deny("secret");
    const auto error = [](const absl::Status& status) {
      CHECK_FALSE(status.ok());
      return std::string(status.message());
    };
    CHECK(absl::IsNotFound(OpenDataFile("s3://b/none.csv").status()));
    CHECK_THAT(LoadError(Clicks("s3://b/none.csv")), Contains("s3://b/none.csv"));
    CHECK(absl::IsPermissionDenied(OpenDataFile("s3://secret/a.csv").status()));
    CHECK_THAT(error(ListFiles("s3://secret/a.csv").status()), Contains("s3://secret/a.csv"));
    CHECK_THAT(error(OpenDataFile("s3://").status()), Contains("no bucket"));

    const int before = store.requests();
    store.FailNext(2, 503);
    const auto file = OpenDataFile("s3://b/a.csv");
    INFO(file.status().ToString());
    CHECK(file.ok());
    CHECK(store.requests() == before + 3);
    store.FailNext(1000, 503);
    CHECK(absl::IsUnavailable(OpenDataFile("s3://b/a.csv").status()));
    CHECK(store.requests() == before + 3 + 5);
  }
  // Nobody listens any more.
  const auto lost = OpenDataFile("s3://b/a.csv").status();
  INFO(lost.ToString());
  CHECK(absl::IsUnavailable(lost));
}

}  // namespace
}  // namespace coxswain::data
