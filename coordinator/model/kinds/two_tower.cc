// Two towers (Covington et al., 2016; Yi et al., 2019): the score of a user and an item is the
// product of their vectors, and the item that a user chose is learned against others: some that are
// drawn, those of the batch, or all (the loss says which).
#include "coordinator/job/model_features.h"
#include "coordinator/model/item_model.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

// Without hidden layers a side is the sum of its features' vectors; with them these go side by side
// through the hidden layers and a last linear one.
struct UserOptions {
  std::vector<std::string> features;
  std::vector<int64_t> hidden;
};
struct ItemOptions {
  std::string feature;
  std::vector<int64_t> hidden;
  bool bias = false;
};
struct TwoTowerOptions {
  UserOptions user;
  ItemOptions item;
  int64_t dim = 0;
  bool normalize = false;
  LayerStyle style;
};

constexpr job::SchemaKey kUserKeys[] = {
    job::Key<&UserOptions::features>("features", nullptr, "what describes the user"),
    job::Key<&UserOptions::hidden>(
        "hidden", "[]",
        "widths of layers on the features' vectors, put side by side; a linear layer to "
        "`model.dim` follows. None: the vectors are added up")
        .Min(1),
};
constexpr job::SchemaSection kUser = {"model.user", "", kUserKeys};

constexpr job::SchemaKey kItemKeys[] = {
    job::Key<&ItemOptions::feature>(
        "feature", nullptr, "the item; a categorical feature, and for two_tower with a vocabulary"),
    job::Key<&ItemOptions::hidden>("hidden", "[]", "as in `model.user`").Min(1),
    job::Key<&ItemOptions::bias>("bias", "true", "a number for each item is added to its score"),
};
constexpr job::SchemaSection kItem = {"model.item", "", kItemKeys};

constexpr auto kKeys = job::KeyList(
    job::Key<&TwoTowerOptions::user>("user", nullptr, "the side that asks").Of(&kUser),
    job::Key<&TwoTowerOptions::item>("item", nullptr, "the side that is chosen").Of(&kItem),
    job::Key<&TwoTowerOptions::dim>("dim", "32", "width of the user's and the item's vector")
        .Min(1),
    job::Key<&TwoTowerOptions::normalize>("normalize", "false",
                                          "both vectors are scaled to length 1"),
    ExampleStyleKeys<&TwoTowerOptions::style>());

class TwoTower : public ItemModel {
 public:
  TwoTowerOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }
  std::string item() const override { return options.item.feature; }
  std::vector<std::string> user_features() const override { return options.user.features; }

  void Complete(const job::JobReader& reader) override {
    job::CompleteFeatures(reader, "model.user", &options.user.features);
    CheckItem(reader);
    for (size_t i = 0; i < options.user.features.size(); ++i) {
      const std::string& name = options.user.features[i];
      const std::string path = absl::StrCat("model.user.features.", i);
      if (name == item()) {
        reader.Error(path, absl::StrCat("'", name, "' is what is to be predicted"));
      }
      if (job::IsNumeric(*reader.job, name) && options.user.hidden.empty()) {
        reader.Error(
            path, absl::StrCat("'", name, "' is a number, which needs layers (model.user.hidden)"));
      }
      job::SetDim(reader, name, options.dim,
                  options.user.hidden.empty() ? job::kWithoutLayers : nullptr);
    }
    job::SetDim(reader, item(), options.dim,
                options.item.hidden.empty() ? job::kWithoutLayers : nullptr);
  }

  std::vector<job::TableUse> Tables() const override {
    std::vector<job::TableUse> tables = EmbeddingTables(options.user.features);
    tables.push_back({item(), job::TableSpec::Role::kEmbedding, job::kEmbeddingStddev});
    if (options.item.bias) tables.push_back({item(), job::TableSpec::Role::kBias});
    return tables;
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    if (!options.user.hidden.empty()) {
      RETURN_IF_ERROR(parts->CreateLayers("user", parts->InputWidth(options.user.features),
                                          options.user.hidden, options.dim, options.style));
    }
    if (options.item.hidden.empty()) return absl::OkStatus();
    return parts->CreateLayers("item", parts->InputWidth({item()}), options.item.hidden,
                               options.dim, options.style);
  }

  // The user tower over the batch's examples.
  Output User(FunctionBuilder& f, const ModelParts& parts) const override;
  // The item tower over given rows of its table.
  Output Item(FunctionBuilder& f, const ModelParts& parts, Output rows) const override;
  bool has_bias() const override { return options.item.bias; }
  int64_t width() const override { return options.dim; }
  bool rows_are_items() const override { return options.item.hidden.empty(); }
  bool normalizes() const override { return options.normalize; }
  Output UserOf(FunctionBuilder& f, const ModelParts& parts, Output values,
                Output offsets) const override;

 private:
  void CheckItem(const job::JobReader& reader) const;
  Output Normalized(FunctionBuilder& f, Output rows) const;
};

void TwoTower::CheckItem(const job::JobReader& reader) const {
  const std::string& name = options.item.feature;
  const proto::FeatureSpec* feature = job::CheckSingle(reader, "model.item.feature", name);
  if (feature != nullptr && feature->hash_buckets() > 0) {
    reader.Error(absl::StrCat("features.", name, ".hash_buckets"),
                 "the item of a two_tower needs a vocabulary");
  }
  if (feature != nullptr && !feature->id().empty()) {
    reader.Error(absl::StrCat("features.", name, ".id"),
                 "the item of a two_tower needs a vocabulary: all of it is ranked");
  }
}

Output TwoTower::Normalized(FunctionBuilder& f, Output rows) const {
  if (!options.normalize) return rows;
  constexpr float kTiny = 1e-12f;  // an empty bag is a zero vector
  const Output norm =
      f.Op("ReduceSum", {f.Square(rows)}, {{"axes", std::vector<int64_t>{1}}, {"keep_dims", true}});
  return f.Mul(rows, f.Op("Rsqrt", {f.Add(norm, f.Scalar(kTiny))}));
}

Output TwoTower::User(FunctionBuilder& f, const ModelParts& parts) const {
  const UserOptions& tower = options.user;
  if (tower.hidden.empty()) return Normalized(f, parts.Sum(f, tower.features));
  return Normalized(f, parts.Layers(f, "user", parts.SideBySide(f, tower.features),
                                    tower.hidden.size(), options.style));
}

Output TwoTower::Item(FunctionBuilder& f, const ModelParts& parts, Output rows) const {
  const size_t hidden = options.item.hidden.size();
  if (hidden > 0) rows = parts.Layers(f, "item", rows, hidden, options.style);
  return Normalized(f, rows);
}

Output TwoTower::UserOf(FunctionBuilder& f, const ModelParts& parts, Output values,
                        Output offsets) const {
  std::vector<Output> vectors;
  for (const std::string& name : options.user.features) {
    vectors.push_back(parts.Embed(f, name, *parts.job().FindFeature(name), {values, offsets, {}}));
  }
  Output user = vectors[0];
  const size_t hidden = options.user.hidden.size();
  if (hidden > 0) {
    if (vectors.size() > 1) user = f.Concat(vectors, 1);
    user = parts.Layers(f, "user", user, hidden, options.style);
  } else if (vectors.size() > 1) {
    user = f.Op("AddN", vectors);
  }
  return Normalized(f, user);
}

}  // namespace

const job::ModelKind& TwoTowerKind() {
  static constexpr job::ModelKind kKind = {.name = "two_tower",
                                           .score = "product of the user's and the item's vector",
                                           .says = kRanks,
                                           .predicts = job::Predicts::kItem,
                                           .keys = kKeys,
                                           .read = job::ReadModelKeys<TwoTower, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
