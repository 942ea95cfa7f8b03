// SASRec (Kang and McAuley, 2018): what a user had, in its order, goes through blocks of
// self-attention in which nothing sees what came after it; what the last of it has become is the
// user's vector, whose products with items' vectors are the scores of what comes next.
//
//   x_e = drop(item_e + position_e),  position 0 being the last one
//   in each block: h = norm(x);  x += drop(attention(h W_q, h W_k, h W_v));
//                  x += drop(layers(norm(x)))
//   user = norm(x) of the last e; zeros of a user who had nothing
//
// What e has become depends on nothing behind it, and so is the user's vector at that moment, whose
// next choice is item_e+1. With `positions: all`, a step learns all of these choices from one pass
// over the sequence, as SASRec does; with `last`, each is a row that has a pass for itself.
#include "absl/strings/str_cat.h"
#include "coordinator/job/model_features.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/item_model.h"
#include "coordinator/model/kinds/kind_list.h"
#include "coordinator/model/kinds/own_names.h"
#include "coordinator/model/kinds/shared_keys.h"
#include "coordinator/model/model_parts.h"
#include "coxswain/optimizers.h"
#include "runtime/base/status.h"

namespace coxswain::model {

enum class SasrecPositions { kLast, kAll };

}  // namespace coxswain::model

namespace coxswain::job {

template <>
struct EnumWords<model::SasrecPositions> {
  static constexpr EnumWord<model::SasrecPositions> kAll[] = {
      {"last", model::SasrecPositions::kLast}, {"all", model::SasrecPositions::kAll}};
};

}  // namespace coxswain::job

namespace coxswain::model {
namespace {

struct SasrecOptions {
  std::string history;
  int64_t dim = 0;
  int64_t blocks = 0;
  int64_t heads = 0;
  double dropout = 0;
  SasrecPositions positions = SasrecPositions::kLast;
};

constexpr job::SchemaKey kKeys[] = {
    job::Key<&SasrecOptions::history>(
        "history", nullptr,
        "the user's past items: a feature of kind `history` with `by` and with `max_values`, the "
        "maximum sequence length; its `history_of` is the item to predict"),
    job::Key<&SasrecOptions::dim>("dim", "32", "dimension of the user and item vectors")
        .Min(1)
        .Max(job::kMostWidth),
    job::Key<&SasrecOptions::blocks>("blocks", "2",
                                     "number of blocks of self-attention and feed-forward layers")
        .Min(1)
        .Max(64),
    job::Key<&SasrecOptions::heads>(
        "heads", "1", "number of attention heads, among which a vector's numbers are divided")
        .Min(1)
        .Max(job::kMostWidth),
    DropoutKey<&SasrecOptions::dropout>(),
    job::Key<&SasrecOptions::positions>(
        "positions", "last",
        "what a training example is. `last`: a row, whose item is predicted from those before it; "
        "`all`: a window of up to `max_values` rows of a user, in which each item is predicted "
        "from those before it, at once: an epoch takes much less time. `all` needs the data in "
        "memory"),
};

constexpr char kPositions[] = "positions";

std::string BlockName(int64_t i, const char* what) { return absl::StrCat("block_", i, "/", what); }

class Sasrec : public ItemModel {
 public:
  SasrecOptions options;

  std::string Options() const override { return job::ShowKeys(kKeys, options); }
  std::string item() const override { return item_; }
  std::vector<std::string> user_features() const override { return {options.history}; }

  void Complete(const job::JobReader& reader) override;

  std::vector<job::TableUse> Tables() const override {
    return {{item_, job::TableSpec::Role::kEmbedding, job::kEmbeddingStddev}};
  }

  absl::Status CreateVariables(ModelParts* parts) const override;

  Output User(FunctionBuilder& f, const ModelParts& parts) const override {
    const auto history = parts.Input(f, *parts.job().FindFeature(options.history));
    return OfSequences(f, parts, history.values, history.offsets);
  }
  std::vector<Output> Items(FunctionBuilder&, const ModelParts&,
                            absl::Span<const ItemRows> lists) const override {
    std::vector<Output> items;
    for (const ItemRows& list : lists) items.push_back(list.rows);
    return items;
  }
  bool has_bias() const override { return false; }
  int64_t width() const override { return options.dim; }
  bool rows_are_items() const override { return true; }
  Output UserOf(FunctionBuilder& f, const ModelParts& parts, Output values,
                Output offsets) const override {
    return OfSequences(f, parts, values, offsets);
  }
  Choices Chosen(FunctionBuilder& f, const ModelParts& parts) const override;

 protected:
  Output Known(FunctionBuilder& f, const ModelParts& parts, Output ids) const override;

 private:
  bool learns_all() const { return options.positions == SasrecPositions::kAll; }
  // A column of windows, see data::TargetColumn.
  Output Next(FunctionBuilder& f, const char* what = "") const {
    return f.Column(absl::StrCat(options.history, ".next", what));
  }
  void CheckWindows(const job::JobReader& reader) const;
  // What each of these items has become, f32 [n, dim].
  Output AllPositions(FunctionBuilder& f, const ModelParts& parts, Output values,
                      Output offsets) const;
  // The vectors of users who had these items, f32 [B, dim].
  Output OfSequences(FunctionBuilder& f, const ModelParts& parts, Output values,
                     Output offsets) const;
  Output Block(FunctionBuilder& f, const ModelParts& parts, int64_t i, Output x,
               Output offsets) const;

  std::string item_;
  int64_t longest_ = 0;
};

void Sasrec::Complete(const job::JobReader& reader) {
  const proto::FeatureSpec* history = job::CheckFeature(reader, "model.history", options.history);
  if (history == nullptr) return;
  if (history->history_of().empty() || history->by().empty() || history->max_values() < 1) {
    reader.Error("model.history", absl::StrCat("'", options.history, "': wanted a feature of kind ",
                                               "history, with by and max_values"));
    return;
  }
  item_ = history->history_of();
  longest_ = history->max_values();
  if (options.dim % options.heads != 0) {
    reader.Error("model.heads", absl::StrCat("wanted a divisor of dim, ", options.dim));
  }
  CheckTableName(reader, item_, kPositions);
  const proto::FeatureSpec* item = job::CheckSingle(reader, "model.history", item_);
  if (item != nullptr && item->hash_buckets() > 0) {
    reader.Error(absl::StrCat("features.", item_, ".hash_buckets"),
                 "the item of a sasrec needs a vocabulary: all of it is ranked");
  }
  job::SetDim(reader, item_, options.dim, "in a sasrec");
  if (learns_all()) CheckWindows(reader);
}

void Sasrec::CheckWindows(const job::JobReader& reader) const {
  const auto refuse = [&](const char* why) {
    reader.Error("model.positions", absl::StrCat("all: ", why));
  };
  proto::DatasetSpec& data = reader.job->dataset;
  if (!data.query().empty()) refuse("its examples are windows of a user's rows, and no queries");
  if (data.stream().mode() == proto::StreamOptions::ALWAYS || data.followed()) {
    refuse("windows of a user's rows are made in memory, and the data is streamed");
  }
  for (proto::FeatureSpec& feature : *data.mutable_features()) {
    if (feature.name() == options.history) feature.set_width(longest_);
  }
}

absl::Status Sasrec::CreateVariables(ModelParts* parts) const {
  const int64_t dim = options.dim;
  const uint64_t seed = parts->job().train.seed;
  RETURN_IF_ERROR(
      parts->CreateDense(kPositions, {longest_, dim}, NormalInit(job::kEmbeddingStddev, seed)));
  for (int64_t i = 0; i < options.blocks; ++i) {
    RETURN_IF_ERROR(parts->CreateNorm(BlockName(i, "attention"), dim));
    for (const char* matrix : {"query", "key", "value"}) {
      RETURN_IF_ERROR(parts->CreateDense(BlockName(i, matrix), {dim, dim}, GlorotUniform(seed)));
    }
    RETURN_IF_ERROR(parts->CreateNorm(BlockName(i, "layers"), dim));
    RETURN_IF_ERROR(parts->CreateLayers(BlockName(i, "layers"), dim, {dim}, dim));
  }
  return parts->CreateNorm("last", dim);
}

Output Sasrec::AllPositions(FunctionBuilder& f, const ModelParts& parts, Output values,
                            Output offsets) const {
  const Output place = f.Op("FromEnd", {offsets, values}, {{"most", longest_ - 1}});
  const Output items = f.Lookup(parts.table(item_), values);
  Output x = f.Add(items, f.Gather(parts.DenseValue(f, kPositions), place));
  x = parts.Dropped(f, options.dropout, x);
  for (int64_t i = 0; i < options.blocks; ++i) x = Block(f, parts, i, x, offsets);
  return parts.Norm(f, "last", x);
}

Output Sasrec::OfSequences(FunctionBuilder& f, const ModelParts& parts, Output values,
                           Output offsets) const {
  return f.Op("LastRows", {AllPositions(f, parts, values, offsets), offsets});
}

ItemModel::Choices Sasrec::Chosen(FunctionBuilder& f, const ModelParts& parts) const {
  if (!learns_all()) return ItemModel::Chosen(f, parts);
  const auto history = parts.Input(f, *parts.job().FindFeature(options.history));
  Choices chosen = {AllPositions(f, parts, history.values, history.offsets), Next(f), {}};
  if (!parts.job().dataset.label().weight().empty()) chosen.weights = Next(f, ".weight");
  return chosen;
}

// Of a window: the items before its targets, and the targets themselves, also the later ones.
Output Sasrec::Known(FunctionBuilder& f, const ModelParts& parts, Output ids) const {
  if (!learns_all()) return ItemModel::Known(f, parts, ids);
  const auto history = parts.Input(f, *parts.job().FindFeature(options.history));
  const Output before = f.Op("InBags", {history.values, history.offsets, ids});
  // A window has as many targets as values.
  const Output chosen = f.Op("InBags", {Next(f), history.offsets, ids});
  return f.Gather(f.Op("Maximum", {before, chosen}), Next(f, ".window"));
}

Output Sasrec::Block(FunctionBuilder& f, const ModelParts& parts, int64_t i, Output x,
                     Output offsets) const {
  const Output h = parts.Norm(f, BlockName(i, "attention"), x);
  const auto times = [&](const char* matrix) {
    return f.MatMul(h, parts.DenseValue(f, BlockName(i, matrix)));
  };
  const Output seen =
      f.Op("CausalAttention", {times("query"), times("key"), times("value"), offsets},
           {{"heads", options.heads}});
  x = f.Add(x, parts.Dropped(f, options.dropout, seen));
  const Output changed =
      parts.Layers(f, BlockName(i, "layers"), parts.Norm(f, BlockName(i, "layers"), x), 1, {});
  return f.Add(x, parts.Dropped(f, options.dropout, changed));
}

}  // namespace

const job::ModelKind& SasrecKind() {
  static constexpr job::ModelKind kKind = {
      .name = "sasrec",
      .score =
          "dot product of the item's vector and the output of self-attention over the user's "
          "history for its last item (Kang and McAuley, 2018)",
      .says = kRanks,
      .predicts = job::Predicts::kItem,
      .keys = kKeys,
      .read = job::ReadModelKeys<Sasrec, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
