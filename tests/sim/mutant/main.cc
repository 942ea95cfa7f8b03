// The simulator's own test, linked with a ledger that forgets everything, or with synchronous steps
// that are applied before the last closure is there, or with the closures that they were to do
// without, or with steps that wait for none where the one before was cancelled, or whose updates
// are applied in another order, or with closures that start a step too early for their bound. It
// passes only if a world is found in which that shows.
#include <cstdio>
#include <string>

#include "tests/sim/scenarios.h"

int main(int argc, char** argv) {
  using namespace coxswain::sim;
  const std::string only = argc > 1 ? argv[1] : "";
  const struct {
    const char* tag;
    MakeScenario make;
  } kinds[] = {
#if defined(COXSWAIN_MUTATE_BACKUP)
    {"[backup]", BackupSteps}
  };
  const std::string what = "the step that takes its backups too",
                    program = "test_sim_mutant_backup";
#elif defined(COXSWAIN_MUTATE_BOUNDED)
    {"[bounded]", BoundedStaleness}
  };
  const std::string what = "the closure that starts too early", program = "test_sim_mutant_bounded";
#elif defined(COXSWAIN_MUTATE_CANCELLED)
    {"[sync]", SynchronousSteps}
  };
  const std::string what = "the step that waits for nothing where the last one was cancelled",
                    program = "test_sim_mutant_cancelled";
#elif defined(COXSWAIN_MUTATE_ORDER)
    {"[in_order]", InOrderSteps}
  };
  const std::string what = "the step whose updates are applied in another order",
                    program = "test_sim_mutant_order";
#elif defined(COXSWAIN_MUTATE_SYNC)
    {"[sync]", SynchronousSteps},
    {"[free]", FreeSteps}
  };
  const std::string what = "the step that is applied too early", program = "test_sim_mutant_sync";
#else
    {"[workers]", WorkerFaults},
    {"[packed]", PackedClosures},
    {"[visits]", VisitedExamples},
    {"[fit]", SynchronousFit}
  };
  const std::string what = "the ledger that forgets", program = "test_sim_mutant";
#endif
  bool all = true;
  for (const auto& kind : kinds) {
    if (!only.empty() && only != kind.tag) continue;
    const SeedsResult result =
        RunSeeds({.tag = kind.tag, .count = 250, .program = program}, kind.make);
    const bool found = !result.violation.empty();
    std::printf("%s %s\n", kind.tag,
                (what + (found ? " is found: " + result.replay : " is NOT found")).c_str());
    all = all && found;
  }
  return all ? 0 : 1;
}
