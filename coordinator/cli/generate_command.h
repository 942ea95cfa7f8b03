// `coxswain generate criteo|ratings`: data with a planted truth.
#pragma once

#include <cstdint>
#include <string>

namespace coxswain::cli {

struct GenerateFlags {
  std::string out;
  // Whole numbers, as a double so that 1e9 may be written.
  double rows = 0, seed = 0, ids = 100'000, users = 10'000, items = 2'000;
  int threads = 0;  // 0: by the machine's cores
  bool force = false;
  bool quiet = false;
  double zipf = 1.05;
  int64_t dim = 4;
  double noise = 0.5;
};

// Each returns the exit code and has printed what there is to say.
int GenerateCriteo(const GenerateFlags& flags);
int GenerateRatings(const GenerateFlags& flags);

}  // namespace coxswain::cli
