// An object store that does not answer while a streamed data set is read: its own error, which
// says nothing of the content, and the data as they are when it answers again.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/data/data_file.h"
#include "runtime/data/spec_check.h"
#include "tests/s3/object_store.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;

constexpr int kRows = 3000;
constexpr int kManyRequests = 1000;

std::string Csv() {
  std::string csv = "user,age,label\n";
  for (int i = 0; i < kRows; ++i) absl::StrAppend(&csv, "u", i % 37, ",", i, ",", i % 2, "\n");
  return csv;
}

std::string BytesOfFile(const std::string& path) {
  const auto file = OpenDataFile(path);
  REQUIRE(file.ok());
  std::string bytes((*file)->size(), ' ');
  REQUIRE((*file)->Read(0, bytes.data(), bytes.size()).ok());
  return bytes;
}

// The object "b/a" as the format has it, and the data set of it.
proto::DatasetSpec Put(const DataFiles& files, const std::string& format, ObjectStore* store) {
  std::string path = files.Write("a.csv", Csv());
  if (format != "csv") {
    path = WriteParquet(files, path, "a." + format, 500, {"user:text", "age:f64", "label:i8"});
  }
  store->Put("b/a", BytesOfFile(path));
  proto::DatasetSpec spec;
  spec.set_format(format);
  spec.add_paths("s3://b/a");
  if (format == "csv") spec.mutable_csv()->set_header(true);
  AddCategorical(&spec, "user");
  AddNumeric(&spec, "age");
  spec.mutable_label()->set_column("label");
  return Streamed(files, spec, 2000, 1, 64 << 10);
}

absl::Status ReadAt(const Dataset& data, int64_t row) {
  return data.Read({Part::kTraining, 0, row, row + 10}).status();
}

TEST_CASE("remote files: an outage in training is the store's error, and no changed file",
          "[remote]") {
  if (!HasArrow()) return;
  for (const std::string format : {"csv", "parquet", "arrow"}) {
    INFO(format);
    const DataFiles files;
    ObjectStore store;
    store.Use();
    const auto data = MustLoad(Put(files, format, &store));
    // The object is open by now, and has to be asked only for a range.
    REQUIRE(ReadAt(*data, 10).ok());
    if (format == "parquet") {  // the store is asked again and again, which takes a while
      store.FailNext(kManyRequests, 503);
      const absl::Status failed = ReadAt(*data, 1500);
      INFO(failed.ToString());
      CHECK(absl::IsUnavailable(failed));
      CHECK_THAT(std::string(failed.message()), Contains("s3://b/a") && !Contains("changed since"));
      store.FailNext(0, 503);
    }
    CHECK(ReadAt(*data, 1500).ok());
    store.Deny("b");
    const absl::Status denied = ReadAt(*data, 2800);
    INFO(denied.ToString());
    CHECK(absl::IsPermissionDenied(denied));
    CHECK_THAT(std::string(denied.message()), Contains("s3://b/a"));
  }
}

TEST_CASE("remote files: an object that cannot be opened by an outage is no changed file",
          "[remote]") {
  if (!HasArrow()) return;
  for (const std::string format : {"csv", "parquet", "arrow"}) {
    INFO(format);
    const DataFiles files;
    ObjectStore store;
    store.Use();
    const auto spec = Put(files, format, &store);
    // Of the requests for the object, its footer and the block, one after the other is the first
    // that fails.
    int after = 0;
    while (true) {
      const auto data = MustLoad(spec);
      store.FailNext(kManyRequests, 403, after++);
      const absl::Status failed = ReadAt(*data, 1500);
      store.FailNext(0, 403);
      if (failed.ok()) break;
      INFO(failed.ToString());
      // Of a range that is shorter than the store's answer Arrow does not see what the answer was.
      CHECK((absl::IsPermissionDenied(failed) || absl::IsUnavailable(failed)));
      CHECK_THAT(std::string(failed.message()), Contains("s3://b/a") && !Contains("changed since"));
    }
    CHECK(after > 1);
  }
}

TEST_CASE("remote files: an object that is gone, shorter or other has changed since", "[remote]") {
  if (!HasArrow()) return;
  for (const std::string format : {"csv", "parquet", "arrow"}) {
    INFO(format);
    const DataFiles files;
    ObjectStore store;
    store.Use();
    const auto spec = Put(files, format, &store);
    const auto data = MustLoad(spec);
    REQUIRE(ReadAt(*data, 10).ok());
    const std::string bytes = BytesOfFile("s3://b/a");
    const auto check = [&] {
      const absl::Status failed = ReadAt(*data, 2800);
      CHECK(absl::IsFailedPrecondition(failed));
      CHECK_THAT(std::string(failed.message()), Contains("s3://b/a: changed since it was indexed"));
    };
    store.Put("b/a", std::string(bytes.size(), 'x'));
    check();
    store.Put("b/a", bytes.substr(0, bytes.size() / 3));
    check();
    store.Remove("b/a");
    const absl::Status gone = ReadAt(*data, 2800);
    CHECK((absl::IsFailedPrecondition(gone) || absl::IsNotFound(gone)));
  }
}

TEST_CASE("remote files: a worker that comes back asks for no object until it reads its blocks",
          "[remote]") {
  if (!HasArrow()) return;
  const DataFiles files;
  ObjectStore store;
  store.Use();
  auto spec = Put(files, "csv", &store);
  for (int i = 0; i < 30; ++i) {
    const std::string key = absl::StrCat("b/more/", i);
    store.Put(key, Csv());
    spec.add_paths("s3://" + key);
  }
  const auto checked = CheckSpec(spec).value();
  const auto index = MustLoad(checked)->index();
  const int before = store.requests();
  const auto data = Dataset::OpenStreamed(checked, index, /*reader=*/1, nullptr);
  REQUIRE(data.ok());
  CHECK(store.requests() == before);
  CHECK(ReadAt(**data, 10).ok());
  CHECK(store.requests() > before);
  CHECK(store.requests() < before + 30);
}

TEST_CASE("remote files: an object that changes where no block is read has changed all the same",
          "[remote]") {
  if (!HasArrow()) return;
  const DataFiles files;
  ObjectStore store;
  store.Use();
  // Columns that change their names leave the bytes of row groups as they are.
  std::string csv = "a,b,label\n";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&csv, i, ",", i + 1000, ",", i % 2, "\n");
  const std::string path = files.Write("a.csv", csv);
  const auto put = [&](const std::string& first, const std::string& second) {
    store.Put("b/a", BytesOfFile(WriteParquet(files, path, "a.parquet", 100,
                                              {first + ":f64", second + ":f64", "label:i8"})));
  };
  put("a", "b");
  auto spec = ParquetSpec("s3://b/a");
  AddNumeric(&spec, "a");
  AddNumeric(&spec, "b");
  spec = CheckSpec(Streamed(files, spec, 2000, 1, 64 << 10)).value();
  const auto index = MustLoad(spec)->index();
  put("b", "a");
  const auto data = Dataset::OpenStreamed(spec, index, /*reader=*/1, nullptr);
  REQUIRE(data.ok());
  const absl::Status failed = ReadAt(**data, 10);
  CHECK(absl::IsFailedPrecondition(failed));
  CHECK_THAT(std::string(failed.message()), Contains("s3://b/a: changed since it was indexed"));
}

}  // namespace
}  // namespace coxswain::data
