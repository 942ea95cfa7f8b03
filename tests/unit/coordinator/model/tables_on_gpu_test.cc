// Tables in the memory of GPUs: every kind of model with every loss.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/model/model.h"
#include "runtime/data/dataset_options.h"
#include "runtime/device/open_devices.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::model {
namespace {

using Catch::Contains;
using testing::Must;
using testing::MustStart;

// What clusters that are made while it lives have.
class FakeGpu {
 public:
  FakeGpu() { setenv(device::kGpusVariable, "fake", 1); }
  ~FakeGpu() { unsetenv(device::kGpusVariable); }
};

constexpr char kVisits[] =
    "user,item,time,bought\nu,c,1,1\nv,b,1,0\nu,a,2,1\nv,c,2,0\nu,b,3,1\nv,a,3,0\n";
constexpr char kTwoColumns[] =
    "features: [{name: user, kind: categorical}, {name: item, kind: categorical}]\n";
constexpr char kHistory[] =
    "features:\n  - {name: user, kind: categorical}\n  - {name: item, kind: categorical}\n"
    "  - {name: seen, kind: history, history_of: item, group_by: user, by: time, max_values: 3}\n";
constexpr char kLabel[] = "label: {column: bought}\n";
constexpr char kLabels[] = "labels: [{name: a, column: bought}, {name: b, column: bought}]\n";

struct Case {
  const char* kind;
  const char* keys;  // of the section `model`
  const char* features;
  const char* label = "";
};
constexpr Case kCases[] = {
    {"two_tower", "user: {features: user}, item: {feature: item}", kTwoColumns},
    {"sasrec", "history: seen, dim: 4", kHistory},
    {"matrix_factorization", "user: {feature: user}, item: {feature: item}, dim: 4", kTwoColumns,
     kLabel},
    {"wide_deep", "deep: {hidden: [4]}", kTwoColumns, kLabel},
    {"mlp", "hidden: [4]", kTwoColumns, kLabel},
    {"logistic_regression", "", kTwoColumns, kLabel},
    {"linear_regression", "", kTwoColumns, kLabel},
    {"dlrm", "dim: 4, bottom: [4], top: [4]", kTwoColumns, kLabel},
    {"deepfm", "dim: 4, hidden: [4]", kTwoColumns, kLabel},
    {"dcn_v2", "hidden: [4]", kTwoColumns, kLabel},
    {"din", "target: item, history: seen, hidden: [4]", kHistory, kLabel},
    {"shared_bottom", "hidden: [4], tower: [4]", kTwoColumns, kLabels},
    {"mmoe", "experts: 2, hidden: [4], tower: [4]", kTwoColumns, kLabels},
    {"word2vec", "dim: 4", "", ""},
    {"fm", "dim: 4", kTwoColumns, kLabel},
    {"ffm", "dim: 4", kTwoColumns, kLabel},
    {"autoint", "dim: 4, head_dim: 4, hidden: [4]", kTwoColumns, kLabel},
};

// Takes a step.
void TrainOnce(const job::JobSpec& job) {
  ParameterServerStrategy strategy(MustStart(2, 1, 1));
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = 4;
  PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
  const auto built = Must(Model::Create(&strategy, job, dataset));
  const RemoteFunction step = Must(built->DefineTrain());
  ClusterCoordinator coordinator(strategy);
  Must(coordinator.Fetch<float>(coordinator.Schedule(step, *dataset.NextTicket()), "loss"));
}

TEST_CASE("tables in a GPU's memory are trained by all models and losses, or refused in the job",
          "[model]") {
  const DataFiles files;
  const std::string visits = files.Write("visits.csv", kVisits);
  const std::string words = files.Write("words.txt", "a b c a b c\nb c a b a c\n");
  const FakeGpu gpu;
  std::set<std::string> kinds, refused;
  for (const Case& c : kCases) {
    const bool of_words = absl::string_view(c.kind) == "word2vec";
    const std::string text = absl::StrCat(
        "dataset: {path: ",
        of_words ? absl::StrCat(words, ", format: text, window: 1, min_count: 1") : visits, "}\n",
        c.features, c.label, "model: {kind: ", c.kind, c.keys[0] == 0 ? "" : ", ", c.keys, "}\n");
    kinds.insert(c.kind);
    for (const job::LossKind* loss : job::LossesOf(*job::FindModelKind(c.kind), 1)) {
      if (loss->prediction == job::PredictionKind::kOrder) continue;  // of queries
      CAPTURE(text, loss->name);
      const std::string kind = absl::StrCat("loss.kind=", loss->name);
      REQUIRE(job::ParseJob(text, "j.yaml", {kind}).ok());
      const auto job = job::ParseJob(text, "j.yaml", {kind, "parameter_servers.table_device=gpu"});
      if (job.ok()) {
        TrainOnce(*job);
      } else {
        CHECK_THAT(std::string(job.status().message()), Contains("tables.item.device"));
        refused.insert(absl::StrCat(c.kind, " ", loss->name));
      }
    }
  }
  CHECK(refused == std::set<std::string>{"sasrec full_softmax", "two_tower full_softmax"});
  for (const job::ModelKind* kind : job::AllModelKinds()) {
    CAPTURE(kind->name);
    CHECK(kinds.count(kind->name) == 1);
  }
}

}  // namespace
}  // namespace coxswain::model
