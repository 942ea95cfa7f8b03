// Training that goes on from a saved model or a checkpoint: what optimizers keep comes too, and the
// next update is what the old job's would have been.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/slot_rows.h"
#include "coordinator/model/warm_start.h"
#include "kernels/optimizers/optimizer_info.h"
#include "runtime/cluster/control.h"
#include "tests/testing/next_job.h"
#include "tests/testing/training_job.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
namespace fs = std::filesystem;

// By "variable/slot" and row (or id): everything that parameter servers have.
using Everything = std::map<std::string, std::map<int64_t, std::vector<float>>>;

std::vector<float> RowOf(const Tensor& rows, int64_t row) {
  const int64_t width = rows.num_elements() / rows.dim(0);
  std::vector<float> values(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i) {
    const int64_t at = row * width + i;
    values[static_cast<size_t>(i)] =
        rows.dtype() == DType::kBF16 ? rows.data<BFloat16>()[at].ToFloat() : rows.data<float>()[at];
  }
  return values;
}

std::map<int64_t, std::vector<float>> RowsOf(const ParameterServerStrategy& strategy,
                                             const VariableInfo& info, int slot) {
  std::map<int64_t, std::vector<float>> rows;
  for (int s = 0; s < static_cast<int>(info.shards.size()); ++s) {
    if (info.hash()) {
      const auto some = Must(ReadSlotOfIds(strategy, info, s, 0, 1000, slot));
      for (int64_t i = 0; i < some.ids.dim(0); ++i) {
        rows[some.ids.data<int64_t>()[i]] = RowOf(some.rows, i);
      }
      continue;
    }
    const int64_t count = info.shards[static_cast<size_t>(s)].rows();
    const Tensor some = Must(ReadSlot(strategy, info, s, 0, count, slot));
    for (int64_t i = 0; i < count; ++i) rows[info.GlobalRow(s, i)] = RowOf(some, i);
  }
  return rows;
}

Everything Of(const ParameterServerStrategy& strategy) {
  Everything all;
  for (const auto& info : strategy.variables()) {
    if (info->dtype == DType::kI64) continue;
    const auto slots = static_cast<int>(kernels::SlotsOfKind(info->optimizer.kind()).size());
    for (int slot = strategy.ema_decay() > 0 ? cluster::kAverages : 0; slot <= slots; ++slot) {
      all[absl::StrCat(info->name, "/", slot)] = RowsOf(strategy, *info, slot);
    }
  }
  return all;
}

std::string Rows(int users = 20) {
  std::string rows = "user,film,place,key,y\n";
  for (int i = 0; i < 400; ++i) {
    absl::StrAppend(&rows, "u", i * 7 % users, ",f", i % 11, ",p", i % 5, ",", i % 13 * 1000 - 3,
                    ",", i % 3 == 0, "\n");
  }
  return rows;
}

std::string Job(const std::string& table, const std::string& dense, const std::string& rest = "") {
  return absl::StrCat(R"(name: warm
dataset: {path: a.csv}
features:
  - {name: user, kind: categorical, oov_buckets: 2}
  - {name: film, kind: categorical}
  - {name: place, kind: categorical, hash_buckets: 5}
  - {name: key, kind: categorical, id: raw}
label: {column: y}
model: {kind: mlp, hidden: [4]}
optimizer:
  table: {kind: )",
                      table, ", learning_rate: 0.05}\n  dense: {kind: ", dense,
                      ", learning_rate: 0.02}\n",
                      rest.empty() ? "train: {batch_size: 16}\n" : rest);
}

TEST_CASE("warm start: the first update is the one that the old job would have made next") {
  const std::string table = GENERATE("lazy_adam", "adamw", "adam", "adagrad", "rowwise_adagrad",
                                     "ftrl", "momentum", "rmsprop");
  const std::string dense = table == "rowwise_adagrad" ? "adagrad" : table;
  const std::string rest =
      GENERATE("", "tables: {user: {sharding: hash}, place: {sharding: div}}\n");
  CAPTURE(table, rest);
  const DataFiles files;
  files.Write("a.csv", Rows());
  TrainingJob old(files, Job(table, dense, absl::StrCat(rest, "train: {batch_size: 16}\n")));
  old.SaveInputs();
  old.Steps(5);
  const std::string model = old.Save(files.Path("model"), /*slots=*/true);
  const std::string text = Job(table, dense);  // other shardings, one more parameter server
  NextJob from_model(files, text, {.directory = model});
  NextJob from_checkpoint(files, text, {.directory = old.directory()});
  NextJob without(files, text, {.directory = model, .slots = false});
  const Everything before = Of(*old.strategy());
  CHECK(Of(from_model.strategy) == before);
  CHECK(Of(from_checkpoint.strategy) == before);
  CHECK(from_model.taken.fresh.empty());
  CHECK(from_model.taken.fresh_slots.empty());
  CHECK(from_model.taken.with_slots == static_cast<int64_t>(old.strategy()->variables().size()));
  old.Steps(1);
  for (NextJob* next : {&from_model, &from_checkpoint, &without}) {
    next->Skip(5);
    next->Step();
  }
  const Everything after = Of(*old.strategy());
  REQUIRE(after != before);
  CHECK(Of(from_model.strategy) == after);
  CHECK(Of(from_checkpoint.strategy) == after);
  CHECK(Of(without.strategy) != after);
}

TEST_CASE("warm start: where weights have moving averages, both go on") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string averaged = "train: {batch_size: 16, ema: {decay: 0.9}}\n";
  const std::string text = Job("lazy_adam", "adam", averaged);
  TrainingJob old(files, text);
  old.SaveInputs();
  old.Steps(5);
  const std::string model = old.Save(files.Path("model"), /*slots=*/true);
  NextJob from_model(files, text, {.directory = model});
  NextJob from_checkpoint(files, text, {.directory = old.directory()});
  NextJob plain(files, Job("lazy_adam", "adam"), {.directory = model});
  const Everything before = Of(*old.strategy());
  CHECK(Of(from_model.strategy) == before);
  CHECK(Of(from_checkpoint.strategy) == before);
  // A job without averages begins with them, as it would predict.
  CHECK(Of(plain.strategy).at("user/0") == before.at("user/-1"));
  CHECK(Of(plain.strategy).at("user/1") == before.at("user/1"));
  old.Steps(1);
  for (NextJob* next : {&from_model, &from_checkpoint}) {
    next->Skip(5);
    next->Step();
  }
  CHECK(Of(from_model.strategy) == Of(*old.strategy()));
  CHECK(Of(from_checkpoint.strategy) == Of(*old.strategy()));
}

TEST_CASE("warm start: rows in bf16 come with their slots, which are f32") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string averaged = GENERATE("", ", ema: {decay: 0.9}");
  const std::string text =
      Job("lazy_adam", "adam",
          absl::StrCat("tables: {user: {dtype: bf16}, key: {dtype: bf16}}\ntrain: {batch_size: 16",
                       averaged, "}\n"));
  TrainingJob old(files, text);
  old.SaveInputs();
  old.Steps(5);
  const std::string model = old.Save(files.Path("model"), /*slots=*/true);
  const Everything before = Of(*old.strategy());
  CHECK(Of(NextJob(files, text, {.directory = old.directory()}).strategy) == before);
  CHECK(Of(NextJob(files, text, {.directory = model}).strategy) == before);
}

TEST_CASE("warm start: new rows begin with initial slots, beside rows that go on") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string text = Job("adagrad", "adagrad");
  TrainingJob old(files, text);
  old.Steps(5);
  const std::string model = old.Save(files.Path("model"), /*slots=*/true);
  files.Write("a.csv", Rows(30));
  NextJob next(files, text, {.directory = model});
  const Everything before = Of(*old.strategy()), after = Of(next.strategy);
  const auto& old_rows = before.at("user/1");
  const auto& new_rows = after.at("user/1");
  REQUIRE(old_rows.size() == 22);
  REQUIRE(new_rows.size() == 32);
  for (int64_t row = 0; row < 20; ++row) CHECK(new_rows.at(row) == old_rows.at(row));
  const std::vector<float> initial(old_rows.at(0).size(), 0.1F);
  CHECK(old_rows.at(0) != initial);
  for (int64_t row = 20; row < 30; ++row) CHECK(new_rows.at(row) == initial);
  for (int64_t bucket = 0; bucket < 2; ++bucket) {
    CHECK(new_rows.at(30 + bucket) == old_rows.at(20 + bucket));
  }
  CHECK_THAT(next.taken.ToString(), Contains("user: 22 rows, 10 new"));
}

TEST_CASE("warm start: why slots start over is told") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  TrainingJob old(files, Job("adagrad", "adagrad"));
  old.SaveInputs();
  old.Steps(2);
  const std::string model = old.Save(files.Path("model"));
  const NextJob without(files, Job("adagrad", "adagrad"), {.directory = model});
  CHECK(without.taken.with_slots == 0);
  CHECK_THAT(without.taken.ToString(),
             Contains("optimizer slots start over: ") && Contains(" and 5 more: ") &&
                 Contains("the model was saved without them (--model-slots)"));
  const NextJob other(files, Job("lazy_adam", "adagrad"), {.directory = old.directory()});
  CHECK(other.taken.with_slots == 4);
  CHECK_THAT(other.taken.ToString(),
             Contains("optimizer slots of 4 variables\n") &&
                 Contains("and 1 more: they were those of adagrad, the job has lazy_adam\n"));
  // It has none, and so none start over.
  const NextJob plain(files, Job("sgd", "sgd"), {.directory = old.directory()});
  CHECK_THAT(plain.taken.ToString(), !Contains("slots"));
}

TEST_CASE("warm start: a job that is interrupted goes on with what it began with") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string text = Job("lazy_adam", "adam");
  TrainingJob old(files, text);
  old.Steps(5);
  const std::string model = old.Save(files.Path("model"), /*slots=*/true);
  NextJob next(files, text, {.directory = model});
  CheckpointOptions options;
  options.directory = files.Path("next");
  options.every = absl::ZeroDuration();
  CheckpointManager checkpoints(options);
  Must(checkpoints.Start(next.cluster));
  next.Step();
  Must(checkpoints.Save());
  CheckpointManager found(options);
  Must(found.Find());
  NextJob again(files, text, model, &found);
  CHECK(Of(again.strategy) == Of(next.strategy));
  next.Step();
  again.Step();
  CHECK(Of(again.strategy) == Of(next.strategy));
  // A third job counts all updates: 5, and the 2 of this one.
  for (const auto& info : again.strategy.variables()) {
    CHECK(Must(ReadGradientSteps(again.strategy, *info)) == 7);
  }
}

TEST_CASE("warm start: from a checkpoint with its inputs as from the model of the same step") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string text = Job("lazy_adam", "adam");
  TrainingJob old(files, text);
  old.SaveInputs();
  old.Steps(5);
  const std::string model = old.Save(files.Path("model"), /*slots=*/true);
  // Other users are frequent now, and there are new ones.
  files.Write("a.csv", Rows(3) + "u19,f1,p,5,0\nu19,f1,p,5,0\nu19,f1,p,5,0\nnew,f3,p,5,1\n");
  for (const std::string& directory : {old.directory(), old.directory() + "/checkpoint-000001"}) {
    CAPTURE(directory);
    NextJob from_model(files, text, {.directory = model});
    NextJob from_checkpoint(files, text, {.directory = directory});
    CHECK(Of(from_checkpoint.strategy) == Of(from_model.strategy));
    const auto& users = *from_checkpoint.dataset.data().vocabulary("user");
    CHECK(users == *from_model.dataset.data().vocabulary("user"));
    CHECK(users.size() == 21);
    CHECK(from_checkpoint.taken.fresh.empty());
    CHECK_THAT(from_checkpoint.taken.ToString(), Contains("user: 22 rows, 1 new"));
    for (NextJob* next : {&from_model, &from_checkpoint}) next->Step();
    CHECK(Of(from_checkpoint.strategy) == Of(from_model.strategy));
  }
}

TEST_CASE("warm start: of a checkpoint without its inputs tables of a vocabulary begin anew") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string text = Job("adagrad", "adagrad");
  TrainingJob old(files, text);
  old.Steps(2);
  if (GENERATE(false, true)) {  // those of another job are none
    const DataFiles others;
    others.Write("a.csv", Rows(7));
    TrainingJob other(others, text);
    other.SaveInputs();
    fs::copy(other.directory() + "/inputs", old.directory() + "/inputs",
             fs::copy_options::recursive);
  }
  const NextJob next(files, text, {.directory = old.directory()});
  REQUIRE(next.taken.fresh.size() == 3);  // the layer on their rows, too
  CHECK_THAT(next.taken.ToString(),
             Contains("anew: user: nothing tells which values its rows are of") &&
                 Contains("inputs is not there, or is of another job") && Contains("key: 13 rows"));
  CHECK(Of(next.strategy).at("place/1") == Of(*old.strategy()).at("place/1"));
}

TEST_CASE("warm start: damaged slots of a model are told with the file") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string text = Job("adagrad", "adagrad");
  TrainingJob old(files, text);
  old.Steps(1);
  const std::string model = old.Save(files.Path("model"), /*slots=*/true);
  REQUIRE(fs::exists(model + "/slots/user.safetensors"));
  fs::remove(model + "/slots/user.safetensors");
  job::JobSpec job = Must(job::ParseKeptJob(text, files.Path("job.yaml"), files.Path("")));
  Must(KeepIds(model, &job.dataset));
  ParameterServerStrategy strategy(testing::MustStart(1, 1, 1));
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = 16;
  const PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
  const absl::Status status = WarmSource::Open({.directory = model}, job, dataset.data()).status();
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Contains("slots/user.safetensors"));
}

}  // namespace
}  // namespace coxswain::model
