// Several tasks on a mixture of experts (Ma et al., 2018): each expert is hidden layers on all
// features; for each task a gate, softmax(x W_t), says how much of each expert it sees, and a tower
// of layers of its own makes its score of that:
//
//   score_t = tower_t(sum_e gate_t(x)_e expert_e(x))
#include "absl/strings/str_cat.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/model_parts.h"
#include "coordinator/model/task_model.h"
#include "coxswain/optimizers.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

struct MmoeOptions {
  std::vector<std::string> features;
  int64_t experts = 0;
  std::vector<int64_t> hidden;
  std::vector<int64_t> tower;
  LayerStyle style;
};

constexpr auto kKeys = job::KeyList(
    FeaturesKey<&MmoeOptions::features>(),
    job::Key<&MmoeOptions::experts>(
        "experts", "8", "number of experts, each with hidden layers of the widths `hidden`")
        .Min(1)
        .Max(1024),
    HiddenKey<&MmoeOptions::hidden>(), TowerKey<&MmoeOptions::tower>(),
    StyleKeys<&MmoeOptions::style>());

class Mmoe : public TaskModel {
 public:
  MmoeOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    CheckNorms(reader, options.style);
    CompleteSideBySide(reader, &options.features);
    if (options.hidden.empty()) {
      reader.Error("model.hidden", "an expert needs a layer: wanted one width or more");
    }
  }

  std::vector<job::TableUse> Tables() const override { return EmbeddingTables(options.features); }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    const job::VariableInputs features = {job::SideBySide(job, options.features), {}};
    job::InputsByVariable inputs;
    for (int64_t e = 0; e < options.experts; ++e) inputs[KernelName(ExpertOf(e))] = features;
    for (const job::TaskSpec& task : job.tasks) inputs[GateOf(task)] = features;
    return inputs;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    const int64_t inputs = parts->InputWidth(options.features);
    for (int64_t e = 0; e < options.experts; ++e) {
      RETURN_IF_ERROR(parts->CreateHidden(ExpertOf(e), inputs, options.hidden, options.style));
    }
    for (const job::TaskSpec& task : parts->job().tasks) {
      RETURN_IF_ERROR(parts->CreateDense(GateOf(task), {inputs, options.experts},
                                         GlorotUniform(parts->job().train.seed)));
      RETURN_IF_ERROR(parts->CreateScore(TowerOf(task), options.hidden.back(), options.tower,
                                         options.style, &task));
    }
    return absl::OkStatus();
  }

  std::vector<Output> Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output input = parts.SideBySide(f, options.features);
    std::vector<Output> experts;
    for (int64_t e = 0; e < options.experts; ++e) {
      experts.push_back(parts.Hidden(f, ExpertOf(e), input, options.hidden.size(), options.style));
    }
    const Output side_by_side = experts.size() == 1 ? experts[0] : f.Concat(experts, 1);
    const Output all = f.Reshape(side_by_side, {-1, options.experts, options.hidden.back()});
    std::vector<Output> logits;
    for (const job::TaskSpec& task : parts.job().tasks) {
      const Output gate = f.Softmax(f.MatMul(input, parts.DenseValue(f, GateOf(task))));
      const Output shares = f.Reshape(gate, {-1, options.experts, 1});
      const Output seen = f.Sum(f.Mul(all, shares), {1});
      const Output tower =
          parts.Layers(f, TowerOf(task), seen, options.tower.size(), options.style);
      logits.push_back(f.Reshape(tower, {-1}));
    }
    return logits;
  }

 private:
  static std::string ExpertOf(int64_t e) { return absl::StrCat("expert_", e); }
  static std::string GateOf(const job::TaskSpec& task) { return absl::StrCat("gate/", task.name); }
  static std::string TowerOf(const job::TaskSpec& task) {
    return absl::StrCat("tower/", task.name);
  }
};

}  // namespace

const job::ModelKind& MmoeKind() {
  static constexpr job::ModelKind kKind = {
      .name = "mmoe",
      .score =
          "layers of each task's own on a mixture of shared experts, weighted by the task's own "
          "gate (Ma et al., 2018)",
      .says = kTasks,
      .keys = kKeys,
      .read = job::ReadModelKeys<Mmoe, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
