#include "coordinator/job/regularization.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "runtime/base/status.h"

namespace coxswain::job {
namespace {

constexpr SchemaKey kLayerKeys[] = {
    Key<&DenseL2::Layer::name>("name", nullptr,
                               "name of a variable, or a prefix of several names that ends before "
                               "a `/`: `deep/layer_0/kernel`, `deep/layer_0`, `deep`"),
    Key<&DenseL2::Layer::l2>("l2", nullptr, "L2 penalty of these variables").Min(0),
};
constexpr SchemaSection kLayer = {"regularization.layers[]", "", kLayerKeys};

constexpr SchemaKey kKeys[] = {
    Key<&DenseL2::kernels>("kernels", "=`optimizer.dense.l2`",
                           "L2 penalty of all dense weights that multiply an input")
        .Min(0),
    Key<&DenseL2::biases>("biases", "=`optimizer.dense.l2`",
                          "L2 penalty of the other dense weights: biases of layers, and scales and "
                          "shifts of normalisations")
        .Min(0),
    SchemaKey(KeyType::kSections, "layers", "",
              "a list of penalties by variable name, which override `kernels` and `biases`; the "
              "longest matching name counts")
        .Of(&kLayer),
};
constexpr SchemaSection kSection = {"regularization", "", kKeys};

bool IsBias(const std::string& variable) {
  for (const char* end : {"/bias", "/norm_scale", "/norm_shift"}) {
    if (absl::EndsWith(variable, end)) return true;
  }
  return variable == "mean";  // of all ratings
}

bool IsOf(const std::string& variable, const std::string& layer) {
  return variable == layer || absl::StartsWith(variable, layer + "/");
}

}  // namespace

const SchemaSection& RegularizationSchema() { return kSection; }

void ReadRegularization(const JobReader& reader) {
  if (!reader.Good("regularization")) return;
  const SectionView view = reader.file.Sub("regularization");
  DenseL2* const l2 = &reader.job->dense_l2;
  ReadKeys(kKeys, view, l2);
  std::set<std::string> names;
  for (const SectionView& layer : view.Sections("layers")) {
    ReadKeys(kLayerKeys, layer, &l2->layers.emplace_back());
    const std::string& name = l2->layers.back().name;
    if (names.insert(name).second) continue;
    reader.Error(absl::StrCat("regularization.layers.", name),
                 absl::StrCat("a second layer of the name '", name, "'"));
  }
  const proto::OptimizerSpec& optimizer = reader.job->dense_optimizer;
  const bool any = l2->kernels || l2->biases || !l2->layers.empty();
  if (any && !optimizer.kind().empty() && !kernels::FindParameter(optimizer, "l2").has_value()) {
    reader.Error("regularization", absl::StrCat("the optimizer ", optimizer.kind(), " has no l2"));
  }
}

proto::OptimizerSpec OptimizerOf(const JobSpec& job, const std::string& variable) {
  const DenseL2& all = job.dense_l2;
  std::optional<double> l2 = IsBias(variable) ? all.biases : all.kernels;
  size_t longest = 0;
  for (const DenseL2::Layer& layer : all.layers) {
    if (layer.name.size() < longest || !IsOf(variable, layer.name)) continue;
    longest = layer.name.size();
    l2 = layer.l2;
  }
  proto::OptimizerSpec optimizer = job.dense_optimizer;
  if (l2) kernels::SetParameter("l2", *l2, &optimizer);
  return optimizer;
}

absl::Status CheckLayers(const JobSpec& job, absl::Span<const std::string> variables) {
  for (const DenseL2::Layer& layer : job.dense_l2.layers) {
    const bool found = std::any_of(variables.begin(), variables.end(),
                                   [&layer](const std::string& v) { return IsOf(v, layer.name); });
    if (found) continue;
    const std::string key = absl::StrCat("regularization.layers.", layer.name);
    return WithDetail(
        absl::InvalidArgumentError(absl::StrCat(
            job.Where(key), ": ", key, ": wanted a dense variable of the model, or what their ",
            "names begin with; it has: ",
            variables.empty() ? "none" : absl::StrJoin(variables, ", "))),
        {ErrorCause::kConfiguration, false, "", 0});
  }
  return absl::OkStatus();
}

}  // namespace coxswain::job
