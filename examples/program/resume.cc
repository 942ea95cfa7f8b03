// A program that may be killed at any moment and started again: each example is used once an epoch,
// and it says so at the end. It keeps data and checkpoints in the directory that it is given:
//
//   ./resume /tmp/resume      # kill -9 it, as often as you like, and start it again
//
// A number behind the directory is that of the epochs: with 1000 there is time to kill it by hand.
#include <absl/strings/numbers.h>
#include <coxswain/coxswain.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace cox = coxswain;

namespace {

constexpr int64_t kExamples = 500, kBatch = 5;

// Written once: the examples must be the same each time.
absl::Status WriteNumbers(const std::string& path) {
  if (std::filesystem::exists(path)) return absl::OkStatus();
  std::ofstream csv(path + ".new");
  csv << "number\n";
  for (int64_t i = 0; i < kExamples; ++i) csv << i << "\n";
  csv.close();
  std::error_code error;
  if (csv.good()) std::filesystem::rename(path + ".new", path, error);
  if (csv.good() && !error) return absl::OkStatus();
  return absl::UnavailableError("cannot write " + path);
}

absl::Status Count(const std::string& directory, int64_t epochs) {
  COX_RETURN_IF_ERROR(WriteNumbers(directory + "/numbers.csv"));
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
  COX_RETURN_IF_ERROR(
      checkpoints.Find());  // a coordinator that was here until now may have written more
  cox::ParameterServerStrategy strategy(cluster);
  COX_RETURN_IF_ERROR(checkpoints.Restore(&strategy));

  COX_ASSIGN_OR_RETURN(cox::PerWorkerDataset numbers,
                       strategy.CreatePerWorkerDataset(cox::Csv(directory + "/numbers.csv")
                                                           .Numeric("number")
                                                           .Shuffle(/*seed=*/7)
                                                           .Batch(kBatch)
                                                           .Epochs(epochs)));
  // A row for each example. Training that wants the rows' sum as large as it can be, with steps of
  // 1, adds 1 to the row of each example that it uses.
  cox::TableOptions rows;
  rows.rows = kExamples;
  rows.dim = 1;
  rows.optimizer = cox::Sgd{.learning_rate = 1};
  COX_ASSIGN_OR_RETURN(cox::EmbeddingTable visits, strategy.CreateTable("visits", rows));
  COX_ASSIGN_OR_RETURN(cox::RemoteFunction visit,
                       strategy.Define("visit", numbers, [&](cox::FunctionBuilder& f) {
                         cox::Output number = f.Cast(f.Column("number"), cox::DType::kI64);
                         f.Minimize(f.Neg(f.Sum(f.Lookup(visits, number))));
                       }));

  cox::CoordinatorOptions queue;
  queue.queue_size = 16;  // so that a program that is killed has not scheduled all of it
  cox::ClusterCoordinator coordinator(strategy, queue);
  // First what the checkpoint lacks, then what was never scheduled: NextTicket knows where that is.
  COX_ASSIGN_OR_RETURN(auto pending, checkpoints.RunPending(&coordinator, {visit}));
  COX_RETURN_IF_ERROR(checkpoints.Start(cluster));
  if (checkpoints.found()) {
    std::printf("going on from %s, %d closures of which run again\n", checkpoints.path().c_str(),
                static_cast<int>(pending.size()));
    std::fflush(stdout);
  }
  while (std::optional<cox::Ticket> ticket = numbers.NextTicket()) {
    coordinator.Schedule(visit, *ticket);
  }
  COX_RETURN_IF_ERROR(coordinator.Join());
  COX_RETURN_IF_ERROR(checkpoints.Save());

  COX_ASSIGN_OR_RETURN(cox::Tensor counts, strategy.Read(visits));
  int64_t wrong = 0;
  for (float count : counts.values<float>()) wrong += count != static_cast<float>(epochs);
  std::printf("%d of %d examples were not used %d times\n", static_cast<int>(wrong),
              static_cast<int>(kExamples), static_cast<int>(epochs));
  return wrong == 0 ? absl::OkStatus() : absl::DataLossError("some were lost or used twice");
}

}  // namespace

int main(int argc, char** argv) {
  int epochs = 100;
  if (argc < 2 || argc > 3 || (argc == 3 && (!absl::SimpleAtoi(argv[2], &epochs) || epochs < 1))) {
    std::fprintf(stderr, "usage: resume DIRECTORY [EPOCHS]\n");
    return EXIT_FAILURE;
  }
  std::error_code ignored;
  std::filesystem::create_directories(argv[1], ignored);
  if (absl::Status status = Count(argv[1], epochs); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
