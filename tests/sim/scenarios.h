// The kinds of worlds that are tested.
#pragma once

#include "tests/sim/scenario.h"

namespace coxswain::sim {

// Only workers fail.
Scenario WorkerFaults(Random* random);
Scenario PackedClosures(Random* random);
// Nothing fails, but PS compute for seconds at a time, longer than any lease and timeout.
Scenario LongSegments(Random* random);
// Messages have a bound, and some closures ask for larger ones.
Scenario BoundedMessages(Random* random);
// A closure breaks the connection to each PS that gets its frames.
Scenario TornFrames(Random* random);
// Several workers at a time fail; sometimes a closure kills those that get it.
Scenario WavesOfPreemptions(Random* random);
// Parameter servers fail too; the job goes back to checkpoints or to its beginning.
Scenario PsFaults(Random* random);
// The same, tables and synchronous steps; the program reads all once its closures are over, and
// parameter servers fail just then.
Scenario ReadsAtOnce(Random* random);
Scenario AcceptedLoss(Random* random);
// The coordinator fails too, and is started again, perhaps with another number of PS; sometimes the
// old one stands still and goes on later.
Scenario CoordinatorFaults(Random* random);
// Others want the cluster too: they start when they like, often at the moment at which the job's
// next coordinator does, and hold it for a while if they get it.
Scenario Rivals(Random* random);
// Disks that are full or rot, processes that die while they save or restore.
Scenario DiskFaults(Random* random);
// Tables, checkpoints that follow one another closely, each with what the one before lacks.
Scenario DeltaChains(Random* random);
// Synchronous training under all of this.
Scenario SynchronousFit(Random* random);
// Each example is used once an epoch.
Scenario VisitedExamples(Random* random);
// The same two with hash tables, whose rows come and go.
Scenario HashVisits(Random* random);
// Visits whose closures have groups, as those of streamed data have.
Scenario GroupedVisits(Random* random);
Scenario HashFit(Random* random);
// Synchronous training of a table of any kind: f32 or bf16, any optimizer and schedule.
Scenario TableFit(Random* random);
// The program writes rows itself, at any time, also before its first checkpoint.
Scenario RowWrites(Random* random);
// The coordinator stands still again and again, and nothing else fails.
Scenario PausedCoordinator(Random* random);
// Workers join, leave and come back at other addresses.
Scenario ElasticWorkers(Random* random);
// Closures, frames, requests and the replies to them are lost while pings are answered; closures
// that hang.
Scenario SwallowedMessages(Random* random);
// Synchronous steps under all faults; and closures that may be behind by little.
Scenario SynchronousSteps(Random* random);
// Synchronous steps, or parameter servers that fail; and the program starts its checkpoints again
// and again, which is refused, and saves.
Scenario StartedTwice(Random* random);
// Each closure of a step is an update of its own, in the order of the closures: what deterministic
// training makes of `async`.
Scenario InOrderSteps(Random* random);
// As many closures a step as there are workers, and nothing fails.
constexpr int64_t kQuietSteps = 40;
Scenario QuietSteps(Random* random);
// The same of updates that are applied as they come; closures take long beside messages.
Scenario QuietGroups(Random* random);
// Synchronous steps that take less time than the coordinator needs to hand out the next one.
Scenario ShortSteps(Random* random);
// Those that do without their slowest closures, and those that are applied in any order.
Scenario BackupSteps(Random* random);
Scenario FreeSteps(Random* random);
Scenario BoundedStaleness(Random* random);
// The program cancels closures, and gives them deadlines that are short.
Scenario EndedEarly(Random* random);
// Closures take numbers from a counter; only workers fail.
Scenario NumberedSteps(Random* random);
// The same where all may be lost, with numbers that mark rows of several tables.
Scenario NumbersAndLosses(Random* random);
// Closures look up in values that each worker holds.
Scenario HeldValues(Random* random);
// One of the kinds above, on workers that have GPUs, of which some are lost.
Scenario GpuWorkers(Random* random);
// Others, on PS that keep their tables in the memory of GPUs where they can be there.
Scenario GpuTables(Random* random);
// All faults, several times as many; packed closures.
Scenario Storm(Random* random);
// 1,000 workers and 50 PS; thousands of preemptions in three days. For one seed.
Scenario BigCluster(Random* random);

}  // namespace coxswain::sim
