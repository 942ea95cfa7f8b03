#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/generate/planted_data.h"
#include "coordinator/generate/zipf.h"
#include "nlohmann/json.hpp"
#include "runtime/data/permutation.h"

namespace coxswain::generate {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;
constexpr int64_t kMostDim = 1024;
constexpr double kMean = 3.5;
// Deviations of the parts of a rating.
constexpr double kUserPart = 0.3, kItemPart = 0.3, kProductPart = 0.6;

enum Stream : uint64_t { kRows = 1, kUserOrder, kItemOrder, kUsers, kItems };

double Effect(uint64_t bits) {
  return (static_cast<double>(bits >> 12) * 0x1p-51 - 1) * 1.7320508075688772;
}

class PlantedRatings final : public PlantedData {
 public:
  explicit PlantedRatings(const RatingsOptions& options)
      : options_(options),
        row_key_(data::HashPair(options.seed, kRows)),
        user_key_(data::HashPair(options.seed, kUsers)),
        item_key_(data::HashPair(options.seed, kItems)),
        users_(options.users, options.zipf),
        items_(options.items, options.zipf),
        // Frequent ids should not be neighbours: what cuts tables into ranges would see it.
        user_order_(static_cast<uint64_t>(options.users), data::HashPair(options.seed, kUserOrder)),
        item_order_(static_cast<uint64_t>(options.items),
                    data::HashPair(options.seed, kItemOrder)) {}

  std::string Header() const override { return "user,item,rating\n"; }

  void AddRow(int64_t row, std::string* text, Truth* truth) const override {
    RowRandom random(row_key_, row);
    const uint64_t user = user_order_(static_cast<uint64_t>(users_.Draw(&random)));
    const uint64_t item = item_order_(static_cast<uint64_t>(items_.Draw(&random)));
    const uint64_t u = data::HashPair(user_key_, user), i = data::HashPair(item_key_, item);
    double product = 0;
    for (int64_t k = 1; k <= options_.dim; ++k) {
      const uint64_t at = static_cast<uint64_t>(k);
      product += Effect(data::HashPair(u, at)) * Effect(data::HashPair(i, at));
    }
    const double rating = kMean + kUserPart * Effect(Mix64(u)) + kItemPart * Effect(Mix64(i)) +
                          kProductPart * product / std::sqrt(static_cast<double>(options_.dim));
    const double noise = options_.noise * random.Normal();
    absl::StrAppendFormat(text, "%d,%d,%.3f\n", user + 1, item + 1, rating + noise);
    truth->noise.Add(noise);
  }

  void Describe(const Truth& truth, nlohmann::ordered_json* json) const override {
    (*json)["kind"] = "ratings";
    (*json)["seed"] = options_.seed;
    (*json)["zipf"] = options_.zipf;
    (*json)["users"] = options_.users;
    (*json)["items"] = options_.items;
    (*json)["dim"] = options_.dim;
    (*json)["noise"] = options_.noise;
    (*json)["rows"] = truth.noise.rows();
    (*json)["rmse"] = options_.noise;
    (*json)["drawn_rmse"] = truth.noise.rmse();
  }

  std::string Summary(const Truth& truth) const override {
    return absl::StrFormat("rmse %.4f", truth.noise.rmse());
  }

 private:
  const RatingsOptions options_;
  const uint64_t row_key_, user_key_, item_key_;
  const Zipf users_, items_;
  const data::Permutation user_order_, item_order_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlantedData>> NewPlantedRatings(const RatingsOptions& o) {
  if (!(o.zipf >= 0 && o.zipf <= 10)) {
    return absl::InvalidArgumentError(absl::StrCat("--zipf: wanted 0 to 10, found ", o.zipf));
  }
  for (const auto& [name, count] : {std::pair{"users", o.users}, std::pair{"items", o.items}}) {
    if (count < 1 || count > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, ": wanted 1 to 2^40, found ", count));
    }
  }
  if (o.dim < 1 || o.dim > kMostDim) {
    return absl::InvalidArgumentError(absl::StrCat("--dim: wanted 1 to 1024, found ", o.dim));
  }
  if (!(o.noise >= 0 && o.noise <= 1e6)) {
    return absl::InvalidArgumentError(absl::StrCat("--noise: wanted 0 to 1e6, found ", o.noise));
  }
  return std::unique_ptr<PlantedData>(new PlantedRatings(o));
}

}  // namespace coxswain::generate
