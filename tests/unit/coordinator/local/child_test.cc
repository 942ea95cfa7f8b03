// Child processes: how they end, and what a daemon that does not come up leaves to be said.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "coordinator/local/child.h"

namespace coxswain::local {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// A shell with this script, and the reading end of its stdout.
std::pair<Child, net::UniqueFd> Shell(const std::string& script) {
  int out[2];
  REQUIRE(pipe2(out, O_CLOEXEC) == 0);
  const net::UniqueFd writing(out[1]);
  ChildOptions options;
  options.command = {"/bin/sh", "-c", script};
  options.out = writing.get();
  auto child = Child::Start(options);
  INFO(child.status());
  REQUIRE(child.ok());
  return {*std::move(child), net::UniqueFd(out[0])};
}

TEST_CASE("the end of a child is told by a descriptor, and how it ended in words", "[local]") {
  auto [code, out] = Shell("exit 3");
  if (code.end_fd() >= 0) {  // kernels before 5.3 have none
    pollfd end{code.end_fd(), POLLIN, 0};
    CHECK(poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) == 1);
  }
  REQUIRE(code.WaitFor(kPatience));
  CHECK(HowEnded(code.Poll()) == "ended with code 3");
  auto [killed, nothing] = Shell("exec sleep 1000");
  CHECK(killed.running());
  killed.Signal(SIGKILL);
  REQUIRE(killed.WaitFor(kPatience));
  CHECK(HowEnded(killed.Poll()) == "was ended by signal 9 (Killed)");
}

TEST_CASE("a daemon that ends before it tells its address: what it printed is told, if anything",
          "[local]") {
  auto [silent, out] = Shell("exit 1");
  const absl::Status nothing = ReadAddress(out.get(), "the daemon", kPatience).status();
  CHECK(absl::IsUnavailable(nothing));
  CHECK(nothing.message() == "the daemon ended before it told its port");
  auto [loud, text] = Shell("echo no room");
  CHECK(ReadAddress(text.get(), "the daemon", kPatience).status().message() ==
        "the daemon ended before it told its port; it printed: no room\n");
}

TEST_CASE("a child that cannot be started: the program or the system is to blame, by its own words",
          "[local]") {
  ChildOptions options;
  options.command = {"/nowhere/program"};
  const absl::Status none = Child::Start(options).status();
  CHECK(absl::IsNotFound(none));
  CHECK(none.message() == "cannot start /nowhere/program: No such file or directory");
  options.command = {"/"};
  const absl::Status wrong = Child::Start(options).status();
  CHECK(absl::IsInternal(wrong));
  CHECK(wrong.message() == "cannot start /: Permission denied");
  // Two descriptors are left, for the pipe that tells of a failure, and none for the child.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = 256;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::vector<net::UniqueFd> held;
  for (net::UniqueFd fd(dup(0)); fd.valid(); fd = net::UniqueFd(dup(0)))
    held.push_back(std::move(fd));
  REQUIRE(held.size() > 2);
  held.resize(held.size() - 2);
  options.command = {"/bin/true"};
  const absl::Status full = Child::Start(options).status();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(absl::IsInternal(full));
  CHECK(full.message() == "cannot start /bin/true: Too many open files");
}

TEST_CASE("a daemon that tells no address in time is given up", "[local]") {
  auto [daemon, out] = Shell("exec sleep 1000");
  const absl::Status status = ReadAddress(out.get(), "the daemon", absl::Milliseconds(20)).status();
  CHECK(absl::IsDeadlineExceeded(status));
  auto [there, address] = Shell("echo listening on 127.0.0.1:4711; exec sleep 1000");
  CHECK(*ReadAddress(address.get(), "the daemon", kPatience) == "127.0.0.1:4711");
}

}  // namespace
}  // namespace coxswain::local
