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
  return job::Key<Member>("features", "=all features", "what the model sees");
}

template <auto Member>
constexpr job::SchemaKey HiddenKey() {
  return job::Key<Member>("hidden", "[128, 64]", "widths of the hidden layers")
      .Min(1)
      .Max(job::kMostWidth);
}

template <auto Member>
constexpr job::SchemaKey TowerKey() {
  return job::Key<Member>("tower", "[32]",
                          "widths of each task's own hidden layers, which a last one follows")
      .Min(1)
      .Max(job::kMostWidth);
}

template <auto... Member>
constexpr job::SchemaKey DropoutKey() {
  return job::Key<Member...>(
             "dropout", "0",
             "of hidden layers: share of their results that a training step sets to 0; "
             "the others are scaled up")
      .Min(0)
      .Below(1);
}

inline constexpr job::SchemaKey kBatchNormKeys[] = {
    job::Key<&BatchNorm::momentum>(
        "momentum", "0.99",
        "a step moves the running mean and variance by one less this towards those of its batch")
        .Min(0)
        .Below(1),
    job::Key<&BatchNorm::epsilon>("epsilon", "0.001", "is added to the variance").Above(0),
};
inline constexpr job::SchemaSection kBatchNorm = {"model.batch_norm", "", kBatchNormKeys};

// The keys of a member that is a LayerStyle: what all hidden layers of a model do. Those of models
// without batch normalization, and all of them.
template <auto Style>
constexpr std::array<job::SchemaKey, 3> ExampleStyleKeys() {
  return {job::Key<Style, &LayerStyle::activation>("activation", "relu", "of hidden layers"),
          job::Key<Style, &LayerStyle::layer_norm>(
              "layer_norm", "false",
              "of hidden layers: an example's numbers are scaled to mean 0 and variance "
              "1 before the activation, then by weights that are learned"),
          DropoutKey<Style, &LayerStyle::dropout>()};
}

template <auto Style>
constexpr std::array<job::SchemaKey, 4> StyleKeys() {
  return job::KeyList(
      ExampleStyleKeys<Style>(),
      job::Key<Style, &LayerStyle::batch_norm>(
          "batch_norm", "",
          "of hidden layers: a number is scaled to mean 0 and variance 1 over the batch before "
          "the activation, then by weights that are learned; evaluations and predictions go by "
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
  return job::Key<Member>("classes", "1",
                          "labels are 0..classes-1; 1: the label is a number, or 0 and 1")
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

}  // namespace coxswain::model
