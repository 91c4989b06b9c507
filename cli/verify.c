/* --verify: every step of an engine against reference kernels and the nodes of the file, on made-up or given inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

enum { SHOWN = 10 };

static double share(const tercel_difference *d) {
  return !d->compared || d->error == 0 ? 0 : d->limit > 0 ? d->error / d->limit : INFINITY;
}

static double row_share(const tercel_verify_row *row) {
  const double reference = share(&row->reference), file = share(&row->file);
  return reference > file ? reference : file;
}

static int largest_first(const void *a, const void *b) {
  const double x = row_share(a), y = row_share(b);
  return (x < y) - (x > y);
}

static void print_difference(const tercel_difference *d) {
  if (d->compared)
    printf("  %8.2g %8.2g", d->error, d->limit);
  else
    printf("  %8s %8s", "-", "-");
}

static void print_rows(const tercel_verify_row *rows, size_t count, bool all) {
  printf("   reference kernel        file's nodes\n     error    limit     error    limit  step\n");
  for (size_t i = 0; i < count && (all || i < SHOWN || !rows[i].ok); i++) {
    const tercel_verify_row *const row = &rows[i];
    print_difference(&row->reference);
    print_difference(&row->file);
    printf("  %s%s (%s): ", row->ok ? "" : "WRONG ", row->op, row->tactic);
    for (size_t k = 0; k < row->num_sources && k < 4; k++) printf("%s%s", k ? " + " : "", row->sources[k]);
    printf(row->num_sources > 4 ? " + %zu more\n" : "\n", row->num_sources - 4);
  }
  if (!all && count > SHOWN) printf("%*s... %zu more, farther within their limits (--all)\n", 10, "", count - SHOWN);
}

/* The steps that were compared, those that use most of their limits first. */
void tercel_cli_print_verification(const tercel_engine *engine, bool all) {
  tercel_verify_row row, *rows = NULL;
  size_t count = 0, num_wrong = 0, num_kernels = 0, num_fused = 0;
  while (tercel_engine_get_verification(engine, count, &row)) {
    count++;
    num_wrong += !row.ok;
    num_kernels += row.reference.compared != 0;
    num_fused += row.file.compared != 0;
  }
  if (count == 0) return;
  printf("\nverified: %zu steps against their reference kernels, %zu against the file's nodes: ", num_kernels,
         num_fused);
  printf(num_wrong ? "%zu ARE WRONG\n" : "all are right\n", num_wrong);
  rows = tercel_alloc_array(count, sizeof *rows);
  if (!rows) return;
  for (size_t i = 0; i < count; i++) tercel_engine_get_verification(engine, i, &rows[i]);
  qsort(rows, count, sizeof *rows, largest_first);
  print_rows(rows, count, all);
  tercel_free(rows);
}

tercel_status tercel_cli_verify(const tercel_cli_inputs *options, const tercel_cli_session *session,
                                tercel_error *err) {
  tercel_cli_data data = {0};
  TERCEL_TRY(tercel_cli_read_inputs(session->engine, options, &data, err));
  tercel_status status = tercel_cli_set_inputs(session->context, &data, err);
  if (status == TERCEL_OK) status = tercel_context_verify(session->context, session->model, err);
  bool chosen = false;
  for (size_t i = 0; i < data.count; i++) chosen = chosen || data.chosen[i];
  tercel_cli_free_inputs(&data);
  tercel_verify_row row;
  if (status == TERCEL_OK || !chosen || tercel_engine_get_verification(session->engine, 0, &row)) return status;
  return tercel_fail(err, status, "%s (free dims were taken as 1: --shapes sets them)", err->message);
}
