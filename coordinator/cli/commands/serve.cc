// `coxswain serve`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"
#include "coordinator/cli/serve_command.h"

namespace coxswain::cli {

void AddServeCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<ServeFlags>();
  CLI::App* c = app.add_subcommand("serve",
                                   "Answers requests for predictions of a saved model, or of a job "
                                   "that trains, by TensorFlow Serving's REST");
  auto* what = c->add_option_group("of", "What is served");
  auto* model =
      what->add_option("--model-dir", flags->model_dir, "a model that `coxswain train` saved");
  model->type_name("DIR");
  auto* follow = what->add_option("--follow", flags->follow,
                                  "the newest checkpoint of a job, in the directory that "
                                  "`coxswain train --checkpoint-dir` writes or will write");
  follow->type_name("CHECKPOINT_DIR");
  what->require_option(1);
  c->add_option("--http", flags->http,
                "where to listen; port 0: one that is free. Whoever reaches the address may ask, "
                "and nothing is encrypted without --tls-cert")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  auto* certificate = c->add_option("--tls-cert", flags->tls_cert,
                                    "HTTPS instead of HTTP, with this certificate (PEM)");
  auto* key = c->add_option("--tls-key", flags->tls_key,
                            "the key of --tls-cert (PEM), which nobody else may be able to read");
  certificate->type_name("FILE")->needs(key);
  key->type_name("FILE")->needs(certificate);
  c->add_option("--tls-client-ca", flags->tls_client_ca,
                "clients must show a certificate that one of this file has signed (PEM)")
      ->type_name("FILE")
      ->needs(certificate);
  c->add_option("--name", flags->name, "of the model in paths: /v1/models/NAME:predict")
      ->type_name("NAME")
      ->capture_default_str();
  c->add_option("--max-rows", flags->max_rows, "the most rows of a request")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--max-body", flags->max_body_mib, "the largest body of a request, in MiB")
      ->check(CLI::Range(1, 1024))
      ->type_name("MIB")
      ->capture_default_str();
  c->add_option("--threads", flags->threads,
                "requests that are predicted at once; else one for each core. Four times as many "
                "may wait, and others are refused with status 429")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  c->add_option("--connections", flags->connections,
                "connections that are served at once; others wait")
      ->check(CLI::Range(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--request-seconds", flags->request_seconds,
                "how long all of a request may take to come, and all of an answer to go")
      ->check(CLI::Range(1, 3600))
      ->type_name("S")
      ->capture_default_str();
  c->add_option("--index-from", flags->index_from,
                "tables with as many rows get an index for :recommend and :nearest, which are "
                "exact until it is built; 0: none does")
      ->check(CLI::NonNegativeNumber)
      ->type_name("ROWS")
      ->capture_default_str();
  CheckNumber(c->add_option("--index-recall", flags->index_recall,
                            "the share of the ten best that an index must find, as measured; else "
                            "it is not used"),
              0.5, 1)
      ->type_name("SHARE")
      ->capture_default_str();
  c->add_flag("--verify", flags->verify,
              "first read all tables and hold them against their checksums; of a checkpoint that "
              "is done in any case")
      ->needs(model);
  c->callback([flags, run] { *run = [flags] { return ServeCommand(*flags); }; });
}

}  // namespace coxswain::cli
