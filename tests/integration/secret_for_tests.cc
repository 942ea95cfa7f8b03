// The daemons and commands of these tests have a secret of their own, not that of whoever runs
// them.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "runtime/net/secret.h"

namespace coxswain {
namespace {

class SecretForTests final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunStarting(const Catch::TestRunInfo&) override {
    const std::filesystem::path directory = std::filesystem::temp_directory_path();
    path_ = (directory / ("coxswain-test-secret-" + std::to_string(getpid()))).string();
    unlink(path_.c_str());
    if (net::MakeSecretFile(path_).ok()) setenv("COXSWAIN_SECRET_FILE", path_.c_str(), 1);
  }
  void testRunEnded(const Catch::TestRunStats&) override { unlink(path_.c_str()); }

 private:
  std::string path_;
};

CATCH_REGISTER_LISTENER(SecretForTests)

}  // namespace
}  // namespace coxswain
