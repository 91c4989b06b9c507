/* Categories and scripts, from the table that tools/make-unicode-table makes. */
#include "ops/unicode.h"

#include <string.h>

static const char *const categories[] = {
#define CATEGORY(name) #name,
#define SCRIPT(name)
#define C(code, category)
#define S(code, script)
#include "ops/unicode.inc"
#undef CATEGORY
#undef SCRIPT
};

static const char *const scripts[] = {
#define CATEGORY(name)
#define SCRIPT(name) #name,
#include "ops/unicode.inc"
#undef CATEGORY
#undef SCRIPT
#undef C
#undef S
};

/* A run's first code point, and 8 bits of what holds up to the next run. */
static const uint32_t category_runs[] = {
#define CATEGORY(name)
#define SCRIPT(name)
#define C(code, category) (uint32_t)(code) << 8 | ((category) + 1),
#define S(code, script)
#include "ops/unicode.inc"
#undef C
#undef S
};

static const uint32_t script_runs[] = {
#define C(code, category)
#define S(code, script) (uint32_t)(code) << 8 | ((script) + 1),
#include "ops/unicode.inc"
#undef CATEGORY
#undef SCRIPT
#undef C
#undef S
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static uint32_t run_at(const uint32_t *runs, size_t count, uint32_t code) {
  size_t low = 0;
  while (count > 1) {
    const size_t half = count / 2;
    if (runs[low + half] >> 8 <= code) low += half;
    count -= half;
  }
  return runs[low] & 0xFF;
}

static bool is_name(const char *name, const char *text, size_t length) {
  return strlen(name) == length && memcmp(name, text, length) == 0;
}

bool tercel_unicode_parse(const char *name, size_t length, tercel_unicode_property *out) {
  *out = (tercel_unicode_property){0};
  if (is_name("Any", name, length)) out->categories = UINT32_MAX;
  for (size_t i = 0; i < COUNT(categories); ++i)
    if (is_name(categories[i], name, length) || (length == 1 && categories[i][0] == name[0]))
      out->categories |= UINT32_C(2) << i; /* bit 0: unassigned */
  for (size_t i = 0; i < COUNT(scripts); ++i)
    if (is_name(scripts[i], name, length)) out->script = (uint16_t)(i + 1);
  return out->categories != 0 || out->script != 0;
}

bool tercel_unicode_has(tercel_unicode_property property, uint32_t code) {
  if (property.script != 0) return run_at(script_runs, COUNT(script_runs), code) == property.script;
  return property.categories >> run_at(category_runs, COUNT(category_runs), code) & 1;
}
