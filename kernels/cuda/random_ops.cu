// Random tensors: the numbers that the CPU draws for the same step and seeds; see
// kernels/random_ops.cc.
#include "kernels/cpu/philox_block.h"
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/random_key.h"

namespace coxswain::cuda {
namespace {

struct RandomAttrs {
  uint64_t seed = 0;
  double a = 0.0, b = 1.0;    // low and high, or mean and stddev
  int64_t low = 0, high = 0;  // RandomInt's
};

RandomAttrs ReadRandom(const Node& node, const char* a, const char* b) {
  RandomAttrs attrs;
  attrs.seed = static_cast<uint64_t>(node.Integer("seed", 0));
  attrs.a = node.Number(a, 0.0);
  attrs.b = node.Number(b, 1.0);
  attrs.low = node.Integer("low", 0);
  attrs.high = node.Integer("high", 0);
  return attrs;
}

// The numbers of one run, by blocks.
struct Source {
  uint64_t key;

  COX_DEVICE kernels::PhiloxBlock Block(int64_t i) const {
    return kernels::Philox(key, static_cast<uint64_t>(i));
  }
};

Source SourceOf(const RandomAttrs& attrs, const Run& run) {
  const CoxRun& info = run.info();
  return Source{RandomKey(info.seed, attrs.seed, info.step)};
}

// Each functor makes a block's elements: out[kPerBlock i + ...], of which there are n in all.
struct Uniform {
  static constexpr int64_t kPerBlock = 4;
  Source source;
  float low, range, below_high;
  float* out;
  int64_t n;

  COX_DEVICE void operator()(int64_t i) const {
    const kernels::PhiloxBlock block = source.Block(i);
    for (int64_t k = 0; k < kPerBlock && i * kPerBlock + k < n; ++k) {
      const float unit = static_cast<float>(block[k] >> 8) * 0x1p-24f;  // [0, 1)
      const float value = Sum(low, Times(unit, range));
      out[i * kPerBlock + k] = value < below_high ? value : below_high;  // rounding may reach high
    }
  }
};

struct Normal {
  static constexpr int64_t kPerBlock = 4;
  Source source;
  double mean, stddev;
  float* out;
  int64_t n;

  COX_DEVICE void operator()(int64_t i) const {
    const kernels::PhiloxBlock block = source.Block(i);
    for (int pair = 0; pair < 2; ++pair) {
      const double u = (static_cast<double>(block[2 * pair]) + 0.5) * 0x1p-32;  // (0, 1)
      const double angle = static_cast<double>(block[2 * pair + 1]) * (0x1p-31 * M_PI);
      const double radius = sqrt(-2.0 * log(u));
      const int64_t at = i * kPerBlock + 2 * pair;
      if (at < n) out[at] = static_cast<float>(mean + stddev * (radius * cos(angle)));
      if (at + 1 < n) out[at + 1] = static_cast<float>(mean + stddev * (radius * sin(angle)));
    }
  }
};

struct Int {
  static constexpr int64_t kPerBlock = 2;
  Source source;
  uint64_t low, range;
  int64_t* out;
  int64_t n;

  COX_DEVICE void operator()(int64_t i) const {
    const kernels::PhiloxBlock block = source.Block(i);
    for (int64_t k = 0; k < kPerBlock && i * kPerBlock + k < n; ++k) {
      const uint64_t bits = uint64_t{block[2 * k]} << 32 | block[2 * k + 1];
      // The upper half of bits * range is uniform in [0, range).
      out[i * kPerBlock + k] = static_cast<int64_t>(low + UpperHalf(bits, range));
    }
  }
};

template <typename Draw>
Status RunDraw(const Run& run, const Draw& draw) {
  return ForElements(run.queue(), CeilDiv(draw.n, Draw::kPerBlock), draw);
}

Status RunUniform(const RandomAttrs& attrs, const Run& run) {
  const CoxTensor& out = run.output(0);
  const float low = static_cast<float>(attrs.a), high = static_cast<float>(attrs.b);
  return RunDraw(run, Uniform{SourceOf(attrs, run), low, high - low, nextafterf(high, low),
                              Data<float>(out), Elements(out)});
}

Status RunNormal(const RandomAttrs& attrs, const Run& run) {
  const CoxTensor& out = run.output(0);
  return RunDraw(run,
                 Normal{SourceOf(attrs, run), attrs.a, attrs.b, Data<float>(out), Elements(out)});
}

Status RunInt(const RandomAttrs& attrs, const Run& run) {
  const CoxTensor& out = run.output(0);
  const auto low = static_cast<uint64_t>(attrs.low);
  return RunDraw(run, Int{SourceOf(attrs, run), low, static_cast<uint64_t>(attrs.high) - low,
                          Data<int64_t>(out), Elements(out)});
}

MakeFunction Maker(const char* a, const char* b, Status (*run)(const RandomAttrs&, const Run&)) {
  return [a, b, run](const Node& node, OpFunction* op) {
    *op = [attrs = ReadRandom(node, a, b), run](const Run& r) { return run(attrs, r); };
    return Status();
  };
}

}  // namespace

void AddRandomOps(OpTable* table) {
  table->Add("RandomUniform", Maker("low", "high", RunUniform));
  table->Add("RandomNormal", Maker("mean", "stddev", RunNormal));
  table->Add("RandomInt", Maker("low", "high", RunInt));
}

}  // namespace coxswain::cuda
