// Addresses, the cluster file, and TF_CONFIG.
#include "runtime/cluster/cluster_config.h"

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain::cluster {
namespace {

// Collects what is wrong, and the addresses seen so far with where they were.
class ClusterChecker {
 public:
  void Error(const std::string& where, absl::string_view message) {
    errors_.push_back(absl::StrCat(where, ": ", message));
  }

  void Add(const std::string& where, const std::string& address, std::vector<std::string>* to) {
    if (absl::Status status = CheckAddress(address); !status.ok()) {
      Error(where, status.message());
      return;
    }
    const auto [it, is_new] = seen_.emplace(address, where);
    if (!is_new) {
      Error(where, absl::StrCat("address '", address, "' is given twice, first at ", it->second));
      return;
    }
    to->push_back(address);
  }

  absl::Status status() const {
    if (errors_.empty()) return absl::OkStatus();
    return config::ConfigurationError(absl::StrJoin(errors_, "\n"));
  }

 private:
  std::vector<std::string> errors_;
  std::map<std::string, std::string> seen_;
};

// Names of hosts and the text between the brackets of an IPv6 address.
bool AllOf(absl::string_view text, absl::string_view punctuation) {
  for (char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        punctuation.find(c) == absl::string_view::npos) {
      return false;
    }
  }
  return !text.empty();
}

using Json = nlohmann::json;

void ReadTfJob(const std::string& job, const Json& addresses, ClusterChecker* checker,
               std::vector<std::string>* to) {
  const std::string where = absl::StrCat("TF_CONFIG: cluster.", job);
  if (!addresses.is_array()) {
    checker->Error(where,
                   absl::StrCat("wanted a list of addresses, found ", addresses.type_name()));
    return;
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    const std::string item = absl::StrCat(where, "[", i, "]");
    if (!addresses[i].is_string()) {
      checker->Error(item, absl::StrCat("wanted \"host:port\", found ", addresses[i].type_name()));
    } else {
      checker->Add(item, addresses[i].get<std::string>(), to);
    }
  }
}

void ReadTfTask(const Json& root, const std::map<std::string, std::vector<std::string>>& jobs,
                ClusterChecker* checker, TaskConfig* config) {
  const auto task = root.find("task");
  if (task == root.end() || !task->is_object()) {
    checker->Error("TF_CONFIG", "wanted an object \"task\" with \"type\" and \"index\"");
    return;
  }
  const auto type = task->find("type");
  if (type == task->end() || !type->is_string() || jobs.count(type->get<std::string>()) == 0) {
    checker->Error("TF_CONFIG: task.type", "wanted worker, ps, chief, coordinator or evaluator");
    return;
  }
  config->type = type->get<std::string>();
  const auto index = task->find("index");
  // Some tools write the index as a string.
  int64_t value = -1;
  if (index != task->end() && index->is_number_integer()) {
    value = index->get<int64_t>();
  } else if (index == task->end() || !index->is_string() ||
             !absl::SimpleAtoi(index->get<std::string>(), &value)) {
    checker->Error("TF_CONFIG: task.index", "wanted a number");
    return;
  }
  // A coordinator or an evaluator need not be listed: nobody connects to it.
  const std::vector<std::string>& addresses = jobs.at(config->type);
  const bool listed = config->type == "worker" || config->type == "ps" || !addresses.empty();
  const int64_t count = listed ? static_cast<int64_t>(addresses.size()) : 1;
  if (value < 0 || value >= count) {
    checker->Error("TF_CONFIG: task.index", absl::StrCat("wanted 0..", count - 1, " for type ",
                                                         config->type, ", found ", value));
    return;
  }
  config->index = static_cast<int>(value);
}

}  // namespace

absl::Status CheckAddress(absl::string_view address) {
  const auto error = [&](absl::string_view message) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted 'host:port', found '", address, "': ", message));
  };
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return error("there is no port");
  const absl::string_view host = address.substr(0, colon);
  const absl::string_view port = address.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.size() < 4 || host.back() != ']' || !AllOf(host.substr(1, host.size() - 2), ":.%")) {
      return error("an IPv6 address is written '[::1]:port'");
    }
  } else if (host.find(':') != absl::string_view::npos) {
    return error("an IPv6 address is written '[::1]:port'");
  } else if (!AllOf(host, ".-_")) {
    return error(host.empty() ? "there is no host" : "the host has a character that no host has");
  }
  int number = 0;
  if (!AllOf(port, "") || !absl::SimpleAtoi(port, &number) || number < 1 || number > 65535) {
    return error("the port is not in 1..65535");
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterConfig> ParseClusterConfig(absl::string_view text,
                                                 const std::string& file_name) {
  ASSIGN_OR_RETURN(const config::YamlNode root, config::ParseYaml(text, file_name));
  ClusterChecker checker;
  ClusterConfig config;
  if (root.kind != config::YamlNode::Kind::kMap) {
    checker.Error(root.where,
                  absl::StrCat("wanted the keys worker and ps, found ", root.Describe()));
    return checker.status();
  }
  const std::vector<std::string> keys = {"worker", "ps"};
  for (const config::YamlEntry& entry : root.entries) {
    if (entry.key != "worker" && entry.key != "ps") {
      checker.Error(entry.where, config::UnknownName("key", entry.key, keys));
      continue;
    }
    std::vector<std::string>* to = entry.key == "worker" ? &config.workers : &config.ps;
    if (entry.value.kind != config::YamlNode::Kind::kList || entry.value.items.empty()) {
      checker.Error(
          entry.value.where,
          absl::StrCat(entry.key,
                       ": wanted a list of one or more 'host:port', "
                       "found ",
                       entry.value.kind == config::YamlNode::Kind::kList ? "an empty one"
                                                                         : entry.value.Describe()));
      continue;
    }
    for (const config::YamlNode& item : entry.value.items) {
      if (item.kind == config::YamlNode::Kind::kScalar) {
        checker.Add(item.where, item.text, to);
      } else {
        checker.Error(item.where, absl::StrCat("wanted 'host:port', found ", item.Describe()));
      }
    }
  }
  for (const std::string& key : keys) {
    if (root.Find(key) == nullptr) {
      checker.Error(root.where, absl::StrCat("'", key, "' is missing (a list of 'host:port')"));
    }
  }
  RETURN_IF_ERROR(checker.status());
  return config;
}

absl::StatusOr<ClusterConfig> ReadClusterConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, config::ReadTextFile(path));
  return ParseClusterConfig(text, path);
}

absl::StatusOr<TaskConfig> ParseTfConfig(absl::string_view json) {
  ClusterChecker checker;
  TaskConfig config;
  Json root;
  if (json.size() > config::kMaxYamlBytes) {
    checker.Error("TF_CONFIG", absl::StrCat("wanted at most ", config::kMaxYamlBytes,
                                            " bytes, found ", json.size()));
    return checker.status();
  }
  try {
    root = Json::parse(json.begin(), json.end());
  } catch (const std::exception& e) {
    checker.Error("TF_CONFIG", absl::StrCat("not valid JSON: ", e.what()));
    return checker.status();
  }
  const auto cluster = root.find("cluster");
  if (!root.is_object() || cluster == root.end() || !cluster->is_object()) {
    checker.Error("TF_CONFIG", "wanted an object \"cluster\" with lists \"worker\" and \"ps\"");
    return checker.status();
  }
  const std::vector<std::string> known = {"worker", "ps", "chief", "coordinator", "evaluator"};
  std::map<std::string, std::vector<std::string>> jobs;
  for (const std::string& job : known) jobs[job] = {};
  for (const auto& [job, addresses] : cluster->items()) {
    if (jobs.count(job) == 0) {
      checker.Error("TF_CONFIG: cluster", config::UnknownName("job", job, known));
      continue;
    }
    ReadTfJob(job, addresses, &checker, &jobs[job]);
  }
  RETURN_IF_ERROR(checker.status());
  for (const char* job : {"worker", "ps"}) {
    if (jobs[job].empty()) {
      checker.Error("TF_CONFIG: cluster", absl::StrCat("no address for job '", job, "'"));
    }
  }
  ReadTfTask(root, jobs, &checker, &config);
  RETURN_IF_ERROR(checker.status());
  config.cluster.workers = jobs["worker"];
  config.cluster.ps = jobs["ps"];
  return config;
}

}  // namespace coxswain::cluster
