#include "runtime/data/arrow/plugin/file.h"

#include "runtime/data/arrow/plugin/columns.h"

namespace coxswain::data::plugin {

void File::Describe(const arrow::Schema& schema) {
  texts_.reserve(2 * static_cast<size_t>(schema.num_fields()));  // they stay where they are
  for (const auto& field : schema.fields()) {
    CoxArrowField& described = fields_.emplace_back(FieldOf(*field->type()));
    described.name = texts_.emplace_back(field->name()).c_str();
    described.type = texts_.emplace_back(field->type()->ToString()).c_str();
  }
}

}  // namespace coxswain::data::plugin
