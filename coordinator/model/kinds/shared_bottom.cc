// Several tasks on a shared bottom (Caruana, 1997): hidden layers on all features, and for each
// task a tower of layers of its own on what they say.
#include "absl/strings/str_cat.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/task_model.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

struct SharedBottomOptions {
  std::vector<std::string> features;
  std::vector<int64_t> hidden;
  std::vector<int64_t> tower;
  LayerStyle style;
};

constexpr auto kKeys = job::KeyList(
    FeaturesKey<&SharedBottomOptions::features>(), HiddenKey<&SharedBottomOptions::hidden>(),
    TowerKey<&SharedBottomOptions::tower>(), StyleKeys<&SharedBottomOptions::style>());

class SharedBottom : public TaskModel {
 public:
  SharedBottomOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    CheckNorms(reader, options.style);
    CompleteSideBySide(reader, &options.features);
  }

  std::vector<job::TableUse> Tables() const override { return EmbeddingTables(options.features); }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    const job::VariableInputs features = {job::SideBySide(job, options.features), {}};
    if (!options.hidden.empty()) return {{KernelName("bottom"), features}};
    job::InputsByVariable inputs;
    for (const job::TaskSpec& task : job.tasks) inputs[KernelName(TowerOf(task))] = features;
    return inputs;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    const int64_t inputs = parts->InputWidth(options.features);
    RETURN_IF_ERROR(parts->CreateHidden("bottom", inputs, options.hidden, options.style));
    const int64_t width = options.hidden.empty() ? inputs : options.hidden.back();
    for (const job::TaskSpec& task : parts->job().tasks) {
      RETURN_IF_ERROR(
          parts->CreateScore(TowerOf(task), width, options.tower, options.style, &task));
    }
    return absl::OkStatus();
  }

  std::vector<Output> Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output shared = parts.Hidden(f, "bottom", parts.SideBySide(f, options.features),
                                       options.hidden.size(), options.style);
    std::vector<Output> logits;
    for (const job::TaskSpec& task : parts.job().tasks) {
      const Output tower =
          parts.Layers(f, TowerOf(task), shared, options.tower.size(), options.style);
      logits.push_back(f.Reshape(tower, {-1}));
    }
    return logits;
  }

 private:
  static std::string TowerOf(const job::TaskSpec& task) {
    return absl::StrCat("tower/", task.name);
  }
};

}  // namespace

const job::ModelKind& SharedBottomKind() {
  static constexpr job::ModelKind kKind = {
      .name = "shared_bottom",
      .score = "hidden layers shared by all tasks, followed by layers of each task's own",
      .says = kTasks,
      .keys = kKeys,
      .read = job::ReadModelKeys<SharedBottom, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
