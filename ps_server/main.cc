#include <memory>

#include "kernels/register.h"
#include "ps_server/ps_service.h"
#include "runtime/cluster/daemon_main.h"
#include "runtime/function/partition.h"
#include "runtime/function/place_on_device.h"

int main(int argc, char** argv) {
  coxswain::OpRegistry registry;
  coxswain::RegisterAllOps(&registry);
  coxswain::RegisterPsCall(&registry);
  coxswain::RegisterCopies(&registry);
  return coxswain::DaemonMain(argc, argv, "ps",
                              [&registry](coxswain::Env* env, coxswain::Transport* transport,
                                          coxswain::DaemonOptions options) {
                                return std::make_unique<coxswain::PsService>(
                                    env, transport, &registry, std::move(options));
                              });
}
