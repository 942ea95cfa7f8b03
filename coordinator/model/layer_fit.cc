#include "coordinator/model/layer_fit.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::model {
namespace {

using Parts = std::vector<job::VariablePart>;

struct AxisFit {
  bool fits = false;
  std::vector<int64_t> from;  // for each place of the job's axis that of the model's; -1: none
  std::vector<std::string> missing;

  bool Same(int64_t saved_size) const {
    if (static_cast<int64_t>(from.size()) != saved_size) return false;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != static_cast<int64_t>(i)) return false;
    }
    return true;
  }
};

int64_t WidthOf(const Parts& parts) {
  int64_t width = 0;
  for (const job::VariablePart& part : parts) width += part.width;
  return width;
}

// Parts that stand for the same have the same key: what is made of two features is the same in any
// order.
using Key = std::pair<std::string, std::vector<std::string>>;

std::string InWords(const job::VariablePart& part) {
  const std::string of = absl::StrJoin(part.of, " x ");
  if (part.as.empty() || part.as == "number" || part.of.size() > 1) return of;
  return of.empty() ? part.as : absl::StrCat(of, " (", part.as, ")");
}

AxisFit FitAxis(const Parts& wanted, int64_t size, const Parts& saved, int64_t saved_size,
                const NameMap& names, const std::set<std::string>& others) {
  AxisFit fit;
  if (wanted.empty() && saved.empty()) {
    fit.fits = size == saved_size;
    for (int64_t i = 0; i < size; ++i) fit.from.push_back(i);
    return fit;
  }
  if (WidthOf(wanted) != size || WidthOf(saved) != saved_size) return fit;
  std::map<Key, std::pair<int64_t, int64_t>> places;  // begin and width
  int64_t begin = 0;
  for (const job::VariablePart& part : saved) {
    Key key(part.as, part.of);
    std::sort(key.second.begin(), key.second.end());
    places.emplace(std::move(key), std::make_pair(begin, part.width));
    begin += part.width;
  }
  for (const job::VariablePart& part : wanted) {
    Key key(part.as, {});
    for (const std::string& feature : part.of) key.second.push_back(names.OldFeature(feature));
    std::sort(key.second.begin(), key.second.end());
    const auto place = places.find(key);
    const bool other = std::any_of(part.of.begin(), part.of.end(), [&](const std::string& feature) {
      return others.count(feature) > 0;
    });
    const bool found = !other && place != places.end() && place->second.second == part.width;
    if (!found) fit.missing.push_back(InWords(part));
    fit.fits = fit.fits || found;
    for (int64_t i = 0; i < part.width; ++i) {
      fit.from.push_back(found ? place->second.first + i : -1);
    }
  }
  return fit;
}

int64_t Columns(const Shape& shape) { return shape.rank() > 1 ? shape.dim(1) : 1; }

}  // namespace

LayerFit FitLayer(const job::VariableInputs& wanted, const Shape& shape,
                  const job::VariableInputs& saved, const Shape& saved_shape, const NameMap& names,
                  const std::set<std::string>& others) {
  LayerFit fit;
  if (shape.rank() != saved_shape.rank() || shape.rank() < 1 || shape.rank() > 2) return fit;
  if (wanted.classes != saved.classes) return fit;
  AxisFit rows = FitAxis(wanted.rows, shape.dim(0), saved.rows, saved_shape.dim(0), names, others);
  AxisFit columns =
      FitAxis(wanted.columns, Columns(shape), saved.columns, Columns(saved_shape), names, others);
  fit.fits = rows.fits && columns.fits;
  if (!fit.fits) return fit;
  fit.missing = rows.missing;
  // A matrix between the features and themselves lacks the same ones twice.
  for (std::string& name : columns.missing) {
    const auto end = fit.missing.end();
    if (std::find(fit.missing.begin(), end, name) == end) fit.missing.push_back(std::move(name));
  }
  const bool same_columns = columns.Same(Columns(saved_shape));
  if (same_columns && rows.Same(saved_shape.dim(0))) return fit;
  fit.map.emplace();
  fit.map->rows = std::move(rows.from);
  if (!same_columns) fit.map->columns = std::move(columns.from);
  return fit;
}

}  // namespace coxswain::model
