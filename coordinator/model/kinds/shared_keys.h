// Keys that several kinds of models have in the same words, so that the schema shows them as one.
#pragma once

#include "coordinator/job/bound_key.h"

namespace coxswain::model {

template <auto Member>
constexpr job::SchemaKey FeaturesKey() {
  return job::Key<Member>("features", "=all features", "what the model sees");
}

template <auto Member>
constexpr job::SchemaKey HiddenKey() {
  return job::Key<Member>("hidden", "[128, 64]", "widths of the hidden layers").Min(1);
}

template <auto Member>
constexpr job::SchemaKey ActivationKey() {
  return job::Key<Member>("activation", "relu", "of hidden layers");
}

}  // namespace coxswain::model
