// Gradients that a program gets between the backward graph and the optimizers, and gives back:
// first those of a loss, by variable; then the updates by what came back, whole, by rows that were
// looked up, by rows of the program's own.
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/function_state.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/strategy.h"
#include "kernels/validate.h"

namespace coxswain {
namespace {

Output As(FunctionBuilder* f, Output x, DType dtype) {
  return f->type(x).dtype == dtype ? x : f->Cast(x, dtype);
}

Output Joined(FunctionBuilder* f, const std::vector<Output>& parts) {
  return parts.size() == 1 ? parts[0] : f->Concat(parts, 0);
}

// `whole` cut into rows like those of `parts`.
std::vector<Output> CutLike(FunctionBuilder* f, Output whole, const std::vector<Output>& parts) {
  if (parts.size() == 1) return {whole};
  std::vector<Output> inputs = {whole};
  inputs.insert(inputs.end(), parts.begin(), parts.end());
  return f->graph().OpN("ConcatGrad", inputs, {{"axis", 0}}, static_cast<int>(parts.size()));
}

// The table's ids of rows that a shard knows by its own; invalid where that is not to be had.
Output GlobalIds(FunctionBuilder* f, const VariableInfo& info, size_t shard, Output local) {
  const auto number = [f](int64_t n) { return f->Constant(Tensor::Scalar<int64_t>(n)); };
  if (info.hash()) return local;
  if (info.strategy == "div") return f->Add(local, number(info.shards[shard].row_begin()));
  if (info.strategy != "mod") return {};
  const auto count = static_cast<int64_t>(info.shards.size());
  return f->Add(f->Mul(local, number(count)), number(static_cast<int64_t>(shard)));
}

// What is read of one variable, as rows or whole: by shard.
struct OfVariable {
  const VariableInfo* info = nullptr;
  struct Part {
    std::vector<Output> ids, gradients;
  };
  std::map<uint32_t, Part> shards;  // by index
};

}  // namespace

VariableGradient::VariableGradient(const Variable& of, Output own)
    : variable(of.name()), values(own), info_(&of.info()) {}
VariableGradient::VariableGradient(const EmbeddingTable& table, Output row_ids, Output own)
    : variable(table.name()), values(own), ids(row_ids), info_(&table.info()) {}

std::vector<VariableGradient> FunctionBuilder::Gradients(Output loss) {
  std::vector<VariableGradient> result;
  if (state_->graph.failed()) return result;
  std::vector<const State::ShardRead*> reads;
  std::vector<Output> xs;
  for (const State::ShardRead& read : state_->reads) {
    if (!read.trainable) continue;
    reads.push_back(&read);
    xs.push_back(read.value);
  }
  const std::vector<Output> gradients = state_->graph.Gradients({loss}, xs);
  std::map<std::pair<std::string, bool>, OfVariable> all;  // by name, and whether whole
  for (size_t i = 0; i < reads.size(); ++i) {
    if (!gradients[i].valid()) continue;
    const State::ShardRead& read = *reads[i];
    const VariableInfo& info = *read.info;
    const bool whole = !read.ids.valid();
    if (read.x.valid() || (whole && !info.in_row_order())) {
      Fail(absl::UnimplementedError(absl::StrCat(
          "Gradients: that of '", info.name, "' is ",
          read.x.valid() ? "made on parameter servers, and no worker has it"
                         : absl::StrCat("of a whole table, whose rows lie by ", info.strategy))));
      return {};
    }
    OfVariable& of = all[{info.name, whole}];
    of.info = &info;
    OfVariable::Part& part = of.shards[read.shard.index()];
    if (!whole) part.ids.push_back(read.ids);
    part.gradients.push_back(gradients[i]);
  }
  for (const auto& [name, of] : all) {
    VariableGradient gradient;
    gradient.variable = name.first;
    gradient.info_ = of.info;
    std::vector<State::ShardRows> shards;
    std::vector<Output> values, ids;
    for (const auto& [index, part] : of.shards) {
      if (name.second) {
        const Output sum =
            part.gradients.size() == 1 ? part.gradients[0] : Op("AddN", part.gradients);
        values.push_back(As(this, sum, of.info->value_dtype()));
        continue;
      }
      const std::vector<Output> merged = State::MergedRows(this, part.ids, part.gradients);
      const Output rows = As(this, merged[1], of.info->value_dtype());
      shards.push_back({merged[0], rows});
      values.push_back(rows);
      ids.push_back(GlobalIds(this, *of.info, index, merged[0]));
    }
    gradient.values = Joined(this, values);
    if (!name.second) {
      if (ids[0].valid()) gradient.ids = gradient.looked_up_ = Joined(this, ids);
      gradient.rows_ = static_cast<int>(state_->gradient_rows.size());
      state_->gradient_rows.push_back(std::move(shards));
    }
    result.push_back(std::move(gradient));
  }
  if (result.empty()) {
    Fail(absl::InvalidArgumentError(
        "Gradients: the loss depends on no variable or table that has an optimizer"));
  }
  return state_->graph.failed() ? std::vector<VariableGradient>() : result;
}

void FunctionBuilder::State::ApplyWhole(FunctionBuilder* f, const VariableGradient& gradient) {
  const VariableInfo& info = *gradient.info_;
  const std::vector<Output> parts = PartsOf(info, gradient.values);
  for (size_t s = 0; s < info.shards.size(); ++s) {
    const Output sent =
        f->type(parts[s]).dtype == DType::kF32 ? As(f, parts[s], info.wire_dtype) : parts[s];
    const ShardRead read{.shard = info.shards[s], .info = &info};
    UpdateWhole(f, {&read}, {sent});
  }
}

void FunctionBuilder::State::ApplyRows(FunctionBuilder* f, const VariableGradient& gradient) {
  const VariableInfo& info = *gradient.info_;
  const std::vector<ShardRows> shards = gradient_rows[static_cast<size_t>(gradient.rows_)];
  std::vector<Output> as_they_were;
  for (const ShardRows& shard : shards) as_they_were.push_back(shard.rows);
  const std::vector<Output> rows = CutLike(f, gradient.values, as_they_were);
  for (size_t s = 0; s < shards.size(); ++s) {
    const ShardRead read{.shard = info.shards[s], .info = &info};
    const Output sent = As(f, rows[s], info.wire_dtype);
    UpdateRows({&read}, {shards[s].ids, CheckedRows(f, read.shard, shards[s].ids, sent)});
  }
}

// Rows of one id are added up, and go where the id's row is.
void FunctionBuilder::State::ApplyOwnRows(FunctionBuilder* f, const VariableGradient& gradient) {
  const VariableInfo& info = *gradient.info_;
  const int shards = static_cast<int>(info.shards.size());
  const std::vector<Output> unique = graph.OpN(
      "UniqueShards", {gradient.ids},
      {{"shards", shards}, {"rows", info.rows()}, {"strategy", info.strategy}}, shards + 1);
  if (graph.failed()) return;
  const Output given = f->Reshape(gradient.values, Shape{kUnknownDim, info.row_elements()});
  std::vector<Output> likes;  // only their shapes matter
  for (int s = 0; s < shards; ++s) {
    likes.push_back(f->Gather(given, f->Op("ZerosLike", {unique[static_cast<size_t>(s)]})));
  }
  const Output places = f->Reshape(unique[static_cast<size_t>(shards)], Shape{kUnknownDim});
  const Output sums = f->Op("SegmentSumLike", {given, places, Joined(f, likes)});
  const std::vector<Output> rows = CutLike(f, sums, likes);
  for (int s = 0; s < shards; ++s) {
    const auto at = static_cast<size_t>(s);
    const ShardRead read{.shard = info.shards[at], .info = &info};
    const Output sent = As(f, rows[at], info.wire_dtype);
    UpdateRows({&read}, {unique[at], CheckedRows(f, read.shard, unique[at], sent)});
  }
}

Operation FunctionBuilder::ApplyGradients(const std::vector<VariableGradient>& gradients) {
  return Updates([&] { AddGradientUpdates(gradients); });
}

void FunctionBuilder::AddGradientUpdates(const std::vector<VariableGradient>& gradients) {
  std::set<std::pair<std::string, bool>> seen;
  for (const VariableGradient& gradient : gradients) {
    if (state_->graph.failed()) return;
    const auto fail = [&](const std::string& why) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat("ApplyGradients: '", gradient.variable, "' ", why)));
    };
    if (gradient.info_ == nullptr || !gradient.values.valid()) return fail("has no gradient");
    const VariableInfo& info = *gradient.info_;
    if (!state_->Owns(info)) return;
    const bool rows = gradient.rows_ >= 0 || gradient.ids.valid();
    const bool looked_up = gradient.rows_ >= 0 && gradient.ids == gradient.looked_up_;
    if (rows && !looked_up && !gradient.ids.valid()) return fail("has rows without ids");
    if (info.optimizer.kind().empty()) return fail("has no optimizer");
    if (!seen.insert({info.name, rows}).second) return fail("is there twice");
    TensorType wanted{info.value_dtype(), info.shape};
    if (looked_up) {
      wanted.shape.set_dim(0, kUnknownDim);
    } else if (rows) {
      wanted.shape = type(gradient.ids).shape;
      wanted.shape.Append(info.row_elements());
    }
    const TensorType& found = type(gradient.values);
    if (found.dtype != wanted.dtype || !kernels::MergeShapes(wanted.shape, found.shape).ok()) {
      return fail(
          absl::StrCat("wants a gradient ", wanted.ToString(), ", found ", found.ToString()));
    }
    if (!rows) {
      state_->ApplyWhole(this, gradient);
    } else if (looked_up) {
      state_->ApplyRows(this, gradient);
    } else {
      state_->ApplyOwnRows(this, gradient);
    }
  }
}

}  // namespace coxswain
