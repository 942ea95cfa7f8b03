// Data of which everything is known: rows made by a model whose parameters are hashes of names, so
// that a table of any size takes no memory. Trained models can be held against what the planted
// model itself scores, at any number of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/generate/truth.h"
#include "nlohmann/json_fwd.hpp"

namespace coxswain::generate {

// What is known about some rows; each kind of data uses its own part.
struct Truth {
  ClickTruth clicks;
  NoiseTruth noise;
  void Merge(const Truth& other) {
    clicks.Merge(other.clicks);
    noise.Merge(other.noise);
  }
};

// Thread model: immutable; rows may be made by several threads.
class PlantedData {
 public:
  virtual ~PlantedData() = default;
  virtual std::string Header() const { return ""; }  // with its line end
  // Appends row `row` with its line end. A row depends on its number and the options alone.
  virtual void AddRow(int64_t row, std::string* text, Truth* truth) const = 0;
  // Adds what is known to the sidecar file: the options, and what the truth scores.
  virtual void Describe(const Truth& truth, nlohmann::ordered_json* json) const = 0;
  // The same in a line for people.
  virtual std::string Summary(const Truth& truth) const = 0;
};

struct CriteoOptions {
  uint64_t seed = 0;
  double zipf = 1.05;     // exponent of each word's law
  int64_t ids = 100'000;  // different words of the largest feature; the smallest has 3
};
// Lines as Criteo's (see runtime/data/criteo.h). The log odds of a click are a bias, an effect of
// each number's logarithm and of each word, and the products of all pairs among 13 of the words'
// vectors of 4 numbers: a factorisation machine, of which a linear model sees a part only.
// Errors: InvalidArgument naming the option.
absl::StatusOr<std::unique_ptr<PlantedData>> NewPlantedCriteo(const CriteoOptions& options);

struct RatingsOptions {
  uint64_t seed = 0;
  double zipf = 1.05;  // of users and of items
  int64_t users = 10'000;
  int64_t items = 2'000;
  int64_t dim = 4;
  double noise = 0.5;  // deviation
};
// CSV with the header "user,item,rating". A rating is 3.5, an effect of the user and of the item,
// the product of their vectors, and normal noise; it has three decimals and no bounds.
// Errors: InvalidArgument naming the option.
absl::StatusOr<std::unique_ptr<PlantedData>> NewPlantedRatings(const RatingsOptions& options);

}  // namespace coxswain::generate
