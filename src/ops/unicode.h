/* Properties of Unicode's code points: general categories and scripts. */
#ifndef TERCEL_OPS_UNICODE_H
#define TERCEL_OPS_UNICODE_H

#include "base/base.h"

/* Any of some categories (bits; unassigned code points have none that is named), or one script (its number from 1 on). */
typedef struct tercel_unicode_property {
  uint32_t categories;
  uint16_t script;
} tercel_unicode_property;

/* "L", "Lu", "Greek", "Any"; false: there is no such property. */
bool tercel_unicode_parse(const char *name, size_t length, tercel_unicode_property *out);
bool tercel_unicode_has(tercel_unicode_property property, uint32_t code);

#endif
