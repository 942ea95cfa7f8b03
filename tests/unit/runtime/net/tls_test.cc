// TLS: files that are no certificates of a cluster, and who can connect with which.
#include "runtime/net/tls.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/status.h"
#include "runtime/net/credentials.h"
#include "runtime/net/secret_transport.h"
#include "tests/testing/data_files.h"
#include "tests/unit/runtime/net/harness.h"
#include "tests/unit/runtime/net/relay.h"

namespace coxswain::net_testing {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using net::Tls;

constexpr absl::Duration kDay = absl::Hours(24);

// Certificates in a directory of their own.
std::string Made(const DataFiles& files, const std::string& directory,
                 const std::string& name = "coxswain", absl::Duration lifetime = kDay) {
  REQUIRE(net::MakeCertificates(files.Path(directory), name, lifetime).ok());
  return files.Path(directory);
}

void Copy(const std::string& from, const std::string& to, const std::string& file) {
  fs::copy_file(from + "/" + file, to + "/" + file, fs::copy_options::overwrite_existing);
}

std::shared_ptr<const Tls> Read(const std::string& directory,
                                const std::string& name = "coxswain") {
  const absl::StatusOr<Tls> tls = Tls::Read(directory, name);
  INFO(tls.status());
  REQUIRE(tls.ok());
  return std::make_shared<const Tls>(*tls);
}

// The message of an error that a person can mend; fails the test when there is none.
std::string Refusal(const absl::Status& status) {
  INFO(status);
  REQUIRE_FALSE(status.ok());
  CHECK(GetDetail(status)->cause == ErrorCause::kConfiguration);
  return std::string(status.message());
}

Kind GrpcWith(const std::shared_ptr<const Tls>& tls) {
  return {"gRPC with TLS", "127.0.0.1:0", [tls] {
            net::TransportOptions options;
            options.tls = tls;
            return net::NewGrpcTransport(options);
          }};
}

TEST_CASE("certificates are made for a name, and never in place of others", "[tls]") {
  const DataFiles files;
  const std::string directory = Made(files, "new/certificates", "ranking.example", kDay);
  struct stat key = {};
  REQUIRE(stat((directory + "/tls.key").c_str(), &key) == 0);
  CHECK((key.st_mode & 0777) == 0600);
  const auto tls = Read(directory, "ranking.example");
  CHECK(tls->expires() > absl::Now() + kDay - absl::Minutes(5));
  CHECK(tls->expires() < absl::Now() + kDay + absl::Minutes(5));
  for (const char* file : {"ca.crt", "tls.crt", "tls.key"}) {
    const std::string one = files.Path(absl::StrCat("with ", file));
    fs::create_directory(one);
    std::ofstream(one + "/" + file) << "mine";
    CHECK_THAT(Refusal(net::MakeCertificates(one, "coxswain", kDay)),
               Contains(one + "/" + file) && Contains("already"));
    std::ifstream in(one + "/" + file);
    CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == "mine");
    CHECK(std::distance(fs::directory_iterator(one), {}) == 1);
  }
  Read(Made(files, "long", std::string(60, 'n')), std::string(60, 'n'));
  for (const char* name : {"", "a,DNS:b", "a..b", "-a", "a b", "*.a"}) {
    CAPTURE(name);
    CHECK_THAT(Refusal(net::MakeCertificates(files.Path("none"), name, kDay)),
               Contains("DNS name"));
    CHECK_FALSE(fs::exists(files.Path("none")));
  }
}

TEST_CASE("files that are no certificate of the cluster are refused, by name", "[tls]") {
  const DataFiles files;
  const std::string other = Made(files, "other");
  const auto refusal = [&](const std::string& directory, const std::string& name = "coxswain") {
    return Refusal(Tls::Read(directory, name).status());
  };
  CHECK_THAT(refusal(files.Path("nowhere")), Contains(files.Path("nowhere/ca.crt")));
  int number = 0;
  const auto make = [&] { return Made(files, absl::StrCat("made", number++)); };
  SECTION("that are not there") {
    for (const char* file : {"ca.crt", "tls.crt", "tls.key"}) {
      const std::string directory = make();
      fs::remove(directory + "/" + file);
      CHECK_THAT(refusal(directory), Contains(directory + "/" + file));
    }
  }
  SECTION("that are something else") {
    for (const char* file : {"ca.crt", "tls.crt", "tls.key"}) {
      const std::string directory = make();
      std::ofstream(directory + "/" + file) << "nothing of the kind";
      CHECK_THAT(refusal(directory), Contains(directory + "/" + file) && Contains("wanted"));
    }
  }
  SECTION("that are torn") {
    for (const char* file : {"ca.crt", "tls.crt", "tls.key"}) {
      const std::string directory = make();
      fs::resize_file(directory + "/" + file, fs::file_size(directory + "/" + file) / 2);
      CHECK_THAT(refusal(directory), Contains(directory + "/" + file));
    }
  }
  SECTION("that do not belong together") {
    const std::string wrong_key = make(), wrong_authority = make();
    Copy(other, wrong_key, "tls.key");
    CHECK_THAT(refusal(wrong_key), Contains(wrong_key + "/tls.key") && Contains("not that of"));
    Copy(other, wrong_authority, "ca.crt");
    CHECK_THAT(refusal(wrong_authority),
               Contains(wrong_authority + "/tls.crt") && Contains(wrong_authority + "/ca.crt"));
  }
  SECTION("of another name") {
    CHECK_THAT(refusal(other, "ranking"), Contains("'ranking'") && Contains("--tls-name"));
  }
  SECTION("that have expired") {
    const std::string old = Made(files, "old", "coxswain", -absl::Minutes(1));
    CHECK_THAT(refusal(old), Contains(old + "/tls.crt") && Contains("expired"));
  }
  SECTION("with a key that others can read") {
    REQUIRE(chmod((other + "/tls.key").c_str(), 0644) == 0);
    CHECK_THAT(refusal(other), Contains(other + "/tls.key") && Contains("0600"));
  }
  SECTION("but several authorities, as while one replaces another, are trusted each") {
    const std::string directory = make();
    std::ofstream both(directory + "/ca.crt", std::ios::app);
    std::ifstream more(other + "/ca.crt");
    both << more.rdbuf();
    both.close();
    CHECK(Tls::Read(directory, "coxswain").ok());
  }
}

TEST_CASE("a name of certificates without a directory of them is a mistake", "[tls]") {
  CHECK(*net::FindTls({}) == nullptr);
  CHECK_THAT(Refusal(net::FindTls({"", "ranking"}).status()), Contains("--tls-dir"));
}

TEST_CASE("messages go both ways over TLS, with and without a secret", "[tls]") {
  const DataFiles files;
  Kind kind = GrpcWith(Read(Made(files, "certificates")));
  const bool secret = GENERATE(false, true);
  if (secret) {
    kind.make = [make = kind.make, known = net::Secret::Random()] {
      return net::NewSecretTransport(make(), known);
    };
  }
  Net net(kind);
  End client = net.Connect();
  client.connection->Send({1, "header", {Bytes(5 << 20, 1), Bytes(3, 2)}});
  End server = net.acceptor.Take();
  REQUIRE(server.recorder != nullptr);
  REQUIRE(server.recorder->WaitMessages(1));
  CHECK(
      SameMessage(server.recorder->messages()[0], {1, "header", {Bytes(5 << 20, 1), Bytes(3, 2)}}));
  server.connection->Send({2, "answer", {Bytes(100, 3)}});
  REQUIRE(client.recorder->WaitMessages(1));
  CHECK(SameMessage(client.recorder->messages()[0], {2, "answer", {Bytes(100, 3)}}));
  client.connection->Close(absl::OkStatus());
  CHECK(server.recorder->WaitClosed().ok());
}

TEST_CASE("who is not of the cluster cannot connect, and is told why", "[tls]") {
  const DataFiles files;
  const std::string ours = Made(files, "ours");
  const std::string others = Made(files, "others");
  // Signed by those whom both trust, but of another cluster.
  const std::string ranking = Made(files, "ranking", "ranking");
  const auto trust = [](const std::string& directory, const std::string& also) {
    std::ofstream both(directory + "/ca.crt", std::ios::app);
    std::ifstream more(also + "/ca.crt");
    both << more.rdbuf();
  };
  trust(ours, ranking);
  trust(ranking, ours);
  struct Case {
    const char* what;
    std::shared_ptr<const Tls> listens, connects;
    const char* told;
  };
  const std::vector<Case> cases = {
      {"without TLS", Read(ours), nullptr, ""},
      {"with TLS where there is none", nullptr, Read(ours), "by TLS"},
      {"signed by another authority", Read(ours), Read(others), "certificate verify failed"},
      {"of another name", Read(ours), Read(ranking, "ranking"), "'ranking'"},
  };
  const Case c = cases[static_cast<size_t>(GENERATE(range(0, 4)))];
  CAPTURE(c.what);
  Net net(GrpcWith(c.listens));
  const auto stranger = GrpcWith(c.connects).make();
  const auto heard = std::make_shared<Recorder>();
  const auto connection = stranger->Connect(net.listener->address(), absl::Seconds(1), heard);
  connection->Send({1, "let me in", {}});
  const absl::Status closed = heard->WaitClosed();
  INFO(closed);
  CHECK(absl::IsUnavailable(closed));
  CHECK_THAT(std::string(closed.message()),
             Contains(net.listener->address()) && Contains(c.told, Catch::CaseSensitive::No));
  CHECK(heard->count() == 0);
  CHECK(net.acceptor.accepted() == 0);
  // It is open to those who may.
  End friendly = net.Connect();
  friendly.connection->Send({1, "hello", {}});
  const End server = net.acceptor.Take();
  REQUIRE(server.recorder != nullptr);
  CHECK(server.recorder->WaitMessages(1));
}

TEST_CASE("new certificates are taken without a restart", "[tls]") {
  const DataFiles files;
  const std::string listens = Made(files, "listens"), next = Made(files, "next");
  Net net(GrpcWith(Read(listens)));
  const auto client = GrpcWith(Read(next)).make();
  for (const char* file : {"tls.key", "tls.crt", "ca.crt"}) {
    // As programs that renew them do it: whole.
    fs::copy_file(next + "/" + file, listens + "/" + file + std::string(".new"));
    fs::rename(listens + "/" + file + ".new", listens + "/" + file);
  }
  const auto heard = std::make_shared<Recorder>();
  // It is tried again until the listener has looked at its files.
  const auto connection = client->Connect(net.listener->address(), kPatience, heard);
  connection->Send({1, "hello", {}});
  const End server = net.acceptor.Take();
  REQUIRE(server.recorder != nullptr);
  CHECK(server.recorder->WaitMessages(1));
}

// What goes through, both ways, as an eavesdropper has it.
TEST_CASE("what travels by TLS cannot be read on its way", "[tls]") {
  const DataFiles files;
  const auto tls = Read(Made(files, "certificates"));
  const std::string words(2000, 'w');
  const auto heard_by_relay = [&](const Kind& kind) {
    Net net(kind);
    Relay relay(net.listener->address());
    End client = net.ConnectTo(relay.address());
    client.connection->Send({1, words, {}});
    const End server = net.acceptor.Take();
    REQUIRE(server.recorder != nullptr);
    REQUIRE(server.recorder->WaitMessages(1));
    relay.Cut();
    return relay.passed();
  };
  CHECK(absl::StrContains(heard_by_relay(Grpc()), words));
  CHECK_FALSE(absl::StrContains(heard_by_relay(GrpcWith(tls)), words.substr(0, 50)));
}

}  // namespace
}  // namespace coxswain::net_testing
