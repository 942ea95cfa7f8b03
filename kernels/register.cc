#include "kernels/register.h"

#include "kernels/register_list.h"

namespace coxswain::kernels {

void RegisterAllOps(graph::OpRegistry* registry) {
#define COX_REGISTER(file, function) function(registry);
  COX_OP_FILES(COX_REGISTER)
#undef COX_REGISTER
}

}  // namespace coxswain::kernels
