// AutoInt (Song et al., 2019): layers in which the vectors of features attend to each other, a
// linear layer on what comes out of the last one, and hidden layers on the vectors themselves.
#include "absl/strings/str_cat.h"
#include "coordinator/job/model_features.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/product_features.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

struct AutoIntOptions {
  int64_t dim = 0;
  std::vector<std::string> features;
  int64_t attention_layers = 0, heads = 0, head_dim = 0;
  std::vector<int64_t> hidden;
  LayerStyle style;
};

constexpr auto kKeys = job::KeyList(
    VectorDimKey<&AutoIntOptions::dim>(), FeaturesKey<&AutoIntOptions::features>(),
    job::Key<&AutoIntOptions::attention_layers>("attention_layers", "3",
                                                "number of layers of self-attention")
        .Min(1)
        .Max(64),
    job::Key<&AutoIntOptions::heads>("heads", "2", "heads of each layer of self-attention")
        .Min(1)
        .Max(1024),
    job::Key<&AutoIntOptions::head_dim>("head_dim", "16",
                                        "dimension of the queries, keys and values of a head")
        .Min(1)
        .Max(1024),
    HiddenKey<&AutoIntOptions::hidden>(), StyleKeys<&AutoIntOptions::style>());

std::string AttentionName(int64_t layer, const char* part) {
  return absl::StrCat("attention/layer_", layer, "/", part);
}

constexpr const char* kProjections[] = {"query", "key", "value", "residual"};

class AutoInt : public LabelledModel {
 public:
  AutoIntOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }

  void Complete(const job::JobReader& reader) override {
    CheckNorms(reader, options.style);
    CompleteProductFeatures(reader, options.dim, /*numbers_are_one=*/false, &options.features);
  }

  std::vector<job::TableUse> Tables() const override { return EmbeddingTables(options.features); }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    std::vector<job::VariablePart> attended = FieldParts(job, options.features, width());
    for (job::VariablePart& part : attended) part.as = "after attention";
    return {{kNumberVectors, NumberVectorInputs(job, options.features)},
            {KernelName("top"), {std::move(attended), {}}},
            {KernelName("deep"), {FieldParts(job, options.features, options.dim), {}}}};
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    RETURN_IF_ERROR(CreateNumberVectors(parts, options.features, options.dim));
    uint64_t seed = parts->job().train.seed;
    for (int64_t l = 0; l < options.attention_layers; ++l) {
      const int64_t in = l == 0 ? options.dim : width();
      for (const char* part : kProjections) {
        // Those of one shape begin as different ones.
        RETURN_IF_ERROR(
            parts->CreateDense(AttentionName(l, part), {in, width()}, GlorotUniform(seed++)));
      }
    }
    RETURN_IF_ERROR(parts->CreateLayers("top", count() * width(), {}, 1));
    return parts->CreateScore("deep", count() * options.dim, options.hidden, options.style);
  }

  Output Logits(FunctionBuilder& f, const ModelParts& parts) const override {
    const Output joined = FieldVectors(f, parts, options.features, options.dim);
    Output x = f.Reshape(joined, {-1, options.dim});
    for (int64_t l = 0; l < options.attention_layers; ++l) x = Attended(f, parts, l, x);
    const Output top =
        parts.Layers(f, "top", f.Reshape(x, {-1, count() * width()}), 0, options.style);
    const Output deep = parts.Layers(f, "deep", joined, options.hidden.size(), options.style);
    return f.Reshape(f.Add(top, deep), {-1});
  }

 private:
  int64_t count() const { return static_cast<int64_t>(options.features.size()); }
  int64_t width() const { return options.heads * options.head_dim; }

  // Of vectors [B * count, in]: relu(concat over heads of softmax(Q K^T) V + X W_residual), which
  // is [B * count, width]. Q = X W_query, K and V likewise, of each example and head.
  Output Attended(FunctionBuilder& f, const ModelParts& parts, int64_t layer, Output x) const {
    const auto projected = [&](const char* part) {
      return f.MatMul(x, parts.DenseValue(f, AttentionName(layer, part)));
    };
    const auto by_head = [&](const char* part) {
      const Output apart =
          f.Reshape(projected(part), {-1, count(), options.heads, options.head_dim});
      return f.Reshape(f.Transpose(apart, {0, 2, 1, 3}), {-1, count(), options.head_dim});
    };
    const Output scores =
        f.Op("BatchMatMul", {by_head("query"), by_head("key")}, {{"transpose_b", true}});
    const Output values = f.Op("BatchMatMul", {f.Softmax(scores), by_head("value")});
    const Output apart = f.Reshape(values, {-1, options.heads, count(), options.head_dim});
    const Output joined = f.Reshape(f.Transpose(apart, {0, 2, 1, 3}), {-1, width()});
    return f.Relu(f.Add(joined, projected("residual")));
  }
};

}  // namespace

const job::ModelKind& AutoIntKind() {
  static constexpr job::ModelKind kKind = {
      .name = "autoint",
      .score =
          "layers of self-attention between the vectors of features, and hidden layers beside "
          "them on the vectors; each number has a vector, which is multiplied by the number (Song "
          "et al., 2019)",
      .says = job::kChanceNumberOrOrder,
      .keys = kKeys,
      .read = job::ReadModelKeys<AutoInt, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
