// A recommender in one page: learns who likes what from ratings, on a cluster of two parameter
// servers and two workers. This is a whole program; it needs nothing but an installed Coxswain.
#include <coxswain/coxswain.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

namespace cox = coxswain;

namespace {

// Ratings of 1 to 5 stars: 60 users of three tastes, 45 films of three kinds.
bool WriteRatings(const std::string& path) {
  std::ofstream csv(path);
  csv << "user,film,rating\n";
  for (int user = 0; user < 60; ++user) {
    for (int film = 0; film < 45; ++film) {
      const int stars = user % 3 == film % 3 ? 5 : 1 + (user + film) % 2;
      csv << "user" << user << ",film" << film << "," << stars << "\n";
    }
  }
  return csv.flush().good();
}

absl::Status Train(const std::string& ratings_file, bool* learned) {
  // The cluster. Here all of it is in this process. Cluster::Local starts processes on this
  // machine, Cluster::Connect("cluster.yaml") takes daemons anywhere: nothing else changes.
  COX_ASSIGN_OR_RETURN(cox::Cluster cluster,
                       cox::Cluster::InProcess(/*num_ps=*/2, /*num_workers=*/2));
  cox::ParameterServerStrategy strategy(cluster);

  // The data. Every worker reads it for itself; the coordinator only says which examples, by
  // tickets.
  COX_ASSIGN_OR_RETURN(cox::PerWorkerDataset ratings,
                       strategy.CreatePerWorkerDataset(cox::Csv(ratings_file)
                                                           .Categorical("user")
                                                           .Categorical("film")
                                                           .Label("rating")
                                                           .Shuffle(/*seed=*/7)
                                                           .Batch(64)
                                                           .Epochs(20)));

  // The state. A table's rows are spread over the parameter servers and updated where they live.
  cox::TableOptions table;
  table.dim = 8;
  table.optimizer = cox::LazyAdam{.learning_rate = 0.01};
  table.initializer = cox::NormalInit(/*stddev=*/0.3, /*seed=*/1);
  table.rows = ratings.vocabulary_size("user");
  COX_ASSIGN_OR_RETURN(cox::EmbeddingTable users, strategy.CreateTable("users", table));
  table.rows = ratings.vocabulary_size("film");
  COX_ASSIGN_OR_RETURN(cox::EmbeddingTable films, strategy.CreateTable("films", table));
  cox::VariableOptions scalar;
  scalar.optimizer = cox::Adam{.learning_rate = 0.01};
  COX_ASSIGN_OR_RETURN(cox::Variable base, strategy.CreateVariable("base", scalar));

  // The step: what one worker does with one batch. Coxswain adds the gradients, places each node on
  // the task where it belongs, and sends what has to travel.
  COX_ASSIGN_OR_RETURN(cox::RemoteFunction step,
                       strategy.Define("step", ratings, [&](cox::FunctionBuilder& f) {
                         cox::Output user = f.Lookup(users, f.Column("user"));
                         cox::Output film = f.Lookup(films, f.Column("film"));
                         cox::Output stars = f.Add(f.RowDot(user, film), f.Read(base));
                         cox::Output loss = f.Mean(f.Square(f.Sub(stars, f.Column("label"))));
                         f.Minimize(loss);
                         f.Result("loss", loss);
                       }));

  // Training. Schedule returns at once with a future; the workers are kept busy behind it. A batch
  // whose worker is lost runs again on another one, and is never applied twice.
  cox::ClusterCoordinator coordinator(strategy);
  cox::RemoteValue first, last;
  int64_t steps = 0;
  while (std::optional<cox::Ticket> ticket = ratings.NextTicket()) {
    last = coordinator.Schedule(step, *ticket);
    if (steps++ == 0) first = last;
  }
  COX_RETURN_IF_ERROR(coordinator.Join());  // waits for all; the first error, if there was any

  COX_ASSIGN_OR_RETURN(float loss_before, coordinator.Fetch<float>(first, "loss"));
  COX_ASSIGN_OR_RETURN(float loss_after, coordinator.Fetch<float>(last, "loss"));
  std::printf("%lld steps: the loss was %.3f at the first and %.3f at the last\n",
              static_cast<long long>(steps), loss_before, loss_after);

  // State can be read, and written, at any time.
  COX_ASSIGN_OR_RETURN(cox::Tensor value, strategy.Read(base));
  std::printf("every prediction starts from %.3f stars\n", value.data<float>()[0]);
  *learned = loss_after < loss_before;
  return absl::OkStatus();
}

}  // namespace

int main() {
  const std::string ratings_file = "ratings.csv";
  if (!WriteRatings(ratings_file)) {
    std::fprintf(stderr, "cannot write %s\n", ratings_file.c_str());
    return EXIT_FAILURE;
  }
  bool learned = false;
  if (absl::Status status = Train(ratings_file, &learned); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return EXIT_FAILURE;
  }
  return learned ? EXIT_SUCCESS : EXIT_FAILURE;
}
