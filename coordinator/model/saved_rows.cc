// Where rows lie in shards' files, reading them in the order of a variable, and numbers from one
// type to another.
#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

constexpr size_t kBlockBytes = 4 << 20;
// Bytes that are read along rather than left out.
constexpr size_t kMixedGapBytes = 16 << 10;
// Parts of a shard, see ps_server/shard_parts.h.
constexpr char kTouched[] = "touched", kCount[] = "count", kUsed[] = "used";

template <typename From, typename To>
void ConvertAs(const char* from, int64_t count, To* to) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + static_cast<size_t>(i) * sizeof(From), sizeof(From));
    if constexpr (std::is_same_v<From, BFloat16>) {
      to[i] = static_cast<To>(value.ToFloat());
    } else {
      to[i] = static_cast<To>(value);
    }
  }
}

template <typename To>
void Convert(DType dtype, const char* from, int64_t count, To* to) {
  switch (dtype) {
    case DType::kF32:
      return ConvertAs<float>(from, count, to);
    case DType::kF64:
      return ConvertAs<double>(from, count, to);
    case DType::kI32:
      return ConvertAs<int32_t>(from, count, to);
    case DType::kI64:
      return ConvertAs<int64_t>(from, count, to);
    case DType::kBool:
      return ConvertAs<uint8_t>(from, count, to);
    case DType::kBF16:
      return ConvertAs<BFloat16>(from, count, to);
    case DType::kInvalid:
      break;
  }
}

}  // namespace

int64_t SavedRows::block_rows() const {
  return std::max<int64_t>(1, static_cast<int64_t>(kBlockBytes / std::max<size_t>(1, row_bytes())));
}

absl::Status SavedRows::ReadPart(const std::string& tensor, size_t width, int64_t begin,
                                 int64_t count, char* out) const {
  if (begin < 0 || count < 0 || begin > rows_ || count > rows_ - begin) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": wanted rows ", begin, " to ", begin + count,
                                              " of variable '", variable_.name, "', it has ",
                                              rows_));
  }
  if (count == 0 || width == 0) return absl::OkStatus();  // `out` may be null
  if (mix_) return ReadMixed(tensor, width, begin, count, out);
  if (interleaved_) {
    const int64_t n = static_cast<int64_t>(pieces_.size());
    std::string block;
    for (int64_t s = 0; s < n; ++s) {
      // The first position at or past `begin` that is this piece's.
      const int64_t first = begin + ((s - begin) % n + n) % n;
      if (first >= begin + count) continue;
      const int64_t rows = (begin + count - first + n - 1) / n;
      block.resize(static_cast<size_t>(rows) * width);
      RETURN_IF_ERROR(pieces_[static_cast<size_t>(s)].files->Read(tensor, width, first / n, rows,
                                                                  block.data()));
      for (int64_t i = 0; i < rows; ++i) {
        std::memcpy(out + static_cast<size_t>(first - begin + i * n) * width,
                    block.data() + static_cast<size_t>(i) * width, width);
      }
    }
    return absl::OkStatus();
  }
  for (auto piece = pieces_.begin() + ShardOf(begin); count > 0; ++piece) {
    const int64_t skip = begin - piece->begin;
    const int64_t rows = std::min(count, piece->rows - skip);
    if (rows <= 0) continue;  // a shard may have none
    RETURN_IF_ERROR(piece->files->Read(tensor, width, skip, rows, out));
    out += static_cast<size_t>(rows) * width;
    begin += rows;
    count -= rows;
  }
  return absl::OkStatus();
}

// Rows of a "hash" variable lie anywhere: they are read in the order in which they lie, those near
// to each other at once.
absl::Status SavedRows::ReadMixed(const std::string& tensor, size_t width, int64_t begin,
                                  int64_t count, char* out) const {
  struct Want {
    int64_t piece, local, at;
  };
  std::vector<Want> wanted(static_cast<size_t>(count));
  const int64_t n = shards();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = mix_->Place(begin + i);
    wanted[static_cast<size_t>(i)] = {place % n, place / n, i};
  }
  std::sort(wanted.begin(), wanted.end(), [](const Want& a, const Want& b) {
    return a.piece != b.piece ? a.piece < b.piece : a.local < b.local;
  });
  const int64_t gap = static_cast<int64_t>(kMixedGapBytes / width);
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(kBlockBytes / width));
  std::string block;
  for (size_t i = 0; i < wanted.size();) {
    const Want& first = wanted[i];
    size_t end = i + 1;
    while (end < wanted.size() && wanted[end].piece == first.piece &&
           wanted[end].local - wanted[end - 1].local <= gap + 1 &&
           wanted[end].local - first.local < most) {
      ++end;
    }
    const int64_t rows = wanted[end - 1].local - first.local + 1;
    block.resize(static_cast<size_t>(rows) * width);
    RETURN_IF_ERROR(pieces_[static_cast<size_t>(first.piece)].files->Read(
        tensor, width, first.local, rows, block.data()));
    for (size_t w = i; w < end; ++w) {
      std::memcpy(out + static_cast<size_t>(wanted[w].at) * width,
                  block.data() + static_cast<size_t>(wanted[w].local - first.local) * width, width);
    }
    i = end;
  }
  return absl::OkStatus();
}

absl::Status SavedRows::Read(int64_t begin, int64_t count, void* out) const {
  return ReadPart(values_, row_bytes(), begin, count, static_cast<char*>(out));
}

absl::Status SavedRows::ReadFloats(int64_t begin, int64_t count, float* out) const {
  if (variable_.dtype == DType::kF32) return Read(begin, count, out);
  const int64_t n = std::max<int64_t>(0, count);
  std::string raw(static_cast<size_t>(n) * row_bytes(), '\0');
  RETURN_IF_ERROR(Read(begin, count, raw.data()));
  Convert(variable_.dtype, raw.data(), n * row_elements_, out);
  return absl::OkStatus();
}

absl::Status SavedRows::ReadDoubles(int64_t begin, int64_t count, double* out) const {
  const int64_t n = std::max<int64_t>(0, count);
  std::string raw(static_cast<size_t>(n) * row_bytes(), '\0');
  RETURN_IF_ERROR(Read(begin, count, raw.data()));
  Convert(variable_.dtype, raw.data(), n * row_elements_, out);
  return absl::OkStatus();
}

absl::Status SavedRows::ReadIds(int64_t begin, int64_t count, int64_t* ids) const {
  if (variable_.hash) {
    return ReadPart(ids_, sizeof(int64_t), begin, count, reinterpret_cast<char*>(ids));
  }
  RETURN_IF_ERROR(ReadPart(values_, 0, begin, count, nullptr));  // checks the range
  for (int64_t i = 0; i < count; ++i) ids[i] = begin + i;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SavedRows::FindId(int64_t id) const {
  if (!variable_.hash) return id >= 0 && id < rows_ ? id : -1;
  std::vector<int64_t> ids(kBlockBytes / sizeof(int64_t));
  for (int64_t begin = 0; begin < rows_; begin += static_cast<int64_t>(ids.size())) {
    const int64_t n = std::min<int64_t>(static_cast<int64_t>(ids.size()), rows_ - begin);
    RETURN_IF_ERROR(ReadIds(begin, n, ids.data()));
    auto found = std::find(ids.begin(), ids.begin() + n, id);
    for (; found != ids.begin() + n; found = std::find(found + 1, ids.begin() + n, id)) {
      // A free place has something else there.
      const int64_t position = begin + (found - ids.begin());
      char live = 0;
      RETURN_IF_ERROR(ReadLive(position, 1, &live));
      if (live) return position;
    }
  }
  return -1;
}

absl::Status SavedRows::ReadTouched(int64_t begin, int64_t count, int64_t* out) const {
  if (!has_touched_) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": nothing says when rows of variable '", variable_.name, "' were updated"));
  }
  const DType dtype = pieces_[0].files->Find(kTouched)->dtype;
  std::string raw(static_cast<size_t>(std::max<int64_t>(0, count)) * SizeOf(dtype), '\0');
  RETURN_IF_ERROR(ReadPart(kTouched, SizeOf(dtype), begin, count, raw.data()));
  Convert(dtype, raw.data(), count, out);
  return absl::OkStatus();
}

absl::Status SavedRows::ReadUses(int64_t begin, int64_t count, cluster::RowUse* out) const {
  if (!has_uses_) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": nothing says how rows of variable '", variable_.name, "' were used"));
  }
  if (!has_free_rows_) {
    return ReadPart(kUsesPart, sizeof(*out), begin, count, reinterpret_cast<char*>(out));
  }
  std::vector<int32_t> counts(static_cast<size_t>(count));
  std::vector<int64_t> used(static_cast<size_t>(count));
  RETURN_IF_ERROR(
      ReadPart(kCount, sizeof(int32_t), begin, count, reinterpret_cast<char*>(counts.data())));
  if (pieces_[0].files->Find(kUsed) != nullptr) {
    RETURN_IF_ERROR(
        ReadPart(kUsed, sizeof(int64_t), begin, count, reinterpret_cast<char*>(used.data())));
  } else {
    RETURN_IF_ERROR(ReadTouched(begin, count, used.data()));
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    out[i] = {counts[at], std::max<int64_t>(0, applied(ShardOf(begin + i)) - used[at]), 0};
  }
  return absl::OkStatus();
}

absl::Status SavedRows::ReadLive(int64_t begin, int64_t count, char* live) const {
  std::fill(live, live + count, 1);
  if (!has_free_rows_) return absl::OkStatus();
  std::vector<int32_t> counts(static_cast<size_t>(count));
  RETURN_IF_ERROR(
      ReadPart(kCount, sizeof(int32_t), begin, count, reinterpret_cast<char*>(counts.data())));
  for (size_t i = 0; i < counts.size(); ++i) live[i] = counts[i] > 0;
  return absl::OkStatus();
}

int64_t SavedRows::ShardOf(int64_t position) const {
  if (mix_) return mix_->Place(position) % shards();
  if (interleaved_) return position % shards();
  const auto next = std::upper_bound(pieces_.begin(), pieces_.end(), position,
                                     [](int64_t row, const Piece& p) { return row < p.begin; });
  return std::max<int64_t>(0, next - pieces_.begin() - 1);
}

absl::Status SavedRows::Verify() const {
  for (const Piece& piece : pieces_) RETURN_IF_ERROR(piece.files->Verify());
  return absl::OkStatus();
}

absl::Status SavedRows::CheckPart(const Piece& piece, const std::string& tensor, DType dtype,
                                  const Shape& shape) const {
  const checkpoint::SafetensorsEntry* found = piece.files->Find(tensor);
  if (found == nullptr) {
    return absl::DataLossError(absl::StrCat(piece.files->path(), ": no tensor '", tensor, "'"));
  }
  if (found->dtype == dtype && found->shape == shape) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(piece.files->path(), ": wanted tensor '", tensor, "' as ",
                                          DTypeName(dtype), shape.ToString(), ", found ",
                                          DTypeName(found->dtype), found->shape.ToString()));
}

bool SavedRows::HasUses() const {
  return std::all_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) {
    const checkpoint::SafetensorsEntry* const uses = piece.files->Find(kUsesPart);
    return uses != nullptr && uses->dtype == DType::kI64 &&
           uses->shape == Shape{piece.rows, cluster::kUseNumbers};
  });
}

// Positions, and whether the files hold what the variable says.
absl::Status SavedRows::Finish(std::string path) {
  path_ = std::move(path);
  const int rank = variable_.shape.rank();
  for (int i = 1; i < rank; ++i) {
    if (__builtin_mul_overflow(row_elements_, variable_.shape.dim(i), &row_elements_)) {
      return absl::DataLossError(absl::StrCat(path_, ": variable '", variable_.name,
                                              "' has the shape ", variable_.shape.ToString()));
    }
  }
  if (rank == 0) {
    rows_ = 1;
    if (pieces_.size() != 1) {
      return absl::DataLossError(
          absl::StrCat(path_, ": scalar '", variable_.name, "' has ", pieces_.size(), " shards"));
    }
    pieces_[0].rows = 1;
    return CheckPart(pieces_[0], values_, variable_.dtype, variable_.shape);
  }
  has_touched_ = variable_.table && !pieces_.empty();
  std::set<int64_t> widths;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    const checkpoint::SafetensorsEntry* values = piece.files->Find(values_);
    if (variable_.hash && values != nullptr && values->shape.rank() > 0) {
      piece.rows = values->shape.dim(0);
    }
    if (!interleaved_) piece.begin = rows_;
    Shape shape = variable_.shape;
    shape.set_dim(0, piece.rows);
    RETURN_IF_ERROR(CheckPart(piece, values_, variable_.dtype, shape));
    if (variable_.hash) RETURN_IF_ERROR(CheckPart(piece, ids_, DType::kI64, Shape{piece.rows}));
    if (has_free_rows_) {
      RETURN_IF_ERROR(CheckPart(piece, kCount, DType::kI32, Shape{piece.rows}));
    }
    const checkpoint::SafetensorsEntry* touched = piece.files->Find(kTouched);
    has_touched_ = has_touched_ && touched != nullptr && touched->shape == Shape{piece.rows} &&
                   IsInteger(touched->dtype);
    if (touched != nullptr) widths.insert(static_cast<int64_t>(SizeOf(touched->dtype)));
    rows_ += piece.rows;
  }
  has_touched_ = has_touched_ && widths.size() == 1;
  has_uses_ = variable_.hash && (has_free_rows_ ? has_touched_ : HasUses());
  if (variable_.hash) {
    variable_.shape.set_dim(0, rows_);
  } else if (rows_ != variable_.shape.dim(0)) {
    return absl::DataLossError(absl::StrCat(path_, ": wanted ", variable_.shape.dim(0),
                                            " rows of variable '", variable_.name,
                                            "', its files have ", rows_));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::model
