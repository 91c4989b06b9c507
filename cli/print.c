/* How tensors, shapes and sizes look on the terminal. */
#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void tercel_cli_describe_io(const tercel_io *io, char *out, size_t out_size) {
  size_t at = (size_t)snprintf(out, out_size, "%s%s%s", io->kind && io->kind[0] != 't' ? io->kind : "",
                               io->kind && io->kind[0] != 't' ? " of " : "", tercel_dtype_name(io->dtype));
  if (io->rank < 0) {
    if (at < out_size) snprintf(out + at, out_size - at, " of any shape");
    return;
  }
  for (int i = 0; i < io->rank && at < out_size; i++) {
    const char *const before = i ? ", " : " [";
    if (io->dims[i] >= 0)
      at += (size_t)snprintf(out + at, out_size - at, "%s%lld", before, (long long)io->dims[i]);
    else
      at += (size_t)snprintf(out + at, out_size - at, "%s%s", before, io->symbols[i] ? io->symbols[i] : "?");
  }
  if (at < out_size) snprintf(out + at, out_size - at, io->rank ? "]" : " []");
}

tercel_status tercel_cli_write_text(const char *path, const tercel_text *text, tercel_error *err) {
  if (strcmp(path, "-") != 0) return tercel_file_write(path, text->data, text->length, err);
  fwrite(text->data, 1, text->length, stdout); /* main looks whether that went well */
  return TERCEL_OK;
}

void tercel_cli_format_bytes(double bytes, char *out, size_t out_size) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; unit++) bytes /= 1000;
  snprintf(out, out_size, unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

enum { FIRST_VALUES = 5 };

static void print_strings(const tercel_view *view, int64_t elements) {
  const tercel_string *const strings = view->data;
  printf("  first");
  for (int64_t i = 0; i < elements && i < FIRST_VALUES; i++)
    printf(" \"%.*s\"", strings[i].length < 40 ? (int)strings[i].length : 40, strings[i].data);
}

static void print_complex(const tercel_view *view, int64_t elements) {
  const tercel_dtype part = view->dtype == TERCEL_DTYPE_C64 ? TERCEL_DTYPE_F32 : TERCEL_DTYPE_F64;
  printf("  first");
  for (int64_t i = 0; i < elements && i < FIRST_VALUES; i++)
    printf(" %.6g%+.6gi", tercel_element_get_f64(view->data, part, 2 * i),
           tercel_element_get_f64(view->data, part, 2 * i + 1));
}

static void print_numbers(const tercel_view *view, int64_t elements) {
  double least = (double)INFINITY, greatest = (double)-INFINITY, sum = 0;
  int64_t num_nan = 0;
  for (int64_t i = 0; i < elements; i++) {
    const double value = tercel_element_get_f64(view->data, view->dtype, i);
    if (isnan(value)) {
      num_nan++;
      continue;
    }
    least = fmin(least, value);
    greatest = fmax(greatest, value);
    sum += value;
  }
  if (num_nan < elements)
    printf("  min %.6g  max %.6g  mean %.6g", least, greatest, sum / (double)(elements - num_nan));
  if (num_nan) printf("  %lld NaN", (long long)num_nan);
  printf("  first");
  for (int64_t i = 0; i < elements && i < FIRST_VALUES; i++)
    printf(" %.6g", tercel_element_get_f64(view->data, view->dtype, i));
}

void tercel_cli_print_view(const char *label, const tercel_view *view) {
  char shape[160];
  tercel_view_describe(view, shape, sizeof shape);
  printf("%s  %s", label, shape);
  const int64_t elements = tercel_view_num_elements(view);
  if (elements == 0)
    printf("  empty");
  else if (view->dtype == TERCEL_DTYPE_STRING)
    print_strings(view, elements);
  else if (view->dtype == TERCEL_DTYPE_C64 || view->dtype == TERCEL_DTYPE_C128)
    print_complex(view, elements);
  else
    print_numbers(view, elements);
  putchar('\n');
}

void tercel_cli_add_xml(tercel_text *to, const char *text) {
  for (; *text; text++) {
    switch (*text) {
    case '&': tercel_text_add(to, "&amp;"); break;
    case '<': tercel_text_add(to, "&lt;"); break;
    case '>': tercel_text_add(to, "&gt;"); break;
    case '"': tercel_text_add(to, "&quot;"); break;
    default: /* control characters are not allowed in XML, even escaped */
      tercel_text_add(to, "%c", (unsigned char)*text < ' ' || *text == 127 ? ' ' : *text);
    }
  }
}
