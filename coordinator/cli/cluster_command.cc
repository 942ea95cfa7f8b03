// Changing the cluster file under a lock, telling the coordinators that read it, and the two
// commands that do both.
#include "coordinator/cli/cluster_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/observe/observer.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/file_system.h"
#include "runtime/env/process_limits.h"
#include "runtime/env/this_process.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLockTimeout = absl::Seconds(5), kLockPoll = absl::Milliseconds(20);
constexpr char kProgramName[] = "coxswain";

void Say(const std::string& line) { std::printf("%s\n", line.c_str()); }

// Keeps other `coxswain add-worker` away from the files of a directory. The file itself would not
// do: a rename replaces it.
class DirectoryLock {
 public:
  explicit DirectoryLock(const fs::path& directory)
      : fd_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~DirectoryLock() {
    if (fd_ >= 0) close(fd_);
  }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  absl::Status Acquire() const {
    const absl::Time deadline = absl::Now() + kLockTimeout;
    while (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      // Some network file systems have no locks: then the last one to write wins.
      if (errno != EWOULDBLOCK && errno != EINTR) return absl::OkStatus();
      if (absl::Now() > deadline) {
        return absl::UnavailableError(
            "another command changes the file and does not come to an end");
      }
      absl::SleepFor(kLockPoll);
    }
    return absl::OkStatus();
  }

 private:
  const int fd_;
};

struct Change {
  cluster::ClusterConfig before, after;
};

// Reads the file, lets `workers` make the new list, and writes that if it is another one.
absl::StatusOr<Change> ChangeWorkers(
    const std::string& file,
    const std::function<absl::StatusOr<std::vector<std::string>>(const cluster::ClusterConfig&)>&
        workers) {
  // A link stays one.
  std::error_code error;
  const fs::path path = fs::canonical(file, error);
  if (error) return config::ReadTextFile(file).status();
  const DirectoryLock lock(path.parent_path());
  RETURN_IF_ERROR(lock.Acquire());
  ASSIGN_OR_RETURN(const std::string text, config::ReadTextFile(path.string()));
  Change change;
  ASSIGN_OR_RETURN(change.before, cluster::ParseClusterConfig(text, file));
  change.after = change.before;
  ASSIGN_OR_RETURN(change.after.workers, workers(change.before));
  if (change.after.workers == change.before.workers) return change;
  bool rewritten = false;
  ASSIGN_OR_RETURN(const std::string changed,
                   cluster::WithWorkers(text, file, change.after.workers, &rewritten));
  const fs::perms mode = fs::status(path, error).permissions();
  RETURN_IF_ERROR(env::NewRealFileSystem()->WriteAtomically(path.string(), changed));
  if (!error) fs::permissions(path, mode, error);
  if (rewritten) {
    Say(absl::StrCat(file, " was written anew; comments behind its first one are gone"));
  }
  return change;
}

std::string ReadProc(int64_t pid, absl::string_view name) {
  return config::ReadTextFile(absl::StrCat("/proc/", pid, "/", name)).value_or("");
}

// Whether the process was given this cluster file.
bool Reads(int64_t pid, const std::string& file) {
  const std::vector<std::string> words = absl::StrSplit(ReadProc(pid, "cmdline"), '\0');
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view its = words[i];
    if (its == "--cluster" && i + 1 < words.size()) {
      its = words[i + 1];
    } else if (!absl::ConsumePrefix(&its, "--cluster=")) {
      continue;
    }
    std::error_code error;
    const fs::path its_directory = absl::StrCat("/proc/", pid, "/cwd");
    if (fs::equivalent(its_directory / fs::path(std::string(its)), file, error)) return true;
  }
  return false;
}

// Of a coordinator, "films (host:pid)", or "host:pid" where it has no name: the latter.
absl::string_view ProcessOf(absl::string_view holder) {
  const size_t begin = holder.rfind(" (");
  if (begin == absl::string_view::npos || !absl::ConsumeSuffix(&holder, ")")) return holder;
  return holder.substr(begin + 2);
}

// Asks the coordinator to read the file again.
std::string Tell(const std::string& holder, const std::string& file) {
  const absl::string_view process = ProcessOf(holder);
  const size_t colon = process.rfind(':');
  int64_t pid = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(process.substr(colon + 1), &pid) ||
      pid < 2) {
    return absl::StrCat(holder, " holds the cluster and must be told to read the file again");
  }
  const std::string host(process.substr(0, colon));
  if (host != env::HostName()) {
    return absl::StrCat("the job runs on ", host,
                        "; there, once the file is changed there too: ", "kill -HUP ", pid);
  }
  const std::string by_hand = absl::StrCat("; if it should: kill -HUP ", pid);
  const std::string name(absl::StripSuffix(ReadProc(pid, "comm"), "\n"));
  if (name.empty()) return absl::StrCat("the job's process ", pid, " is not seen here", by_hand);
  if (name != kProgramName) {
    return absl::StrCat("process ", pid, ", which holds the cluster, is ", name,
                        " and reads no cluster file again: a program calls Cluster::UpdateWorkers");
  }
  if (!Reads(pid, file)) {
    return absl::StrCat("the job, process ", pid, ", does not run with this file and was not told");
  }
  if (kill(static_cast<pid_t>(pid), SIGHUP) != 0) {
    return absl::StrCat("the job, process ", pid, ", could not be told: ", std::strerror(errno),
                        by_hand);
  }
  return absl::StrCat("the job, process ", pid, ", was told");
}

using Answers = std::vector<absl::StatusOr<proto::TaskStatus>>;

std::vector<std::string> AllAddresses(const cluster::ClusterConfig& cluster) {
  std::vector<std::string> addresses = cluster.ps;
  addresses.insert(addresses.end(), cluster.workers.begin(), cluster.workers.end());
  return addresses;
}

// Whether a daemon of the file, or one of those that are to come, has another secret. Asked before
// the file is changed: with the wrong secret nobody could be told of it.
absl::Status CheckSecret(net::Transport* transport, const ClusterFlags& flags) {
  ASSIGN_OR_RETURN(const cluster::ClusterConfig cluster,
                   cluster::ReadClusterConfig(flags.cluster_file));
  std::vector<std::string> addresses = AllAddresses(cluster);
  for (const std::string& address : flags.addresses) {
    RETURN_IF_ERROR(cluster::CheckAddress(address));
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(address);
    }
  }
  for (const auto& answer :
       observe::ObserveTasks(transport, addresses, absl::Seconds(flags.timeout))) {
    if (absl::IsUnauthenticated(answer.status())) {
      return Annotate(answer.status(), absl::StrCat(flags.cluster_file, " is not changed"));
    }
  }
  return absl::OkStatus();
}

void TellHolders(const std::string& file, const Answers& answers) {
  std::set<std::string> holders;
  size_t there = 0;
  for (const auto& answer : answers) {
    if (!answer.ok()) continue;
    ++there;
    if (!answer->held_by().empty()) holders.insert(answer->held_by());
  }
  for (const std::string& holder : holders) Say(Tell(holder, file));
  if (there == 0) {
    Say("no daemon of the cluster answers; a job that runs reads the file again on SIGHUP");
  } else if (holders.empty()) {
    Say("no job holds the cluster; one that waits for it reads the file again when it has it");
  }
}

std::string Worker(size_t task) { return absl::StrCat("worker:", task); }

// What is to be done at the address of a new worker.
std::string Describe(const std::string& file, size_t task, const std::string& address,
                     const absl::StatusOr<proto::TaskStatus>& answer) {
  const std::string start = absl::StrCat("coxswain-worker --cluster ", file, " --task ", task);
  std::string text = absl::StrCat(address, " is ", Worker(task));
  if (!answer.ok()) return absl::StrCat(text, "; nobody answers there yet: ", start);
  if (answer->job() == "worker" && answer->task() == static_cast<int>(task)) return text;
  return absl::StrCat(text, "; but who answers there says that it is ", answer->job(), ":",
                      answer->task(), ". It is to be started as ", start);
}

size_t IndexOf(const std::vector<std::string>& list, const std::string& address) {
  return static_cast<size_t>(std::find(list.begin(), list.end(), address) - list.begin());
}

}  // namespace

int AddWorkersCommand(const ClusterFlags& flags) {
  const std::string& file = flags.cluster_file;
  auto credentials = net::FindCredentials(flags.credentials);
  if (!credentials.ok()) return Complain(credentials.status());
  if (absl::Status s = env::CheckAddressSpace(); !s.ok()) return Complain(s);
  const auto transport = net::NewClusterTransport(*std::move(credentials));
  if (absl::Status s = CheckSecret(transport.get(), flags); !s.ok()) {
    return Complain(AsConfiguration(s));
  }
  const auto change = ChangeWorkers(
      file, [&](const cluster::ClusterConfig& config) -> absl::StatusOr<std::vector<std::string>> {
        std::vector<std::string> workers = config.workers;
        for (const std::string& address : flags.addresses) {
          RETURN_IF_ERROR(cluster::CheckAddress(address));
          if (const size_t ps = IndexOf(config.ps, address); ps < config.ps.size()) {
            return absl::InvalidArgumentError(
                absl::StrCat(address, " is ps:", ps, " in ", file, ", and cannot be a worker too"));
          }
          if (IndexOf(workers, address) == workers.size()) workers.push_back(address);
        }
        return workers;
      });
  if (!change.ok()) return Complain(AsConfiguration(change.status()));
  const cluster::ClusterConfig& cluster = change->after;
  const Answers answers =
      observe::ObserveTasks(transport.get(), AllAddresses(cluster), absl::Seconds(flags.timeout));
  for (size_t w = 0; w < cluster.workers.size(); ++w) {
    const std::string& address = cluster.workers[w];
    if (w >= change->before.workers.size()) {
      Say(Describe(file, w, address, answers[cluster.ps.size() + w]));
    } else if (IndexOf(flags.addresses, address) < flags.addresses.size()) {
      Say(absl::StrCat(address, " is ", Worker(w), " already"));
    }
  }
  TellHolders(file, answers);
  return kExitDone;
}

int RemoveWorkersCommand(const ClusterFlags& flags) {
  const std::string& file = flags.cluster_file;
  auto credentials = net::FindCredentials(flags.credentials);
  if (!credentials.ok()) return Complain(credentials.status());
  if (absl::Status s = env::CheckAddressSpace(); !s.ok()) return Complain(s);
  const auto transport = net::NewClusterTransport(*std::move(credentials));
  if (absl::Status s = CheckSecret(transport.get(), flags); !s.ok()) {
    return Complain(AsConfiguration(s));
  }
  const auto change = ChangeWorkers(
      file, [&](const cluster::ClusterConfig& config) -> absl::StatusOr<std::vector<std::string>> {
        std::set<std::string> leaving;
        for (const std::string& address : flags.addresses) {
          RETURN_IF_ERROR(cluster::CheckAddress(address));
          if (IndexOf(config.workers, address) < config.workers.size()) leaving.insert(address);
        }
        std::vector<std::string> workers = config.workers;
        while (!workers.empty() && leaving.erase(workers.back()) > 0) workers.pop_back();
        if (workers.empty()) {
          return absl::InvalidArgumentError(
              absl::StrCat(file, ": these are all of its workers; a cluster has one at least"));
        }
        if (leaving.empty()) return workers;
        const size_t last = workers.size() - 1;
        return absl::InvalidArgumentError(absl::StrCat(
            absl::StrJoin(leaving, ", "), ": only workers at the end of the list can be removed, ",
            "for a worker's number is its place in it; the last one ",
            workers.size() == config.workers.size() ? "is " : "would then be ", Worker(last),
            " at ", workers[last], ". Nothing was changed"));
      });
  if (!change.ok()) return Complain(AsConfiguration(change.status()));
  for (const std::string& address : flags.addresses) {
    const size_t task = IndexOf(change->before.workers, address);
    if (task == change->before.workers.size()) {
      Say(absl::StrCat(address, " is no worker of ", file));
    } else {
      Say(absl::StrCat(address, ", ", Worker(task),
                       ", is removed; its daemon runs until it is ended"));
    }
  }
  TellHolders(file, observe::ObserveTasks(transport.get(), AllAddresses(change->before),
                                          absl::Seconds(flags.timeout)));
  return kExitDone;
}

}  // namespace coxswain::cli
