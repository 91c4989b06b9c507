/* Comparing a tensor with what it should be. */
#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What differs, over all elements. */
typedef struct difference {
  int64_t count, first;
  double worst;     /* the largest |got - want| of the differing */
  double got, want; /* at the first */
} difference;

static bool same_shape(const tercel_view *a, const tercel_view *b) {
  return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

static bool is_close(double got, double want, double rtol, double atol) {
  if (got == want || (isnan(got) && isnan(want))) return true;
  return isfinite(got) && isfinite(want) && fabs(got - want) <= atol + rtol * fabs(want);
}

/* Floats, bools and integers of at most 32 bits, which f64 holds exactly. */
static void compare_numbers(const void *got, const void *want, tercel_dtype dtype, int64_t elements, double rtol,
                            double atol, difference *out) {
  const bool exact = !tercel_dtype_is_float(dtype);
  for (int64_t i = 0; i < elements; i++) {
    const double a = tercel_element_get_f64(got, dtype, i), b = tercel_element_get_f64(want, dtype, i);
    if (is_close(a, b, exact ? 0 : rtol, exact ? 0 : atol)) continue;
    if (out->count++ == 0) {
      out->first = i;
      out->got = a;
      out->want = b;
    }
    if (!(fabs(a - b) <= out->worst)) out->worst = fabs(a - b);
  }
}

/* Integers of 64 bits: f64 would blur the last ones. */
static void compare_wide(const int64_t *got, const int64_t *want, int64_t elements, difference *out) {
  for (int64_t i = 0; i < elements; i++) {
    if (got[i] == want[i]) continue;
    if (out->count++ == 0) {
      out->first = i;
      out->got = (double)got[i];
      out->want = (double)want[i];
    }
    out->worst = fmax(out->worst, fabs((double)got[i] - (double)want[i]));
  }
}

static bool compare_strings(const tercel_string *got, const tercel_string *want, int64_t elements, char *why,
                            size_t why_size) {
  for (int64_t i = 0; i < elements; i++) {
    if (got[i].length == want[i].length &&
        (want[i].length == 0 || memcmp(got[i].data, want[i].data, want[i].length) == 0))
      continue;
    snprintf(why, why_size, "element %lld is \"%.*s\", want \"%.*s\"", (long long)i, (int)got[i].length, got[i].data,
             (int)want[i].length, want[i].data);
    return false;
  }
  return true;
}

static bool is_of_type(const tercel_view *got, const tercel_view *want, char *why, size_t why_size) {
  if (got->dtype == want->dtype && same_shape(got, want)) return true;
  char got_text[160], want_text[160];
  tercel_view_describe(got, got_text, sizeof got_text);
  tercel_view_describe(want, want_text, sizeof want_text);
  snprintf(why, why_size, "is %s, want %s", got_text, want_text);
  return false;
}

bool tercel_cli_compare(const tercel_view *got, const tercel_view *want, double rtol, double atol, char *why,
                        size_t why_size) {
  if (!is_of_type(got, want, why, why_size)) return false;
  int64_t elements = tercel_view_num_elements(want);
  difference found = {0};
  switch (want->dtype) {
  case TERCEL_DTYPE_STRING: return compare_strings(got->data, want->data, elements, why, why_size);
  case TERCEL_DTYPE_I64:
  case TERCEL_DTYPE_U64: compare_wide(got->data, want->data, elements, &found); break;
  case TERCEL_DTYPE_C64:
  case TERCEL_DTYPE_C128:
    elements *= 2;
    compare_numbers(got->data, want->data, want->dtype == TERCEL_DTYPE_C64 ? TERCEL_DTYPE_F32 : TERCEL_DTYPE_F64,
                    elements, rtol, atol, &found);
    break;
  default: compare_numbers(got->data, want->data, want->dtype, elements, rtol, atol, &found);
  }
  if (found.count == 0) return true;
  snprintf(why, why_size, "%lld of %lld elements differ, by %.3g at most; element %lld is %.9g, want %.9g",
           (long long)found.count, (long long)elements, found.worst, (long long)found.first, found.got, found.want);
  return false;
}

/* ---- draws ---- */

/* Mean and variance of the elements. */
static void moments(const tercel_view *view, int64_t elements, double *mean, double *variance) {
  *mean = *variance = 0;
  for (int64_t i = 0; i < elements; i++) *mean += tercel_element_get_f64(view->data, view->dtype, i) / (double)elements;
  for (int64_t i = 0; i < elements; i++) {
    const double off = tercel_element_get_f64(view->data, view->dtype, i) - *mean;
    *variance += off * off / (double)elements;
  }
}

bool tercel_cli_compare_draws(const tercel_view *got, const tercel_view *want, double atol, char *why,
                              size_t why_size) {
  const int64_t elements = tercel_view_num_elements(want);
  if (!is_of_type(got, want, why, why_size)) return false;
  if (!tercel_dtype_is_float(want->dtype) && !tercel_dtype_is_integer(want->dtype) && want->dtype != TERCEL_DTYPE_BOOL)
    return tercel_cli_compare(got, want, 0, 0, why, why_size);
  double mean[2], variance[2];
  moments(got, elements, &mean[0], &variance[0]);
  moments(want, elements, &mean[1], &variance[1]);
  const double allowed = 5 * sqrt((variance[0] + variance[1]) / (double)elements) + atol;
  if (elements == 0 || fabs(mean[0] - mean[1]) <= allowed) return true;
  snprintf(why, why_size, "the mean is %.9g, want %.9g +- %.3g", mean[0], mean[1], allowed);
  return false;
}
