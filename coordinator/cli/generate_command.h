// `coxswain generate criteo|ratings`: data with a planted truth.
#pragma once

#include <string>

#include "coordinator/generate/planted_data.h"

namespace coxswain {

struct GenerateFlags {
  std::string out;
  double rows = 0;  // 1e9 is a number of rows, too
  double seed = 0;
  int threads = 0;  // 0: by the machine's cores
  bool force = false;
  bool quiet = false;
  CriteoOptions criteo;
  RatingsOptions ratings;
};

// Each returns the exit code and has printed what there is to say.
int GenerateCriteo(const GenerateFlags& flags);
int GenerateRatings(const GenerateFlags& flags);

}  // namespace coxswain
