// The index that workers make of parts is the one that one process makes, whoever dies meanwhile.
#include "runtime/data/stream/index_pass.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/row_chain.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/index_file.h"
#include "tests/testing/played_readers.h"
#include "tests/testing/streamed_specs.h"
#include "tests/testing/tf_records.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using proto::FeatureSpec;

// A value for each row, a vocabulary that grows with the rows, and numbers whose sums depend on
// their order. With `lines` above 0 a field has so many line ends.
std::string Text(int from, int to, int lines = 0) {
  std::string csv = "x,c,y\n";
  for (int i = from; i < to; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&csv, static_cast<double>(h % 100003) / 7, ",");
    if (lines > 0) csv += "\"";
    absl::StrAppend(&csv, "c", h % static_cast<uint64_t>(i + 1));
    for (int line = 0; line < lines; ++line) csv += "\nmore of it";
    if (lines > 0) csv += "\"";
    absl::StrAppend(&csv, ",", h % 2, "\n");
  }
  return csv;
}

proto::DatasetSpec Spec(const DataFiles& files, const std::vector<std::string>& paths) {
  proto::DatasetSpec spec = CsvSpec(paths[0]);
  for (size_t i = 1; i < paths.size(); ++i) spec.add_paths(paths[i]);
  spec.mutable_csv()->set_quoting(true);
  AddNumeric(&spec, "x")->set_normalization(FeatureSpec::STANDARD);
  AddCategorical(&spec, "c")->set_oov_buckets(1);
  spec.mutable_label()->set_column("y");
  spec.mutable_split()->set_validation_fraction(0.2);
  return CheckSpec(Streamed(files, spec, 400)).value();
}

void CheckSame(const absl::StatusOr<proto::DatasetIndex>& found, const proto::DatasetSpec& spec) {
  INFO(found.status().ToString());
  REQUIRE(found.ok());
  CHECK(found->ShortDebugString() == BuildIndex(spec).value().ShortDebugString());
}

TEST_CASE("a pass by workers: ranges of a file, and small files together") {
  const DataFiles files;
  const auto large = files.Write("a.csv", Text(0, 900)), small = files.Write("b.csv", Text(0, 9));
  const auto spec = Spec(files, {small, small, large, small, large, small});
  for (const int64_t part_bytes : {500, 3000, 100000}) {
    PlayedReaders readers(3);
    CheckSame(IndexByWorkers(spec, part_bytes, &readers), spec);
    CHECK(readers.reads() > (part_bytes == 500 ? 20 : 0));
  }
}

TEST_CASE("a pass by workers: guesses of where rows begin are wrong where line ends are quoted") {
  const DataFiles files;
  const auto spec =
      Spec(files, {files.Write("a.csv", Text(0, 400, 4)), files.Write("b.csv", Text(0, 300, 200))});
  for (const int64_t part_bytes : {1, 1500}) {
    PlayedReaders readers(3);
    CheckSame(IndexByWorkers(spec, part_bytes, &readers), spec);
  }
}

TEST_CASE("a pass by workers: rows with line ends in quotes are found at the first try") {
  const DataFiles files;
  const std::string text = Text(0, 9000, 4);
  auto spec = Spec(files, {files.Write("a.csv", text)});
  spec.mutable_stream()->set_block_bytes(12'000);
  PlayedReaders readers(3);
  CheckSame(IndexByWorkers(spec, 30'000, &readers), spec);
  const auto parts = static_cast<int64_t>(text.size()) / 30'000;
  CHECK(parts > 15);
  CHECK(readers.reads() <= parts + 1);
}

TEST_CASE("a pass by workers: a field that is as long rows as are looked at, and looks like them") {
  const DataFiles files;
  std::string field;
  while (field.size() < 1'300'000) field += "2,c,0\n";
  std::string text = "x,c,y\n";
  for (int i = 0; i < 12; ++i)
    absl::StrAppend(&text, i, ",\"", field, i, "\",1\n", Text(6, 9).substr(6));
  auto spec = Spec(files, {files.Write("a.csv", text)});
  spec.mutable_stream()->set_block_bytes(200'000);
  PlayedReaders readers(3);
  CheckSame(IndexByWorkers(spec, 400'000, &readers), spec);
}

// Examples of TFRecord; with `inner` each has records in one of its values.
std::string Records(int from, int to, bool inner = false) {
  std::string file;
  for (int i = from; i < to; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    ExampleBuilder example;
    example.Float("x", {static_cast<float>(h % 100003) / 7})
        .Int("y", {static_cast<int64_t>(h % 2)});
    example.Bytes("c", {absl::StrCat("c", h % static_cast<uint64_t>(i + 1))});
    if (inner) example.Bytes("d", {TfRecord("a") + TfRecord("b") + TfRecord("c") + TfRecord("d")});
    file += example.Record();
  }
  return file;
}

TEST_CASE("a pass by workers: TFRecord is cut at its records") {
  const DataFiles files;
  const std::string bytes = Records(0, 3000);
  auto spec = Spec(files, {files.Write("small", Records(0, 5)), files.Write("large", bytes)});
  spec.set_format("tfrecord");
  spec = CheckSpec(spec).value();
  for (const int64_t part_bytes : {1, 2000, 30'000}) {
    PlayedReaders readers(3);
    CheckSame(IndexByWorkers(spec, part_bytes, &readers), spec);
    if (part_bytes == 2000) {
      CHECK(readers.reads() >= static_cast<int64_t>(bytes.size()) / 2500);
      CHECK(readers.reads() <= static_cast<int64_t>(bytes.size()) / 2000 + 2);
    }
  }
}

TEST_CASE("a pass by workers: records within records are no places to cut at") {
  const DataFiles files;
  auto spec = Spec(files, {files.Write("a", Records(0, 900, /*inner=*/true))});
  spec.set_format("tfrecord");
  spec = CheckSpec(spec).value();
  for (const int64_t part_bytes : {1, 2000}) {
    PlayedReaders readers(3);
    CheckSame(IndexByWorkers(spec, part_bytes, &readers), spec);
  }
}

TEST_CASE("a pass by workers: a column that only some records have is found, wherever they are") {
  const DataFiles files;
  for (const int at : {0, 450, 899}) {
    std::string bytes = Records(0, at, true);
    bytes +=
        ExampleBuilder().Float("x", {1}).Int("y", {0}).Bytes("c", {"a"}).Int("z", {1}).Record();
    auto spec = Spec(files, {files.Write("a", bytes + Records(at, 900, true))});
    spec.set_format("tfrecord");
    AddNumeric(&spec, "z");
    spec = CheckSpec(spec).value();
    PlayedReaders readers(3);
    CheckSame(IndexByWorkers(spec, 2000, &readers), spec);
  }
}

TEST_CASE("a pass by workers: a damaged or torn record is told as by one process") {
  const DataFiles files;
  const std::string bytes = Records(0, 900);
  for (const size_t at : {size_t{0}, bytes.size() / 2, bytes.size() - 3}) {
    for (const bool torn : {false, true}) {
      std::string wrong = bytes;
      wrong[at] = static_cast<char>(wrong[at] ^ 1);
      if (torn) wrong.resize(at + 2);
      auto spec = Spec(files, {files.Write("a", wrong)});
      spec.set_format("tfrecord");
      spec = CheckSpec(spec).value();
      PlayedReaders readers(2);
      const absl::Status status = IndexByWorkers(spec, 1500, &readers).status();
      CHECK(status.ToString() == BuildIndex(spec).status().ToString());
      CHECK_FALSE(status.ok());
    }
  }
}

TEST_CASE("a pass by workers: packed files that cannot be cut are read one after the other") {
  const DataFiles files;
  const auto spec =
      Spec(files, {files.WriteGzip("a.csv.gz", Text(0, 2000)), files.Write("b.csv", Text(0, 500)),
                   files.WriteGzip("c.csv.gz", Text(500, 2000))});
  PlayedReaders readers(2);
  CheckSame(IndexByWorkers(spec, 600, &readers), spec);
}

TEST_CASE("a pass by workers: parts of a worker that dies are read by others") {
  const DataFiles files;
  const auto spec =
      Spec(files, {files.Write("a.csv", Text(0, 900)), files.WriteGzip("b.csv.gz", Text(0, 1000))});
  for (int64_t at = 0; at < 24; ++at) {
    INFO("dies at request " << at);
    PlayedReaders readers(2, [&](int, int64_t asked, const proto::IndexPart&) {
      return asked == at ? PlayedReaders::Lost() : absl::OkStatus();
    });
    CheckSame(IndexByWorkers(spec, 800, &readers), spec);
    CHECK(readers.asked() > at);
  }
}

TEST_CASE("a pass by workers: one that dies for ever, and all that do") {
  const DataFiles files;
  const auto spec = Spec(files, {files.Write("a.csv", Text(0, 300, 2))});
  for (const int alive : {0, 1}) {
    PlayedReaders readers(2, [&](int worker, int64_t, const proto::IndexPart&) {
      return worker < alive ? absl::OkStatus() : PlayedReaders::Lost();
    });
    CheckSame(IndexByWorkers(spec, 800, &readers), spec);
  }
}

// Passes on what is for others, and forgets what is for worker 0 from its third request on.
class SilentWorker final : public PartReaders {
 public:
  explicit SilentWorker(PartReaders* others) : others_(*others) {}
  int count() override { return others_.count(); }
  void Ask(int worker, proto::IndexPart request, Done done) override {
    if (worker == 0 && ++asked_ >= 3) return;
    others_.Ask(worker, std::move(request), std::move(done));
  }
  int asked() const { return asked_; }

 private:
  PartReaders& others_;
  int asked_ = 0;
};

TEST_CASE("a pass by workers: one that is there and never answers is not waited for for ever") {
  const DataFiles files;
  const auto spec = Spec(files, {files.Write("a.csv", Text(0, 900))});
  for (const int workers : {1, 2}) {
    PlayedReaders readers(workers);
    SilentWorker silent(&readers);
    IndexOptions options;
    options.workers = &silent;
    options.part_bytes = 800;
    options.patience = absl::Milliseconds(1);
    CheckSame(BuildIndexOnWorkers(spec, options), spec);
    CHECK(silent.asked() >= 3);
  }
}

TEST_CASE("a pass by workers: one that came back has nothing of what it had read") {
  const DataFiles files;
  const auto spec = Spec(files, {files.Write("a.csv", Text(0, 300))});
  std::atomic<int> refused{0};
  PlayedReaders readers(2, [&](int, int64_t, const proto::IndexPart& request) {
    const bool add = !request.has_read() && request.has_before();
    return add && refused++ < 5 ? absl::NotFoundError("the part is not here") : absl::OkStatus();
  });
  CheckSame(IndexByWorkers(spec, 800, &readers), spec);
  CHECK(refused > 5);
}

TEST_CASE("a pass by workers: those of an older version are not asked again") {
  const DataFiles files;
  const auto spec = Spec(files, {files.Write("a.csv", Text(0, 300))});
  std::atomic<int> old{0};
  PlayedReaders readers(2, [&](int worker, int64_t, const proto::IndexPart& request) {
    if (worker == 0 || !request.has_read()) return absl::OkStatus();
    ++old;
    return absl::UnimplementedError("a worker does not know this request");
  });
  CheckSame(IndexByWorkers(spec, 800, &readers), spec);
  CHECK(old <= 4);
}

TEST_CASE("a pass by workers: a file that only a worker cannot read is an error that names both") {
  const DataFiles files;
  const auto path = files.Write("a.csv", Text(0, 300));
  const auto spec = Spec(files, {path});
  PlayedReaders readers(2, [&](int worker, int64_t, const proto::IndexPart& request) {
    if (worker == 0 || !request.has_read()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("/job:worker/task:1: ", path, ": cannot open"));
  });
  const absl::Status status = IndexByWorkers(spec, 800, &readers).status();
  CHECK(absl::IsNotFound(status));
  CHECK_THAT(std::string(status.message()), Contains("worker/task:1") && Contains(path));
}

TEST_CASE("a pass by workers: of a large file, too, it is told who cannot read it") {
  const DataFiles files;
  const auto packed = files.WriteGzip("a.csv.gz", Text(0, 4000));
  const auto spec = Spec(files, {packed});
  PlayedReaders readers(2, [&](int, int64_t, const proto::IndexPart&) {
    return absl::PermissionDeniedError("/job:worker/task:1: a.csv.gz: cannot open");
  });
  const absl::Status status = IndexByWorkers(spec, 500, &readers).status();
  CHECK(absl::IsPermissionDenied(status));
  CHECK_THAT(std::string(status.message()), Contains("worker/task:1"));
}

TEST_CASE("a pass by workers: a column that a file lacks is told as by one process") {
  const DataFiles files;
  for (const bool packed : {false, true}) {
    const std::string text = "x,d,y\n" + Text(0, 3000).substr(6);
    const auto path = packed ? files.WriteGzip("a.gz", text) : files.Write("a.csv", text);
    const auto spec = Spec(files, {path});
    PlayedReaders readers(2);
    const absl::Status status = IndexByWorkers(spec, 500, &readers).status();
    CHECK(status.ToString() == BuildIndex(spec).status().ToString());
    CHECK(absl::IsNotFound(status));
  }
  // Lines without a header.
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  std::string text;
  for (int i = 0; i < 300; ++i) absl::StrAppend(&text, i % 2, " 3:1 9:2\n");
  spec.add_paths(files.Write("a.svm", text));
  AddNumeric(&spec, "age");
  spec = CheckSpec(Streamed(files, spec, 100)).value();
  PlayedReaders readers(2);
  const absl::Status status = IndexByWorkers(spec, 300, &readers).status();
  CHECK(status.ToString() == BuildIndex(spec).status().ToString());
  CHECK(absl::IsNotFound(status));
}

TEST_CASE("a pass by workers: what is wrong in a row is told as by one process") {
  const DataFiles files;
  const std::string good = Text(0, 300);
  for (const std::string& wrong : {std::string("none,c1,1\n"), std::string("1,\"c1,1\n1,2,3\n"),
                                   std::string("1,2\n"), std::string("1,c2,z\n")}) {
    for (const bool at_end : {false, true}) {
      const auto spec = Spec(files, {files.Write("a.csv", good),
                                     files.Write("b.csv", good + wrong + (at_end ? "" : good))});
      PlayedReaders readers(2);
      const absl::Status status = IndexByWorkers(spec, 800, &readers).status();
      CHECK(status.ToString() == BuildIndex(spec).status().ToString());
      CHECK_FALSE(status.ok());
    }
  }
}

TEST_CASE("a pass by workers: a value that training lacks is told with its file and line") {
  const DataFiles files;
  auto spec = Spec(files, {files.Write("a.csv", Text(0, 300)), files.Write("b.csv", Text(7, 90))});
  spec.mutable_features(1)->set_oov_buckets(0);
  PlayedReaders readers(2);
  const absl::Status status = IndexByWorkers(spec, 800, &readers).status();
  CHECK(status.ToString() == BuildIndex(spec).status().ToString());
  CHECK_THAT(std::string(status.message()), Contains(".csv:"));
}

TEST_CASE("a pass by workers: a file that changes meanwhile is an error that names it") {
  const DataFiles files;
  const std::string text = Text(0, 900);
  for (int64_t at = 0; at < 12; ++at) {
    const auto path = files.Write("a.csv", text);
    const auto spec = Spec(files, {path});
    PlayedReaders readers(1, [&](int, int64_t asked, const proto::IndexPart&) {
      if (asked == at) files.Write("a.csv", text + "1,c1,1\n");
      return absl::OkStatus();
    });
    const absl::Status status = IndexByWorkers(spec, 1500, &readers).status();
    INFO(at << " " << status);
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()), Contains("a.csv: changed since it was indexed"));
  }
}

TEST_CASE("a pass by workers: a vocabulary that does not fit is an error") {
  const DataFiles files;
  auto spec = Spec(files, {files.Write("a.csv", Text(0, 3000))});
  spec.mutable_stream()->set_memory(40000);
  PlayedReaders readers(2);
  const absl::Status status = IndexByWorkers(spec, 3000, &readers).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Contains("hash_buckets"));
}

TEST_CASE("a pass by workers: small data is read here, and a saved index is used again") {
  const DataFiles files;
  const auto spec = Spec(files, {files.Write("a.csv", Text(0, 300))});
  const auto disk = env::NewRealFileSystem();
  PlayedReaders readers(2);
  IndexOptions options;
  options.workers = &readers;
  REQUIRE(FindOrMakeIndex(spec, disk.get(), options).ok());
  CHECK(readers.asked() == 0);
  options.least_bytes = 1;
  options.part_bytes = 800;
  REQUIRE(FindOrMakeIndex(spec, disk.get(), options).ok());
  CHECK(readers.asked() == 0);
  files.Write("a.csv", Text(0, 400));
  REQUIRE(FindOrMakeIndex(spec, disk.get(), options).ok());
  CHECK(readers.reads() > 2);
}

TEST_CASE("rows that are logged come to what they come to without the log") {
  RowChain all(3), first(3), second(3);
  std::string log;
  second.LogTo(&log);
  const std::string text(300, 'x');
  const auto add = [&](int from, int to, RowChain* chain) {
    for (int i = from; i < to; ++i) {
      chain->Add(absl::string_view(text).substr(0, static_cast<size_t>(i * 37 % 300)));
      chain->AddNumber(static_cast<uint64_t>(i) << (i % 60));
      chain->Add("");
      chain->EndRow();
    }
  };
  add(0, 40, &all);
  add(0, 2, &first);
  add(2, 40, &second);
  CHECK(second.rows() == 0);
  RowChain rest(3);
  rest.Continue(first.state());
  rest.AddLogged(log);
  CHECK(rest.Hash() == all.Hash());
  CHECK(rest.rows() == 40);
  CHECK(rest.Marked().has_value());
  CHECK(rest.Marked() == all.Marked());
}

TEST_CASE("a hash of bytes goes on in another process where it was") {
  const std::string text = Text(0, 20);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{77}, text.size()}) {
    StreamHash whole, first, rest;
    whole.Update(text);
    first.Update(absl::string_view(text).substr(0, cut));
    REQUIRE(rest.Restore(first.Save()));
    rest.Update(absl::string_view(text).substr(cut));
    CHECK(rest.Finish() == whole.Finish());
  }
  StreamHash hash;
  CHECK_FALSE(hash.Restore(""));
  CHECK_FALSE(hash.Restore(std::string(100, 'x')));
  CHECK_FALSE(hash.Restore(std::string(40, 'x')));
}

}  // namespace
}  // namespace coxswain::data
