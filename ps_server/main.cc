#include <memory>

#include "kernels/register.h"
#include "ps_server/ps_service.h"
#include "runtime/cluster/daemon_main.h"
#include "runtime/function/partition.h"
#include "runtime/function/place_on_devices.h"

int main(int argc, char** argv) {
  coxswain::graph::OpRegistry registry;
  coxswain::kernels::RegisterAllOps(&registry);
  coxswain::function::RegisterPsCall(&registry);
  coxswain::function::RegisterCopies(&registry);
  return coxswain::cluster::DaemonMain(
      argc, argv, "ps",
      [&registry](coxswain::env::Env* env, coxswain::net::Transport* transport,
                  coxswain::cluster::DaemonOptions options) {
        return std::make_unique<coxswain::ps::PsService>(env, transport, &registry,
                                                         std::move(options));
      });
}
