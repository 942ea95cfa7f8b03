// Writes a CSV file without quotes as Parquet, or as Arrow's own file, for tests.
//
//   arrow_files IN.csv OUT.parquet|OUT.arrow ROWS_PER_GROUP [plain] [checksums] NAME:TYPE...
//
// The columns have these types, in the order of the file; an empty field is null. Of lists, values
// have '|' between them. `plain`: neither dictionaries nor compression. `checksums`: of Parquet's
// pages.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/scalar.h>
#include <arrow/util/compression.h>
#include <arrow/util/decimal.h>
#include <parquet/arrow/writer.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace coxswain {
namespace {

using arrow::Result;
using arrow::Status;

std::shared_ptr<arrow::DataType> TypeOf(const std::string& name) {
  if (name == "i8") return arrow::int8();
  if (name == "i16") return arrow::int16();
  if (name == "i32") return arrow::int32();
  if (name == "i64") return arrow::int64();
  if (name == "u8") return arrow::uint8();
  if (name == "u32") return arrow::uint32();
  if (name == "u64") return arrow::uint64();
  if (name == "f32") return arrow::float32();
  if (name == "f64") return arrow::float64();
  if (name == "bool") return arrow::boolean();
  if (name == "text") return arrow::utf8();
  if (name == "large_text") return arrow::large_utf8();
  if (name == "bytes") return arrow::binary();
  if (name == "time_s") return arrow::timestamp(arrow::TimeUnit::SECOND);
  if (name == "time_us") return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
  if (name == "date") return arrow::date32();
  if (name == "wide_decimal") return arrow::decimal128(38, 0);
  if (name == "decimal") return arrow::decimal128(12, 2);
  if (name == "category") return arrow::dictionary(arrow::int32(), arrow::utf8());
  if (name == "texts") return arrow::list(arrow::utf8());
  if (name == "integers") return arrow::large_list(arrow::int64());
  if (name == "pair") return arrow::fixed_size_list(arrow::float32(), 2);
  if (name == "struct") return arrow::struct_({arrow::field("a", arrow::int32())});
  return nullptr;
}

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, at)) parts.push_back(part);
  if (!text.empty() && text.back() == at) parts.emplace_back();
  return parts;
}

Status AppendValue(const std::string& text, const std::shared_ptr<arrow::DataType>& type,
                   arrow::ArrayBuilder* to) {
  if (type->id() == arrow::Type::DECIMAL128) {
    arrow::Decimal128 value;
    int32_t precision = 0, scale = 0;
    ARROW_RETURN_NOT_OK(arrow::Decimal128::FromString(text, &value, &precision, &scale));
    const auto& decimal = static_cast<const arrow::Decimal128Type&>(*type);
    ARROW_ASSIGN_OR_RAISE(value, value.Rescale(scale, decimal.scale()));
    return static_cast<arrow::Decimal128Builder*>(to)->Append(value);
  }
  ARROW_ASSIGN_OR_RAISE(const auto value, arrow::Scalar::Parse(type, text));
  return to->AppendScalar(*value);
}

Status AppendList(const std::string& text, const std::shared_ptr<arrow::DataType>& type,
                  arrow::ArrayBuilder* to) {
  const auto values = type->field(0)->type();
  arrow::ArrayBuilder* elements = nullptr;
  if (auto* list = dynamic_cast<arrow::ListBuilder*>(to)) {
    ARROW_RETURN_NOT_OK(list->Append());
    elements = list->value_builder();
  } else if (auto* large = dynamic_cast<arrow::LargeListBuilder*>(to)) {
    ARROW_RETURN_NOT_OK(large->Append());
    elements = large->value_builder();
  } else {
    auto* fixed = dynamic_cast<arrow::FixedSizeListBuilder*>(to);
    ARROW_RETURN_NOT_OK(fixed->Append());
    elements = fixed->value_builder();
  }
  for (const std::string& value : Split(text, '|')) {
    if (value == "null") {
      ARROW_RETURN_NOT_OK(elements->AppendNull());
    } else {
      ARROW_RETURN_NOT_OK(AppendValue(value, values, elements));
    }
  }
  return Status::OK();
}

Status Append(const std::string& text, const std::shared_ptr<arrow::DataType>& type,
              arrow::ArrayBuilder* to) {
  if (text.empty()) return to->AppendNull();
  if (type->id() == arrow::Type::STRUCT) return to->AppendEmptyValue();
  if (type->id() == arrow::Type::DICTIONARY) {
    return static_cast<arrow::StringDictionary32Builder*>(to)->Append(text);
  }
  if (type->num_fields() == 1) return AppendList(text, type, to);
  return AppendValue(text, type, to);
}

Result<std::shared_ptr<arrow::Table>> ReadCsv(const std::string& path,
                                              const std::vector<std::string>& columns) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::ArrayBuilder>> builders;
  for (const std::string& column : columns) {
    const std::vector<std::string> parts = Split(column, ':');
    const auto type = parts.size() == 2 ? TypeOf(parts[1]) : nullptr;
    if (type == nullptr) return Status::Invalid("wanted NAME:TYPE, found ", column);
    fields.push_back(arrow::field(parts[0], type));
    if (type->id() == arrow::Type::DICTIONARY) {
      builders.push_back(std::make_shared<arrow::StringDictionary32Builder>());
    } else {
      ARROW_ASSIGN_OR_RAISE(builders.emplace_back(), arrow::MakeBuilder(type));
    }
  }
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // the header
  while (std::getline(file, line)) {
    const std::vector<std::string> values = Split(line, ',');
    for (size_t i = 0; i < fields.size(); ++i) {
      ARROW_RETURN_NOT_OK(
          Append(i < values.size() ? values[i] : "", fields[i]->type(), builders[i].get()));
    }
  }
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const auto& builder : builders) {
    ARROW_ASSIGN_OR_RAISE(arrays.emplace_back(), builder->Finish());
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

Status WriteIpc(const arrow::Table& table, int64_t rows, bool plain,
                const std::shared_ptr<arrow::io::OutputStream>& out) {
  arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  if (!plain) {
    ARROW_ASSIGN_OR_RAISE(options.codec, arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME));
  }
  ARROW_ASSIGN_OR_RAISE(const auto writer,
                        arrow::ipc::MakeFileWriter(out, table.schema(), options));
  ARROW_RETURN_NOT_OK(writer->WriteTable(table, rows));
  return writer->Close();
}

Status Run(const std::vector<std::string>& args) {
  if (args.size() < 4) return Status::Invalid("wanted IN.csv OUT.parquet ROWS_PER_GROUP COLUMNS");
  auto columns = args.begin() + 3;
  const auto says = [&](const char* word) { return *columns == word && ++columns != args.end(); };
  const bool plain = says("plain"), checksums = says("checksums");
  ARROW_ASSIGN_OR_RAISE(const auto table, ReadCsv(args[0], {columns, args.end()}));
  ARROW_ASSIGN_OR_RAISE(const auto out, arrow::io::FileOutputStream::Open(args[1]));
  if (args[1].size() > 6 && args[1].compare(args[1].size() - 6, 6, ".arrow") == 0) {
    ARROW_RETURN_NOT_OK(WriteIpc(*table, std::atoll(args[2].c_str()), plain, out));
    return out->Close();
  }
  parquet::WriterProperties::Builder properties;
  if (plain) {
    properties.disable_dictionary()->disable_statistics();
  } else {
    properties.compression(parquet::Compression::SNAPPY);
  }
  if (checksums) properties.enable_page_checksum();
  auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  ARROW_RETURN_NOT_OK(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out,
                                                 std::atoll(args[2].c_str()), properties.build(),
                                                 arrow_properties));
  return out->Close();
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  const arrow::Status status = coxswain::Run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::cerr << status.ToString() << "\n";
  return 1;
}
