// How a csv file is written: the keys of the data set's files, and of a joined table.
#pragma once

#include <string>

#include "coordinator/job/bound_key.h"
#include "coordinator/job/job_sections.h"

namespace coxswain::job {

inline constexpr SchemaKey kCsvKeys[] = {
    Field<proto::CsvOptions>(KeyType::kString, "separator", "\",\"",
                             "what stands between two fields, one or more characters"),
    Field<proto::CsvOptions>(KeyType::kBool, "header", "=true, unless `columns` is given",
                             "the first line of each file names the columns"),
    Field<proto::CsvOptions>(KeyType::kStrings, "columns", "",
                             "the names of the columns, for files without a header"),
    Field<proto::CsvOptions>(KeyType::kBool, "quoting", "true",
                             "`\"a,b\"` is one field, `\"\"` inside it a quote"),
    Field<proto::CsvOptions>(KeyType::kInt, "skip_lines", "0",
                             "number of lines at the beginning of each file that are neither a "
                             "header nor rows")
        .Min(0),
    Field<proto::CsvOptions>(KeyType::kString, "comment", "",
                             "lines that begin with this are left out, such as `\"#\"`"),
    Field<proto::CsvOptions>(KeyType::kBool, "trim", "false",
                             "spaces and tabs around fields are no part of them; within quotes "
                             "they are"),
    Field<proto::CsvOptions>(KeyType::kStrings, "missing_values", "",
                             "fields that stand for a missing value, such as `[\"?\", NA]`: they "
                             "are read as empty ones; as a label they are errors"),
};

// `path`: of the section, for messages.
void ReadCsvOptions(const JobReader& reader, const SectionView& view, const std::string& path,
                    proto::CsvOptions* csv);

}  // namespace coxswain::job
