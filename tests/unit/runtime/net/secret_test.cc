// The file with a cluster's secret: who may read it, and where it is looked for.
#include "runtime/net/secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "tests/testing/data_files.h"

namespace coxswain::net {
namespace {

constexpr char kText[] = "0123456789abcdef0123456789abcdef\n";

// The message of an error that a person can mend; fails the test when there is none.
std::string Refusal(const absl::Status& status) {
  INFO(status);
  REQUIRE_FALSE(status.ok());
  CHECK(GetDetail(status)->cause == ErrorCause::kConfiguration);
  return std::string(status.message());
}

// The environment as these tests change it, and as it was.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name); old != nullptr) old_ = old, was_set_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (was_set_) {
      setenv(name_, old_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* const name_;
  std::string old_;
  bool was_set_ = false;
};

TEST_CASE("a secret file that others can read or change is refused, with the way to mend it",
          "[secret]") {
  const DataFiles files;
  const std::string path = files.Write("secret", kText);
  for (const mode_t mode : {0644, 0604, 0620, 0660, 0602, 0666, 0777}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    const std::string said = Refusal(Secret::Read(path).status());
    CHECK(absl::StrContains(said, path));
    CHECK(absl::StrContains(said, "0600"));
  }
  for (const mode_t mode : {0600, 0400}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    CHECK(Secret::Read(path).ok());
  }
  if (geteuid() != 0) {
    WARN("files of other users: skipped, this is not root");
    return;
  }
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
  CHECK(absl::StrContains(Refusal(Secret::Read(path).status()), "belongs to user 65534"));
}

TEST_CASE("the way to mend a secret file's mode is a command that does it", "[secret]") {
  const DataFiles files;
  for (const char* name : {"secret", "the user's secret"}) {
    const std::string path = files.Write(name, kText);
    REQUIRE(chmod(path.c_str(), 0644) == 0);
    const std::string said = Refusal(Secret::Read(path).status());
    const size_t command = said.rfind("chmod 600 ");
    REQUIRE(command != std::string::npos);
    CAPTURE(said);
    REQUIRE(std::system(said.substr(command).c_str()) == 0);
    CHECK(Secret::Read(path).ok());
  }
}

TEST_CASE("a secret that is too short, too long or no file is refused", "[secret]") {
  const DataFiles files;
  const auto read = [&](const std::string& text) {
    const std::string path = files.Write("secret", text);
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    return Secret::Read(path);
  };
  CHECK(absl::StrContains(Refusal(read("").status()), "16"));
  CHECK(absl::StrContains(Refusal(read("  123456789012345  \n").status()), "found 15"));
  CHECK(read("1234567890123456").ok());
  CHECK(read(std::string(1024, 'x')).ok());
  CHECK(absl::EndsWith(Refusal(read(std::string(1025, 'x')).status()), "found more"));
  CHECK(absl::StrContains(Refusal(Secret::Read(files.Path("none")).status()), "none"));
  CHECK(absl::StrContains(Refusal(Secret::Read(files.Path("")).status()), "wanted a file"));
}

TEST_CASE("whitespace at the ends of a secret does not count", "[secret]") {
  const DataFiles files;
  const auto read = [&](const std::string& text) {
    const std::string path = files.Write("secret", text);
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    return *Secret::Read(path);
  };
  const Secret plain = read("1234567890123456"), padded = read("\n 1234567890123456\r\n");
  CHECK(padded.Proves("message", plain.Proof("message")));
  CHECK_FALSE(read("1234567890123457").Proves("message", plain.Proof("message")));
}

TEST_CASE("a proof is of one message and one secret", "[secret]") {
  const Secret one = Secret::Random(), other = Secret::Random();
  const std::string proof = one.Proof("message");
  CHECK(proof.size() == 32);
  CHECK(one.Proves("message", proof));
  CHECK_FALSE(one.Proves("messagf", proof));
  CHECK_FALSE(other.Proves("message", proof));
  CHECK_FALSE(one.Proves("message", proof.substr(1)));
  CHECK_FALSE(one.Proves("message", ""));
  // What openssl has:
  //   printf message | openssl dgst -sha256 -hmac 1234567890123456
  const DataFiles files;
  const std::string path = files.Write("secret", "1234567890123456");
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  std::string hex;
  for (const char c : Secret::Read(path)->Proof("message")) {
    absl::StrAppend(&hex, absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
  }
  CHECK(hex == "7d63a6ceb0c951a44c0e265a14acefcb5799340cc42ba008845f7c378f072da3");
}

TEST_CASE("a new secret file is this user's alone, and never replaces another one", "[secret]") {
  const DataFiles files;
  const mode_t mask = umask(0);
  const std::string path = files.Path("a/b/secret");
  const absl::Status made = MakeSecretFile(path);
  umask(mask);
  REQUIRE(made.ok());
  struct stat info = {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  const Secret first = *Secret::Read(path);
  CHECK(absl::IsAlreadyExists(MakeSecretFile(path)));
  CHECK(Secret::Read(path)->Proves("m", first.Proof("m")));
  REQUIRE(MakeSecretFile(files.Path("other")).ok());
  CHECK_FALSE(Secret::Read(files.Path("other"))->Proves("m", first.Proof("m")));
}

TEST_CASE("a child has the secret from a descriptor, as often as it is read", "[secret]") {
  const Secret secret = Secret::Random();
  auto fd = secret.ToDescriptor();
  REQUIRE(fd.ok());
  for (int i = 0; i < 2; ++i) {
    const auto read = Secret::ReadDescriptor(dup(fd->get()));
    REQUIRE(read.ok());
    CHECK(read->Proves("m", secret.Proof("m")));
  }
  Refusal(Secret::ReadDescriptor(-1).status());
}

TEST_CASE("a secret is looked for where it was said, in the environment, and at home", "[secret]") {
  const DataFiles files;
  for (const char* name : {"said", "named"}) REQUIRE(MakeSecretFile(files.Path(name)).ok());
  const auto same = [&](const absl::StatusOr<Secret>& found, const std::string& path) {
    INFO(found.status());
    REQUIRE(found.ok());
    return found->Proves("m", Secret::Read(path)->Proof("m"));
  };
  const Variable home("XDG_CONFIG_HOME", files.Path("config"));
  {
    const Variable named("COXSWAIN_SECRET_FILE", files.Path("named"));
    CHECK(same(FindSecret({files.Path("said"), false}), files.Path("said")));
    CHECK(same(FindSecret({}), files.Path("named")));
  }
  {
    const Variable wrong("COXSWAIN_SECRET_FILE", files.Path("typo"));
    const std::string told = Refusal(FindSecret({}).status());
    INFO(told);
    CHECK(absl::StartsWith(told, "COXSWAIN_SECRET_FILE: "));
    CHECK(absl::StrContains(told, files.Path("typo") + ": No such file"));
  }
  const Variable none("COXSWAIN_SECRET_FILE", "");
  CHECK(absl::StrContains(Refusal(FindSecret({}).status()), files.Path("config/coxswain/secret")));
  CHECK(absl::StrContains(Refusal(FindSecret({}).status()), "--insecure"));
  CHECK(FindSecret({"", true})->empty());
  Refusal(FindSecret({files.Path("said"), true}).status());
  // A daemon on loopback makes it; then commands find it.
  CHECK(FindSecret({}, /*make=*/true).ok());
  CHECK(same(FindSecret({}), files.Path("config/coxswain/secret")));
  CHECK(same(FindSecret({}, /*make=*/true), files.Path("config/coxswain/secret")));
  // One that is there and cannot be used is no reason to make another.
  REQUIRE(chmod(files.Path("config/coxswain/secret").c_str(), 0644) == 0);
  Refusal(FindSecret({}, /*make=*/true).status());
}

}  // namespace
}  // namespace coxswain::net
