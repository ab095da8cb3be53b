/* A driver called alone, as an application in C would: executes a query, and counts the rows of its stream. No
 * driver manager: the functions are those of the driver itself. A library, as the engine of DuckDB's package for
 * Python is loaded by Python alone. */

#include <arrow-adbc/adbc.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct AdbcDriver driver;
static struct AdbcDatabase database;

static void check(int status, struct AdbcError* error, const char* what) {
  if (status == 0) return;
  fprintf(stderr, "%s: %d: %s\n", what, status, error && error->message ? error->message : "");
  exit(1);
}

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Rows of a query, on a connection that is there before the clock. */
static long long rows_of(const char* query, long long* spent) {
  struct AdbcError error = ADBC_ERROR_INIT;
  struct AdbcConnection connection = {0};
  struct AdbcStatement statement = {0};
  check(driver.ConnectionNew(&connection, &error), &error, "ConnectionNew");
  check(driver.ConnectionInit(&connection, &database, &error), &error, "ConnectionInit");
  check(driver.StatementNew(&connection, &statement, &error), &error, "StatementNew");
  check(driver.StatementSetSqlQuery(&statement, query, &error), &error, "StatementSetSqlQuery");
  struct ArrowArrayStream stream = {0};
  long long rows = 0, began = now();
  check(driver.StatementExecuteQuery(&statement, &stream, NULL, &error), &error, "ExecuteQuery");
  for (;;) {
    struct ArrowArray batch = {0};
    int status = stream.get_next(&stream, &batch);
    if (status != 0) {
      fprintf(stderr, "get_next: %s\n", stream.get_last_error(&stream));
      exit(1);
    }
    if (batch.release == NULL) break;
    rows += batch.length;
    batch.release(&batch);
  }
  *spent = now() - began;
  stream.release(&stream);
  check(driver.StatementRelease(&statement, &error), &error, "StatementRelease");
  check(driver.ConnectionRelease(&connection, &error), &error, "ConnectionRelease");
  return rows;
}

/* Rows of `query`; in `spent` the nanoseconds until they were there. Before the clock `warm` is asked. `options`
 * are keys and values, NULL at their end. Ends the process where it fails. */
long long alone(const char* path, const char* entrypoint, const char* warm, const char* query,
                const char** options, long long* spent) {
  struct AdbcError error = ADBC_ERROR_INIT;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  AdbcDriverInitFunc init = library ? (AdbcDriverInitFunc)dlsym(library, entrypoint) : NULL;
  if (init == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  check(init(ADBC_VERSION_1_1_0, &driver, &error), &error, "init");
  check(driver.DatabaseNew(&database, &error), &error, "DatabaseNew");
  for (; options[0] != NULL; options += 2)
    check(driver.DatabaseSetOption(&database, options[0], options[1], &error), &error, options[0]);
  check(driver.DatabaseInit(&database, &error), &error, "DatabaseInit");
  rows_of(warm, spent);
  long long rows = rows_of(query, spent);
  check(driver.DatabaseRelease(&database, &error), &error, "DatabaseRelease");
  return rows;
}
