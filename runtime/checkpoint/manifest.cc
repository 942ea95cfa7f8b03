// Conversion of each part of a manifest to and from JSON, the checks of closures and shards, and
// the file as a whole.
#include "runtime/checkpoint/manifest.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/message_json.h"
#include "runtime/checkpoint/old_optimizer.h"
#include "runtime/tensor/limits.h"

namespace coxswain::checkpoint {
namespace {

constexpr char kFormat[] = "coxswain-checkpoint";
constexpr int kVersion = 1;  // of the format; incremented when older programs would misread it
constexpr int kJobStateDepth = 100;
// A resumed job goes through all of them, one by one.
constexpr ClosureId kMostOpenClosures = ClosureId{1} << 26;

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

// The text's end, with the checksum of all before it.
std::string Tail(absl::string_view body) {
  return absl::StrCat(",\n  \"crc32\": ", Crc32(0, body.data(), body.size()), "\n}\n");
}

// A reader of one object's keys that remembers the first error.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {
    if (!json.is_object()) status_ = Bad(absl::StrCat("wanted an object, found ", Shortly(json)));
  }

  // The value of `key`; null, and an error, when it is missing.
  const Json* Get(const char* key) {
    if (!status_.ok()) return nullptr;
    const auto found = json_.find(key);
    if (found != json_.end()) return &*found;
    status_ = Bad(absl::StrCat("'", key, "' is missing"));
    return nullptr;
  }
  template <typename Int>
  void Integer(const char* key, Int* value, Int least = 0) {
    const Json* json = Get(key);
    if (json == nullptr) return;
    if (!ReadInteger(*json, value) || *value < least) {
      status_ = Bad(absl::StrCat(key, ": wanted an integer from ", least, " to ",
                                 std::numeric_limits<Int>::max(), ", found ", Shortly(*json)));
    }
  }
  void Text(const char* key, std::string* value) {
    const Json* json = Get(key);
    if (json == nullptr) return;
    if (json->is_string()) {
      *value = json->get<std::string>();
    } else {
      status_ = Bad(absl::StrCat(key, ": wanted text, found ", Shortly(*json)));
    }
  }
  // Calls `read`, which returns a status, with each element of a list.
  template <typename Read>
  void List(const char* key, const Read& read) {
    const Json* json = Get(key);
    if (json == nullptr) return;
    if (!json->is_array()) {
      status_ = Bad(absl::StrCat(key, ": wanted a list, found ", Shortly(*json)));
      return;
    }
    for (size_t i = 0; i < json->size(); ++i) {
      if (absl::Status s = read((*json)[i]); !s.ok()) {
        status_ = Annotate(s, absl::StrCat(key, "[", i, "]"));
        return;
      }
    }
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json& json_;
  absl::Status status_;
};

Json TensorToJson(const Tensor& tensor) {
  if (!tensor.has_value()) return nullptr;
  const absl::string_view bytes(static_cast<const char*>(tensor.raw()), tensor.bytes());
  return {
      {"dtype", std::string(DTypeName(tensor.dtype()))},
      {"shape", std::vector<int64_t>(tensor.shape().dims().begin(), tensor.shape().dims().end())},
      {"base64", absl::Base64Escape(bytes)}};
}

absl::StatusOr<Tensor> TensorFromJson(const Json& json) {
  if (json.is_null()) return Tensor();
  std::string dtype_name, base64;
  std::vector<int64_t> dims;
  Fields fields(json);
  fields.Text("dtype", &dtype_name);
  fields.List("shape", [&](const Json& dim) {
    dims.push_back(0);
    if (ReadInteger(dim, &dims.back()) && dims.back() >= 0) return absl::OkStatus();
    return Bad(absl::StrCat("wanted an integer from 0, found ", Shortly(dim)));
  });
  fields.Text("base64", &base64);
  RETURN_IF_ERROR(fields.status());
  ASSIGN_OR_RETURN(const DType dtype, ParseDType(dtype_name));
  std::string bytes;
  if (!absl::Base64Unescape(base64, &bytes)) return Bad("base64: it is not base64");
  const Shape shape(absl::MakeConstSpan(dims));
  if (absl::Status s = CheckedElements(shape).status(); !s.ok()) return Annotate(s, "shape");
  auto tensor = TensorFromText(dtype, shape, bytes);
  if (!tensor.ok()) return Annotate(tensor.status(), "base64");
  return tensor;
}

Json ClosureToJson(const CheckpointClosure& closure) {
  Json json = {{"id", closure.id.number()}, {"function", closure.function}};
  if (closure.has_ticket) json["ticket"] = MessageToJson(data::ToProto(closure.ticket));
  json["steps"] = closure.steps;
  json["seed"] = closure.seed;
  json["after"] = closure.after.number();
  if (closure.sync) {
    json["step"] = {{"first", closure.sync.first.number()},
                    {"count", closure.sync.count},
                    {"mean", closure.sync.mean}};
    if (closure.sync.backup > 0) json["step"]["backup"] = closure.sync.backup;
    if (closure.sync.free) json["step"]["free"] = true;
    if (closure.sync.each) json["step"]["each"] = true;
  }
  json["arguments"] = Json::array();
  for (const Tensor& t : closure.arguments) json["arguments"].push_back(TensorToJson(t));
  return json;
}

absl::Status SyncFromJson(const Json& json, ClosureId closure, SyncStep* sync) {
  Fields fields(json);
  fields.Integer("first", &sync->first);
  fields.Integer("count", &sync->count);
  if (json.contains("backup")) fields.Integer("backup", &sync->backup);
  RETURN_IF_ERROR(fields.status());
  for (const auto& [key, flag] : {std::make_pair("free", &sync->free), {"each", &sync->each}}) {
    const auto found = json.find(key);
    if (found == json.end()) continue;
    if (!found->is_boolean()) return Bad(absl::StrCat(key, ": wanted true or false"));
    *flag = found->get<bool>();
  }
  const auto mean = json.find("mean");
  if (mean == json.end() || !mean->is_boolean()) return Bad("mean: wanted true or false");
  sync->mean = mean->get<bool>();
  if (IsPossible(*sync, closure)) return absl::OkStatus();
  return Bad(absl::StrCat("closure ", closure, " is not one of ", sync->count, " from ",
                          sync->first, " on"));
}

absl::StatusOr<CheckpointClosure> ClosureFromJson(const Json& json) {
  CheckpointClosure closure;
  Fields fields(json);
  fields.Integer("id", &closure.id, ClosureId{1});
  fields.Text("function", &closure.function);
  fields.Integer("steps", &closure.steps, uint32_t{1});
  fields.Integer("seed", &closure.seed);
  fields.Integer("after", &closure.after);
  fields.List("arguments", [&closure](const Json& argument) -> absl::Status {
    ASSIGN_OR_RETURN(Tensor tensor, TensorFromJson(argument));
    closure.arguments.push_back(std::move(tensor));
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(fields.status());
  if (const auto step = json.find("step"); step != json.end()) {
    if (absl::Status s = SyncFromJson(*step, closure.id, &closure.sync); !s.ok()) {
      return Annotate(s, "step");
    }
  }
  if (const auto ticket = json.find("ticket"); ticket != json.end()) {
    proto::TicketProto proto;
    if (absl::Status s = MessageFromJson(*ticket, &proto); !s.ok()) return Annotate(s, "ticket");
    ASSIGN_OR_RETURN(closure.ticket, data::FromProto(proto));
    closure.has_ticket = true;
  }
  return closure;
}

Json DataToJson(const DatasetProgress& data) {
  Json ranges = Json::array();
  for (const data::ScheduledExamples::Range& r : data.scheduled.ranges()) {
    ranges.push_back({r.epoch, r.begin, r.end});
  }
  return {{"dataset", data.dataset.number()},
          {"fingerprint", data.fingerprint},
          {"first_epoch", data.scheduled.first_epoch()},
          {"scheduled", std::move(ranges)}};
}

absl::StatusOr<DatasetProgress> DataFromJson(const Json& json) {
  DatasetProgress data;
  int64_t first_epoch = 0;
  std::vector<data::ScheduledExamples::Range> ranges;
  Fields fields(json);
  fields.Integer("dataset", &data.dataset, DatasetId{1});
  fields.Integer("fingerprint", &data.fingerprint);
  fields.Integer("first_epoch", &first_epoch);
  fields.List("scheduled", [&ranges](const Json& range) {
    data::ScheduledExamples::Range& r = ranges.emplace_back();
    const bool good = range.is_array() && range.size() == 3 && ReadInteger(range[0], &r.epoch) &&
                      ReadInteger(range[1], &r.begin) && ReadInteger(range[2], &r.end);
    return good ? absl::OkStatus()
                : Bad(absl::StrCat("wanted [epoch, begin, end], found ", Shortly(range)));
  });
  RETURN_IF_ERROR(fields.status());
  auto scheduled = data::ScheduledExamples::FromRanges(first_epoch, ranges);
  if (!scheduled.ok()) return Annotate(scheduled.status(), "scheduled");
  data.scheduled = *std::move(scheduled);
  return data;
}

absl::Status CheckClosures(const Manifest& manifest) {
  if (manifest.next_closure - manifest.low_water > kMostOpenClosures) {
    return Bad(absl::StrCat("next_closure: wanted at most ", kMostOpenClosures, " above low_water ",
                            manifest.low_water, ", found ", manifest.next_closure));
  }
  ClosureId last = 0;
  for (const CheckpointClosure& c : manifest.closures) {
    if (c.id <= last) {
      return Bad(absl::StrCat("closures: ", c.id, " comes after ", last, ", wanted ascending ids"));
    }
    last = c.id;
    if (c.id < manifest.low_water || c.id >= manifest.next_closure) {
      return Bad(absl::StrCat("closure ", c.id, ": wanted an id from low_water ",
                              manifest.low_water, " to below next_closure ",
                              manifest.next_closure));
    }
    if (c.after > c.id) {
      return Bad(absl::StrCat("closure ", c.id, ": it waits for closures up to ", c.after,
                              ", itself among them"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShard(const proto::SavedShard& saved) {
  const proto::ShardSpec& shard = saved.shard();
  const auto bad = [&shard](const auto&... what) {
    return Bad(absl::StrCat("shard ", shard.id(), ": ", what...));
  };
  if (shard.id() == 0) return bad("wanted an id from 1");
  if (shard.variable().name().empty()) return bad("its variable has no name");
  if (shard.variable().dtype() < 1 || shard.variable().dtype() > static_cast<int>(DType::kBF16)) {
    return bad("unknown dtype ", shard.variable().dtype());
  }
  const bool hash = shard.variable().has_hash();
  for (int d = 0; d < shard.variable().shape().dims_size(); ++d) {
    const int64_t dim = shard.variable().shape().dims(d);
    if (dim < 0 && !(hash && d == 0 && dim == -1)) return bad("a dimension of ", dim);
  }
  if (hash != saved.has_hash()) return bad("what it is beside its rows, of hash tables alone");
  if (shard.count() < 1 || shard.index() < 0 || shard.index() >= shard.count()) {
    return bad("wanted 0 <= index < count, found index ", shard.index(), " of ", shard.count());
  }
  if (shard.rows() < 0 || shard.row_begin() < 0 || shard.ps() < 0) {
    return bad("wanted rows, row_begin and ps from 0, found ", shard.rows(), ", ",
               shard.row_begin(), " and ", shard.ps());
  }
  if (saved.gradient_steps() < 0 || saved.applied() < saved.gradient_steps()) {
    return bad("wanted 0 <= gradient_steps <= applied, found ", saved.gradient_steps(), " and ",
               saved.applied());
  }
  if (!saved.deltas().empty() && !shard.variable().table())
    return bad("deltas to what is no table");
  for (const ShardFile& f : FilesOf(saved)) {
    // A name, not a path, because a checkpoint has no files outside of its directory.
    if (f.file.empty() || f.file == "." || f.file == ".." || absl::StrContains(f.file, '/') ||
        absl::StrContains(f.file, '\0')) {
      return bad("wanted a file of the checkpoint's directory, found ", Shortly(Json(f.file)));
    }
    if (f.rows < 0) return bad("'", f.file, "' has ", f.rows, " rows");
  }
  return absl::OkStatus();
}

absl::Status CheckShards(const std::vector<proto::SavedShard>& shards) {
  std::set<ShardId> ids;
  std::set<std::string> files;
  std::map<std::string, std::set<int>> variables;
  uint64_t bytes = 0;
  for (const proto::SavedShard& saved : shards) {
    RETURN_IF_ERROR(CheckShard(saved));
    const std::string& name = saved.shard().variable().name();
    if (!ids.insert(saved.shard().id()).second) {
      return Bad(absl::StrCat("shard ", saved.shard().id(), " is there twice"));
    }
    for (const ShardFile& file : FilesOf(saved)) {
      if (!files.insert(file.file).second) {
        return Bad(absl::StrCat("file '", file.file, "' is there twice"));
      }
      if (__builtin_add_overflow(bytes, file.bytes, &bytes) ||
          bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Bad("more bytes than a file system holds");
      }
    }
    if (!variables[name].insert(saved.shard().index()).second) {
      return Bad(absl::StrCat("variable '", name, "': shard ", saved.shard().index(), " of ",
                              saved.shard().count(), " is there twice"));
    }
  }
  for (const proto::SavedShard& saved : shards) {
    const std::string& name = saved.shard().variable().name();
    if (static_cast<int>(variables[name].size()) != saved.shard().count()) {
      return Bad(absl::StrCat("variable '", name, "': wanted ", saved.shard().count(),
                              " shards, found ", variables[name].size()));
    }
  }
  return absl::OkStatus();
}

// A SavedShard as it is written today.
Json UpToDate(Json shard) {
  Json* at = &shard;
  for (const char* key : {"shard", "variable", "optimizer"}) {
    if (!at->is_object() || !at->contains(key)) return shard;
    at = &(*at)[key];
  }
  BringUpToDate(at);
  return shard;
}

absl::StatusOr<Manifest> FromJson(const Json& json) {
  Manifest m;
  Fields fields(json);
  fields.Integer("number", &m.number);
  fields.Text("job", &m.job);
  fields.Integer("epoch", &m.epoch);
  std::string written;
  fields.Text("written", &written);
  fields.Integer("low_water", &m.low_water, ClosureId{1});
  fields.Integer("next_closure", &m.next_closure, m.low_water);
  fields.Integer("steps", &m.steps);
  m.position = m.steps;
  if (json.contains("position")) fields.Integer("position", &m.position, m.steps);
  fields.List("shards", [&m](const Json& shard) {
    m.shards.emplace_back();
    return MessageFromJson(UpToDate(shard), &m.shards.back());
  });
  fields.List("closures", [&m](const Json& closure) -> absl::Status {
    ASSIGN_OR_RETURN(CheckpointClosure c, ClosureFromJson(closure));
    m.closures.push_back(std::move(c));
    return absl::OkStatus();
  });
  if (json.contains("data")) {
    fields.List("data", [&m](const Json& data) -> absl::Status {
      ASSIGN_OR_RETURN(DatasetProgress d, DataFromJson(data));
      if (!m.data.empty() && d.dataset <= m.data.back().dataset) {
        return Bad(absl::StrCat("data set ", d.dataset, " comes after ", m.data.back().dataset,
                                ", wanted ascending ids"));
      }
      m.data.push_back(std::move(d));
      return absl::OkStatus();
    });
  }
  if (json.contains("abandoned")) {
    fields.List("abandoned", [&m](const Json& range) -> absl::Status {
      uint64_t first = 0, last = 0;
      if (!range.is_array() || range.size() != 2 || !ReadInteger(range[0], &first) ||
          !ReadInteger(range[1], &last) || first < 1 || last < first) {
        return Bad(absl::StrCat("wanted [first, last], found ", Shortly(range)));
      }
      m.abandoned.Add(first, last);
      return absl::OkStatus();
    });
  }
  if (const Json* state = fields.Get("job_state")) {
    m.job_state = state->is_string() ? state->get<std::string>() : state->dump();
  }
  RETURN_IF_ERROR(fields.status());
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, written, &m.written, &error)) {
    return Bad(absl::StrCat("written: wanted a time, found ", Shortly(Json(written))));
  }
  RETURN_IF_ERROR(CheckShards(m.shards));
  RETURN_IF_ERROR(CheckClosures(m));
  return m;
}

}  // namespace

void Abandoned::Add(uint64_t first, uint64_t last) {
  // A range for each time that training went back; who asks for one that is so old can do without.
  constexpr size_t kMostRanges = 1000;
  if (first > last) return;
  std::vector<Range> all;
  for (const Range& range : ranges_) {
    if (range.last + 1 < first || last + 1 < range.first) {
      all.push_back(range);
    } else {
      first = std::min(first, range.first);
      last = std::max(last, range.last);
    }
  }
  all.push_back({first, last});
  std::sort(all.begin(), all.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  if (all.size() > kMostRanges) {
    all[1].first = all[0].first;
    all.erase(all.begin());
  }
  ranges_ = std::move(all);
}

bool Abandoned::Has(uint64_t number) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [number](const Range& range) {
    return range.first <= number && number <= range.last;
  });
}

int64_t Manifest::steps_done() const {
  int64_t done = steps;
  for (const CheckpointClosure& closure : closures) done -= closure.steps;
  return std::max<int64_t>(0, done);
}

int64_t Manifest::bytes() const {
  uint64_t sum = 0;
  for (const proto::SavedShard& shard : shards) {
    for (const ShardFile& file : FilesOf(shard)) sum += file.bytes;
  }
  return static_cast<int64_t>(sum);
}

int64_t Manifest::written_bytes() const {
  uint64_t sum = 0;
  for (const proto::SavedShard& shard : shards) sum += shard.bytes_written();
  return static_cast<int64_t>(sum);
}

std::vector<ShardFile> FilesOf(const proto::SavedShard& shard) {
  std::vector<ShardFile> files = {{shard.file(), shard.bytes(), shard.crc32(), 0}};
  for (const proto::SavedDelta& delta : shard.deltas()) {
    files.push_back({delta.file(), delta.bytes(), delta.crc32(), delta.rows()});
  }
  return files;
}

proto::SavedShard WithPaths(proto::SavedShard shard, const std::string& directory) {
  shard.set_file(absl::StrCat(directory, "/", shard.file()));
  for (proto::SavedDelta& delta : *shard.mutable_deltas()) {
    delta.set_file(absl::StrCat(directory, "/", delta.file()));
  }
  return shard;
}

std::string ToJson(const Manifest& manifest) {
  Json json = {
      {"format", kFormat},
      {"version", kVersion},
      {"number", manifest.number},
      {"job", manifest.job},
      {"epoch", manifest.epoch.number()},
      {"written", absl::FormatTime(absl::RFC3339_full, manifest.written, absl::UTCTimeZone())},
      {"low_water", manifest.low_water.number()},
      {"next_closure", manifest.next_closure.number()},
      {"steps", manifest.steps},
      {"position", std::max(manifest.position, manifest.steps)}};
  Json& shards = json["shards"] = Json::array();
  for (const proto::SavedShard& shard : manifest.shards) shards.push_back(MessageToJson(shard));
  Json& closures = json["closures"] = Json::array();
  for (const CheckpointClosure& c : manifest.closures) closures.push_back(ClosureToJson(c));
  Json& data = json["data"] = Json::array();
  for (const DatasetProgress& d : manifest.data) data.push_back(DataToJson(d));
  for (const Abandoned::Range& range : manifest.abandoned.ranges()) {
    json["abandoned"].push_back({range.first, range.last});
  }
  // Written as an object for human readers; any other text is read back unchanged.
  Json state =
      manifest.job_state.empty() ? Json::object() : ParseJson(manifest.job_state, kJobStateDepth);
  json["job_state"] = state.is_object() ? std::move(state) : Json(manifest.job_state);
  std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}"
  return absl::StrCat(text, Tail(text));
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text, const std::string& path) {
  const auto bad = [&path](const auto&... what) {
    return absl::DataLossError(absl::StrCat(path, ": not a whole manifest: ", what...));
  };
  const Json json = ParseJson(text);
  if (json.is_discarded()) return bad("it is not JSON; it is cut off or altered");
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat) {
    return bad("it is not of the format '", kFormat, "'");
  }
  if (!json.contains("version") || json["version"] != kVersion) {
    return bad("wanted version ", kVersion, " of the format, found ",
               json.contains("version") ? Shortly(json["version"]) : "none",
               "; another version of Coxswain wrote it");
  }
  const size_t end = text.rfind(",\n  \"crc32\": ");
  if (end == absl::string_view::npos) return bad("it does not end with its checksum");
  if (text.substr(end) != Tail(text.substr(0, end))) {
    return bad("its checksum is wrong; it was altered");
  }
  auto manifest = FromJson(json);
  if (!manifest.ok()) return bad(manifest.status().message());
  return manifest;
}

}  // namespace coxswain::checkpoint
