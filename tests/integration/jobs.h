// Small jobs with clear structure, and the programs under test.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "runtime/cluster/cluster_config.h"
#include "runtime/net/transport.h"
#include "tests/testing/data_files.h"
#include "tests/testing/process.h"

namespace coxswain {

extern const char kProgram[];

// Runs `coxswain` with these arguments.
Process::Result Coxswain(const std::vector<std::string>& arguments,
                         const Process::Environment& environment = {});
// The command line of `coxswain`, for Process.
std::vector<std::string> CoxswainCommand(const std::vector<std::string>& arguments);

// Each writes data and a job file; returns the job file's path.
//
// 24 users like the 8 items of one of 4 kinds, and have seen 6 of them: a recommender.
std::string WriteTwoTower(const DataFiles& files);
// 600 ratings that are the sum of a user's and an item's number, 1 .. 5.
std::string WriteMatrixFactorization(const DataFiles& files);
// 600 rows of a categorical (color), a number (size) and a label that depends on both; `model` is
// the job's section of that name and what follows it.
std::string WriteTabular(const DataFiles& files, const std::string& model);
// 400 libsvm examples, positive when any of the features 1 .. 5 is there.
std::string WriteLogisticRegression(const DataFiles& files);

// Parses a JSON file; fails the test when there is none.
nlohmann::json ReadJson(const std::string& path);

// Parameter servers and workers as processes on loopback, each at a port of its own choice.
class Daemons {
 public:
  // How a daemon is started.
  struct Launch {
    std::vector<std::string> prefix = {};  // of the command: a path of a program that runs another
    std::vector<std::string> flags = {};
  };
  // For "ps" or "worker" and a task.
  using LaunchOf = std::function<Launch(const std::string& job, int task)>;

  Daemons(const DataFiles& files, int ps, int workers, LaunchOf launch = nullptr);

  Process& ps(int task) { return *ps_[static_cast<size_t>(task)]; }
  Process& worker(int task) { return *workers_[static_cast<size_t>(task)]; }
  // Starts a worker that has ended again, at its old port.
  void RestartWorker(int task);
  void RestartPs(int task);
  const std::string& cluster_file() const { return cluster_file_; }
  const cluster::ClusterConfig& config() const { return config_; }
  // `coxswain status --json`: one entry for each task, PS first.
  nlohmann::json Status() const;

 private:
  std::unique_ptr<Process> Start(const std::string& job, int task, const std::string& port) const;
  std::unique_ptr<Process> StartAgain(const std::string& job, int task,
                                      const std::string& address) const;

  LaunchOf launch_;
  std::vector<std::unique_ptr<Process>> ps_, workers_;
  cluster::ClusterConfig config_;
  std::string cluster_file_;
};

// `transport` for one who has the secret of these tests' daemons, see secret_for_tests.cc.
std::unique_ptr<net::Transport> WithSecret(std::unique_ptr<net::Transport> transport);

// The address that a daemon prints; fails the test when it prints none.
std::string AddressOf(const Process& daemon);
// A loopback port that is free now.
int FreePort();

}  // namespace coxswain
