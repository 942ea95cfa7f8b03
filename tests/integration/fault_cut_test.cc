// A network that loses what one side sends, and delivers what the other does. It is one of this
// test's own: network namespaces, a cable (veth) between them, and neighbour entries with the wrong
// hardware address, which nobody takes packets from.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "tests/integration/fault_cluster.h"

namespace coxswain {
namespace {

using Kind = ClusterEvent::Kind;

constexpr char kInside[] = "COXSWAIN_TEST_NETWORK";  // set: this process has a network of its own
constexpr char kHere[] = "10.77.0.1";                // coordinator, PS and the second worker
constexpr char kThere[] = "10.77.0.2";               // the first worker

Process::Result Shell(const std::string& script) { return Run({"/bin/sh", "-c", script}); }

void MustRun(const std::string& script) {
  const Process::Result result = Shell(script);
  CAPTURE(script, result.out, result.err);
  REQUIRE(result.code == 0);
}

// Why this machine cannot; empty: it can.
std::string CannotCut() {
  if (geteuid() != 0) return "network namespaces need root";
  const Process::Result result = Shell(
      "unshare --net sh -c 'ip link add here type veth peer name there && "
      "ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:99 dev here nud permanent' && "
      "nsenter --version");
  return result.code == 0 ? "" : result.err;
}

// Two ends of a cable; this process is at one, what Enter() starts is at the other.
class Cable {
 public:
  Cable() : holder_({"/bin/sh", "-c", "exec unshare --net sh -c 'echo $$; exec sleep 1000'"}) {
    REQUIRE(holder_.WaitForOutput("\n"));
    const std::string out = holder_.out();
    pid_ = out.substr(0, out.find('\n'));
    MustRun(
        absl::StrCat("ip link set lo up; ip link add here type veth peer name there && "
                     "ip link set there netns ",
                     pid_, " && ip addr add ", kHere, "/24 dev here && ip link set here up"));
    MustRun(absl::StrCat(There(), "ip addr add ", kThere, "/24 dev there"));
    MustRun(absl::StrCat(There(), "ip link set there up"));
    MustRun(absl::StrCat(There(), "ip link set lo up"));
  }
  std::vector<std::string> Enter() const {
    return {"/usr/bin/env", "nsenter", "-t", pid_, "--net"};
  }
  // From now on nothing arrives that is sent from there to here, or from here to there.
  void CutFromThere() const { MustRun(There() + Wrong(kHere, "there")); }
  void CutFromHere() const { MustRun(Wrong(kThere, "here")); }
  void Mend() const {
    Shell(absl::StrCat(There(), "ip neigh del ", kHere, " dev there"));
    Shell(absl::StrCat("ip neigh del ", kThere, " dev here"));
  }

 private:
  std::string There() const { return absl::StrCat("nsenter -t ", pid_, " --net "); }
  static std::string Wrong(const std::string& address, const std::string& device) {
    return absl::StrCat("ip neigh replace ", address, " lladdr 02:00:00:00:00:99 dev ", device,
                        " nud permanent");
  }

  Process holder_;
  std::string pid_;
};

void CutOneWay(bool from_worker) {
  const Cable cable;
  ClusterOptions options;
  options.lease = absl::Seconds(1);
  FaultCluster f(2, 2, options, [&](const std::string& job, int task) {
    const bool there = job == "worker" && task == 0;
    return Daemons::Launch{there ? cable.Enter() : std::vector<std::string>{},
                           {"--host", there ? kThere : kHere, "--root", "/"}};
  });
  CountingJob job(f.cluster);
  job.Schedule(3000);
  REQUIRE(job.AwaitCompleted(300));
  if (from_worker) {
    cable.CutFromThere();
  } else {
    cable.CutFromHere();
  }
  f.Expect(Kind::kWorkerLost, f.Worker(0), 1);
  MustBeOk(job.Join());
  CHECK(job.coordinator().stats().retried >= 1);
  job.CheckAppliedOnce();
  cable.Mend();
  f.Expect(Kind::kWorkerJoined, f.Worker(0), 1);
  f.ExpectToWork(0, &job);
  job.CheckAppliedOnce();
}

// In a process of its own, which has a network of its own: nothing of this machine's is touched.
void InOwnNetwork(const std::string& tag, bool from_worker) {
  if (std::getenv(kInside) != nullptr) {
    CutOneWay(from_worker);
    return;
  }
  const std::string why_not = CannotCut();
  if (!why_not.empty()) {
    WARN("skipped: " << why_not);
    return;
  }
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto inside =
      Run({"/usr/bin/env", "unshare", "--net", self, tag}, {{kInside, "1"}}, absl::Seconds(120));
  INFO(inside.out << inside.err);
  CHECK(inside.code == 0);
}

TEST_CASE("a worker that nobody hears any more is lost, and comes back when the cable is mended",
          "[fault][cut_from_worker]") {
  InOwnNetwork("[cut_from_worker]", /*from_worker=*/true);
}

TEST_CASE("a worker that hears nobody any more is lost, and comes back when the cable is mended",
          "[fault][cut_to_worker]") {
  InOwnNetwork("[cut_to_worker]", /*from_worker=*/false);
}

}  // namespace
}  // namespace coxswain
