// Rows of other files, read as a model's data set reads them.
#include "runtime/data/row_reader.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_learned.h"
#include "runtime/data/libsvm_reader.h"
#include "runtime/data/row_blocks.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using proto::FeatureSpec;
using Texts = std::vector<std::string>;
using Rows = std::vector<RowReader::Cells>;

// What a model of the spec's data keeps, by way of files.
proto::DatasetSpec Learned(proto::DatasetSpec spec, const DataFiles& files) {
  const auto data = MustLoad(spec);
  const auto real = env::NewRealFileSystem();
  const std::string directory = files.Path("model");
  REQUIRE(real->MakeDirs(directory).ok());
  REQUIRE(model::WriteLearned(*data, real.get(), directory).ok());
  REQUIRE(model::ReadLearned(directory, &spec).ok());
  return spec;
}

// A feature of every kind.
proto::DatasetSpec EveryKind(const DataFiles& files) {
  auto spec = CsvSpec(files.Write("train.csv",
                                  "x,t,w,n,m,h,r,label\n"
                                  "a,p|q,u:2 v,1,0,k,5,1\nb,p,v:0.5,3,10,l,-7,0\na,,,5,5,k,5,1\n"));
  spec.mutable_csv()->set_quoting(true);
  AddCategorical(&spec, "x")->set_oov_buckets(2);
  FeatureSpec* tags = AddCategorical(&spec, "t");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  tags->set_max_values(2);
  FeatureSpec* weighted = AddCategorical(&spec, "w");
  weighted->set_multi_valued(true);
  weighted->set_weight_separator(":");
  AddNumeric(&spec, "n")->set_normalization(FeatureSpec::STANDARD);
  FeatureSpec* m = AddNumeric(&spec, "m");
  m->set_normalization(FeatureSpec::MIN_MAX);
  m->set_missing_value(7);
  AddCategorical(&spec, "h")->set_hash_buckets(16);
  AddCategorical(&spec, "r")->set_id("raw");
  spec.mutable_label()->set_column("label");
  return spec;
}

constexpr char kRows[] =
    "x,t,w,n,m,h,r,label\n"
    "b,q|p|p|q|p,v:3 u,2,,k,9,1\nnever,new|q,new:4 v:1,-4,99,other,-1,0\n\"a\",,,0,0,,0,1\n";

std::vector<std::string> BatchColumns(const Dataset& data) {
  std::vector<std::string> names;
  for (const ColumnSpec& column : data.columns(Part::kTraining)) names.push_back(column.name);
  return names;
}

void CheckSame(const Batch& a, const Batch& b) {
  REQUIRE(a.size() <= b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(i << " " << a[i].ToString() << " " << b[i].ToString());
    CHECK(a[i].ToString() == b[i].ToString());
  }
}

TEST_CASE("row reader: rows are read as the data set reads its test part, without its files") {
  const DataFiles files;
  proto::DatasetSpec spec = Learned(EveryKind(files), files);
  auto as_test = spec;
  as_test.mutable_split()->add_test_paths(files.Write("test.csv", kRows));
  const auto data = MustLoad(as_test);
  const Batch wanted = *data->Read({Part::kTest, 0, 0, 3});

  std::filesystem::remove(files.Path("train.csv"));
  const auto none = Dataset::WithoutRows(spec);
  INFO(none.status().message());
  REQUIRE(none.ok());
  CHECK((*none)->num_examples(Part::kTraining) == 0);
  CHECK((*none)->vocabulary_size("x") == data->vocabulary_size("x"));
  const auto reader = RowReader::Create(spec, **none, BatchColumns(**none));
  INFO(reader.status().message());
  REQUIRE(reader.ok());
  CHECK(reader->inputs().size() == 7);
  // With and without the label, in one block and row by row.
  const auto blocks = *RowBlocks::Open(reader->spec(), files.Path("test.csv"), 1);
  std::vector<int64_t> lines;
  int64_t row = 0;
  while (auto block = *blocks->Next()) {
    auto rows = reader->ReadBlock(*std::move(block));
    REQUIRE(rows.ok());
    for (int64_t r = 0; r < rows->rows(); ++r, ++row) {
      lines.push_back(rows->LineOf(r));
      CheckSame(*rows->Read(r, r + 1), *data->Read({Part::kTest, 0, row, row + 1}));
    }
  }
  CHECK(lines == std::vector<int64_t>{2, 3, 4});
  const auto cells =
      reader->ReadCells(Texts{"r", "h", "m", "n", "w", "t", "x"},
                        Rows{{"9", "k", "", "2", "v:3 u", "q|p|p|q|p", "b"},
                             {"-1", "other", "99", "-4", "new:4 v:1", "new|q", "never"},
                             {"0", "", "0", "0", "", "", "a"}});
  INFO(cells.status().message());
  REQUIRE(cells.ok());
  CheckSame(*cells->Read(0, 3), wanted);
}

TEST_CASE("row reader: a list that is too long has the same sample wherever its row stands") {
  const DataFiles files;
  const std::string head = "t,w,label\n", row = "a|b|c|d|e|f,a:1 b:2 c:3 d:4 e:5,1\n";
  std::string many = head;
  for (int i = 0; i < 12; ++i) {
    absl::StrAppend(&many, row);
    absl::StrAppend(&many, i % 2 == 0 ? "a|b,b,0\n" : "f|e|d|c|b|a,b,0\n");
  }
  auto spec = CsvSpec(files.Write("train.csv", many));
  FeatureSpec* const tags = AddCategorical(&spec, "t");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  tags->set_max_values(2);
  FeatureSpec* const weighted = AddCategorical(&spec, "w");
  weighted->set_multi_valued(true);
  weighted->set_weight_separator(":");
  weighted->set_max_values(2);
  spec.mutable_label()->set_column("label");
  const auto sample = [](const Dataset& data, Part part, int64_t at) {
    const Batch batch = *data.Read({part, 0, at, at + 1});
    std::string all;
    for (size_t i = 0; i + 1 < batch.size() && i < 5; ++i) all += batch[i].ToString();
    return all;
  };
  const auto trained = MustLoad(spec);
  std::set<std::string> drawn;
  for (int64_t at = 0; at < 24; at += 2) drawn.insert(sample(*trained, Part::kTraining, at));
  CHECK(drawn.size() > 3);  // in training each place has its own

  spec = Learned(spec, files);
  auto evaluated = spec;
  evaluated.mutable_split()->set_validation_fraction(0.5);
  evaluated.mutable_split()->add_test_paths(files.Write("test.csv", many));
  const auto whole = MustLoad(evaluated);
  const auto streamed = MustLoad(Streamed(files, evaluated, 40, 2));
  const auto none = *Dataset::WithoutRows(spec);
  const auto reader = *RowReader::Create(spec, *none, BatchColumns(*none));
  const auto alone =
      *reader.ReadCells(Texts{"t", "w"}, Rows{{"a|b|c|d|e|f", "a:1 b:2 c:3 d:4 e:5"}});
  std::string wanted;
  const Batch one = *alone.Read(0, 1);
  for (const Tensor& tensor : one) wanted += tensor.ToString();
  for (int64_t at = 0; at < 24; at += 2) {
    CAPTURE(at);
    CHECK(sample(*whole, Part::kTest, at) == wanted);
    CHECK(sample(*streamed, Part::kTest, at) == wanted);
    CHECK(sample(*whole, Part::kTest, at + 1) == sample(*streamed, Part::kTest, at + 1));
  }
  // The values of another order are another list.
  CHECK(sample(*whole, Part::kTest, 3) == sample(*whole, Part::kTest, 7));
  int found = 0;
  for (int64_t at = 0; at < whole->num_examples(Part::kValidation); ++at) {
    found += sample(*whole, Part::kValidation, at) == wanted ? 1 : 0;
  }
  CHECK(found > 2);
}

// Everything that a job can say of a csv file, and columns that are made of others.
TEST_CASE("row reader: what a csv job says of its files holds for rows that are predicted, too") {
  const DataFiles files;
  const auto text = [](const std::string& rows) {
    return "a title, with one \" of it\n# a comment, \"too\n \nage, work, n, item, y, w\n" + rows;
  };
  auto spec = CsvSpec(files.Write("train.csv", text("25, \"a, b\" , 1, i1, 1, 1\n# \"\n"
                                                    " 40 ,c, ?, i2, 0, 2\n61,c,3, i1, 1, 1\n")));
  proto::CsvOptions* csv = spec.mutable_csv();
  csv->set_quoting(true);
  csv->set_skip_lines(1);
  csv->set_comment("#");
  csv->set_trim(true);
  csv->add_missing_values("?");
  FeatureSpec* age = AddCategorical(&spec, "age");
  age->add_boundaries(30);
  age->add_boundaries(50);
  AddCategorical(&spec, "work")->set_oov_buckets(1);
  AddNumeric(&spec, "n")->set_missing_value(2);
  FeatureSpec* both = AddCategorical(&spec, "both");
  both->add_crossed("age");
  both->add_crossed("work");
  both->set_hash_buckets(50);
  AddCategorical(&spec, "genre")->set_oov_buckets(1);
  proto::JoinSpec* join = spec.add_joins();
  join->set_path(files.Write("items.csv", "id,genre\ni1,drama\ni2,\n"));
  join->mutable_csv()->set_header(true);
  join->mutable_csv()->set_separator(",");
  join->set_left_on("item");
  join->set_right_on("id");
  spec.mutable_label()->set_column("y");
  spec.mutable_label()->set_weight("w");
  spec = Learned(spec, files);
  auto as_test = spec;
  as_test.mutable_split()->add_test_paths(files.Write(
      "test.csv", text("29,c,?,i1,0,1\n#\n\n 50, \"a, b\",7, i2 ,1,1\n30,new, 4,i9,1,1\n")));
  const auto data = MustLoad(as_test);
  const auto none = *Dataset::WithoutRows(spec);
  // Without a label and weights.
  const Texts columns = {"age", "work", "n", "both", "genre"};
  const auto reader = *RowReader::Create(spec, *none, columns);
  REQUIRE(reader.columns().size() == 5);
  for (const size_t block_bytes : {1, 1000}) {
    const auto blocks = *RowBlocks::Open(reader.spec(), files.Path("test.csv"), block_bytes);
    int64_t row = 0;
    while (auto block = *blocks->Next()) {
      auto rows = reader.ReadBlock(*std::move(block));
      INFO(rows.status().message());
      REQUIRE(rows.ok());
      for (int64_t r = 0; r < rows->rows(); ++r, ++row) {
        CheckSame(*rows->Read(r, r + 1), *data->Read({Part::kTest, 0, row, row + 1}));
      }
    }
    CHECK(row == 3);
  }
  // The key of the side table stands for its columns, and a range is asked for as a number.
  Texts inputs;
  for (const RowReader::Input& input : reader.inputs()) inputs.push_back(input.column);
  CHECK(inputs == Texts{"age", "work", "n", "item"});
  CHECK(reader.inputs()[0].kind == RowReader::Input::Kind::kNumber);
  const auto cells = reader.ReadCells(
      inputs, Rows{{"29", "c", "?", "i1"}, {"50", "a, b", "7", "i2"}, {"30", "new", "4", "i9"}});
  INFO(cells.status().message());
  REQUIRE(cells.ok());
  CheckSame(*cells->Read(0, 3), *data->Read({Part::kTest, 0, 0, 3}));
  // A feature that another one is made of is read for it.
  const auto alone = *RowReader::Create(spec, *none, Texts{"both"});
  CHECK(alone.ReadCells(Texts{"work", "age"}, Rows{Texts{"c", "29"}}).ok());
}

TEST_CASE("row reader: a part of a time is asked for as a number or a date") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("train.csv", "t,label\n1717158600,1\n2024-06-03,0\n,1\n"));
  AddCategorical(&spec, "t")->set_calendar("hour");
  spec = Learned(spec, files);
  auto as_test = spec;
  as_test.mutable_split()->add_test_paths(
      files.Write("test.csv", "t,label\n1717158600,0\n2024-05-31T14:30:00+02:00,0\n,1\n"));
  const auto data = MustLoad(as_test);
  const auto none = *Dataset::WithoutRows(spec);
  const auto reader = *RowReader::Create(spec, *none, Texts{"t"});
  REQUIRE(reader.inputs().size() == 1);
  CHECK(reader.inputs()[0].kind == RowReader::Input::Kind::kValue);
  const auto cells =
      reader.ReadCells(Texts{"t"}, Rows{{"1717158600"}, {"2024-05-31T14:30:00+02:00"}, {""}});
  INFO(cells.status().message());
  REQUIRE(cells.ok());
  CheckSame(*cells->Read(0, 3), *data->Read({Part::kTest, 0, 0, 3}));
  const auto wrong = reader.ReadCells(Texts{"t"}, Rows{{"noon"}});
  CHECK_THAT(std::string(wrong.status().message()), Contains("wanted a date, or seconds"));
}

TEST_CASE("row reader: only the columns that are used are wanted") {
  const DataFiles files;
  const auto spec = Learned(EveryKind(files), files);
  const auto none = *Dataset::WithoutRows(spec);
  const auto reader = *RowReader::Create(spec, *none, Texts{"n", "t.values", "t.offsets"});
  REQUIRE(reader.inputs().size() == 2);
  CHECK(reader.inputs()[0].column == "t");
  CHECK(reader.inputs()[0].kind == RowReader::Input::Kind::kValues);
  CHECK(reader.inputs()[1].kind == RowReader::Input::Kind::kNumber);
  CHECK(reader.columns().size() == 3);
  CHECK(reader.ReadCells(Texts{"n", "t"}, Rows{Texts{"1", "p"}}).ok());
  const auto lacks = reader.ReadCells(Texts{"n", "tt"}, Rows{Texts{"1", "p"}});
  CHECK(absl::IsNotFound(lacks.status()));
  CHECK_THAT(std::string(lacks.status().message()), Contains("\"t\"") && Contains("n, tt"));
}

TEST_CASE("row reader: an empty text in a history is a value where one was known, and else none") {
  const bool known = GENERATE(true, false);
  CAPTURE(known);
  const DataFiles files;
  auto spec = CsvSpec(
      files.Write("train.csv", absl::StrCat("t,label\na,1\nb,0\n", known ? "NA" : "a", ",1\n")));
  spec.mutable_csv()->add_missing_values("NA");
  AddCategorical(&spec, "t")->set_oov_buckets(1);
  spec.mutable_label()->set_column("label");
  spec = Learned(spec, files);
  FeatureSpec* const history = spec.mutable_features(0);
  history->set_multi_valued(true);
  history->set_value_separator("|");
  history->set_values_of_rows(true);
  const auto none = *Dataset::WithoutRows(spec);
  const auto reader = *RowReader::Create(spec, *none, Texts{"t.values", "t.offsets"});
  const auto values = [&](const RowReader::Value& value) {
    const auto rows =
        reader.ReadValues(Texts{"t"}, std::vector<std::vector<RowReader::Value>>{{value}});
    INFO(rows.status().message());
    REQUIRE(rows.ok());
    const Tensor ids = (*rows->Read(0, 1))[0];
    return std::vector<int64_t>(ids.values<int64_t>().begin(), ids.values<int64_t>().end());
  };
  const std::vector<int64_t> a = values("a"), b = values("b");
  REQUIRE(a.size() == 1);
  CHECK(values("").empty());
  CHECK(values(Texts{"a|b"}).size() == 1);  // in a list any text is one value
  const std::vector<int64_t> with = values("a||b");
  CHECK(with.size() == (known ? 3 : 2));
  CHECK(with.front() == a[0]);
  CHECK(with.back() == b[0]);
  CHECK(values(Texts{"a", "NA", "b"}) == with);
  CHECK(values(Texts{"a", "", "b"}) == with);
  CHECK(values("a|").size() == (known ? 2 : 1));
}

TEST_CASE("row reader: a value that cannot be read is told with its row and column") {
  const DataFiles files;
  const auto spec = Learned(EveryKind(files), files);
  const auto none = *Dataset::WithoutRows(spec);
  const auto reader = *RowReader::Create(spec, *none, Texts{"n", "r"});
  const auto wrong = reader.ReadCells(Texts{"n", "r"}, Rows{Texts{"1", "1"}, Texts{"2", "one"}});
  CHECK_THAT(std::string(wrong.status().message()), Contains("rows[1]") && Contains("\"r\"") &&
                                                        Contains("\"one\"") &&
                                                        Contains("an integer of 64 bits"));
  const auto block =
      reader.ReadBlock({"rows.csv", {'x', ',', '3', '\n'}, 12, 1, Texts{"n", "r"}, 0, ""});
  CHECK_THAT(std::string(block.status().message()),
             Contains("rows.csv:12:1") && Contains("a finite number"));
}

TEST_CASE("row reader: libsvm's lines may lack their label") {
  const DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(files.Write("a.svm", "1 1:1 3:2\n0 2:1\n"));
  const auto learned = Learned(spec, files);
  const auto none = *Dataset::WithoutRows(learned);
  const auto reader = *RowReader::Create(learned, *none, BatchColumns(*none));
  const auto read = [&](const std::string& text) {
    const auto rows = reader.ReadBlock({"rows", {text.begin(), text.end()}, 1, 1, {}, 0, ""});
    INFO(rows.status().message());
    REQUIRE(rows.ok());
    return *rows->Read(0, rows->rows());
  };
  const Batch with = read("1 3:2 9:1\n-1 1:4\n"), without = read("3:2 9:1\n1:4\n");
  CheckSame(without, with);
  const auto cells = reader.ReadCells(Texts{"features"}, Rows{Texts{"3:2 9:1"}, Texts{"1:4"}});
  REQUIRE(cells.ok());
  CheckSame(*cells->Read(0, 2), with);
  CHECK_FALSE(reader.ReadCells(Texts{"features"}, Rows{Texts{"3:2\n1:1"}}).ok());
  const auto wrong = reader.ReadCells(Texts{"features"}, Rows{Texts{"3:2"}, Texts{"x"}});
  CHECK_THAT(std::string(wrong.status().message()), Contains("rows[1]") && Contains("\"x\""));
  // What is no label is no row that lacks it, either.
  const std::string line = "a,b\n";
  const auto other = reader.ReadBlock({"rows", {line.begin(), line.end()}, 7, 1, {}, 0, ""});
  CHECK_THAT(std::string(other.status().message()), Contains("rows:7:1: label: wanted"));
}

TEST_CASE("row reader: libsvm's lines may name a query, which is not looked at") {
  const DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths("f");
  const auto read = [&](const std::string& line) {
    LibsvmReader reader(
        std::make_unique<LineReader>(
            InputFile::OfBytes("f", std::vector<char>(line.begin(), line.end())), 1),
        {0, false, /*label_optional=*/true});
    const auto found = reader.Next();
    REQUIRE(found.ok());
    return std::vector<int64_t>(reader.ids().begin(), reader.ids().end());
  };
  for (const char* line : {"2 qid:7 1:0.5 4:1\n", "qid:7 1:0.5 4:1\n", "1:0.5 4:1\n"}) {
    CAPTURE(line);
    CHECK(read(line) == std::vector<int64_t>{0, 3});
  }
}

TEST_CASE("row reader: values of rows of objects are what such a line has of them") {
  const DataFiles files;
  auto spec =
      CsvSpec(files.Write("train.jsonl",
                          "{\"t\": [\"a\", \"b|c\"], \"v\": [1, 2], \"n\": 4, \"label\": 1}\n"
                          "{\"t\": \"b|c\", \"label\": 0}\n"));
  spec.set_format("jsonl");
  spec.clear_csv();
  FeatureSpec* const tags = AddCategorical(&spec, "t");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  FeatureSpec* const vector = AddNumeric(&spec, "v");
  vector->set_kind(FeatureSpec::VECTOR);
  vector->set_width(2);
  vector->set_missing_value(7);
  AddNumeric(&spec, "n")->set_missing_value(5);
  spec.mutable_label()->set_column("label");
  spec = Learned(spec, files);
  const auto none = *Dataset::WithoutRows(spec);
  const auto reader = *RowReader::Create(spec, *none, BatchColumns(*none));
  for (const RowReader::Input& input : reader.inputs()) CHECK(input.optional);
  FileBlock block;
  block.path = "rows";
  const std::string lines =
      "{\"t\": [\"b|c\", null, \"a\"], \"v\": [3, null], \"n\": null}\n"
      "{\"t\": \"b|c\", \"v\": \"5 6\", \"n\": \"9\"}\n{}\n";
  block.bytes.assign(lines.begin(), lines.end());
  const auto read = reader.ReadBlock(block);
  INFO(read.status().message());
  REQUIRE(read.ok());
  using Row = std::vector<RowReader::Value>;
  const auto values =
      reader.ReadValues(Texts{"n", "t", "v"},
                        std::vector<Row>{{std::monostate(), Texts{"b|c", "", "a"}, Texts{"3", ""}},
                                         {"9", "b|c", "5 6"},
                                         {std::monostate(), std::monostate(), std::monostate()}});
  INFO(values.status().message());
  REQUIRE(values.ok());
  CheckSame(*values->Read(0, 3), *read->Read(0, 3));
  const auto wrong = reader.ReadValues(Texts{"n", "t", "v"},
                                       std::vector<Row>{{Texts{"1", "2"}, "a", Texts{"1", "2"}}});
  CHECK_THAT(std::string(wrong.status().message()),
             Contains("rows[0]: column \"n\": wanted one value, found a list of 2"));
}

TEST_CASE("row reader: a cell holds values only where what stands between them is not in them") {
  const DataFiles files;
  const auto spec = Learned(EveryKind(files), files);
  const auto none = *Dataset::WithoutRows(spec);
  const auto reader = *RowReader::Create(spec, *none, Texts{"t.values", "w.values", "x"});
  const auto& inputs = reader.inputs();
  REQUIRE(inputs.size() == 3);  // x, t, w
  const std::vector<std::string> two = {"p", "q"}, bar = {"p|q"}, space = {"p q"};
  CHECK_FALSE(reader.CellOf(inputs[0], two).ok());  // x has one value
  CHECK(*reader.CellOf(inputs[0], bar) == "p|q");
  CHECK(*reader.CellOf(inputs[1], two) == "p|q");
  CHECK_FALSE(reader.CellOf(inputs[1], bar).ok());
  CHECK(*reader.CellOf(inputs[1], space) == "p q");
  CHECK(*reader.CellOf(inputs[2], two) == "p q");
  CHECK_THAT(std::string(reader.CellOf(inputs[2], space).status().message()),
             Contains("\"p q\"") && Contains("white space"));
}

}  // namespace
}  // namespace coxswain::data
