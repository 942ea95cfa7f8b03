#include <catch2/catch.hpp>

#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(dropout) {
  cases->push_back({.op = "Dropout",
                    .label = "0 and x / (1 - rate), as often as the rate says",
                    .inputs = {F32({40, 999}, std::vector<float>(39960, 3.0f))},
                    .attrs = {{"rate", 0.25}, {"seed", 8}},
                    .verify = [](const std::vector<Tensor>& out) {
                      int kept = 0;
                      const auto check = [&kept](auto values) {
                        for (const auto v : values) {
                          if (v != 0) CHECK(static_cast<double>(v) == Approx(4));
                          kept += v != 0;
                        }
                      };
                      if (out[0].dtype() == DType::kF32) check(out[0].values<float>());
                      if (out[0].dtype() == DType::kF64) check(out[0].values<double>());
                      // Five standard errors of the sample.
                      CHECK(kept / 39960.0 == Approx(0.75).margin(0.011));
                    }});
  cases->push_back({.op = "Dropout",
                    .label = "its gradient is of what is kept",
                    .inputs = {RandomF32({3, 7}, 21)},
                    .attrs = {{"rate", 0.5}, {"seed", 3}},
                    .differentiate = {0}});
  cases->push_back({.op = "Dropout",
                    .label = "a rate of 0 keeps all",
                    .inputs = {F32({3}, {1, -2, 3})},
                    .attrs = {{"rate", 0}},
                    .expected = {F32({3}, {1, -2, 3})}});
}

}  // namespace coxswain::testing
