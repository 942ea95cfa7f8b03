#include "coordinator/model/row_names.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::model {

absl::StatusOr<RowNames> RowNames::Read(const SavedSource& source, const SavedVariable& variable,
                                        std::shared_ptr<const data::Vocabulary> vocabulary) {
  RowNames names;
  names.feature_ = variable.feature();
  if (!variable.names.empty()) {
    ASSIGN_OR_RETURN(HashedNames hashed, source.Names(variable));
    names.hashed_ = std::make_shared<const HashedNames>(std::move(hashed));
    names.bucketed_ = !variable.hash;
    names.texts_ = &names.hashed_->names();
  } else if (vocabulary != nullptr && vocabulary->texts() != nullptr) {
    names.shared_ = std::move(vocabulary);
    names.texts_ = names.shared_->texts();
  } else if (!variable.vocabulary.empty()) {
    ASSIGN_OR_RETURN(SavedWords words, source.Words(variable.vocabulary));
    names.words_ = std::make_shared<const SavedWords>(std::move(words));
    names.texts_ = &names.words_->words();
  }
  return names;
}

int64_t RowNames::named_ids() const {
  if (hashed_ != nullptr) return hashed_->named_ids();
  return any() ? static_cast<int64_t>(texts_->size()) : 0;
}

bool RowNames::Has(int64_t id) const {
  if (hashed_ != nullptr) return hashed_->Has(id);
  return id >= 0 && id < named_ids();
}

std::string RowNames::Of(int64_t id) const {
  if (hashed_ != nullptr) return hashed_->Of(id);
  return Has(id) ? (*texts_)[static_cast<size_t>(id)] : "";
}

absl::StatusOr<int64_t> RowNames::IdOf(const std::string& name) const {
  if (hashed_ != nullptr) {
    // A bucket of other values says nothing of this one.
    if (!bucketed_ || hashed_->Knows(name)) return hashed_->IdOf(name);
    return absl::NotFoundError(
        absl::StrCat(data::Quoted(name), " is not among the names that were kept of feature ",
                     data::Quoted(feature_), "; ", data::Alternatives(name, *texts_)));
  }
  const std::optional<int64_t> id = shared_ != nullptr ? shared_->Find(name) : words_->Find(name);
  // A bucket of unknown values has no name.
  if (id && Has(*id)) return *id;
  return absl::NotFoundError(absl::StrCat(data::Quoted(name), " is not in the vocabulary ",
                                          data::Quoted(feature_), "; ",
                                          data::Alternatives(name, *texts_)));
}

}  // namespace coxswain::model
