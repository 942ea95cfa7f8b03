#include "runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/checkpoint/crc32.h"
#include "runtime/checkpoint/message_json.h"
#include "runtime/tensor/limits.h"

namespace coxswain::checkpoint {
namespace {

const char* FormatName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF64:
      return "F64";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
    case DType::kBool:
      return "BOOL";
    case DType::kBF16:
      return "BF16";
    case DType::kInvalid:
      break;
  }
  return "";
}

absl::StatusOr<DType> ParseFormatName(const std::string& name) {
  for (DType d : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kBool, DType::kBF16}) {
    if (name == FormatName(d)) return d;
  }
  return absl::DataLossError(absl::StrCat("dtype '", name, "' is not known here"));
}

absl::Status Corrupt(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path, ": not a whole safetensors file: ", why));
}

// Lists and objects within each other that a header may have; the format needs 3. The JSON library
// copies values by recursion.
constexpr int kHeaderDepth = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    env::FileSystem* files, const std::string& path, std::vector<SafetensorsEntry> entries,
    const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  auto& fields = header.get_ref<nlohmann::ordered_json::object_t&>();
  fields.reserve(entries.size() + 1);
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const SafetensorsEntry& e : entries) {
    const uint64_t bytes = static_cast<uint64_t>(e.shape.num_elements()) * SizeOf(e.dtype);
    const std::vector<int64_t> dims(e.shape.dims().begin(), e.shape.dims().end());
    // Names differ: nothing has to look for one.
    fields.push_back({e.name, nlohmann::ordered_json{{"dtype", FormatName(e.dtype)},
                                                     {"shape", dims},
                                                     {"data_offsets", {offset, offset + bytes}}}});
    offset += bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // So that a mapped file's tensors are aligned, and aligned memory goes to the disk as it is.
  text.resize((text.size() + 8 + env::kDirectBlock - 1) / env::kDirectBlock * env::kDirectBlock - 8,
              ' ');
  ASSIGN_OR_RETURN(auto file, files->CreateLarge(path));
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(std::move(file), offset));
  const uint64_t length = text.size();
  RETURN_IF_ERROR(writer->Write(&length, sizeof(length)));
  RETURN_IF_ERROR(writer->Write(text.data(), text.size()));
  return writer;
}

absl::Status SafetensorsWriter::Write(const void* data, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(file_->Append(data, bytes));
  bytes_ += bytes;
  crc32_ = Crc32(crc32_, data, bytes);
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Append(const void* data, size_t bytes) {
  if (bytes > left_) return absl::InternalError("more bytes than the tensors have");
  left_ -= bytes;
  return Write(data, bytes);
}

absl::Status SafetensorsWriter::Finish() {
  if (left_ != 0) return absl::InternalError(absl::StrCat(left_, " bytes of tensors are missing"));
  RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(env::FileSystem* files,
                                                      const std::string& path) {
  ASSIGN_OR_RETURN(const Buffer content, files->Map(path));
  return Parse(content, path);
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         uint64_t data_bytes,
                                                         const std::string& path) {
  // An ordered object looks at all other names for each, of which there may be a million.
  using nlohmann::json;
  if (!JsonDepthIsAtMost(text, kHeaderDepth))
    return Corrupt(path, "the header is nested too deeply");
  std::vector<std::string> names;
  const auto note = [&names](int depth, json::parse_event_t event, json& parsed) {
    if (depth == 1 && event == json::parse_event_t::key) names.push_back(parsed.get<std::string>());
    return true;
  };
  const auto object = json::parse(text.begin(), text.end(), note, false);
  if (!object.is_object()) return Corrupt(path, "the header is not JSON");
  SafetensorsHeader header;
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) continue;
    const json& value = object.at(name);
    if (name == "__metadata__") {
      if (!value.is_object()) continue;
      for (const auto& [key, entry] : value.items()) {
        if (entry.is_string()) header.metadata[key] = entry.get<std::string>();
      }
      continue;
    }
    const auto& offsets = value.is_object() ? value.value("data_offsets", json()) : json();
    const auto& shape = value.is_object() ? value.value("shape", json()) : json();
    const auto is_integer = [](const auto& v) { return v.is_number_integer(); };
    if (!offsets.is_array() || offsets.size() != 2 || !shape.is_array() ||
        !std::all_of(offsets.begin(), offsets.end(), is_integer) ||
        !std::all_of(shape.begin(), shape.end(), is_integer) || !value.contains("dtype") ||
        !value["dtype"].is_string()) {
      return Corrupt(path, absl::StrCat("tensor '", name, "' is described badly"));
    }
    auto dtype = ParseFormatName(value["dtype"].get<std::string>());
    if (!dtype.ok()) return Annotate(dtype.status(), path);
    const auto dims = shape.get<std::vector<int64_t>>();
    const uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    Shape tensor_shape(absl::MakeConstSpan(dims));
    const auto elements = CheckedElements(tensor_shape);
    if (!elements.ok()) {
      return Corrupt(path, absl::StrCat("tensor '", name, "': ", elements.status().message()));
    }
    if (begin > end || end > data_bytes ||
        end - begin != static_cast<uint64_t>(*elements) * SizeOf(*dtype)) {
      return Corrupt(path, absl::StrCat("tensor '", name, "' wants bytes ", begin, " to ", end,
                                        " of ", data_bytes));
    }
    header.entries.push_back({name, *dtype, std::move(tensor_shape)});
    header.places.push_back({begin, end});
  }
  return header;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Parse(const Buffer& content,
                                                       const std::string& path) {
  const size_t size = content.size();
  if (size < 8) return Corrupt(path, "it has no header");
  const char* memory = static_cast<const char*>(content.data());
  uint64_t length = 0;
  std::memcpy(&length, memory, sizeof(length));
  if (length > size - 8) return Corrupt(path, "the header is cut off");
  if (length > kMaxSafetensorsHeader) {
    return Corrupt(path, absl::StrCat("a header of ", length, " bytes, more than the format has"));
  }
  SafetensorsFile file;
  file.path_ = path;
  file.content_ = content.Slice(8 + length, size - 8 - length);
  ASSIGN_OR_RETURN(file.header_,
                   ParseSafetensorsHeader({memory + 8, length}, file.content_.size(), path));
  return file;
}

absl::StatusOr<Tensor> SafetensorsFile::Read(const std::string& name) const {
  for (size_t i = 0; i < header_.entries.size(); ++i) {
    const SafetensorsEntry& entry = header_.entries[i];
    if (entry.name != name) continue;
    const SafetensorsHeader::Place place = header_.places[i];
    auto tensor = TensorFromBytes(entry.dtype, entry.shape,
                                  content_.Slice(place.begin, place.end - place.begin));
    if (!tensor.ok()) return Annotate(tensor.status(), path_);
    return tensor;
  }
  return absl::NotFoundError(absl::StrCat(path_, ": no tensor '", name, "'"));
}

}  // namespace coxswain::checkpoint
