// How a csv file is written: the keys of the data set's files, and of a joined table.
#pragma once

#include <string>

#include "coordinator/job/bound_key.h"
#include "coordinator/job/job_sections.h"

namespace coxswain::job {

inline constexpr SchemaKey kCsvKeys[] = {
    Field<proto::CsvOptions>(KeyType::kString, "separator", "\",\"",
                             "field separator, one or more characters"),
    Field<proto::CsvOptions>(KeyType::kBool, "header", "=true, unless `columns` is given",
                             "the first line of each file names the columns"),
    Field<proto::CsvOptions>(KeyType::kStrings, "columns", "",
                             "column names, for files without a header"),
    Field<proto::CsvOptions>(
        KeyType::kBool, "quoting", "true",
        "double quotes enclose fields: `\"a,b\"` is one field, and `\"\"` inside it is a quote"),
    Field<proto::CsvOptions>(
        KeyType::kInt, "skip_lines", "0",
        "number of lines to skip at the beginning of each file, before the header or the first row")
        .Min(0),
    Field<proto::CsvOptions>(KeyType::kString, "comment", "",
                             "lines that begin with this are skipped, such as `\"#\"`"),
    Field<proto::CsvOptions>(KeyType::kBool, "trim", "false",
                             "remove spaces and tabs around fields, but not within quotes"),
    Field<proto::CsvOptions>(KeyType::kStrings, "missing_values", "",
                             "fields that mean a missing value, such as `[\"?\", NA]`: they are "
                             "read as empty fields; in a label they are errors"),
};

// `path`: of the section, for messages.
void ReadCsvOptions(const JobReader& reader, const SectionView& view, const std::string& path,
                    proto::CsvOptions* csv);

}  // namespace coxswain::job
