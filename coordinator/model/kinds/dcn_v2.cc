// DCN V2 (Wang et al., 2021): with x_0 all features side by side, cross layers
//   x_{l+1} = x_0 * (W_l x_l + b_l) + x_l          (*: element by element)
// make products of features of ever higher degree, and hidden layers stand behind them ("stacked")
// or beside them ("parallel"). With a rank r, W_l = U_l V_l of r columns and rows.
#include "absl/strings/str_cat.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "coxswain/optimizers.h"
#include "runtime/base/status.h"

namespace coxswain::model {

enum class DcnStructure { kStacked, kParallel };

}  // namespace coxswain::model

namespace coxswain::job {

template <>
struct EnumWords<model::DcnStructure> {
  static constexpr EnumWord<model::DcnStructure> kAll[] = {
      {"stacked", model::DcnStructure::kStacked}, {"parallel", model::DcnStructure::kParallel}};
};

}  // namespace coxswain::job

namespace coxswain::model {
namespace {

struct DcnOptions {
  std::vector<std::string> features;
  int64_t cross_layers = 0, rank = 0;
  DcnStructure structure = DcnStructure::kStacked;
  std::vector<int64_t> hidden;
  LayerStyle style;
};

constexpr auto kKeys =
    job::KeyList(FeaturesKey<&DcnOptions::features>(),
                 job::Key<&DcnOptions::cross_layers>("cross_layers", "3", "number of cross layers")
                     .Min(1)
                     .Max(64),
                 job::Key<&DcnOptions::rank>("rank", "0",
                                             "rank of the cross layers' weight matrices, each a "
                                             "product of two narrow ones; 0: full matrices")
                     .Min(0)
                     .Max(job::kMostWidth),
                 job::Key<&DcnOptions::structure>(
                     "structure", "stacked",
                     "`stacked`: the hidden layers follow the cross layers; `parallel`: they run "
                     "beside the cross layers, on the features themselves"),
                 HiddenKey<&DcnOptions::hidden>(), StyleKeys<&DcnOptions::style>());

std::string CrossName(int64_t layer, const char* part) {
  return absl::StrCat("cross/layer_", layer, "/", part);
}

class DcnV2 : public LabelledModel {
 public:
  DcnOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    CheckNorms(reader, options.style);
    CompleteSideBySide(reader, &options.features);
  }

  std::vector<job::TableUse> Tables() const override { return EmbeddingTables(options.features); }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    const std::vector<job::VariablePart> features = job::SideBySide(job, options.features);
    std::vector<job::VariablePart> crossed = features;
    for (job::VariablePart& part : crossed) part.as = "crossed";
    job::InputsByVariable inputs;
    for (int64_t l = 0; l < options.cross_layers; ++l) {
      const std::vector<job::VariablePart>& in = l == 0 ? features : crossed;
      inputs[CrossName(l, "u")] = {in, {}};
      inputs[CrossName(l, "v")] = {{}, crossed};
      inputs[CrossName(l, "kernel")] = {in, crossed};
      inputs[CrossName(l, "bias")] = {crossed, {}};
    }
    const bool stacked = options.structure == DcnStructure::kStacked;
    inputs[KernelName("deep")] = {stacked ? crossed : features, {}};
    if (!stacked) inputs[KernelName("top")] = {crossed, {}};
    return inputs;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    const int64_t width = parts->InputWidth(options.features);
    for (int64_t l = 0; l < options.cross_layers; ++l) {
      // Layers of one shape begin as different ones.
      const proto::InitializerSpec random =
          GlorotUniform(parts->job().train.seed + static_cast<uint64_t>(l));
      if (options.rank > 0) {
        RETURN_IF_ERROR(parts->CreateDense(CrossName(l, "u"), {width, options.rank}, random));
        RETURN_IF_ERROR(parts->CreateDense(CrossName(l, "v"), {options.rank, width}, random));
      } else {
        RETURN_IF_ERROR(parts->CreateDense(CrossName(l, "kernel"), {width, width}, random));
      }
      RETURN_IF_ERROR(parts->CreateDense(CrossName(l, "bias"), {width}, Zeros()));
    }
    if (options.structure == DcnStructure::kParallel) {
      RETURN_IF_ERROR(parts->CreateLayers("top", width, {}, 1));
    }
    return parts->CreateScore("deep", width, options.hidden, options.style);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output x = parts.SideBySide(f, options.features), crossed = Crossed(f, parts, x);
    const bool stacked = options.structure == DcnStructure::kStacked;
    const Output deep =
        parts.Layers(f, "deep", stacked ? crossed : x, options.hidden.size(), options.style);
    if (stacked) return f.Reshape(deep, {-1});
    // A linear layer on both side by side is the sum of one on each.
    return f.Reshape(f.Add(parts.Layers(f, "top", crossed, 0, options.style), deep), {-1});
  }

 private:
  Output Crossed(FunctionBuilder& f, const ModelParts& parts, Output first) const {
    Output x = first;
    for (int64_t l = 0; l < options.cross_layers; ++l) {
      const Output bias = parts.DenseValue(f, CrossName(l, "bias"));
      const bool whole = options.rank == 0;
      const Output in = whole ? x : f.MatMul(x, parts.DenseValue(f, CrossName(l, "u")));
      const Output kernel = parts.DenseValue(f, CrossName(l, whole ? "kernel" : "v"));
      x = f.Add(f.Mul(first, f.Dense(in, kernel, bias)), x);
    }
    return x;
  }
};

}  // namespace

const job::ModelKind& DcnV2Kind() {
  static constexpr job::ModelKind kKind = {.name = "dcn_v2",
                                           .score =
                                               "cross layers, which multiply features, and hidden "
                                               "layers after or beside them (Wang et al., 2021)",
                                           .says = job::kChanceNumberOrOrder,
                                           .keys = kKeys,
                                           .read = job::ReadModelKeys<DcnV2, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
