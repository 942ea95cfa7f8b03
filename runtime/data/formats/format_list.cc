#include "runtime/data/formats/format_list.h"

#include "runtime/base/logging.h"
#include "runtime/data/row_search.h"

namespace coxswain::data {

absl::StatusOr<int64_t> DataFormat::FindRow(const proto::DatasetSpec&,
                                            absl::Span<const std::string>,
                                            const env::RandomAccessFile& file, int64_t,
                                            int64_t at) const {
  return FindLine(file, at);
}

const std::vector<const DataFormat*>& AllDataFormats() {
#define COX_FORMAT(file, name) &name##Files(),
  static const auto* const all = new std::vector<const DataFormat*>{COX_DATA_FORMATS(COX_FORMAT)};
#undef COX_FORMAT
  return *all;
}

const DataFormat* FindDataFormat(absl::string_view name) {
  for (const DataFormat* format : AllDataFormats()) {
    if (name == format->name()) return format;
  }
  return nullptr;
}

const DataFormat& FormatOf(const proto::DatasetSpec& spec) {
  const DataFormat* const format = FindDataFormat(spec.format());
  COX_CHECK(format != nullptr, spec.format());
  return *format;
}

}  // namespace coxswain::data
