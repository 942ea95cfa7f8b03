// Who may command daemons, and what daemons do for whom.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "protos/control.pb.h"
#include "runtime/net/address.h"
#include "runtime/net/transport.h"
#include "runtime/net/unique_fd.h"
#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

namespace fs = std::filesystem;

void CheckFree(const Daemons& daemons) {
  for (const auto& task : daemons.Status()) {
    INFO(task.dump());
    CHECK(task["held_by"] == "");
    CHECK(task["rows"] == 0);
  }
}

TEST_CASE("who has another secret is told so on both ends, and gets nothing", "[strangers]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1);
  const std::string job = WriteMatrixFactorization(files);
  const std::string other = files.Path("other");
  REQUIRE(Coxswain({"make-secret", other}).code == 0);
  const auto train =
      Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--secret-file", other});
  CAPTURE(train.err);
  CHECK(train.code == 2);
  CHECK_THAT(train.err, Contains("another secret") && Contains(other));
  const auto status =
      Coxswain({"status", "--cluster", daemons.cluster_file(), "--secret-file", other});
  CHECK(status.code == 2);
  const auto text = [&] {
    std::ifstream file(daemons.cluster_file());
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = text();
  for (const char* command : {"add-worker", "remove-worker"}) {
    const auto changed = Coxswain(
        {command, "127.0.0.1:1", "--cluster", daemons.cluster_file(), "--secret-file", other});
    CAPTURE(command, changed.out, changed.err);
    CHECK(changed.code == 2);
    CHECK_THAT(changed.err, Contains("is not changed") && Contains("another secret") &&
                                Contains(daemons.config().ps[0]) && Contains(other));
    CHECK(text() == before);
  }
  REQUIRE(daemons.ps(0).WaitForError("refused "));
  CHECK(daemons.ps(0).WaitForError("another secret"));
  CHECK_THAT(status.out, Contains("another secret"));
  const auto insecure = Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--insecure"});
  CAPTURE(insecure.err);
  CHECK(insecure.code == 2);
  CHECK_THAT(insecure.err, Contains("--secret-file"));
  CheckFree(daemons);
  CHECK(Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--quiet"}).code == 0);
}

TEST_CASE("daemons without a secret say that they have none to who brings one", "[strangers]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1, [](const std::string&, int) {
    return Daemons::Launch{{}, {"--insecure", "--root", "/"}};
  });
  const std::string job = WriteMatrixFactorization(files);
  const auto train = Coxswain({"train", job, "--cluster", daemons.cluster_file()});
  CAPTURE(train.err);
  CHECK(train.code == 2);
  CHECK_THAT(train.err, Contains("--insecure"));
  CHECK(
      Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--insecure", "--quiet"}).code ==
      0);
}

TEST_CASE("a secret that others can read is refused by daemons and commands", "[strangers]") {
  const DataFiles files;
  const std::string secret = files.Write("secret", std::string(32, 'x'));
  REQUIRE(chmod(secret.c_str(), 0644) == 0);
  const std::string cluster =
      files.Write("cluster.yaml", "ps: [\"127.0.0.1:1\"]\nworker: [\"127.0.0.1:2\"]\n");
  const std::string job = WriteMatrixFactorization(files);
  const std::vector<std::vector<std::string>> commands = {
      {COXSWAIN_BINARY_DIR "/bin/coxswain-ps", "--port", "0"},
      {COXSWAIN_BINARY_DIR "/bin/coxswain-worker", "--port", "0"},
      CoxswainCommand({"train", job, "--cluster", cluster}),
      CoxswainCommand({"status", "--cluster", cluster}),
      CoxswainCommand({"add-worker", "127.0.0.1:3", "--cluster", cluster}),
  };
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--secret-file", secret});
    const auto result = Run(command, {}, absl::Seconds(20));
    CAPTURE(command, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(secret) && Contains("0600"));
  }
}

TEST_CASE("a daemon on loopback makes its user's secret, and commands of the user find it",
          "[strangers]") {
  const DataFiles files;
  const Process::Environment home = {{"COXSWAIN_SECRET_FILE", ""},
                                     {"XDG_CONFIG_HOME", files.Path("config")}};
  Process ps({COXSWAIN_BINARY_DIR "/bin/coxswain-ps", "--port", "0", "--exit-with-parent"}, home);
  const std::string cluster = files.Write(
      "cluster.yaml", absl::StrCat("ps: [\"", AddressOf(ps), "\"]\nworker: [\"127.0.0.1:1\"]\n"));
  struct stat made = {};
  REQUIRE(stat(files.Path("config/coxswain/secret").c_str(), &made) == 0);
  CHECK((made.st_mode & 07777) == 0600);
  const auto status = Coxswain({"status", "--cluster", cluster}, home);
  CAPTURE(status.out, status.err);
  CHECK_THAT(status.out, Contains("waiting for a coordinator"));
}

// `command` as the user nobody; empty when this user cannot be another one.
std::vector<std::string> AsNobody(const std::vector<std::string>& command) {
  const char* setpriv = "/usr/bin/setpriv";
  if (geteuid() != 0 || access(setpriv, X_OK) != 0) return {};
  std::vector<std::string> all = {setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

TEST_CASE("another user of this machine can neither ask, hold nor end a daemon", "[strangers]") {
  const DataFiles files;
  REQUIRE(chmod(files.Path("").c_str(), 0755) == 0);
  Daemons daemons(files, 1, 1);
  REQUIRE(chmod(daemons.cluster_file().c_str(), 0644) == 0);
  const std::vector<std::string> status = {kProgram, "status", "--cluster", daemons.cluster_file()};
  if (AsNobody(status).empty() || Run(AsNobody({kProgram, "version"})).code != 0) {
    WARN("skipped: this needs root, setpriv, and a build that other users can read");
    return;
  }
  // He finds no secret, cannot read this user's, and is refused with none and with his own.
  const Process::Environment none = {{"COXSWAIN_SECRET_FILE", ""},
                                     {"XDG_CONFIG_HOME", "/nonexistent"}};
  const auto without = Run(AsNobody(status), none);
  CHECK(without.code == 2);
  CHECK_THAT(without.err, Contains("no secret"));
  const auto denied = Run(AsNobody(status));
  CHECK(denied.code == 2);
  CHECK_THAT(denied.err, Contains("Permission denied"));
  std::vector<std::string> insecure = status;
  insecure.push_back("--insecure");
  const auto refused = Run(AsNobody(insecure));
  CAPTURE(refused.out, refused.err);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.out, Contains("wanted a proof"));
  CHECK_THAT(refused.out, !Contains("waiting for a coordinator"));
  const std::string his = files.Write("his", std::string(32, 'x'));
  REQUIRE(chmod(his.c_str(), 0600) == 0);
  REQUIRE(chown(his.c_str(), 65534, 65534) == 0);
  std::vector<std::string> guess = status;
  guess.insert(guess.end(), {"--secret-file", his});
  const auto guessed = Run(AsNobody(guess));
  CHECK(guessed.code == 2);
  CHECK_THAT(guessed.out, Contains("another secret"));
  CheckFree(daemons);
}

TEST_CASE("daemons with a root read no data and write no checkpoints elsewhere", "[strangers]") {
  const DataFiles files;
  fs::create_directories(files.Path("root"));
  Daemons daemons(files, 1, 1, [&](const std::string&, int) {
    return Daemons::Launch{{}, {"--root", files.Path("root")}};
  });
  const std::string job = WriteMatrixFactorization(files);
  const auto data = Coxswain({"train", job, "--cluster", daemons.cluster_file()});
  CAPTURE(data.err);
  CHECK(data.code != 0);
  CHECK_THAT(data.err, Contains("ratings.csv") && Contains("--root") &&
                           Contains(fs::canonical(files.Path("root")).string()));
  // The data within; a checkpoint outside.
  fs::rename(files.Path("ratings.csv"), files.Path("root/ratings.csv"));
  fs::rename(job, files.Path("root/mf.yaml"));
  const std::string inside = files.Path("root/mf.yaml");
  const auto train = [&](const std::string& directory) {
    return Coxswain({"train", inside, "--cluster", daemons.cluster_file(), "--checkpoint-dir",
                     files.Path(directory), "--set", "train.epochs=20", "--set",
                     "checkpoint.every_steps=50"});
  };
  const auto outside = train("checkpoints");
  CAPTURE(outside.err);
  CHECK_THAT(outside.err, Contains("--root"));
  size_t shards = 0;
  for (const auto& entry : fs::recursive_directory_iterator(files.Path("checkpoints"))) {
    shards += entry.path().extension() == ".safetensors";
  }
  CHECK(shards == 0);
  const auto good = train("root/checkpoints");
  CAPTURE(good.err);
  CHECK(good.code == 0);
  CHECK_THAT(good.err, !Contains("--root"));
}

TEST_CASE("a daemon beyond loopback wants a secret, and a root when it was started in /",
          "[strangers]") {
  const DataFiles files;
  const Process::Environment none = {{"COXSWAIN_SECRET_FILE", ""},
                                     {"XDG_CONFIG_HOME", files.Path("config")}};
  const auto start = [&](const std::string& flags, const Process::Environment& environment) {
    return Run({"/bin/sh", "-c",
                absl::StrCat("cd / && exec " COXSWAIN_BINARY_DIR
                             "/bin/coxswain-ps --host 0.0.0.0 --port 0 ",
                             flags)},
               environment, absl::Seconds(20));
  };
  const auto secret = start("", none);
  CHECK(secret.code == 2);
  CHECK_THAT(secret.err, Contains("no secret"));
  CHECK_FALSE(fs::exists(files.Path("config")));  // made on loopback only
  const auto root = start("--insecure", none);
  CHECK(root.code == 2);
  CHECK_THAT(root.err, Contains("--root"));
  const auto missing = start(absl::StrCat("--root ", files.Path("none")), {});
  CHECK(missing.code == 2);
  CHECK_THAT(missing.err, Contains("none"));
}

// The most memory that a process has had, in MiB.
int64_t PeakMemory(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) >> 10;
  }
  return -1;
}

class WaitsForClose final : public net::ConnectionHandler {
 public:
  void OnMessage(net::Message) override {}
  void OnClosed(absl::Status status) override {
    status_ = std::move(status);
    closed_.Notify();
  }
  absl::Status Wait() {
    if (!closed_.WaitForNotificationWithTimeout(absl::Seconds(60))) {
      return absl::DeadlineExceededError("not closed");
    }
    return status_;
  }

 private:
  absl::Notification closed_;
  absl::Status status_;
};

TEST_CASE("a daemon keeps nothing of what strangers send", "[strangers]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1);
  const pid_t daemon = daemons.ps(0).pid();
  const int64_t before = PeakMemory(daemon);
  REQUIRE(before > 0);
  const auto transport = net::NewGrpcTransport();  // without a secret
  for (int i = 0; i < 3; ++i) {
    const auto handler = std::make_shared<WaitsForClose>();
    const auto connection = transport->Connect(daemons.config().ps[0], absl::Seconds(60), handler);
    connection->Send({1, "", {Buffer::Allocate(size_t{512} << 20)}});
    const absl::Status closed = handler->Wait();
    INFO(closed);
    CHECK(absl::IsUnauthenticated(closed));
  }
  CHECK(PeakMemory(daemon) - before < 100);
  CheckFree(daemons);
}

// Connections to a port of this machine that say nothing.
std::vector<net::UniqueFd> SilentConnections(const std::string& address, int count) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(net::ParseHostPort(address)->port));
  std::vector<net::UniqueFd> all;
  for (int i = 0; i < count; ++i) {
    net::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) {
      all.push_back(std::move(fd));
    }
  }
  return all;
}

TEST_CASE("a daemon that found no descriptor for a connection lets others in later",
          "[strangers]") {
  const DataFiles files;
  // Without a secret nobody is a stranger: so many connections do take all descriptors.
  const bool secret = GENERATE(true, false);
  const Process::Environment grpc = {{"COXSWAIN_TRANSPORT", "grpc"}};
  Process ps({"/bin/sh", "-c",
              absl::StrCat("ulimit -n 128 && exec " COXSWAIN_BINARY_DIR
                           "/bin/coxswain-ps --host 0.0.0.0 --port 0 --exit-with-parent --root ",
                           files.Path(""), secret ? "" : " --insecure")},
             grpc);
  const std::string port = absl::StrCat(net::ParseHostPort(AddressOf(ps))->port);
  const std::string cluster = files.Write(
      "cluster.yaml", absl::StrCat("ps: [\"127.0.0.1:", port, "\"]\nworker: [\"127.0.0.1:1\"]\n"));
  const auto status = [&] {
    std::vector<std::string> arguments = {"status", "--cluster", cluster};
    if (!secret) arguments.push_back("--insecure");
    return Coxswain(arguments, grpc).out;
  };
  CHECK_THAT(status(), Contains("waiting for a coordinator"));
  {
    const std::vector<net::UniqueFd> strangers = SilentConnections(AddressOf(ps), 300);
    REQUIRE(strangers.size() == 300);
    if (!secret) REQUIRE(ps.WaitForError("have to wait"));
  }
  CHECK_THAT(status(), Contains("waiting for a coordinator"));
}

TEST_CASE("processes of --local have no port", "[strangers]") {
  const DataFiles files;
  Process job(CoxswainCommand({"train", WriteMatrixFactorization(files), "--local", "1x1", "--set",
                               "train.epochs=100000", "--set", "evaluate.every_epochs=100000"}));
  REQUIRE(job.WaitForOutput(" steps"));
  size_t daemons = 0;
  for (const auto& thread : fs::directory_iterator(absl::StrCat("/proc/", job.pid(), "/task"))) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child; children >> child;) {
      ++daemons;
      // The inodes of its sockets, none of which is among the TCP sockets that listen.
      std::set<std::string> inodes;
      for (const auto& fd : fs::directory_iterator(absl::StrCat("/proc/", child, "/fd"))) {
        std::error_code error;
        const std::string target = fs::read_symlink(fd, error).string();
        if (target.rfind("socket:[", 0) == 0) inodes.insert(target.substr(8, target.size() - 9));
      }
      for (const char* table : {"tcp", "tcp6"}) {
        std::ifstream sockets(absl::StrCat("/proc/", child, "/net/", table));
        for (std::string line; std::getline(sockets, line);) {
          std::istringstream fields(line);
          std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
          if (words.size() > 9 && words[3] == "0A") CHECK(inodes.count(words[9]) == 0);
        }
      }
      // Nor is the secret where others can read it.
      std::ifstream command(absl::StrCat("/proc/", child, "/cmdline"));
      const std::string text(std::istreambuf_iterator<char>(command), {});
      CHECK_THAT(text, Contains("--secret-fd") && !Contains("--secret-file"));
    }
  }
  CHECK(daemons == 2);
  job.Kill(SIGINT);
  CHECK(job.Wait().code == 130);
}

}  // namespace
}  // namespace coxswain
