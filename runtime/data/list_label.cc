#include "runtime/data/list_label.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"

namespace coxswain::data {
namespace {

class ListLabelSink : public FieldSink {
 public:
  ListLabelSink(const proto::LabelSpec& spec, std::vector<float>* labels)
      : separator_(spec.value_separator()),
        positive_(spec.positive_values().begin(), spec.positive_values().end()),
        labels_(labels) {}
  bool Append(absl::string_view text) override {
    bool found = false;
    while (!found && !text.empty()) {
      const size_t end = text.find(separator_);
      found = positive_.contains(text.substr(0, end));
      text.remove_prefix(end == absl::string_view::npos ? text.size() : end + separator_.size());
    }
    return Add(found);
  }
  bool AppendMissing() override { return false; }
  bool TakesLists() const override { return true; }
  bool AppendList(absl::Span<const std::string> values) override {
    return Add(std::any_of(values.begin(), values.end(),
                           [this](const std::string& value) { return positive_.contains(value); }));
  }
  std::string Wanted() const override { return "a list of labels"; }

 private:
  bool Add(bool found) {
    labels_->push_back(found ? 1.0f : 0.0f);
    return true;
  }

  const std::string separator_;
  const absl::flat_hash_set<std::string> positive_;
  std::vector<float>* const labels_;
};

}  // namespace

std::unique_ptr<FieldSink> NewListLabelSink(const proto::LabelSpec& spec,
                                            std::vector<float>* labels) {
  return std::make_unique<ListLabelSink>(spec, labels);
}

}  // namespace coxswain::data
