// A lookup table that each worker holds: what is known of items, their kinds and prices, is sent to
// each worker once and not with every closure. A worker that comes back after it was lost gets it
// again before it gets closures. A whole program; it needs nothing but an installed Coxswain.
#include <coxswain/coxswain.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace cox = coxswain;

namespace {

constexpr int64_t kItems = 10000, kKinds = 20, kBatch = 64;

int64_t KindOf(int64_t item) { return item * 7919 % kKinds; }
float PriceOf(int64_t item) { return static_cast<float>(item % 100) / 100; }
// What buyers make of an item: by its kind, and less if it is dear.
float RatingOf(int64_t item) { return static_cast<float>(KindOf(item)) / 10 - PriceOf(item); }

// What all workers hold: made by a function that runs on each of them, of arguments that travel
// once.
absl::StatusOr<cox::PerWorkerValues> HoldItems(cox::ParameterServerStrategy& strategy) {
  std::vector<int64_t> kinds;
  std::vector<float> prices;
  for (int64_t item = 0; item < kItems; ++item) {
    kinds.push_back(KindOf(item));
    prices.push_back(PriceOf(item));
  }
  COX_ASSIGN_OR_RETURN(
      cox::RemoteFunction make, strategy.Define("items", [](cox::FunctionBuilder& f) {
        const cox::Output price = f.Argument("price", cox::DType::kF32, cox::Shape{kItems});
        f.Result("kind", f.Argument("kind", cox::DType::kI64, cox::Shape{kItems}));
        f.Result("price", f.Sub(price, f.Mean(price)));
      }));
  return strategy.CreatePerWorkerValues(
      make, {cox::Tensor::FromVector(prices), cox::Tensor::FromVector(kinds)});
}

absl::Status Train(float* last) {
  COX_ASSIGN_OR_RETURN(cox::Cluster cluster,
                       cox::Cluster::InProcess(/*num_ps=*/2, /*num_workers=*/2));
  cox::ParameterServerStrategy strategy(cluster);
  COX_ASSIGN_OR_RETURN(cox::PerWorkerValues items, HoldItems(strategy));
  COX_ASSIGN_OR_RETURN(
      cox::EmbeddingTable kinds,
      strategy.CreateTable(
          "kinds", {.rows = kKinds, .dim = 1, .optimizer = cox::Sgd{.learning_rate = 0.5}}));
  COX_ASSIGN_OR_RETURN(
      cox::Variable slope,
      strategy.CreateVariable("slope", {.optimizer = cox::Sgd{.learning_rate = 0.5}}));

  COX_ASSIGN_OR_RETURN(
      cox::RemoteFunction step, strategy.Define("step", [&](cox::FunctionBuilder& f) {
        const cox::Output item = f.Argument("item", cox::DType::kI64, cox::Shape{kBatch});
        const cox::Output rating = f.Argument("rating", cox::DType::kF32, cox::Shape{kBatch});
        const cox::Output kind = f.Gather(f.Value(items, "kind"), item);
        const cox::Output price = f.Gather(f.Value(items, "price"), item);
        const cox::Output base = f.Reshape(f.Lookup(kinds, kind), cox::Shape{kBatch});
        const cox::Output score = f.Add(base, f.Mul(price, f.Read(slope)));
        const cox::Output loss = f.Mean(f.Square(f.Sub(score, rating)));
        f.Minimize(loss);
        f.Result("loss", loss);
      }));

  cox::ClusterCoordinator coordinator(strategy);
  std::vector<cox::RemoteValue> losses;
  for (int64_t round = 0; round < 2000; ++round) {
    std::vector<int64_t> item;
    std::vector<float> rating;
    for (int64_t i = 0; i < kBatch; ++i) {
      item.push_back((round * kBatch + i) * 31 % kItems);
      rating.push_back(RatingOf(item.back()));
    }
    losses.push_back(coordinator.Schedule(
        step, {cox::Tensor::FromVector(item), cox::Tensor::FromVector(rating)}));
  }
  COX_RETURN_IF_ERROR(coordinator.Join());
  COX_ASSIGN_OR_RETURN(std::vector<float> all, coordinator.Fetch<float>(losses, "loss"));
  COX_ASSIGN_OR_RETURN(cox::Tensor learned, strategy.Read(slope));
  *last = all.back();
  std::printf("loss %.4f at first, %.4f at last; a price counts %.2f\n", all.front(), *last,
              learned.data<float>()[0]);
  return absl::OkStatus();
}

}  // namespace

int main() {
  float last = 1;
  if (absl::Status status = Train(&last); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return EXIT_FAILURE;
  }
  return last < 0.01f ? EXIT_SUCCESS : EXIT_FAILURE;
}
