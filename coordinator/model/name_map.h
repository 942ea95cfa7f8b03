// Which names of a saved model are which of a job, where they are others (--init-map).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/job/job_spec.h"

namespace coxswain::model {

// Thread model: immutable.
class NameMap {
 public:
  struct Entry {
    std::string old_name, new_name;  // in the model, and in the job
  };

  NameMap() = default;  // all names stay
  // Of texts "old=new". Errors: InvalidArgument for another text, and for a new name that is there
  // twice.
  static absl::StatusOr<NameMap> Parse(const std::vector<std::string>& texts);

  const std::vector<Entry>& entries() const { return entries_; }
  // The feature of the model whose values are those of the job's.
  std::string OldFeature(const std::string& feature) const;
  // The model's variable that the job's begins with. An entry counts for a variable of its name;
  // for all tables of a feature of its name (`film` for `film_linear`), and a number's weights
  // (`wide/age`); and for all variables below
  // its name (`deep` for `deep/layer_0/kernel`), in this order. `used`: which entry it was, -1:
  // none.
  std::string OldVariable(const job::JobSpec& job, const std::string& variable, int* used) const;

 private:
  int Find(absl::string_view new_name) const;  // -1: there is none

  std::vector<Entry> entries_;
};

}  // namespace coxswain::model
