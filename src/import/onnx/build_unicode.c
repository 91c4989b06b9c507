/* Strings whose characters matter: normalizing, regular expressions.  A component: TERCEL_UNICODE. */
#include <string.h>

#include "import/onnx/build.h"

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

/* Texts of an attribute, 0-terminated; NULL when it is absent. */
static const char *const *get_texts(tercel_onnx_call *c, const char *name, size_t *count) {
  const tercel_onnx_attr *const a = tercel_onnx_get_attr(c, name, TERCEL_ONNX_STRINGS);
  *count = a ? a->strings.count : 0;
  if (!a) return NULL;
  const char **const texts = tercel_arena_alloc_array(&c->import->arena, *count, sizeof *texts);
  for (size_t i = 0; texts && i < *count; i++) {
    const tercel_string s = a->strings.items[i];
    texts[i] = tercel_arena_strndup(&c->import->arena, s.data ? s.data : "", s.length);
    if (!texts[i]) break;
  }
  if (!texts || (*count > 0 && !texts[*count - 1])) keep(c, tercel_fail_memory(c->err, *count * sizeof *texts, name));
  return tercel_onnx_ok(c) ? texts : NULL;
}

/* Unicode's case mappings hold in all languages but these: see SpecialCasing.txt of its database. */
typedef enum locale_case { COMMON, TURKIC, LITHUANIAN } locale_case;

/* Of a locale such as "tr_TR.UTF-8". */
static locale_case language_of(tercel_onnx_call *c) {
  static const struct {
    const char *code;
    locale_case language;
  } special[] = {{"tr", TURKIC}, {"az", TURKIC}, {"lt", LITHUANIAN}};
  const char *const locale = tercel_onnx_get_text(c, "locale", "");
  const size_t length = strcspn(locale, "_-.@");
  for (size_t i = 0; i < sizeof special / sizeof *special; i++)
    if (length == 2 && strncmp(locale, special[i].code, 2) == 0) {
      if (special[i].language == LITHUANIAN)
        tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "attribute 'locale' = '%s' (dots of Lithuanian) is not supported",
                         locale);
      return special[i].language;
    }
  return COMMON;
}

void tercel_onnx_build_string_normalizer(tercel_onnx_call *c) {
  const char *const action = tercel_onnx_get_text(c, "case_change_action", "NONE");
  size_t num_stopwords;
  const char *const *const stopwords = get_texts(c, "stopwords", &num_stopwords);
  const int64_t sensitive = tercel_onnx_get_int(c, "is_case_sensitive", 0);
  const locale_case language = language_of(c);
  char *const lower = tercel_arena_strdup(&c->import->arena, action);
  if (!lower) keep(c, tercel_fail_memory(c->err, strlen(action), "case_change_action"));
  if (!tercel_onnx_ok(c)) return;
  for (char *at = lower; *at; at++) *at = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_string_normalize, 1, tercel_onnx_in(c, 0));
  tercel_onnx_set_text(c, n, "case", lower);
  tercel_onnx_set_int(c, n, "case_sensitive", sensitive);
  tercel_onnx_set_int(c, n, "turkic", language == TURKIC);
  if (stopwords && tercel_onnx_ok(c))
    keep(c, tercel_node_set_strings(n, "stopwords", stopwords, num_stopwords, c->err));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_regex_full_match(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "pattern");
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_regex_match, 1, tercel_onnx_in(c, 0));
  tercel_onnx_set_text(c, n, "pattern", tercel_onnx_get_text(c, "pattern", ""));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}
