// The pass over a large data set by several processes: workers read its parts, and the coordinator
// puts together what they find, in the order of the files. The index is that of one process, to the
// byte.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/index_builder.h"

namespace coxswain::data {

class IndexDraft;  // index_draft.h

// The workers of a pass, by number. Thread model: calls come from one thread.
class PartReaders {
 public:
  virtual ~PartReaders() = default;
  virtual int count() = 0;
  // Passes it on to a worker. `done` is called once, on any thread, maybe before Ask returns, and
  // maybe when this is gone. Errors: with a cause that IsLost knows where the worker is not there
  // or does not answer any more; else those of the worker, with its name.
  using Done = std::function<void(absl::StatusOr<proto::PartIndexed>)>;
  virtual void Ask(int worker, proto::IndexPart request, Done done) = 0;
};

// The pass is over for this worker: it forgets what is left.
void EndPass(PartReaders* readers, int worker);

// Reads the rows of a checked spec by the workers of `options` into `draft`, which goes by the same
// spec and options. Errors: as BuildIndexOnWorkers.
absl::Status ReadByWorkers(const proto::DatasetSpec& spec, const IndexOptions& options,
                           IndexDraft* draft);

// BuildIndex with the workers of `options`. Parts of a worker that is lost are read by others, and
// what no worker can do is done here. Memory: what is found in a few parts, and the vocabularies.
// Errors: those of BuildIndex, with the same texts; those of a worker that cannot read what this
// process can, with its name.
absl::StatusOr<proto::DatasetIndex> BuildIndexOnWorkers(const proto::DatasetSpec& spec,
                                                        const IndexOptions& options);

}  // namespace coxswain::data
