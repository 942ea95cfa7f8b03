// Ranks that follow Zipf's law, without a table: any number of them in constant memory.
//
// Thread model: immutable.
#pragma once

#include <cstdint>

#include "runtime/data/hash.h"

namespace coxswain::generate {

// The random numbers of one row: the same whatever rows came before it. Thread model: a value.
class RowRandom {
 public:
  RowRandom(uint64_t key, int64_t row) : state_(data::HashPair(key, static_cast<uint64_t>(row))) {}
  uint64_t Bits() { return Mix64(state_ += 0x9e3779b97f4a7c15u); }
  // In (0, 1): never 0, so that its logarithm is finite.
  double Uniform() { return (static_cast<double>(Bits() >> 12) + 0.5) * 0x1p-52; }
  double Normal();  // of mean 0 and deviation 1

 private:
  uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

// Rank r of 0 .. count-1 has a probability proportional to (r + 1)^-exponent. By inverting the
// integral over that density and rejecting the little that is too much (Hörmann and Derflinger,
// 1996); one or two tries a draw. count >= 1, exponent >= 0.
class Zipf {
 public:
  Zipf(int64_t count, double exponent);
  int64_t Draw(RowRandom* random) const;

 private:
  double Integral(double x) const;  // of t^-exponent from 1 to x
  double InverseIntegral(double y) const;
  double Density(double x) const;

  double count_;
  double exponent_;
  double low_, high_;  // of the integral
  double sure_;        // a draw so near below its rank needs no test
};

}  // namespace coxswain::generate
