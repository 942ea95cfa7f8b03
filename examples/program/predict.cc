// Asks a saved model: loads what `coxswain train --model-dir` wrote, and predicts the rows of its
// command line. A whole program; it needs nothing but an installed Coxswain and the model.
//
//   predict MODEL_DIR user=user1 film=film4    # the model's columns, each with a value
#include <coxswain/saved_model.h>
#include <coxswain/status.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace cox = coxswain;

namespace {

absl::Status Predict(const std::string& directory, const cox::RawRows& rows) {
  // Any number of threads may share the model.
  COX_ASSIGN_OR_RETURN(cox::SavedModel model, cox::SavedModel::Load(directory));
  COX_ASSIGN_OR_RETURN(std::vector<cox::Prediction> predictions, model.Predict(rows, /*top=*/5));
  for (const cox::Prediction& prediction : predictions) {
    if (prediction.choices.empty()) std::printf("%.4f\n", prediction.value);
    for (const cox::RankedChoice& choice : prediction.choices) {
      std::printf("%s %.4f\n", choice.name.c_str(), choice.score);
    }
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: predict MODEL_DIR COLUMN=VALUE...\n");
    return EXIT_FAILURE;
  }
  cox::RawRows rows;
  rows.rows.emplace_back();
  for (int i = 2; i < argc; ++i) {
    const std::string pair = argv[i];
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      std::fprintf(stderr, "wanted COLUMN=VALUE, found %s\n", argv[i]);
      return EXIT_FAILURE;
    }
    rows.columns.push_back(pair.substr(0, equals));
    rows.rows[0].emplace_back(pair.substr(equals + 1));
  }
  if (absl::Status status = Predict(argv[1], rows); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
