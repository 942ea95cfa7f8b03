/* The table of functions by which a plugin reads files of columns, and object stores, with Apache
 * Arrow.
 *
 * Only C types cross it, so that programs start without Arrow's libraries, and so that those may
 * have been built with another compiler and with an Abseil of their own. The plugin exports one
 * function, `coxswain_arrow_api`, and nothing else; it is looked for when a file is to be read.
 * runtime/data/arrow/arrow_file.h wraps the table for the rest of Coxswain.
 *
 * Contract of all functions:
 * - They return a code of absl::StatusCode; unless it is 0, `error` says more, without the file's
 *   name. They never throw, never exit and print nothing, whatever bytes the file has.
 * - A file of columns, with all that was made of it, is used by one thread at a time.
 * - A file of columns is rows in groups (row groups, record batches).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change of this file. A plugin of another version is not used. */
#define COX_ARROW_API_VERSION 3

enum CoxArrowFormat { COX_ARROW_PARQUET = 1, COX_ARROW_IPC = 2 };

typedef struct CoxArrowError {
  char message[1024]; /* ends with a zero */
} CoxArrowError;

/* Where a file's bytes come from. `read` gives the range, which stays where it is until the file is
 * closed or the caller of this table says that it goes (CoxArrowApi.close_reader). */
typedef struct CoxArrowSource {
  void* context;
  int64_t bytes; /* of the file */
  int32_t (*read)(void* context, int64_t offset, int64_t bytes, const void** data,
                  CoxArrowError* error);
} CoxArrowSource;

/* What values are read as. Times are numbers of seconds: since 1970 in UTC, or since midnight. */
enum CoxArrowKind {
  COX_ARROW_OTHER = 0,    /* cannot be read: structs, maps, lists of lists */
  COX_ARROW_INTEGER = 1,  /* int64_t */
  COX_ARROW_UNSIGNED = 2, /* uint64_t */
  COX_ARROW_REAL = 3,     /* double */
  COX_ARROW_BOOL = 4,     /* uint8_t, 0 or 1 */
  COX_ARROW_TEXT = 5      /* bytes, in UTF-8 or not */
};

/* A column, as the schema has it. Texts end with a zero. */
typedef struct CoxArrowField {
  const char* name;
  const char* type; /* for people: "list<element: string>" */
  int32_t kind;     /* CoxArrowKind, of the elements where it is a list */
  int32_t is_list;
} CoxArrowField;

typedef struct CoxArrowRange {
  int64_t offset;
  int64_t bytes;
} CoxArrowRange;

/* Some values, one after the other. */
typedef struct CoxArrowValues {
  int32_t kind;
  int64_t count;
  const void* numbers;    /* all kinds but text */
  const int64_t* offsets; /* text: count + 1, into `bytes` */
  const char* bytes;      /* text */
  const uint8_t* valid;   /* bit (i + valid_offset) % 8 of byte (i + valid_offset) / 8; null: all */
  int64_t valid_offset;
} CoxArrowValues;

/* A column of some rows. Row r has value r; of a list, values [lists[r], lists[r + 1]). With a
 * dictionary, value i is entry codes[i] of `values`, or missing where that is below 0. */
typedef struct CoxArrowColumn {
  int64_t rows;
  const int64_t* lists;      /* rows + 1, ascending; null: one value a row */
  const uint8_t* valid_rows; /* lists that are there, as CoxArrowValues.valid; null: all */
  int64_t valid_rows_offset;
  const int32_t* codes; /* null: no dictionary */
  CoxArrowValues values;
} CoxArrowColumn;

/* Something in an object store. Texts end with a zero. */
typedef struct CoxArrowStored {
  const char* address;  /* "s3://bucket/key" */
  int32_t is_directory; /* other objects' keys begin with its own and '/' */
  int64_t bytes;
  int64_t modified_ns; /* since 1970; 0: not known */
  const char* tag;     /* another one when the content is; "" where it is not known */
} CoxArrowStored;

typedef struct CoxArrowFile CoxArrowFile;
typedef struct CoxArrowReader CoxArrowReader;
typedef struct CoxArrowStoredFile CoxArrowStoredFile;
typedef struct CoxArrowStoredRead CoxArrowStoredRead;
typedef void (*CoxArrowFoundFunction)(void* context, const CoxArrowStored* found);

typedef struct CoxArrowApi {
  uint32_t version; /* COX_ARROW_API_VERSION */
  uint32_t size;    /* sizeof(CoxArrowApi) */
  const char* name; /* "Apache Arrow 26.0.1" */

  /* Reads what a file says of itself. `format`: CoxArrowFormat. The source's context outlives it. */
  int32_t (*open)(int32_t format, const CoxArrowSource* source, CoxArrowFile** file,
                  CoxArrowError* error);
  void (*close)(CoxArrowFile* file);
  /* These are good as long as the file is open. */
  void (*fields)(const CoxArrowFile* file, const CoxArrowField** fields, int64_t* count);
  int64_t (*groups)(const CoxArrowFile* file);
  /* Rows of a group, and where in the file the bytes of some of its columns are, by number of
   * field; the ranges are good until the next call. */
  int32_t (*group)(CoxArrowFile* file, int64_t group, const int32_t* columns, int64_t num_columns,
                   int64_t* rows, const CoxArrowRange** ranges, int64_t* num_ranges,
                   CoxArrowError* error);

  /* Reads these columns of a group, some rows at a time; the file has one reader at a time. */
  int32_t (*open_reader)(CoxArrowFile* file, int64_t group, const int32_t* columns,
                         int64_t num_columns, int64_t batch_rows, CoxArrowReader** reader,
                         CoxArrowError* error);
  /* The columns of the next rows, in the order of `open_reader`, good until the next call; no rows
   * at the end. */
  int32_t (*next)(CoxArrowReader* reader, const CoxArrowColumn** columns, int64_t* rows,
                  CoxArrowError* error);
  /* Nothing that the source gave since the file was open is used any more. */
  void (*close_reader)(CoxArrowReader* reader);

  /* Object stores. Thread-safe, also for one file; each call waits for the network, for a bounded
   * time, and tries again what may help. Credentials, region and endpoint are those of the
   * environment, by the names that the AWS tools use. */
  /* Says what is at an address, a file or a directory; nothing where nothing is. */
  int32_t (*find_stored)(const char* address, CoxArrowFoundFunction found, void* context,
                         CoxArrowError* error);
  /* Says what lies in a directory, files and directories, without what lies in those. */
  int32_t (*list_stored)(const char* address, CoxArrowFoundFunction found, void* context,
                         CoxArrowError* error);
  /* Texts of `about` are good as long as the file is open. */
  int32_t (*open_stored)(const char* address, CoxArrowStoredFile** file, CoxArrowStored* about,
                         CoxArrowError* error);
  /* All of the range, or an error. */
  int32_t (*read_stored)(CoxArrowStoredFile* file, int64_t offset, int64_t bytes, void* out,
                         CoxArrowError* error);
  void (*close_stored)(CoxArrowStoredFile* file);
  /* Asks for a range without waiting for it. What comes is kept until it is taken; the file may be
   * closed before. */
  int32_t (*start_read)(CoxArrowStoredFile* file, int64_t offset, int64_t bytes,
                        CoxArrowStoredRead** read, CoxArrowError* error);
  /* Waits for all of that range, which `out` has room for, or an error. */
  int32_t (*take_read)(CoxArrowStoredRead* read, void* out, CoxArrowError* error);
  /* Does not wait, whether or not it was taken. */
  void (*drop_read)(CoxArrowStoredRead* read);
} CoxArrowApi;

/* What a plugin exports under this name. Good as long as the plugin is loaded. */
typedef const CoxArrowApi* (*CoxArrowApiFunction)(void);
#define COX_ARROW_API_SYMBOL "coxswain_arrow_api"
const CoxArrowApi* coxswain_arrow_api(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
