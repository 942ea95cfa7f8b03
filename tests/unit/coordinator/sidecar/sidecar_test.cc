// A side-car: what it says of each checkpoint, what it keeps, and that it goes on where it was.
#include "coordinator/sidecar/sidecar.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/runner/run_state.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/forwarding.h"
#include "tests/testing/training_job.h"

namespace coxswain::sidecar {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
namespace fs = std::filesystem;

// Rows of n,x,y; the label depends on x.
std::string Rows(int rows = 600) {
  std::string text = "n,x,y\n";
  for (int i = 0; i < rows; ++i) {
    const int x = (i * 7) % 60;
    absl::StrAppend(&text, i % 10, ",v", x, ",", x % 3 == 0 || i % 11 == 0 ? 1 : 0, "\n");
  }
  return text;
}

std::string JobText(const std::string& x = "oov_buckets: 1", const std::string& rest = "") {
  return absl::StrCat(
      "name: followed\ndataset: {path: train.csv}\nfeatures:\n",
      "  - {name: n, kind: numeric}\n  - {name: x, kind: categorical, ", x,
      "}\ntrain: {batch_size: 16}\nlabel: {column: y}\nsplit: {validation: 0.2, test: 0.2}\n",
      "evaluate: {metrics: [logloss, auc]}\nmodel: {kind: mlp, hidden: [4]}\n", rest);
}

const BestBy kByLoss = {"logloss", false};

// A job with its data and a side-car, which can be ended and begun again.
struct Following {
  explicit Following(std::string job_text = JobText(), int keep = 3)
      : text(std::move(job_text)), job((files.Write("train.csv", Rows()), files), text, keep) {
    job.SaveInputs();
  }

  void Begin(const BestBy& by = kByLoss) {
    sidecar.reset();
    Sidecar::Hooks hooks;
    hooks.open = [this, by](const std::string& inputs,
                            const std::string&) -> absl::StatusOr<Sidecar::Opened> {
      ++opened;
      if (!refuse.ok()) return refuse;
      auto spec = Must(job::ParseKeptJob(text, files.Path("job.yaml"), files.Path("")));
      return Sidecar::Opened{
          Must(EvaluationSession::Open(testing::MustStart(2, 1, 1), std::move(spec), inputs)), true,
          by};
    };
    hooks.on_evaluated = [this](const EvaluatedCheckpoint& e, const runner::Evaluation&) {
      reports.push_back(e);
      if (after_report != nullptr) after_report();
    };
    hooks.on_note = [this](const std::string& note) { notes.push_back(note); };
    sidecar = std::make_unique<Sidecar>(system.get(), job.directory(), Must(OpenDirectory(by)),
                                        std::move(hooks));
  }
  absl::StatusOr<SideDirectory> OpenDirectory(const BestBy& by = kByLoss) {
    return SideDirectory::Open(system.get(), own, "followed", by);
  }
  // What the model directory scores on the validation part.
  std::map<std::string, double> Scores(const std::string& model) {
    auto spec = Must(job::ParseKeptJob(text, files.Path("job.yaml"), files.Path("")));
    const auto session =
        Must(EvaluationSession::Open(testing::MustStart(1, 1, 1), std::move(spec), model));
    auto* runner = const_cast<runner::JobRunner*>(&session->runner());
    Must(model::LoadVariables(model, runner->strategy()));
    return Must(runner->EvaluatePart(Part::kValidation)).metrics;
  }

  DataFiles files;
  std::string text;
  TrainingJob job;
  std::string own = files.Path("side");
  std::unique_ptr<env::FileSystem> system = env::NewRealFileSystem();
  absl::Status refuse;
  int opened = 0;
  std::vector<EvaluatedCheckpoint> reports;
  std::vector<std::string> notes;
  std::function<void()> after_report;
  std::unique_ptr<Sidecar> sidecar;
};

TEST_CASE(
    "sidecar: each checkpoint scores what the model saved at that moment does, for every "
    "table",
    "[sidecar]") {
  const std::string bf16 = "tables: {x: {dtype: bf16}}\n";
  for (const auto& [x, rest] : {std::pair<std::string, std::string>{"oov_buckets: 1", ""},
                                {"oov_buckets: 1", "tables: {x: {sharding: hash}}\n"},
                                {"oov_buckets: 1", "tables: {x: {sharding: div, shards: 3}}\n"},
                                {"oov_buckets: 1", bf16},
                                {"id: hash", "tables: {x: {hash_table: {max_rows: 40}}}\n"},
                                {"id: hash", bf16}}) {
    CAPTURE(x, rest);
    Following f(JobText(x, rest));
    f.Begin();
    for (int i = 0; i < 3; ++i) {
      f.job.Steps(5);
      CHECK(Must(f.sidecar->Look()) == 1);
      REQUIRE(f.reports.size() == static_cast<size_t>(i + 1));
      CHECK(f.reports.back().steps == f.job.steps());
      CHECK(f.reports.back().part == "validation");
      CHECK(f.reports.back().examples > 0);
      CHECK(f.reports.back().metrics == f.Scores(f.job.Save(f.files.Path("model"))));
    }
    CHECK(f.opened == 1);  // the data was read once
    CHECK(Must(f.sidecar->Look()) == 0);
    CHECK(f.notes.empty());
  }
}

TEST_CASE("sidecar: checkpoints are evaluated in their order, and those that went are none",
          "[sidecar]") {
  Following f(JobText(), /*keep=*/10);
  for (int i = 0; i < 4; ++i) f.job.Steps(2);
  fs::remove_all(f.job.directory() + "/checkpoint-000002");
  f.Begin();
  CHECK(Must(f.sidecar->Look()) == 3);
  REQUIRE(f.reports.size() == 3);
  CHECK(f.reports[0].number == 1);
  CHECK(f.reports[1].number == 3);
  CHECK(f.reports[2].number == 4);
}

TEST_CASE("sidecar: inputs that the job replaces meanwhile are taken before the next checkpoint",
          "[sidecar]") {
  Following f;
  for (int i = 0; i < 2; ++i) f.job.Steps(2);
  f.Begin();
  const std::string inputs = "/inputs/inputs.json";
  f.after_report = [&f, &inputs] {
    auto manifest = nlohmann::json::parse(Must(f.system->Read(f.job.directory() + inputs)));
    manifest["later"] = f.reports.size();
    Must(f.system->WriteAtomically(f.job.directory() + inputs, manifest.dump()));
  };
  CHECK(Must(f.sidecar->Look()) == 2);
  CHECK(f.opened == 2);
  CHECK(nlohmann::json::parse(Must(f.system->Read(f.own + inputs)))["later"] == 1);
}

TEST_CASE("sidecar: the best checkpoint stays when the job has removed it", "[sidecar]") {
  Following f(JobText(), /*keep=*/1);
  // The other way round: with each step it gets worse.
  f.Begin({"logloss", true});
  f.job.Steps(1);
  Must(f.sidecar->Look());
  const auto best = f.Scores(f.job.Save(f.files.Path("model")));
  for (int i = 0; i < 4; ++i) {
    f.job.Steps(20);
    Must(f.sidecar->Look());
  }
  REQUIRE(f.reports.size() == 5);
  CHECK(f.reports[0].best);
  CHECK(!f.reports[4].best);
  std::error_code gone;  // it may be gone already
  fs::remove_all(f.job.directory() + "/checkpoint-000001", gone);
  CHECK(fs::read_symlink(f.own + "/best") == "checkpoint-000001");
  const auto session = Must(EvaluationSession::Open(
      testing::MustStart(1, 1, 1),
      Must(job::ParseKeptJob(f.text, f.files.Path("job.yaml"), f.files.Path(""))),
      f.own + "/inputs"));
  CHECK(Must(session->Evaluate(f.own + "/best")).metrics == best);
  // Nothing else takes room.
  int checkpoints = 0;
  for (const auto& entry : fs::directory_iterator(f.own)) {
    checkpoints += entry.path().filename().string().rfind("checkpoint-", 0) == 0 ? 1 : 0;
  }
  CHECK(checkpoints == 1);
}

TEST_CASE("sidecar: one that is started again goes on after its last report", "[sidecar]") {
  Following f;
  f.Begin();
  f.job.Steps(3);
  Must(f.sidecar->Look());
  f.job.Steps(3);
  Must(f.sidecar->Look());
  f.Begin();
  CHECK(Must(f.sidecar->Look()) == 0);
  CHECK(f.sidecar->last()->number == 2);
  f.job.Steps(3);
  CHECK(Must(f.sidecar->Look()) == 1);
  REQUIRE(f.reports.size() == 3);
  CHECK(f.reports[2].number == 3);
}

TEST_CASE("sidecar: killed behind a report and before the link, the next one puts that right",
          "[sidecar]") {
  Following f;
  f.Begin();
  f.job.Steps(3);
  Must(f.sidecar->Look());
  f.sidecar.reset();
  // As it is then: the link is not there, and a checkpoint was being taken.
  fs::remove(f.own + "/best");
  fs::create_directory(f.own + "/checkpoint-000002.tmp");
  fs::create_symlink("checkpoint-000009", f.own + "/best.tmp");
  f.Begin();
  CHECK(fs::read_symlink(f.own + "/best") == "checkpoint-000001");
  CHECK(!fs::exists(f.own + "/checkpoint-000002.tmp"));
  f.job.Steps(30);
  Must(f.sidecar->Look());
  CHECK(f.reports.back().best);
  CHECK(fs::read_symlink(f.own + "/best") == "checkpoint-000002");
}

TEST_CASE("sidecar: a directory with anything else in it is refused, and stays as it is",
          "[sidecar]") {
  Following f;
  f.job.Steps(1);
  const auto refused = [&](const std::string& what) {
    const auto opened = f.OpenDirectory();
    CHECK(absl::IsFailedPrecondition(opened.status()));
    CHECK_THAT(std::string(opened.status().message()), Contains(what));
  };
  const std::string side = f.own;
  f.own = f.job.directory();  // the job's own
  refused("checkpoint-000001");
  CHECK(fs::exists(f.job.directory() + "/checkpoint-000001/manifest.json"));
  f.own = side;
  fs::create_directory(f.own);
  std::ofstream(f.own + "/notes.txt") << "mine";
  refused("notes.txt");
  fs::remove(f.own + "/notes.txt");
  Must(f.OpenDirectory().status());
  std::ofstream(f.own + "/best") << "mine";
  refused("best is no link");
  fs::remove(f.own + "/best");
  fs::create_symlink("/etc", f.own + "/best");
  refused("best is no link");
  CHECK(fs::read_symlink(f.own + "/best") == "/etc");
}

TEST_CASE("sidecar: one side-car at a time has a directory", "[sidecar]") {
  Following f;
  f.Begin();
  const absl::Status held = f.OpenDirectory().status();
  CHECK(absl::IsUnavailable(held));
  REQUIRE(GetDetail(held));
  CHECK(GetDetail(held)->cause == ErrorCause::kClusterHeld);
  f.sidecar.reset();
  CHECK(f.OpenDirectory().ok());
}

TEST_CASE("sidecar: a damaged checkpoint is told once, and the next one is evaluated",
          "[sidecar]") {
  Following f;
  f.Begin();
  f.job.Steps(2);
  for (const auto& entry : fs::directory_iterator(f.job.directory() + "/checkpoint-000001")) {
    if (entry.path().extension() == ".safetensors") {
      fs::resize_file(entry.path(), entry.file_size() - 1);
    }
  }
  CHECK(Must(f.sidecar->Look()) == 0);
  CHECK(Must(f.sidecar->Look()) == 0);
  REQUIRE(f.notes.size() == 1);
  CHECK_THAT(f.notes[0], Contains("checkpoint-000001"));
  fs::remove_all(f.job.directory() + "/checkpoint-000001");
  f.job.Steps(2);
  CHECK(Must(f.sidecar->Look()) == 1);
  CHECK(f.reports[0].number == 2);
}

// A bad block: the disk cannot read the rows of this checkpoint.
class BadDisk final : public testing::ForwardingFileSystem {
 public:
  absl::StatusOr<Buffer> Map(const std::string& path) override {
    if (absl::StrContains(path, "/checkpoint-000001/")) {
      return absl::InternalError(absl::StrCat("cannot read ", path, ": Input/output error"));
    }
    return ForwardingFileSystem::Map(path);
  }
};

TEST_CASE("sidecar: a checkpoint that the disk cannot read is passed over", "[sidecar]") {
  Following f;
  f.system = std::make_unique<BadDisk>();
  f.Begin();
  f.job.Steps(2);
  CHECK(Must(f.sidecar->Look()) == 0);
  f.job.Steps(2);
  CHECK(Must(f.sidecar->Look()) == 1);
  REQUIRE(f.notes.size() == 1);
  CHECK_THAT(f.notes[0], Contains("checkpoint-000001") && Contains("Input/output error"));
  CHECK(f.reports[0].number == 2);
}

TEST_CASE("sidecar: before the job has begun there is nothing to do", "[sidecar]") {
  Following f;
  fs::remove_all(f.job.directory());
  f.Begin();
  CHECK(Must(f.sidecar->Look()) == 0);
  CHECK(f.opened == 0);
}

TEST_CASE("sidecar: after an error of the cluster the checkpoint is evaluated on another one",
          "[sidecar]") {
  Following f;
  f.Begin();
  f.job.Steps(2);
  f.refuse = absl::UnavailableError("no parameter server");
  CHECK(absl::IsUnavailable(f.sidecar->Look().status()));
  f.refuse = absl::OkStatus();
  CHECK(Must(f.sidecar->Look()) == 1);
  CHECK(f.notes.empty());
}

TEST_CASE("sidecar: once it is interrupted nothing is evaluated", "[sidecar]") {
  Following f;
  f.Begin();
  f.job.Steps(2);
  f.sidecar->Interrupt();
  CHECK(absl::IsCancelled(f.sidecar->Look().status()));
  CHECK(f.reports.empty());
  f.Begin();
  CHECK(Must(f.sidecar->Look()) == 1);
}

TEST_CASE("sidecar: a job that began anew is followed, though its numbers are lower", "[sidecar]") {
  Following f;
  f.Begin();
  for (int i = 0; i < 3; ++i) f.job.Steps(2);
  Must(f.sidecar->Look());
  Following other;
  other.job.Steps(4);
  fs::remove_all(f.job.directory());
  fs::copy(other.job.directory(), f.job.directory(), fs::copy_options::recursive);
  CHECK(Must(f.sidecar->Look()) == 1);
  CHECK(f.reports.back().number == 1);
  CHECK(f.reports.back().steps == 4);
}

TEST_CASE("sidecar: the best checkpoint is of the job that there is, when one began anew",
          "[sidecar]") {
  const BestBy by = {"logloss", true};  // each is worse than the one before
  Following f;
  f.Begin(by);
  f.job.Steps(1);
  CHECK(Must(f.sidecar->Look()) == 1);
  REQUIRE(f.reports[0].best);
  const bool same_data = GENERATE(true, false);
  Following other(JobText(same_data ? "oov_buckets: 1" : "oov_buckets: 2"));
  f.text = other.text;
  for (int i = 0; i < 2; ++i) other.job.Steps(40);
  fs::remove_all(other.job.directory() + "/checkpoint-000001");
  fs::remove_all(f.job.directory());
  fs::copy(other.job.directory(), f.job.directory(), fs::copy_options::recursive);
  SECTION("while it runs") {}
  SECTION("before it was begun") { f.Begin(by); }
  CHECK(Must(f.sidecar->Look()) == 1);
  REQUIRE(f.reports.size() == 2);
  REQUIRE(f.reports[1].number == 2);
  CHECK(f.reports[1].best != same_data);
  const std::string best = f.own + "/best";
  CHECK(fs::read_symlink(best) == (same_data ? "checkpoint-000001" : "checkpoint-000002"));
  const auto manifest = Must(checkpoint::ReadManifest(f.system.get(), best));
  Must(model::CheckInputsFit(f.own + "/inputs", manifest, best));
}

// The manifest of a checkpoint, which says from now on that the job has finished.
checkpoint::Manifest Finished(Following* f, const std::string& path) {
  checkpoint::Manifest manifest = Must(checkpoint::ReadManifest(f->system.get(), path));
  runner::RunState state;
  state.finished = true;
  state.batch_size = state.steps_per_function = 1;
  auto all = nlohmann::json::parse(runner::ToJson(state));
  all.update(nlohmann::json::parse(manifest.job_state));  // what the data are
  manifest.job_state = all.dump();
  REQUIRE(manifest.closures.empty());
  return manifest;
}

TEST_CASE("sidecar: that the job's last checkpoint is passed over is told, until there is another",
          "[sidecar]") {
  Following f;
  f.Begin();
  for (int number = 1; number <= 3; ++number) {
    const bool last = number > 1, damaged = number < 3;
    f.job.Steps(2);
    const std::string path =
        absl::StrCat(f.job.directory(), "/", checkpoint::CheckpointName(number));
    if (last) {
      const std::string text = checkpoint::ToJson(Finished(&f, path));
      REQUIRE(f.system->WriteAtomically(path + "/manifest.json", text).ok());
    }
    for (const auto& entry : fs::directory_iterator(path)) {
      if (damaged && entry.path().extension() == ".safetensors") {
        fs::resize_file(entry.path(), entry.file_size() - 1);
      }
    }
    CHECK(Must(f.sidecar->Look()) == (damaged ? 0 : 1));
    const absl::Status& end = f.sidecar->end_passed_over();
    CHECK(absl::IsDataLoss(end) == (last && damaged));
    if (!end.ok()) CHECK_THAT(std::string(end.message()), Contains("checkpoint-000002 is not"));
    if (damaged) fs::remove_all(path);  // the next one would link to its files
  }
}

TEST_CASE("sidecar: a checkpoint that may lack closures is not the one that the job ended with",
          "[sidecar]") {
  Following f;
  f.Begin();
  for (const bool lacks : {true, false}) {
    f.job.Steps(2);
    const std::string path =
        absl::StrCat(f.job.directory(), "/", checkpoint::CheckpointName(lacks ? 1 : 2));
    checkpoint::Manifest manifest = Finished(&f, path);
    if (lacks) {
      checkpoint::CheckpointClosure closure;
      closure.id = manifest.low_water;
      closure.function = "train_step";
      manifest.next_closure = closure.id + 1;
      manifest.closures.push_back(closure);
    }
    REQUIRE(f.system->WriteAtomically(path + "/manifest.json", checkpoint::ToJson(manifest)).ok());
    REQUIRE(Must(f.sidecar->Look()) == 1);
    CHECK(f.reports.back().finished == !lacks);
  }
}

}  // namespace
}  // namespace coxswain::sidecar
