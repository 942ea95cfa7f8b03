// `coxswain serve`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"
#include "coordinator/cli/serve_command.h"

namespace coxswain::cli {

void AddServeCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<ServeFlags>();
  CLI::App* c = app.add_subcommand("serve",
                                   "Serves predictions of a saved model, or of a running job, with "
                                   "TensorFlow Serving's REST API");
  auto* what = c->add_option_group("of", "What is served");
  auto* model =
      what->add_option("--model-dir", flags->model_dir, "a model saved by `coxswain train`");
  model->type_name("DIR");
  auto* follow = what->add_option("--follow", flags->follow,
                                  "the newest checkpoint of a job, in the directory given to "
                                  "`coxswain train --checkpoint-dir`, now or later");
  follow->type_name("CHECKPOINT_DIR");
  what->require_option(1);
  c->add_option("--http", flags->http,
                "address to listen on; port 0: a free one. Anyone who can reach it may send "
                "requests, and nothing is encrypted without --tls-cert")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  auto* certificate =
      c->add_option("--tls-cert", flags->tls_cert, "use HTTPS, with this certificate (PEM)");
  auto* key =
      c->add_option("--tls-key", flags->tls_key,
                    "private key of --tls-cert (PEM), which only its owner may be able to read");
  certificate->type_name("FILE")->needs(key);
  key->type_name("FILE")->needs(certificate);
  c->add_option("--tls-client-ca", flags->tls_client_ca,
                "require client certificates that a CA in this file has signed (PEM)")
      ->type_name("FILE")
      ->needs(certificate);
  c->add_option("--name", flags->name, "name of the model in paths: /v1/models/NAME:predict")
      ->type_name("NAME")
      ->capture_default_str();
  c->add_option("--max-rows", flags->max_rows, "maximum number of rows in a request")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--max-body", flags->max_body_mib, "maximum size of a request's body, in MiB")
      ->check(CLI::Range(1, 1024))
      ->type_name("MIB")
      ->capture_default_str();
  c->add_option("--threads", flags->threads,
                "number of requests processed at once; default: one per core. Four times as many "
                "may wait, and further ones are refused with status 429")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  c->add_option("--connections", flags->connections,
                "number of connections whose requests are served at once; others wait")
      ->check(CLI::Range(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--request-seconds", flags->request_seconds,
                "time limit in seconds for receiving a request, and for sending a response")
      ->check(CLI::Range(1, 3600))
      ->type_name("S")
      ->capture_default_str();
  c->add_option("--drain-seconds", flags->drain_seconds,
                "after SIGTERM, go on for this time while /readyz says that the server is ending")
      ->check(CLI::Range(0, 3600))
      ->type_name("S")
      ->capture_default_str();
  c->add_option("--index-from", flags->index_from,
                "minimum number of rows for which a table gets an index for :recommend and "
                ":nearest, which are exact until it is built; 0: no indexes")
      ->check(CLI::NonNegativeNumber)
      ->type_name("ROWS")
      ->capture_default_str();
  CheckNumber(c->add_option(
                  "--index-recall", flags->index_recall,
                  "measured share of the ten best that an index must find, or else it is not used"),
              0.5, 1)
      ->type_name("SHARE")
      ->capture_default_str();
  c->add_flag("--verify", flags->verify,
              "first verify the checksums of all tables, as is always done for a checkpoint")
      ->needs(model);
  c->callback([flags, run] { *run = [flags] { return ServeCommand(*flags); }; });
}

}  // namespace coxswain::cli
