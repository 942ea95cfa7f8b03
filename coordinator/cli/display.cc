// Numbers and bars as text, the progress line, and the texts for evaluations, events and results.
#include "coordinator/cli/display.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/count_text.h"
#include "runtime/data/names.h"
#include "runtime/data/stream/stream_options.h"

namespace coxswain::cli {
namespace {

constexpr absl::Duration kPlainInterval = absl::Seconds(5);
constexpr int kBarWidth = 24;

// `fraction` of `width` cells in blocks; UTF-8.
std::string Bar(double fraction, int width, bool pad) {
  const int full = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * width));
  std::string bar;
  for (int i = 0; i < full; ++i) bar += "█";
  for (int i = full; pad && i < width; ++i) bar += "░";
  return bar;
}

std::string Metrics(const runner::Evaluation& evaluation) {
  return absl::StrJoin(evaluation.metrics, ", ", [&](std::string* out, const auto& m) {
    absl::StrAppend(out, m.first, " ", FormatMetric(evaluation, m.first));
  });
}

}  // namespace

std::string WithCommas(int64_t number) {
  std::string digits = absl::StrCat(std::abs(number)), text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return number < 0 ? "-" + text : text;
}

std::string FormatMetric(const runner::Evaluation& evaluation, const std::string& name) {
  const auto why = evaluation.undefined.find(name);
  if (why != evaluation.undefined.end()) return absl::StrCat("undefined: ", why->second);
  const std::string value = absl::StrFormat("%.4f", evaluation.metrics.at(name));
  const auto interval = evaluation.intervals.find(name);
  if (interval == evaluation.intervals.end()) return value;
  return absl::StrFormat("%s [%.4f, %.4f]", value, interval->second.low, interval->second.high);
}

std::string FormatWordCounts(const std::map<std::string, int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [key, noun] :
       {std::pair{"analogy_questions", "questions"}, std::pair{"word_pairs", "pairs"}}) {
    const auto used = counts.find(key), skipped = counts.find(absl::StrCat(key, "_skipped"));
    if (used == counts.end() || skipped == counts.end()) continue;
    parts.push_back(absl::StrCat(WithCommas(used->second), " of ",
                                 WithCommas(used->second + skipped->second), " ", noun));
  }
  const auto held_out = counts.find("held_out_pairs");
  if (held_out != counts.end()) {
    parts.push_back(absl::StrCat(WithCommas(held_out->second), " held-out pairs"));
  }
  return absl::StrJoin(parts, ", ");
}

std::string AsClock(double seconds) {
  const int64_t s = std::max<int64_t>(0, std::llround(seconds));
  if (s >= 3600) return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
  return absl::StrFormat("%d:%02d", s / 60, s % 60);
}

Display::Display(bool quiet) : quiet_(quiet), terminal_(isatty(STDOUT_FILENO) == 1) {}

void Display::set_log_every(int64_t steps) {
  absl::MutexLock lock(&mu_);
  log_every_ = steps;
}

Display::~Display() { Clear(); }

std::string Display::Line(const runner::Progress& p) const {
  switch (p.phase) {
    case runner::Progress::Phase::kLoading:
      if (p.total_bytes == 0) return "reading the data ...";
      return absl::StrCat("indexing the data, ", BytesText(p.bytes), " of ",
                          BytesText(p.total_bytes), " ...");
    case runner::Progress::Phase::kWaiting:
      return "waiting for files ...";
    case runner::Progress::Phase::kEvaluating:
      return "evaluating ...";
    case runner::Progress::Phase::kSaving:
      return "saving the model ...";
    case runner::Progress::Phase::kCheckpointing:
      return "interrupted; writing a checkpoint ...";
    case runner::Progress::Phase::kLastCheckpoint:
      return "writing the last checkpoint ...";
    case runner::Progress::Phase::kTraining:
      break;
  }
  const double done =
      p.total_steps > 0 ? static_cast<double>(p.steps) / static_cast<double>(p.total_steps) : 0;
  std::string line = p.epochs > 0 ? absl::StrFormat("epoch %d/%d ", p.epoch, p.epochs) : "";
  if (p.total_steps > 0) {
    absl::StrAppend(&line, Bar(done, kBarWidth, true), " ", WithCommas(p.steps), "/",
                    WithCommas(p.total_steps), " steps");
  } else {
    absl::StrAppend(&line, WithCommas(p.steps), " steps");
  }
  if (p.steps > 0) {
    absl::StrAppendFormat(&line, "  %s examples/s  loss %.4f",
                          WithCommas(std::llround(p.examples_per_second)), p.loss);
    if (p.total_steps > 0) absl::StrAppendFormat(&line, "  %s left", AsClock(p.seconds_left));
  }
  return line;
}

void Display::ShowText(const std::string& text) {
  if (quiet_ || text.empty()) return;
  Clear();
  std::printf("%s", text.c_str());
  std::fflush(stdout);
}

void Display::ShowProgress(const runner::Progress& reading) {
  if (quiet_) return;
  absl::MutexLock lock(&mu_);
  runner::Progress progress = reading;
  if (progress.phase == runner::Progress::Phase::kTraining) {
    const auto rate = recent_.Add({progress.seconds, progress.steps, progress.examples});
    if (rate) progress.examples_per_second = rate->examples;
    if (rate && rate->steps > 0 && progress.total_steps > 0) {
      progress.seconds_left =
          static_cast<double>(progress.total_steps - progress.steps) / rate->steps;
    }
  }
  if (progress.epochs > 0) steps_per_epoch_ = progress.total_steps / progress.epochs;
  if (terminal_) {
    std::printf("\r\033[K%s", Line(progress).c_str());
    std::fflush(stdout);
    live_ = true;
    return;
  }
  if (progress.phase == runner::Progress::Phase::kLoading && progress.total_bytes > 0 &&
      absl::Now() - last_index_line_ >= kPlainInterval) {
    last_index_line_ = absl::Now();
    std::printf("%s\n", Line(progress).c_str());
    std::fflush(stdout);
  }
  if (progress.phase != runner::Progress::Phase::kTraining || log_every_ == 0) return;
  if (progress.trained
          ? progress.steps == last_steps_
          : last_line_ > absl::InfinitePast() && (progress.steps - last_steps_ < log_every_ ||
                                                  absl::Now() - last_line_ < kPlainInterval)) {
    return;
  }
  last_line_ = absl::Now();
  last_steps_ = progress.steps;
  std::printf("%s\n", Line(progress).c_str());
  std::fflush(stdout);
}

void Display::ShowEvaluation(const runner::Evaluation& e) {
  if (quiet_) return;
  Clear();
  const std::string of = e.counts.empty()
                             ? absl::StrCat(e.part, ", ", WithCommas(e.examples), " examples")
                             : FormatWordCounts(e.counts);
  std::string when = absl::StrCat("epoch ", e.epoch);
  {
    absl::MutexLock lock(&mu_);
    const bool within = steps_per_epoch_ > 0 && e.steps % steps_per_epoch_ != 0;
    if (within) absl::StrAppend(&when, ", step ", WithCommas(e.steps));
  }
  std::printf("%s: loss %.4f, %s (%s), %.1f s of training\n", when.c_str(), e.loss,
              Metrics(e).c_str(), of.c_str(), e.train_seconds);
  std::fflush(stdout);
}

std::string FormatEvent(const ClusterEvent& e) {
  switch (e.kind) {
    case ClusterEvent::Kind::kRecovered:
      return absl::StrCat("recovered: ", e.message);
    case ClusterEvent::Kind::kCheckpointFailed:
      // The error is either about a checkpoint to be written, or names one to be read.
      return absl::StartsWith(e.message, "checkpoint ") ? e.message
                                                        : absl::StrCat("checkpoint ", e.message);
    case ClusterEvent::Kind::kQuarantined:
      return e.message;  // it names the closure; the task is only the last of several
    default:
      return e.task.empty() ? e.message : absl::StrCat(e.task, " ", e.message);
  }
}

void Display::ShowEvent(const ClusterEvent& e) {
  bool show = !quiet_;
  switch (e.kind) {
    case ClusterEvent::Kind::kCheckpoint: {
      absl::MutexLock lock(&mu_);
      show = !quiet_ && !terminal_ && log_every_ > 0;
      break;
    }
    case ClusterEvent::Kind::kCheckpointFailed:
    case ClusterEvent::Kind::kQuarantined:
    case ClusterEvent::Kind::kWaiting:
      show = true;  // the user must act
      break;
    default:
      break;
  }
  if (!show) return;
  Clear();
  // In a log the question is when, to be held against the daemons' logs.
  const bool log = isatty(STDERR_FILENO) == 0;
  const std::string when =
      log ? absl::FormatTime("%Y-%m-%d %H:%M:%E3S ", absl::Now(), absl::LocalTimeZone()) : "";
  std::fprintf(stderr, "%s%s\n", when.c_str(), FormatEvent(e).c_str());
}

void Display::Clear() {
  absl::MutexLock lock(&mu_);
  if (!live_) return;
  std::printf("\r\033[K");
  std::fflush(stdout);
  live_ = false;
}

std::string FormatSuggestions(const std::vector<runner::Suggestions>& suggestions) {
  std::string text;
  size_t width = 0;
  for (const runner::Suggestions& s : suggestions) width = std::max(width, s.group.size());
  for (const runner::Suggestions& s : suggestions) {
    absl::StrAppendFormat(&text, "  %-*s  %s\n", static_cast<int>(width), s.group,
                          absl::StrJoin(s.items, ", "));
  }
  return text;
}

namespace {

// The slice's name on one line of a terminal, whatever the data has.
std::string SliceName(const runner::SliceMetrics& slice) {
  if (!slice.value) return "(others)";
  if (slice.value->empty()) return "(empty)";
  const std::string quoted = data::Quoted(*slice.value);
  return quoted.substr(1, quoted.size() - 2);
}

int WidthOf(const std::string& metric) {
  constexpr size_t kLeast = 12;
  return static_cast<int>(std::max(kLeast, metric.size()));
}

// Of one feature; `shown` of them, which are the largest.
std::string FormatSlicesOf(absl::Span<const runner::SliceMetrics> slices, size_t shown) {
  size_t width = slices[0].feature.size();
  for (const runner::SliceMetrics& slice : slices.subspan(0, shown)) {
    width = std::max(width, SliceName(slice).size() + 2);
  }
  std::string text =
      absl::StrFormat("\n%-*s %12s", static_cast<int>(width), slices[0].feature, "examples");
  for (const auto& [metric, value] : slices[0].metrics) {
    absl::StrAppendFormat(&text, " %*s", WidthOf(metric), metric);
  }
  for (const runner::SliceMetrics& slice : slices.subspan(0, shown)) {
    absl::StrAppendFormat(&text, "\n%-*s %12s", static_cast<int>(width), "  " + SliceName(slice),
                          WithCommas(slice.examples));
    for (const auto& [metric, value] : slice.metrics) {
      absl::StrAppendFormat(&text, " %*s", WidthOf(metric),
                            std::isnan(value) ? "undefined" : absl::StrFormat("%.4f", value));
    }
  }
  absl::StrAppend(&text, "\n");
  if (slices.size() > shown) {
    absl::StrAppend(&text, "  and ", slices.size() - shown, " smaller ones, see --report\n");
  }
  return text;
}

}  // namespace

std::string FormatSlices(const std::vector<runner::SliceMetrics>& slices) {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t begin = 0, end = 0; begin < slices.size(); begin = end) {
    while (end < slices.size() && slices[end].feature == slices[begin].feature) ++end;
    const auto of_feature = absl::MakeConstSpan(slices).subspan(begin, end - begin);
    text += FormatSlicesOf(of_feature, std::min(kShown, of_feature.size()));
  }
  return text;
}

std::string FormatResult(const runner::JobResult& r) {
  std::string text = absl::StrFormat(
      "\n%s: %s steps, %s examples in %.1f s of training (%s examples/s), %s and %s\n", r.job,
      WithCommas(r.steps), WithCommas(r.examples), r.train_seconds,
      WithCommas(r.train_seconds > 0
                     ? std::llround(static_cast<double>(r.examples) / r.train_seconds)
                     : 0),
      CountText(static_cast<uint64_t>(r.parameter_servers), "parameter server"),
      CountText(static_cast<uint64_t>(r.workers), "worker"));
  if (r.bad_rows > 0) {
    absl::StrAppend(&text, "rows of the data that were passed over (dataset.max_bad_rows): ",
                    WithCommas(r.bad_rows), "\n");
  }
  if (r.stopped_early) absl::StrAppend(&text, "stopped early; the best epoch's values are kept\n");
  const bool words = !r.evaluations.empty() && !r.evaluations.back().counts.empty();
  const std::string of =
      words ? FormatWordCounts(r.evaluations.back().counts)
            : absl::StrCat(WithCommas(r.evaluated_examples), " ", r.evaluated_part, " examples");
  for (const auto& [name, value] : r.metrics) {
    absl::StrAppendFormat(&text, "\n%s on %s\n", name, of);
    const auto base = r.baseline.find(name);
    if (base == r.baseline.end()) {
      absl::StrAppend(&text, "  model        ",
                      r.evaluations.empty() ? absl::StrFormat("%.4f", value)
                                            : FormatMetric(r.evaluations.back(), name),
                      "\n");
      continue;
    }
    const double scale = std::max({value, base->second, 1e-9});
    absl::StrAppendFormat(&text, "  model        %.3f  %s\n", value, Bar(value / scale, 40, false));
    absl::StrAppendFormat(&text, "  popularity   %.3f  %s\n", base->second,
                          Bar(base->second / scale, 40, false));
  }
  absl::StrAppend(&text, FormatSlices(r.slices));
  if (!r.suggestions.empty()) {
    absl::StrAppend(&text, "\nwhat it suggests beside what is known\n",
                    FormatSuggestions(r.suggestions));
  }
  return text;
}

}  // namespace coxswain::cli
