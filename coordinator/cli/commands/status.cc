// `coxswain status`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"

namespace coxswain::cli {
namespace {

struct StatusFlags {
  std::string cluster_file;
  double timeout = 3;  // seconds
  bool json = false;
  net::CredentialOptions credentials;
};

}  // namespace

void AddStatusCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<StatusFlags>();
  CLI::App* c =
      app.add_subcommand("status", "Shows a cluster's tasks, which job holds it and what runs");
  c->add_option("--cluster", flags->cluster_file, "the cluster file")
      ->required()
      ->type_name("FILE");
  CheckTimeout(c->add_option("--timeout", flags->timeout, "how long to wait for answers"))
      ->type_name("SECONDS")
      ->capture_default_str();
  c->add_flag("--json", flags->json, "as JSON");
  AddCredentials(c, &flags->credentials);
  c->callback([flags, run] {
    *run = [flags] {
      return ShowStatus(flags->cluster_file, flags->credentials, flags->timeout, flags->json);
    };
  });
}

}  // namespace coxswain::cli
