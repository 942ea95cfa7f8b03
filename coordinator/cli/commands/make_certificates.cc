// `coxswain make-certificates`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/commands/command_list.h"
#include "runtime/net/tls.h"

namespace coxswain::cli {
namespace {

struct CertificateFlags {
  std::string directory;
  std::string name = net::kDefaultTlsName;
  int days = 3650;
};

}  // namespace

void AddMakeCertificatesCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<CertificateFlags>();
  CLI::App* c = app.add_subcommand("make-certificates",
                                   "Creates the certificates with which a cluster's daemons and "
                                   "commands encrypt their connections");
  c->add_option("DIR", flags->directory,
                "directory for ca.crt, tls.crt and tls.key; existing files are not replaced")
      ->required()
      ->type_name("DIR");
  c->add_option("--tls-name", flags->name, "DNS name in the certificates")
      ->type_name("NAME")
      ->capture_default_str();
  c->add_option("--days", flags->days, "number of days that the certificates are valid")
      ->check(CLI::Range(1, 36500))
      ->capture_default_str();
  c->callback([flags, run] {
    *run = [flags] { return MakeCertificates(flags->directory, flags->name, flags->days); };
  });
}

}  // namespace coxswain::cli
