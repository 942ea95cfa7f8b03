// What this process and its machine are, for people and for reports.
#pragma once

#include <string>

namespace coxswain::env {

// The machine's name, as its neighbours know it; empty when it has none.
std::string HostName();

// Of all threads of this process since it began, in user and in system mode.
double ProcessCpuSeconds();

}  // namespace coxswain::env
