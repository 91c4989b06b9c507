/* Memory of one context: the account, growing buffers, amounts for messages. */
#include "runtime/memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static size_t machine_bytes(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  size_t bytes;
  if (pages <= 0 || page_bytes <= 0 || !tercel_mul_size((size_t)pages, (size_t)page_bytes, &bytes)) return SIZE_MAX;
  return bytes;
}

void tercel_account_init(tercel_account *account, uint64_t max_memory) {
  const size_t machine = machine_bytes();
  *account = (tercel_account){.machine_bytes = machine, .limit_bytes = machine, .limit_is_ours = true};
  if (max_memory == 0 || max_memory >= machine) return;
  account->limit_bytes = (size_t)max_memory;
  account->limit_is_ours = false;
}

tercel_status tercel_account_check(const tercel_account *account, size_t bytes, tercel_error *err) {
  if (bytes <= account->limit_bytes && account->used_bytes <= account->limit_bytes - bytes) return TERCEL_OK;
  size_t total;
  if (!tercel_add_size(account->used_bytes, bytes, &total)) total = SIZE_MAX;
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "activations need %s, but %s %s (%zu and %zu bytes)",
                     tercel_amount_of(total).text, account->limit_is_ours ? "this machine has" : "max_memory allows",
                     tercel_amount_of(account->limit_bytes).text, total, account->limit_bytes);
}

tercel_status tercel_buffer_reserve(tercel_buffer *buffer, tercel_account *account, size_t bytes, size_t keep,
                                    tercel_error *err) {
  if (bytes == 0) bytes = 1;
  if (bytes <= buffer->bytes) return TERCEL_OK;
  if (buffer->fixed)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "needs %zu bytes, but the bound memory has %zu", bytes,
                       buffer->bytes);
  TERCEL_TRY(tercel_account_check(account, bytes - buffer->bytes, err));
  if (keep == 0) tercel_buffer_free(buffer, account);
  void *const data = tercel_alloc(bytes);
  if (data == NULL) return tercel_fail_memory(err, bytes, "activations");
  if (keep > 0) {
    memcpy(data, buffer->data, keep);
    tercel_buffer_free(buffer, account);
  }
  *buffer = (tercel_buffer){data, bytes, false};
  account->used_bytes += bytes;
  return TERCEL_OK;
}

void tercel_buffer_free(tercel_buffer *buffer, tercel_account *account) {
  if (!buffer->fixed && buffer->data != NULL) {
    tercel_free(buffer->data);
    account->used_bytes -= buffer->bytes;
  }
  *buffer = (tercel_buffer){0};
}

tercel_amount tercel_amount_of(size_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  tercel_amount amount;
  double number = (double)bytes;
  size_t unit = 0;
  for (; number >= 1024 && unit + 1 < sizeof units / sizeof *units; ++unit) number /= 1024;
  /* One digit behind the point, written by hand: printf's point depends on the locale. */
  const unsigned long tenths = (unsigned long)(number * 10 + 0.5);
  if (tenths % 10 == 0)
    snprintf(amount.text, sizeof amount.text, "%lu %s", tenths / 10, units[unit]);
  else
    snprintf(amount.text, sizeof amount.text, "%lu.%lu %s", tenths / 10, tenths % 10, units[unit]);
  return amount;
}

tercel_described tercel_describe(tercel_dtype dtype, int rank, const int64_t *dims) {
  tercel_described shape;
  int at = snprintf(shape.text, sizeof shape.text, "%s[", tercel_dtype_name(dtype));
  for (int i = 0; i < rank && at > 0 && (size_t)at < sizeof shape.text; ++i)
    at += snprintf(shape.text + at, sizeof shape.text - (size_t)at, i > 0 ? ", %lld" : "%lld", (long long)dims[i]);
  if (at > 0 && (size_t)at < sizeof shape.text)
    snprintf(shape.text + at, sizeof shape.text - (size_t)at, rank < 0 ? "*]" : "]");
  return shape;
}
