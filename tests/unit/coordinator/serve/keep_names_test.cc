// A saved model that kept the names of hashed values: complete without its data and wherever it is,
// asked by name, exported with names, and refused when a file of names is damaged.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/export/export.h"
#include "coordinator/model/row_names.h"
#include "coordinator/model/warm_start.h"
#include "coordinator/serve/model_service.h"
#include "nlohmann/json.hpp"
#include "runtime/data/vocabulary.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::serve {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using testing::Must;
using Strings = std::vector<std::string>;

constexpr int kPages = 12, kUsers = 9, kBuckets = 5;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

// What a server says is near to one name.
std::set<std::string> WordsOf(const Answer& answer) {
  const json body = json::parse(answer.body);
  return body["predictions"][0]["words"].get<std::set<std::string>>();
}

// More pages than buckets, and users in a hash table.
std::string WriteVisits(const DataFiles& files) {
  std::string rows = "user,page,y\n";
  for (int i = 0; i < 180; ++i) {
    absl::StrAppend(&rows, "u", i % kUsers, ",p", i % kPages, ",", i % 2, "\n");
  }
  files.Write("visits.csv", rows);
  files.Write("later.csv", "user,page,y\nnobody,unseen,1\n");
  return absl::StrCat(
      "name: visits\ndataset: {path: visits.csv}\nfeatures:\n"
      "  - {name: user, kind: categorical, id: hash, keep_names: true}\n"
      "  - {name: page, kind: categorical, hash_buckets: ",
      kBuckets,
      ", keep_names: true}\n"
      "label: {column: y}\nsplit: {test_path: later.csv}\n"
      "model: {kind: mlp, hidden: [4]}\ntrain: {batch_size: 32}\n");
}

// The model, moved, of data that is gone.
std::string SavedElsewhere(const DataFiles& files) {
  const SavedJob saved = TrainAndSave(files, WriteVisits(files));
  const std::string moved = files.Path("moved");
  std::filesystem::rename(saved.directory, moved);
  for (const char* name : {"visits.csv", "later.csv"}) std::filesystem::remove(files.Path(name));
  return moved;
}

TEST_CASE("kept names: the model has them, without those of other parts", "[serve][names]") {
  const DataFiles files;
  const std::string model = SavedElsewhere(files);
  std::string pages, users;
  for (int i = 0; i < kPages; ++i) absl::StrAppend(&pages, "p", i, "\n");
  for (int i = 0; i < kUsers; ++i) absl::StrAppend(&users, "u", i, "\n");
  CHECK(Read(model + "/vocabulary/page.names") == pages);
  CHECK(Read(model + "/vocabulary/user.names") == users);
  const json manifest = json::parse(Read(model + "/model.json"));
  CHECK(manifest["checksums"].contains("vocabulary/page.names"));
  for (const auto& variable : manifest["variables"]) {
    CHECK(variable.contains("names") == variable["table"].get<bool>());
  }
}

TEST_CASE("kept names: a server is asked by name, and answers with names", "[serve][names]") {
  const DataFiles files;
  const std::string model = SavedElsewhere(files);
  ModelService service(Must(LoadServed(model)), {.name = "m", .max_rows = 8, .admission = {}});
  const auto nearest = [&](const std::string& table, const std::string& name) {
    const json body = {{"instances", {name}}, {"k", 100}, {"table", table}};
    return service.Handle("POST", "/v1/models/m:nearest", body.dump());
  };
  const Answer of_user = nearest("user", "u3");
  INFO(of_user.body);
  REQUIRE(of_user.status == 200);
  const auto users = WordsOf(of_user);
  CHECK(users.size() == kUsers - 1);
  CHECK(users.count("u0") == 1);
  CHECK(users.count("u3") == 0);

  // Buckets are called by what is in them, in the order of the names.
  std::vector<Strings> in_bucket(kBuckets);
  for (int i = 0; i < kPages; ++i) {
    const std::string name = absl::StrCat("p", i);
    in_bucket[static_cast<size_t>(data::IdOfHash(name, kBuckets))].push_back(name);
  }
  std::set<std::string> wanted;
  for (int64_t b = 0; b < kBuckets; ++b) {
    const Strings& names = in_bucket[static_cast<size_t>(b)];
    if (!names.empty() && b != data::IdOfHash("p5", kBuckets)) {
      wanted.insert(model::NameOfBucket(names));
    }
  }
  const Answer of_page = nearest("page", "p5");
  REQUIRE(of_page.status == 200);
  CHECK(WordsOf(of_page) == wanted);
  const Answer unknown = nearest("page", "unseen");
  CHECK(unknown.status == 400);
  CHECK_THAT(unknown.body, Contains("is not among the names that were kept"));
  CHECK(nearest("user", "nobody").status == 400);
}

TEST_CASE("kept names: exports have them as words", "[serve][names]") {
  const DataFiles files;
  const model::SavedSource source = Must(model::SavedSource::OpenModel(SavedElsewhere(files)));
  const auto export_to = [&](const std::string& format) {
    exporter::ExportOptions options{format, files.Path("out")};
    options.replace = true;
    Must(exporter::Export(source, options));
  };
  export_to("csv");
  for (const char* table : {"user", "page"}) {
    const Strings lines = absl::StrSplit(Read(files.Path(absl::StrCat("out/", table, ".csv"))),
                                         '\n', absl::SkipEmpty());
    CHECK_THAT(lines[0], Catch::StartsWith("id,word,x0,"));
    const int rows = table == std::string("user") ? kUsers : kBuckets;
    CHECK(static_cast<int>(lines.size()) == 1 + rows);
    const auto names = Must(model::RowNames::Read(source, Must(source.Find(table))));
    for (size_t i = 1; i < lines.size(); ++i) {
      const Strings fields = absl::StrSplit(lines[i], ',');
      CHECK(fields[1] == names.Of(std::stoll(fields[0])));
    }
  }
  export_to("projector");
  CHECK_THAT(Read(files.Path("out/user.metadata.tsv")), Contains("u0\n") && Contains("u8\n"));
  export_to("hnsw");
  CHECK_THAT(Read(files.Path("out/page.metadata.tsv")), Contains("p0"));
}

TEST_CASE("kept names: a damaged file of names is refused by its name", "[serve][names]") {
  const DataFiles files;
  const std::string model = SavedElsewhere(files);
  const model::SavedSource source = Must(model::SavedSource::OpenModel(model));
  {
    std::ofstream names(model + "/vocabulary/page.names", std::ios::app);
    names << "another\n";
  }
  const auto check = [](const absl::Status& status) {
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK_THAT(std::string(status.message()), Contains("vocabulary/page.names"));
  };
  check(LoadServed(model).status());
  check(model::NamedRows::Open(source, "page").status());
  check(model::RowNames::Read(source, Must(source.Find("page"))).status());
  exporter::ExportOptions options{"csv", files.Path("out")};
  check(exporter::Export(source, options).status());
  CHECK(model::NamedRows::Open(source, "user").ok());
}

TEST_CASE("kept names: training that goes on keeps them where its job does", "[serve][names]") {
  const DataFiles files;
  const std::string text = WriteVisits(files);
  const SavedJob saved = TrainAndSave(files, text);
  job::JobSpec job = Must(job::ParseKeptJob(text, files.Path("job.yaml"), files.Path("")));
  files.Write("visits.csv", "user,page,y\nu4,new,1\nanother,new,0\nu4,p3,1\n");
  const uint64_t fingerprint = Must(data::Dataset::Load(job.dataset))->fingerprint();
  REQUIRE(model::KeepIds(saved.directory, &job.dataset).ok());
  CHECK(job.dataset.known_size() == 2);
  const auto data = Must(data::Dataset::Load(job.dataset));
  CHECK(data->fingerprint() == fingerprint);
  const Strings pages = data->names("page").value(), users = data->names("user").value();
  REQUIRE(pages.size() == kPages + 1);
  CHECK(pages[3] == "p3");
  CHECK(pages.back() == "new");
  REQUIRE(users.size() == kUsers + 1);
  CHECK(users.back() == "another");
  for (auto& feature : *job.dataset.mutable_features()) feature.set_keep_names(false);
  REQUIRE(model::KeepIds(saved.directory, &job.dataset).ok());
  CHECK(job.dataset.known().empty());
}

}  // namespace
}  // namespace coxswain::serve
