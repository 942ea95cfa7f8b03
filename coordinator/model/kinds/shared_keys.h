// Keys that several kinds of models have in the same words, so that the schema shows them as one;
// and the checks, widths and tables that follow from them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "coordinator/job/bound_key.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/model_features.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/model/model_parts.h"

namespace coxswain::model {

template <auto Member>
constexpr job::SchemaKey FeaturesKey() {
  return job::Key<Member>("features", "=all features", "the input features");
}

template <auto Member>
constexpr job::SchemaKey HiddenKey() {
  return job::Key<Member>("hidden", "[128, 64]", "widths of the hidden layers")
      .Min(1)
      .Max(job::kMostWidth);
}

// Of models that multiply the vectors of features, numbers among them (product_features.h).
template <auto Member>
constexpr job::SchemaKey VectorDimKey() {
  return job::Key<Member>(
             "dim", "16",
             "dimension of all embeddings, and of the vector that each number is multiplied by")
      .Min(1)
      .Max(job::kMostWidth);
}

template <auto Member>
constexpr job::SchemaKey TowerKey() {
  return job::Key<Member>("tower", "[32]",
                          "widths of each task's own hidden layers, before its output layer")
      .Min(1)
      .Max(job::kMostWidth);
}

template <auto... Member>
constexpr job::SchemaKey DropoutKey() {
  return job::Key<Member...>("dropout", "0",
                             "dropout rate of the hidden layers: fraction of their outputs that a "
                             "training step sets to 0; the others are scaled up")
      .Min(0)
      .Below(1);
}

inline constexpr job::SchemaKey kBatchNormKeys[] = {
    job::Key<&BatchNorm::momentum>("momentum", "0.99",
                                   "momentum of the running mean and variance: each step moves "
                                   "them by the fraction 1 - momentum towards those of its batch")
        .Min(0)
        .Below(1),
    job::Key<&BatchNorm::epsilon>("epsilon", "0.001",
                                  "added to the variance for numerical stability")
        .Above(0),
};
inline constexpr job::SchemaSection kBatchNorm = {"model.batch_norm", "", kBatchNormKeys};

// The keys of a member that is a LayerStyle: what all hidden layers of a model do. Those of models
// without batch normalization, and all of them.
template <auto Style>
constexpr std::array<job::SchemaKey, 3> ExampleStyleKeys() {
  return {job::Key<Style, &LayerStyle::activation>("activation", "relu",
                                                   "activation function of the hidden layers"),
          job::Key<Style, &LayerStyle::layer_norm>(
              "layer_norm", "false",
              "layer normalisation of the hidden layers: before the activation, the outputs of "
              "each example are normalised to mean 0 and variance 1, then scaled and shifted by "
              "learned weights"),
          DropoutKey<Style, &LayerStyle::dropout>()};
}

template <auto Style>
constexpr std::array<job::SchemaKey, 4> StyleKeys() {
  return job::KeyList(ExampleStyleKeys<Style>(),
                      job::Key<Style, &LayerStyle::batch_norm>(
                          "batch_norm", "",
                          "batch normalisation of the hidden layers: before the activation, each "
                          "output is normalised to mean 0 and variance 1 over the batch, then "
                          "scaled and shifted by learned weights; evaluations and predictions use "
                          "running means and variances. `{}`: with the defaults")
                          .Of(&kBatchNorm));
}

// One of the two is enough.
inline void CheckNorms(const job::JobReader& reader, const LayerStyle& style) {
  if (!style.layer_norm || !style.batch_norm) return;
  reader.Error("model.batch_norm", "give one of layer_norm and batch_norm");
}

template <auto Member>
constexpr job::SchemaKey ClassesKey() {
  return job::Key<Member>(
             "classes", "1",
             "number of classes, labels being 0..classes-1; 1: the label is a number, or 0 or 1")
      .Min(1)
      .Max(job::kMostClasses);
}

// Completes the features that are put side by side below hidden layers: a list that is not given is
// all of them, and each that needs a width and has none gets the default one.
inline void CompleteSideBySide(const job::JobReader& reader, std::vector<std::string>* features) {
  job::CompleteFeatures(reader, "model", features);
  for (const std::string& name : *features) job::SetDefaultDim(reader, name);
}

// A table of vectors for each feature.
inline std::vector<job::TableUse> EmbeddingTables(const std::vector<std::string>& features) {
  std::vector<job::TableUse> tables;
  for (const std::string& name : features) {
    tables.push_back({name, job::TableSpec::Role::kEmbedding, job::kEmbeddingStddev});
  }
  return tables;
}

// The same, and a weight for each row.
inline std::vector<job::TableUse> EmbeddingAndLinearTables(
    const std::vector<std::string>& features) {
  std::vector<job::TableUse> tables = EmbeddingTables(features);
  for (const std::string& name : features) {
    tables.push_back({name, job::TableSpec::Role::kLinear});
  }
  return tables;
}

}  // namespace coxswain::model
