// Two towers (Covington et al., 2016; Yi et al., 2019): the score of a user and an item is the
// product of their vectors, and the item that a user chose is learned against others: some that are
// drawn, those of the batch, or all (the loss says which).
//
// First the keys and the class; then the checks of the item's features; then the towers.
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "coordinator/job/model_features.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/item_catalogue.h"
#include "coordinator/model/item_model.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

// Without hidden layers a side is the sum of its features' vectors; with them these go side by side
// through the hidden layers and a last linear one. The item itself is the first of its features.
struct UserOptions {
  std::vector<std::string> features;
  std::vector<int64_t> hidden;
};
struct ItemOptions {
  std::string feature;
  std::vector<std::string> features;
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
    job::Key<&UserOptions::features>("features", nullptr, "the features that describe the user"),
    job::Key<&UserOptions::hidden>(
        "hidden", "[]",
        "widths of the hidden layers on the features' concatenated vectors; a linear layer to "
        "`model.dim` follows. None: the vectors are summed")
        .Min(1)
        .Max(job::kMostWidth),
};
constexpr job::SchemaSection kUser = {"model.user", "", kUserKeys};

constexpr job::SchemaKey kItemKeys[] = {
    job::Key<&ItemOptions::feature>(
        "feature", nullptr,
        "the item, a categorical feature; for two_tower, one with a vocabulary"),
    job::Key<&ItemOptions::features>(
        "features", "",
        "the features that describe the item, in addition to its id: columns of tables that are "
        "joined by it (`dataset.join`), see [below](#items-with-features)"),
    job::Key<&ItemOptions::hidden>("hidden", "[]", "as in `model.user`")
        .Min(1)
        .Max(job::kMostWidth),
    job::Key<&ItemOptions::bias>("bias", "true", "add a bias for each item to its score"),
};
constexpr job::SchemaSection kItem = {"model.item", "", kItemKeys};

constexpr auto kKeys = job::KeyList(
    job::Key<&TwoTowerOptions::user>("user", nullptr, "the user side").Of(&kUser),
    job::Key<&TwoTowerOptions::item>("item", nullptr, "the item side").Of(&kItem),
    job::Key<&TwoTowerOptions::dim>("dim", "32", "dimension of the user and item vectors")
        .Min(1)
        .Max(job::kMostWidth),
    job::Key<&TwoTowerOptions::normalize>("normalize", "false", "scale both vectors to length 1"),
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
    CheckItemFeatures(reader);
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
    for (const std::string& name : ItemParts()) {
      job::SetDim(reader, name, options.dim,
                  options.item.hidden.empty() ? job::kWithoutLayers : nullptr);
    }
  }

  std::vector<job::TableUse> Tables() const override {
    std::vector<job::TableUse> tables = EmbeddingTables(options.user.features);
    // The row of an item that is described otherwise is what its features do not say. It begins as
    // nothing, and stays so for an item that training never meets.
    tables.push_back({item(), job::TableSpec::Role::kEmbedding,
                      has_item_features() ? 0 : job::kEmbeddingStddev});
    for (job::TableUse& table : EmbeddingTables(options.item.features)) {
      tables.push_back(std::move(table));
    }
    if (options.item.bias) tables.push_back({item(), job::TableSpec::Role::kBias});
    return tables;
  }

  job::InputsByVariable Inputs(const job::JobSpec& job) const override {
    return {{KernelName("user"), {job::SideBySide(job, options.user.features), {}}},
            {KernelName("item"), {job::SideBySide(job, ItemParts()), {}}}};
  }

  absl::Status CreateVariables(ModelParts* parts) const override {
    if (!options.user.hidden.empty()) {
      RETURN_IF_ERROR(parts->CreateLayers("user", parts->InputWidth(options.user.features),
                                          options.user.hidden, options.dim, options.style));
    }
    if (has_item_features()) {
      ASSIGN_OR_RETURN(ItemCatalogue items, ItemCatalogue::Read(parts->job(), parts->data(), item(),
                                                                options.item.features));
      parts->set_items(std::make_shared<const ItemCatalogue>(std::move(items)));
    }
    if (options.item.hidden.empty()) return absl::OkStatus();
    return parts->CreateLayers("item", parts->InputWidth(ItemParts()), options.item.hidden,
                               options.dim, options.style);
  }

  // The user tower over the batch's examples.
  Output User(FunctionBuilder& f, const ModelParts& parts) const override;
  // The item tower over given rows of its table, and what its features say of these items.
  std::vector<Output> Items(FunctionBuilder& f, const ModelParts& parts,
                            absl::Span<const ItemRows> lists) const override;
  bool has_bias() const override { return options.item.bias; }
  int64_t width() const override { return options.dim; }
  bool has_item_features() const override { return !options.item.features.empty(); }
  bool rows_are_items() const override {
    return options.item.hidden.empty() && !has_item_features();
  }
  bool normalizes() const override { return options.normalize; }
  Output UserOf(FunctionBuilder& f, const ModelParts& parts, Output values,
                Output offsets) const override;

 private:
  void CheckItem(const job::JobReader& reader) const;
  void CheckItemFeatures(const job::JobReader& reader) const;
  // What an item's vector is made of, the item first.
  std::vector<std::string> ItemParts() const {
    std::vector<std::string> names = options.item.features;
    names.insert(names.begin(), item());
    return names;
  }
  Output Normalized(FunctionBuilder& f, Output rows) const;
  // The vectors of a side, one for each feature, as one.
  Output Tower(FunctionBuilder& f, const ModelParts& parts, const std::string& side,
               const std::vector<Output>& vectors, size_t hidden) const;
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

// Whether tables have these columns is known once they are read.
void TwoTower::CheckItemFeatures(const job::JobReader& reader) const {
  const std::vector<std::string>& names = options.item.features;
  if (names.empty()) return;
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string path = absl::StrCat("model.item.features.", i);
    const auto wrong = [&](const auto&... why) {
      reader.Error(path, absl::StrCat("'", names[i], "' ", why...));
    };
    const proto::FeatureSpec* const feature = job::CheckFeature(reader, path, names[i]);
    if (!seen.insert(names[i]).second) wrong("is there twice");
    if (names[i] == item()) wrong("is the item, whose id is there anyway");
    if (absl::c_linear_search(options.user.features, names[i])) {
      wrong("describes the user (model.user.features)");
    }
    if (feature == nullptr) continue;
    if (!feature->history_of().empty()) wrong("is a history, which no item has");
    if (job::IsNumeric(*reader.job, names[i]) && options.item.hidden.empty()) {
      wrong("is a number, which needs layers (model.item.hidden)");
    }
  }
  const proto::FeatureSpec* const item_feature = reader.job->FindFeature(item());
  if (item_feature == nullptr) return;
  const std::string& key = item_feature->column();
  const bool joined =
      absl::c_any_of(reader.job->dataset.joins(),
                     [&key](const proto::JoinSpec& join) { return join.left_on() == key; });
  if (joined || !reader.Good("dataset")) return;
  reader.Error("model.item.features",
               absl::StrCat("they are columns of a table that is joined by the item, so that each "
                            "item has them, whatever rows there are: wanted dataset.join, on: ",
                            key));
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

std::vector<Output> TwoTower::Items(FunctionBuilder& f, const ModelParts& parts,
                                    absl::Span<const ItemRows> lists) const {
  std::vector<std::vector<Output>> vectors;
  std::vector<Output> ids;
  for (const ItemRows& list : lists) {
    vectors.push_back({list.rows});
    ids.push_back(list.ids);
  }
  for (const std::string& name : options.item.features) {
    const std::vector<Output> of = parts.items()->Vectors(f, parts, name, ids);
    for (size_t i = 0; i < of.size(); ++i) vectors[i].push_back(of[i]);
  }
  std::vector<Output> items;
  for (const std::vector<Output>& of : vectors) {
    items.push_back(Normalized(f, Tower(f, parts, "item", of, options.item.hidden.size())));
  }
  return items;
}

Output TwoTower::UserOf(FunctionBuilder& f, const ModelParts& parts, Output values,
                        Output offsets) const {
  std::vector<Output> vectors;
  for (const std::string& name : options.user.features) {
    vectors.push_back(parts.Embed(f, name, *parts.job().FindFeature(name), {values, offsets, {}}));
  }
  return Normalized(f, Tower(f, parts, "user", vectors, options.user.hidden.size()));
}

Output TwoTower::Tower(FunctionBuilder& f, const ModelParts& parts, const std::string& side,
                       const std::vector<Output>& vectors, size_t hidden) const {
  const bool one = vectors.size() == 1;
  if (hidden == 0) return one ? vectors[0] : f.Op("AddN", vectors);
  return parts.Layers(f, side, one ? vectors[0] : f.Concat(vectors, 1), hidden, options.style);
}

}  // namespace

const job::ModelKind& TwoTowerKind() {
  static constexpr job::ModelKind kKind = {.name = "two_tower",
                                           .score = "dot product of the user and item vectors",
                                           .says = kRanks,
                                           .predicts = job::Predicts::kItem,
                                           .keys = kKeys,
                                           .read = job::ReadModelKeys<TwoTower, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
