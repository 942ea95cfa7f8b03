// A program that brings its own data, and may be killed at any moment and started again: its n-th
// closure is given the n-th batch, and a checkpoint knows how many were scheduled. Each example is
// used once, and it says so at the end. It keeps checkpoints in the directory that it is given:
//
//   ./own_data /tmp/own_data      # kill -9 it, as often as you like, and start it again
//
// A number behind the directory is that of the batches.
#include <absl/strings/numbers.h>
#include <coxswain/coxswain.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace cox = coxswain;

namespace {

constexpr int64_t kExamples = 500, kBatch = 5;

// The ids of the n-th batch. Read from a queue or a database, a batch would be found by its number
// there, too.
cox::Tensor Batch(int64_t n) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kBatch; ++i) ids.push_back((n * kBatch + i) * 7 % kExamples);
  return cox::Tensor::FromVector<int64_t>(ids);
}

absl::Status Count(const std::string& directory, int64_t batches) {
  cox::CheckpointOptions options;
  options.directory = directory + "/checkpoints";
  options.every = absl::Milliseconds(50);  // where a minute would do, but this program is over soon
  cox::CheckpointManager checkpoints(options);
  COX_RETURN_IF_ERROR(checkpoints.Find());
  cox::ClusterOptions where;
  where.min_epoch = checkpoints.min_epoch();
  where.on_event = [](const cox::ClusterEvent& event) {
    std::printf("%s\n", event.message.c_str());
    std::fflush(stdout);
  };
  COX_ASSIGN_OR_RETURN(cox::Cluster cluster,
                       cox::Cluster::InProcess(/*num_ps=*/2, /*num_workers=*/2, where));
  COX_RETURN_IF_ERROR(checkpoints.Find());
  cox::ParameterServerStrategy strategy(cluster);
  COX_RETURN_IF_ERROR(checkpoints.Restore(&strategy));

  // A row for each example, to which training adds 1 when it uses the example (see resume.cc).
  cox::TableOptions rows;
  rows.rows = kExamples;
  rows.dim = 1;
  rows.optimizer = cox::Sgd{.learning_rate = 1};
  COX_ASSIGN_OR_RETURN(cox::EmbeddingTable visits, strategy.CreateTable("visits", rows));
  COX_ASSIGN_OR_RETURN(
      cox::RemoteFunction visit, strategy.Define("visit", [&](cox::FunctionBuilder& f) {
        cox::Output ids = f.Argument("ids", cox::DType::kI64, cox::Shape{cox::kUnknownDim});
        f.Minimize(f.Neg(f.Sum(f.Lookup(visits, ids))));
      }));

  cox::CoordinatorOptions queue;
  queue.queue_size = 16;  // so that a program that is killed has not scheduled all of it
  cox::ClusterCoordinator coordinator(strategy, queue);
  // Those that the checkpoint lacks have their batches in it. It counts all that were scheduled, in
  // all lives of the program: the next batch is the one behind them.
  COX_ASSIGN_OR_RETURN(auto pending, checkpoints.RunPending(&coordinator, {visit}));
  COX_RETURN_IF_ERROR(checkpoints.Start(cluster));
  int64_t next = 0;
  if (checkpoints.found()) {
    next = static_cast<int64_t>(checkpoints.next_closure()) - 1;
    std::printf("going on from %s with batch %d, %d closures run again\n",
                checkpoints.path().c_str(), static_cast<int>(next),
                static_cast<int>(pending.size()));
    std::fflush(stdout);
  }
  for (; next < batches; ++next) coordinator.Schedule(visit, {Batch(next)});
  COX_RETURN_IF_ERROR(coordinator.Join());
  COX_RETURN_IF_ERROR(checkpoints.Save());

  std::vector<float> wanted(kExamples, 0);
  for (int64_t n = 0; n < batches; ++n) {
    for (const int64_t id : Batch(n).values<int64_t>()) ++wanted[static_cast<size_t>(id)];
  }
  COX_ASSIGN_OR_RETURN(cox::Tensor counts, strategy.Read(visits));
  int wrong = 0;
  for (size_t i = 0; i < wanted.size(); ++i) wrong += counts.values<float>()[i] != wanted[i];
  std::printf("%d of %d examples were not used as often as they are in the batches\n", wrong,
              static_cast<int>(kExamples));
  return wrong == 0 ? absl::OkStatus() : absl::DataLossError("some were lost or used twice");
}

}  // namespace

int main(int argc, char** argv) {
  int batches = 10000;
  if (argc < 2 || argc > 3 ||
      (argc == 3 && (!absl::SimpleAtoi(argv[2], &batches) || batches < 1))) {
    std::fprintf(stderr, "usage: own_data DIRECTORY [BATCHES]\n");
    return EXIT_FAILURE;
  }
  std::error_code ignored;
  std::filesystem::create_directories(argv[1], ignored);
  if (absl::Status status = Count(argv[1], batches); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
