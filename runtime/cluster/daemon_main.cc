// The flags (AddFlags) and what they mean (Resolve, SecretOf, RootsOf, Understand), what the
// process does with signals, serving until one ends it (Serve), and main.
#include "runtime/cluster/daemon_main.h"

#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/cluster/free_memory.h"
#include "runtime/cluster/table_directory.h"
#include "runtime/cluster/tls_watch.h"
#include "runtime/data/names.h"
#include "runtime/device/open_devices.h"
#include "runtime/env/process_limits.h"
#include "runtime/env/roots.h"
#include "runtime/metrics/metrics_endpoint.h"
#include "runtime/net/address.h"
#include "runtime/net/credentials.h"

namespace coxswain::cluster {
namespace {

constexpr int kUsageError = 2;
constexpr int kCannotListen = 4;
constexpr int kDeviceLostCode = 5;
// Below this share of free memory, the state of a silent coordinator is dropped.
constexpr double kLittleMemory = 0.05;
// A scrape waits for the daemon's loop no longer than this.
constexpr absl::Duration kMostWait = absl::Seconds(1);
// The time for an orderly end.
constexpr absl::Duration kEndTime = absl::Seconds(2);

struct Flags {
  std::string cluster;
  int task = -1;
  int port = -1;
  std::string host;
  int threads = 0;
  std::string gpus = "auto";
  std::string table_dir;
  std::string log_level = "info";
  std::string local_socket;
  net::SecretOptions secret;
  int secret_fd = -1;
  net::TlsOptions tls;
  std::vector<std::string> roots;
  std::string metrics;  // an address; empty: none
  bool exit_with_parent = false;
  int end_seconds = 20;
  uint64_t incarnation = 0;  // a plain number, as CLI11 requires
};

// "host:port" -> host, port; the address was checked before.
std::pair<std::string, int> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  return {address.substr(0, colon), std::atoi(address.c_str() + colon + 1)};
}

// An address of IPv6 may have brackets, as in a cluster file, or none.
std::string HostOf(const std::string& host) {
  const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  return brackets ? host.substr(1, host.size() - 2) : host;
}

// Fills in host, port and task from the cluster file or TF_CONFIG.
absl::Status Resolve(const std::string& job, Flags* flags) {
  std::vector<std::string> addresses;
  std::string source;
  if (!flags->cluster.empty()) {
    ASSIGN_OR_RETURN(ClusterConfig config, ReadClusterConfig(flags->cluster));
    addresses = job == "ps" ? config.ps : config.workers;
    source = flags->cluster;
  } else if (const char* tf_config = std::getenv("TF_CONFIG"); tf_config && flags->port < 0) {
    ASSIGN_OR_RETURN(TaskConfig config, ParseTfConfig(tf_config));
    if (config.type != job) {
      return absl::InvalidArgumentError(absl::StrCat("TF_CONFIG says that this task is of type '",
                                                     config.type, "', but this is coxswain-", job));
    }
    addresses = job == "ps" ? config.cluster.ps : config.cluster.workers;
    if (flags->task < 0) flags->task = config.index;
    source = "TF_CONFIG";
  }
  if (addresses.empty()) {
    if (flags->port < 0 && flags->local_socket.empty()) {
      return absl::InvalidArgumentError(
          "wanted --cluster FILE --task N, TF_CONFIG in the environment, or --port P");
    }
    flags->task = std::max(0, flags->task);
    if (flags->host.empty()) flags->host = "127.0.0.1";
    return absl::OkStatus();
  }
  if (flags->task < 0) return absl::InvalidArgumentError("wanted --task N");
  if (flags->task >= static_cast<int>(addresses.size())) {
    return absl::InvalidArgumentError(absl::StrCat("--task ", flags->task, ": ", source, " names ",
                                                   addresses.size(), " tasks of job ", job));
  }
  const auto [host, port] = Split(addresses[static_cast<size_t>(flags->task)]);
  if (flags->port < 0) flags->port = port;
  if (flags->host.empty()) flags->host = net::IsLoopback(host) ? host : "0.0.0.0";
  return absl::OkStatus();
}

// The secret that the daemon uses. On loopback there is always one, because other users of this
// machine are strangers too.
absl::StatusOr<net::Secret> SecretOf(const Flags& flags) {
  if (flags.secret_fd >= 0) return net::Secret::ReadDescriptor(flags.secret_fd);
  // Reachable only by its user, in any case.
  if (!flags.local_socket.empty() && flags.secret.file.empty()) return net::Secret();
  return net::FindSecret(flags.secret, /*make=*/net::IsLoopback(flags.host));
}

// Null: none. Who is reached only through a socket of its user's needs none.
absl::StatusOr<std::shared_ptr<const net::Tls>> TlsOf(const Flags& flags) {
  if (!flags.local_socket.empty()) return nullptr;
  return net::FindTls(flags.tls);
}

// One of them, when it comes.
int WaitForSignal(const sigset_t& signals, TlsWatch* watch) {
  const timespec interval = absl::ToTimespec(TlsWatch::kInterval);
  while (true) {
    const int number = sigtimedwait(&signals, nullptr, &interval);
    if (number > 0) return number;
    if (errno == EAGAIN) watch->Look();
  }
}

// The directories in which it reads and writes files for others. If only processes on this machine
// can connect, they have the secret of this user, who could access the files anyway.
absl::StatusOr<env::Roots> RootsOf(const Flags& flags) {
  std::vector<std::string> roots = flags.roots;
  // There, anyone who can command the daemon is this user or has the user's secret; with --insecure
  // it is anybody.
  const bool own =
      !flags.local_socket.empty() || (net::IsLoopback(flags.host) && !flags.secret.insecure);
  if (roots.empty() && own) return env::Roots();
  if (roots.empty()) {
    std::error_code error;
    const std::string here = std::filesystem::current_path(error).string();
    if (error || here == "/") {
      return absl::InvalidArgumentError(
          "wanted --root DIR: below which directory may a coordinator have this daemon read and "
          "write? (the default, the working directory, is not to be had or /)");
    }
    roots.push_back(here);
  }
  auto made = env::Roots::Make(roots);
  if (!made.ok()) return Annotate(made.status(), "--root");
  return made;
}

absl::StatusOr<LogLevel> ParseLevel(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return absl::InvalidArgumentError(
      absl::StrCat("--log-level ", name, ": wanted debug, info, warning or error"));
}

int Complain(const absl::Status& status, int code) {
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return code;
}

// Waits until nothing is wanted of a parameter server any more: its coordinator writes a checkpoint
// first. No longer than that, and not beyond another signal.
void AwaitLetGo(Daemon* daemon, env::Env* env, const sigset_t& signals, absl::Duration longest) {
  const timespec interval = absl::ToTimespec(absl::Milliseconds(20));
  const auto let_go = std::make_shared<absl::Notification>();
  daemon->AskToEnd([let_go] { let_go->Notify(); });
  const absl::Duration end = env->Monotonic() + longest;
  while (!let_go->HasBeenNotified()) {
    if (env->Monotonic() >= end) {
      LogWarning("ends although its coordinator has not said that it may, within ",
                 absl::FormatDuration(longest));
      return;
    }
    if (sigtimedwait(&signals, nullptr, &interval) > 0) return;
  }
}

// From now on the process ends within kEndTime, or at once by another of these signals, which are
// blocked. Work that then still runs is a kernel, or reads a file.
void BoundTheEnd(const sigset_t& signals) {
  std::thread([signals] {
    timespec left{absl::ToInt64Seconds(kEndTime), 0};
    const int second = sigtimedwait(&signals, nullptr, &left);
    _exit(second > 0 ? 128 + second : 0);
  }).detach();
}

int WrongUsage(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining();
  std::string what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unknown.empty()) {
    std::vector<std::string> flags;
    for (const CLI::Option* o : app.get_options()) {
      for (const std::string& name : o->get_lnames()) flags.push_back("--" + name);
    }
    what = absl::StrCat("unknown argument ", data::Quoted(unknown[0]), "; ",
                        data::Alternatives(unknown[0], flags));
  }
  return Complain(
      absl::InvalidArgumentError(absl::StrCat(what, "\n`", app.get_name(), " --help` tells more")),
      kUsageError);
}

// gRPC allocates the memory of each frame with malloc, which by default returns it to the system at
// once: the next frame would fault in every page again.
void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest value that malloc accepts
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

void AddFlags(const std::string& job, CLI::App* app, Flags* flags) {
  app->add_option("--cluster", flags->cluster,
                  "cluster file (YAML, with lists of worker and ps addresses)");
  app->add_option("--task", flags->task, "index of this task in its list, from 0");
  app->add_option("--port", flags->port,
                  "listen on this port instead; 0 picks a free one and prints it");
  app->add_option("--host", flags->host,
                  "listen on this address (default: loopback, or all if the cluster file names "
                  "another host)");
  app->add_option("--threads", flags->threads, "compute threads (default: one per core)");
  app->add_option(
         "--gpus", flags->gpus,
         job == "worker"
             ? "GPUs to use: auto (all there are), none, or numbers such as 0,1; fake: a simulated "
               "device, for tests (default: auto)"
             : "GPUs whose memory may hold tables with `device: gpu`, used only if there are such "
               "tables: auto (all there are), none, numbers such as 0,1, or fake (default: auto)")
      ->envname(device::kGpusVariable);
  app->add_option("--log-level", flags->log_level,
                  "minimum level of log messages: debug, info, warning or error");
  auto* secret = app->add_option("--secret-file", flags->secret.file,
                                 "accept commands only from those who have the secret in this file "
                                 "(default: $COXSWAIN_SECRET_FILE, or ~/.config/coxswain/secret)");
  app->add_option("--secret-fd", flags->secret_fd, "read the secret from this open file descriptor")
      ->excludes(secret);
  app->add_flag("--insecure", flags->secret.insecure,
                "accept commands from anyone who can reach the port")
      ->excludes(secret);
  app->add_option("--tls-dir", flags->tls.directory,
                  "encrypt connections: the directory with ca.crt, tls.crt and tls.key (default: "
                  "$COXSWAIN_TLS_DIR)");
  app->add_option(
      "--tls-name", flags->tls.name,
      "DNS name in the cluster's certificates (default: $COXSWAIN_TLS_NAME, or coxswain)");
  app->add_option("--root", flags->roots,
                  "read data and write checkpoints only below this directory; may be repeated "
                  "(default: the working directory; on loopback, no restriction)")
      ->allow_extra_args(false);
  app->add_option("--local-socket", flags->local_socket,
                  "instead of a port, listen on a socket of this name, for processes of this user "
                  "on this machine only");
  app->add_option(
      std::string(metrics::kFlag), flags->metrics,
      "for Prometheus: answer GET /metrics at this HOST:PORT, to whoever can reach it; "
      "port 0 picks a free one and prints it, see docs/monitoring.md (default: do not)");
  if (job == "ps") {
    app->add_option("--table-dir", flags->table_dir,
                    "directory on a local disk for the rows of tables with `device: disk`, in "
                    "files without a name, which are gone when this process ends")
        ->envname(kTableDirectoryVariable);
    app->add_option(
           "--end-seconds", flags->end_seconds,
           "on SIGTERM: how long to go on at most until the coordinator has written a "
           "checkpoint, where it writes any (default: 20); a second signal ends it at once")
        ->check(CLI::Range(0, 3600));
  }
  app->add_flag("--exit-with-parent", flags->exit_with_parent, "end when the parent process ends");
  app->add_option("--incarnation", flags->incarnation,
                  "a number that is unique to this start, for programs that start daemons "
                  "(default: a random one)");
  app->set_version_flag("--version", std::string(kVersion));
}

// What the flags come to.
struct Settings {
  LogLevel level = LogLevel::kInfo;
  net::Secret secret;
  std::shared_ptr<const net::Tls> tls;
  env::Roots roots;
};

absl::StatusOr<Settings> Understand(const std::string& job, Flags* flags) {
  Settings settings;
  ASSIGN_OR_RETURN(settings.level, ParseLevel(flags->log_level));
  RETURN_IF_ERROR(Resolve(job, flags));
  ASSIGN_OR_RETURN(settings.secret, SecretOf(*flags));
  ASSIGN_OR_RETURN(settings.tls, TlsOf(*flags));
  ASSIGN_OR_RETURN(settings.roots, RootsOf(*flags));
  if (flags->port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("--port: wanted 0..65535, found ", flags->port));
  }
  if (flags->threads < 0 || flags->threads > env::kMostThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads: wanted 0..", env::kMostThreads, ", found ", flags->threads));
  }
  RETURN_IF_ERROR(env::CheckThreads("--threads", flags->threads));
  return settings;
}

// Those that end the process; before any thread starts, so that only WaitForSignal sees them.
sigset_t TakeSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Scripts start background processes with SIGINT ignored, and sigwait does not always get ignored
  // signals.
  for (const int number : {SIGTERM, SIGINT}) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its write
  // A logout, or a closed terminal, is no reason to end; and there is no configuration to reload.
  signal(SIGHUP, SIG_IGN);
  return signals;
}

// A worker opens its GPUs now, a parameter server when a table wants one.
absl::Status AddDevices(const Flags& flags, env::Env* env, DaemonOptions* options) {
  if (options->job == "worker") {
    ASSIGN_OR_RETURN(options->devices, device::OpenDevices(flags.gpus, env));
    return absl::OkStatus();
  }
  options->open_devices = [env, wanted = flags.gpus] { return device::OpenDevices(wanted, env); };
  return device::CheckGpusThere(flags.gpus);
}

// Null: none is wanted.
absl::StatusOr<std::unique_ptr<metrics::MetricsEndpoint>> ListenForScrapes(const Flags& flags,
                                                                           Daemon* daemon) {
  if (flags.metrics.empty()) return nullptr;
  ASSIGN_OR_RETURN(auto endpoint, metrics::MetricsEndpoint::Listen(flags.metrics, [daemon] {
                     return daemon->CollectMetrics(kMostWait);
                   }));
  return endpoint;
}

// Until a signal comes. Returns the exit code.
int Serve(const std::string& job, const Flags& flags, Settings settings, const sigset_t& signals,
          const DaemonFactory& factory) {
  auto env = env::NewRootedEnv(env::NewRealEnv(flags.threads), settings.roots);
  DaemonOptions options;
  options.job = job;
  options.task = flags.task;
  options.address = flags.local_socket.empty()
                        ? net::FormatHostPort({HostOf(flags.host), flags.port})
                        : absl::StrCat(net::kLocalScheme, flags.local_socket);
  options.roots = settings.roots;
  options.incarnation = flags.incarnation;
  options.memory_wanted = [] { return FreeMemoryShare() < kLittleMemory; };
  if (absl::Status s = AddDevices(flags, env.get(), &options); !s.ok()) {
    // A GPU that was lost may not be back yet.
    return Complain(Annotate(s, "--gpus"),
                    absl::IsInvalidArgument(s) ? kUsageError : kDeviceLostCode);
  }
  if (absl::Status s = CheckTableDirectory(flags.table_dir); !s.ok()) {
    return Complain(Annotate(s, "--table-dir"), kUsageError);
  }
  options.table_directory = flags.table_dir;
  // This process cannot use the device again. A restarted worker has lost no state, and a PS has
  // lost what it loses with every other end.
  options.device_lost = [](const absl::Status&) { _exit(kDeviceLostCode); };
  TlsWatch watch(settings.tls, env.get());
  auto transport = net::NewClusterTransport({std::move(settings.secret), std::move(settings.tls)});
  auto daemon = factory(env.get(), transport.get(), options);
  if (absl::Status s = daemon->Start(); !s.ok()) return Complain(s, kCannotListen);
  auto endpoint = ListenForScrapes(flags, daemon.get());
  if (!endpoint.ok()) {
    const bool usage = absl::IsInvalidArgument(endpoint.status());
    return Complain(endpoint.status(), usage ? kUsageError : kCannotListen);
  }
  std::printf("listening on %s\n", daemon->address().c_str());
  if (*endpoint != nullptr) {
    std::printf("metrics on http://%s/metrics\n", (*endpoint)->address().c_str());
  }
  std::fflush(stdout);
  const int signal_number = WaitForSignal(signals, &watch);
  LogInfo("ending on signal ", signal_number);
  if (job == "ps") AwaitLetGo(daemon.get(), env.get(), signals, absl::Seconds(flags.end_seconds));
  endpoint->reset();  // it asks the daemon
  BoundTheEnd(signals);
  auto told = std::make_shared<absl::Notification>();
  daemon->Terminate([told] { told->Notify(); });
  told->WaitForNotification();
  daemon.reset();
  return 0;
}

}  // namespace

int DaemonMain(int argc, char** argv, const std::string& job, const DaemonFactory& factory) {
  KeepFreedMemory();
  CLI::App app(
      absl::StrCat(job == "ps" ? "Keeps variables and embedding tables" : "Runs training steps",
                   " for a Coxswain coordinator; waits for one, and serves one job after another."),
      absl::StrCat("coxswain-", job));
  Flags flags;
  AddFlags(job, &app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // prints the help or version asked for
    return WrongUsage(app, e);
  }
  auto settings = Understand(job, &flags);
  if (!settings.ok()) return Complain(settings.status(), kUsageError);
  if (flags.exit_with_parent) {
    const pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || parent == 1) return 0;  // the parent is gone already
  }
  const sigset_t signals = TakeSignals();
  env::RaiseFileLimit();
  InitLogging(absl::StrCat(job, ":", flags.task), settings->level);
  return Serve(job, flags, *std::move(settings), signals, factory);
}

}  // namespace coxswain::cluster
