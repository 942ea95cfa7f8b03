// `--metrics` of a job and its daemons, scraped while the job trains.
#include <signal.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "coordinator/cli/exit_code.h"
#include "tests/integration/jobs.h"
#include "tests/testing/http_get.h"
#include "tests/testing/pages.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

constexpr absl::Duration kPatience = absl::Seconds(60);

// What a program says: "metrics on http://127.0.0.1:40001/metrics".
std::string MetricsAddress(const std::string& said) {
  const std::string before = "metrics on http://", behind = "/metrics\n";
  const size_t begin = said.find(before), end = said.find(behind);
  INFO(said);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  return said.substr(begin + before.size(), end - begin - before.size());
}

// A sample's value; -1: it is not there.
double Value(const std::string& scrape, const std::string& sample) {
  for (const absl::string_view line : absl::StrSplit(scrape, '\n')) {
    double value = 0;
    if (absl::StartsWith(line, absl::StrCat(sample, " ")) &&
        absl::SimpleAtod(line.substr(sample.size() + 1), &value)) {
      return value;
    }
  }
  return -1;
}

// Scrapes until it is so; the last scrape.
std::string Await(const std::string& address, const std::function<bool(const std::string&)>& so) {
  const absl::Time deadline = absl::Now() + kPatience;
  std::string scrape;
  while (absl::Now() < deadline) {
    scrape = Scrape(address);
    if (so(scrape)) return scrape;
  }
  INFO(scrape);
  FAIL("it did not come to that");
  return scrape;
}

std::string AwaitMore(const std::string& address, const std::string& sample, double than) {
  return Await(address, [&](const std::string& text) { return Value(text, sample) > than; });
}

Daemons::Launch WithMetrics(const std::string&, int) {
  return {.flags = {"--metrics", "127.0.0.1:0"}};
}

// A job that ends when it is told to.
struct Job {
  Job(const DataFiles& files, const Daemons& daemons)
      : train(CoxswainCommand({"train", WriteMatrixFactorization(files), "--cluster",
                               daemons.cluster_file(), "--set", "train.epochs=1000000",
                               "--checkpoint-dir", files.Path("checkpoints"), "--checkpoint-every",
                               "0.2", "--metrics", "127.0.0.1:0"})) {
    REQUIRE(train.WaitForError("/metrics\n"));
    address = MetricsAddress(train.err());
  }

  Process train;
  std::string address;
};

TEST_CASE("a job and its daemons are scraped while it trains, and after a worker was killed",
          "[metrics]") {
  const DataFiles files;
  Daemons daemons(files, 1, 2, WithMetrics);
  const std::string ps = MetricsAddress(daemons.ps(0).out());
  const std::string first = MetricsAddress(daemons.worker(0).out());
  CHECK(Value(Scrape(ps), "coxswain_ps_session_held") == 0);

  Job job(files, daemons);
  std::string train = AwaitMore(job.address, "coxswain_train_steps_total", 20);
  CHECK_THAT(train, Contains("job_name="));
  CHECK(Value(train, "coxswain_train_workers_live") >= 1);
  CHECK(Value(train, "coxswain_train_tasks_lost_total{kind=\"worker\"}") == 0);
  CHECK(Value(train, "coxswain_train_loss") > 0);
  CHECK(Value(train, "process_resident_memory_bytes") > 1e6);
  const double steps = Value(train, "coxswain_train_steps_total");
  train = AwaitMore(job.address, "coxswain_train_checkpoints_total{outcome=\"written\"}", 0);
  CHECK(Value(train, "coxswain_train_last_checkpoint_timestamp_seconds") > 1.5e9);
  CHECK(Value(train, "coxswain_train_last_checkpoint_step") >= 0);
  AwaitMore(job.address, "coxswain_train_steps_total", steps);

  const std::string held = AwaitMore(ps, "coxswain_ps_updates_applied_total", 20);
  CHECK(Value(held, "coxswain_ps_session_held") == 1);
  CHECK(Value(held, "coxswain_ps_rows{variable=\"user\"}") > 0);
  CHECK(Value(held, "coxswain_ps_rows_looked_up_total") > 0);
  CHECK(Value(held, "coxswain_ps_gradient_staleness_updates_count") > 0);
  CHECK(Value(held, "process_open_fds") > 3);
  const std::string worked =
      AwaitMore(first, "coxswain_worker_closures_total{outcome=\"completed\"}", 5);
  CHECK(Value(worked, "coxswain_worker_ps_sent_bytes_total{ps=\"0\"}") > 0);
  CHECK(Value(worked, "coxswain_worker_ps_received_bytes_total{ps=\"0\"}") > 0);

  daemons.worker(1).Kill(SIGKILL);
  train = AwaitMore(job.address, "coxswain_train_tasks_lost_total{kind=\"worker\"}", 0);
  CHECK(Value(train, "coxswain_train_workers_configured") == 2);
  CHECK(Value(train, "coxswain_train_workers_live") < 2);
  daemons.RestartWorker(1);
  AwaitMore(job.address, "coxswain_train_tasks_recovered_total", 0);
  AwaitMore(job.address, "coxswain_train_workers_live", 1);

  daemons.ps(0).Kill(SIGKILL);
  train = AwaitMore(job.address, "coxswain_train_tasks_lost_total{kind=\"ps\"}", 0);
  const double before = Value(train, "coxswain_train_steps_total");
  daemons.RestartPs(0);
  AwaitMore(job.address, "coxswain_train_rollbacks_total", 0);
  train = AwaitMore(job.address, "coxswain_train_closures_total{event=\"rerun\"}", 0);
  CHECK(Value(train, "coxswain_train_steps_total") >= before);  // no counter goes back

  job.train.Kill(SIGINT);
  const Process::Result ended = job.train.Wait();
  INFO(ended.err);
  CHECK(ended.code == cli::kExitResumable);
  CHECK_THAT(ended.err, Contains("--metrics 127.0.0.1:0"));  // in the command that goes on
}

TEST_CASE("scrapes that go on while daemons and their job end do them no harm", "[metrics]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1, WithMetrics);
  Job job(files, daemons);
  AwaitMore(job.address, "coxswain_train_steps_total", 5);
  const auto end = [](Process* process, const std::string& address, int signal) {
    process->Kill(signal);
    const absl::Time deadline = absl::Now() + kPatience;
    while (!Scrape(address).empty() && absl::Now() < deadline) continue;
    return process->Wait();
  };
  CHECK(end(&job.train, job.address, SIGTERM).code == cli::kExitResumable);
  for (Process* const daemon : {&daemons.worker(0), &daemons.ps(0)}) {
    const Process::Result result = end(daemon, MetricsAddress(daemon->out()), SIGTERM);
    INFO(result.err);
    CHECK(result.code == 0);
  }
}

TEST_CASE("a daemon or a job that cannot have its endpoint says why, and does not begin",
          "[metrics]") {
  const DataFiles files;
  for (const char* program : {"coxswain-ps", "coxswain-worker"}) {
    CAPTURE(program);
    const std::string path = absl::StrCat(COXSWAIN_BINARY_DIR "/bin/", program);
    const Process::Result wrong = Run({path, "--port", "0", "--metrics", "9464"});
    CHECK(wrong.code == 2);
    CHECK_THAT(wrong.err, Contains("--metrics") && Contains("\"9464\""));
    const Process::Result elsewhere = Run({path, "--port", "0", "--metrics", "192.0.2.1:9464"});
    CHECK(elsewhere.code == 4);
    CHECK_THAT(elsewhere.err, Contains("--metrics 192.0.2.1:9464: cannot listen there"));
    CHECK_THAT(Run({path, "--help"}).out, Contains("--metrics"));
  }
  const Process::Result train = Coxswain(
      {"train", WriteMatrixFactorization(files), "--in-process", "--metrics", "192.0.2.1:9464"});
  CHECK(train.code == cli::kExitUsage);
  CHECK_THAT(train.err, Contains("--metrics 192.0.2.1:9464: cannot listen there"));
  CHECK_THAT(Coxswain({"train", "--help"}).out, Contains("--metrics HOST:PORT"));
}

TEST_CASE("docs: the page on monitoring shows commands that run", "[docs]") {
  const DataFiles files;
  const Daemons daemons(files, 1, 1);
  const std::string job = WriteMatrixFactorization(files);
  const std::vector<std::string> lines = CommandLines("docs/monitoring.md");
  REQUIRE_FALSE(lines.empty());
  for (const std::string& line : lines) {
    CAPTURE(line);
    const std::string run = absl::StrReplaceAll(
        line, {{"JOB.yaml", job}, {"cluster.yaml", daemons.cluster_file()}, {":9464", ":0"}});
    std::vector<std::string> words = absl::StrSplit(run, ' ');
    REQUIRE(words[0] == "coxswain");
    words.erase(words.begin());
    const Process::Result result = Coxswain(words);
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.err, Contains("metrics on http://127.0.0.1:"));
  }
}

}  // namespace
}  // namespace coxswain
