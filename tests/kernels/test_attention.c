/* attention and rotary over f32 against their references. */
#include "kernels/check_text.h"

#include <stdio.h>
#include <string.h>

typedef struct shape {
  int batch, heads, kv_heads, queries, keys, head_size, value_size;
} shape;

/* Tiles and blocks with tails, single queries, groups of heads, many rows from few queries. */
static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},     {2, 3, 3, 5, 7, 8, 8},       {1, 2, 1, 70, 70, 24, 17}, {1, 4, 2, 1, 300, 64, 64},
    {2, 6, 2, 3, 129, 40, 72}, {1, 1, 1, 65, 257, 20, 130}, {1, 8, 1, 33, 40, 16, 33}, {3, 2, 2, 4, 128, 32, 5},
};
enum { NUM_SHAPES = sizeof shapes / sizeof *shapes };

/* Attributes, and what follows v. */
static const char *const forms[][2] = {
    {"", "{}"},
    {"", "{causal = 1, softcap = 1.5}"},
    {", _, %o", "{causal = 1}"},
    {", _, %o, %l", "{left = 3, right = 1, scale = 0.7}"},
    {", _, _, %l", "{}"},
    {", %m", "{}"},
    {", %m, %o, %l", "{causal = 1}"},
    {", %b", "{softcap = 2}"},
    {", %b, %o", "{right = 4}"},
    {", _, %o, _, %s", "{causal = 1, softcap = 1.5}"},
    {", %b, _, %l, %s", "{}"},
};

static void check(const shape *s, bool packed, size_t form, const check_options *options) {
  char text[2048], q[64], k[64], v[64], extra[512] = "";
  const char *operands = forms[form][0];
  if (packed) {
    snprintf(q, sizeof q, "%d, %d, %d", s->batch, s->queries, s->heads * s->head_size);
    snprintf(k, sizeof k, "%d, %d, %d", s->batch, s->keys, s->kv_heads * s->head_size);
    snprintf(v, sizeof v, "%d, %d, %d", s->batch, s->keys, s->kv_heads * s->value_size);
  } else {
    snprintf(q, sizeof q, "%d, %d, %d, %d", s->batch, s->heads, s->queries, s->head_size);
    snprintf(k, sizeof k, "%d, %d, %d, %d", s->batch, s->kv_heads, s->keys, s->head_size);
    snprintf(v, sizeof v, "%d, %d, %d, %d", s->batch, s->kv_heads, s->keys, s->value_size);
  }
  size_t at = 0;
#define ADD(...) at += (size_t)snprintf(extra + at, sizeof extra - at, __VA_ARGS__)
  if (strstr(operands, "%m")) ADD(", %%m: f32[%d, 1, %d, %d]", s->batch, s->queries, s->keys);
  if (strstr(operands, "%b")) ADD(", %%b: bool[%d, %d, %d]", s->heads, s->queries, s->keys > 2 ? s->keys - 2 : 1);
  if (strstr(operands, "%o")) ADD(", %%o: i64[%d]", s->batch);
  if (strstr(operands, "%l")) ADD(", %%l: i64[1]");
  if (strstr(operands, "%s")) ADD(", %%s: f32[%d]", s->heads);
#undef ADD
  snprintf(
      text, sizeof text,
      "(%%q: f32[%s], %%k: f32[%s], %%v: f32[%s]%s) { %%y = attention(%%q, %%k, %%v%s) {heads = %d, kv_heads = %d, %s "
      "return %%y }",
      q, k, v, extra, operands, s->heads, s->kv_heads, forms[form][1][1] == '}' ? "softcap = 0}" : forms[form][1] + 1);
  check_text(text, options);
}

static void test_shapes(void **state) {
  (void)state;
  for (size_t i = 0; i < NUM_SHAPES; i++)
    for (int packed = 0; packed < 2; packed++)
      for (size_t form = 0; form < sizeof forms / sizeof *forms; form++)
        check(&shapes[i], packed != 0, form, &(check_options){.tolerance = {.scale = 16}});
}

/* Numbers that aren't, in any place: a row that reads one is not a number as a whole. */
static void test_specials(void **state) {
  (void)state;
  check(&(shape){1, 2, 2, 9, 30, 16, 16}, false, 0,
        &(check_options){.tolerance = {.scale = 16}, .low = -1e-3, .high = 1e-3});
  check_text("(%q: f32[1, 1, 3, 4]) { %k: f32[1, 1, 2, 4] = constant data(nan, 0, 0, 0, 1, 2, 3, 4)\n"
             "%v: f32[1, 1, 2, 1] = constant data(1, 2)\n%m: bool[3, 2] = constant data(1, 1, 0, 1, 0, 0)\n"
             "%y = attention(%q, %k, %v, %m) return %y }",
             &(check_options){.tolerance = {.scale = 16}});
}

/* A query that sees nothing, one that sees something, and one whose only score is NaN. */
static void test_unseen(void **state) {
  (void)state;
  static const char *const ways[] = {"{softcap = 0}", "{unseen = \"nan\"}", "{unseen = \"clear\"}", "{fill = -1e9}",
                                     "{fill = -3.4028234663852886e+38, unseen = \"nan\"}"};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    char text[512];
    snprintf(
        text, sizeof text,
        "(%%q: f32[1, 1, 4, 4], %%v: f32[1, 1, 3, 5]) { %%k: f32[1, 1, 3, 4] = constant data(nan, 0, 0, 0, 1, 2, 3, "
        "4, 4, 3, 2, 1)\n%%m: bool[4, 3] = constant data(0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0)\n"
        "%%y = attention(%%q, %%k, %%v, %%m) %s return %%y }",
        ways[i]);
    check_text(text, &(check_options){.tolerance = {.scale = 16}});
  }
}

static void test_rotary(void **state) {
  (void)state;
  static const char *const graphs[][3] = {
      {"%q: f32[2, 3, 5, 64], %c: f32[2, 5, 32], %s: f32[2, 5, 32]", "%q, %c, %s", ""},
      {"%q: f32[2, 5, 66], %c: f32[9, 7], %s: f32[9, 7], %i: i64[2, 5]", "%q, %c, %s, %i", "heads = 3, dims = 14, "},
      {"%q: f32[3, 2, 5, 8], %c: f32[1, 5, 4], %s: f32[1, 5, 4]", "%q, %c, %s", ""},
      {"%q: f32[1, 2, 1, 6], %c: f32[9, 3], %s: f32[9, 3], %i: i64[1, 1]", "%q, %c, %s, %i", ""},
  };
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
    for (int interleaved = 0; interleaved < 2; interleaved++) {
      char text[512];
      snprintf(text, sizeof text, "(%s) { %%y = rotary(%s) {%sinterleaved = %d} return %%y }", graphs[i][0],
               graphs[i][1], graphs[i][2], interleaved);
      check_text(text, &(check_options){.tolerance = {.scale = 2}});
    }
  check_text("(%q: f32[1, 9, 256, 64], %c: f32[1, 256, 32], %s: f32[1, 256, 32]) { %y = rotary(%q, %c, %s) return %y }",
             &(check_options){.tolerance = {.scale = 2}, .timed = true});
}

static void test_times(void **state) {
  (void)state;
  static const shape timed[] = {{1, 12, 12, 197, 197, 64, 64},
                                {1, 9, 3, 256, 256, 64, 64},
                                {1, 9, 3, 1, 1024, 64, 64},
                                {1, 32, 8, 1, 2048, 128, 128}};
  for (size_t i = 0; i < sizeof timed / sizeof *timed; i++) {
    const double scale = 16 + timed[i].keys / 64.0; /* each key's product and weight are rounded */
    check(&timed[i], false, 0, &(check_options){.tolerance = {.scale = scale}, .timed = true});
  }
}

int main(int argc, char **argv) {
  check_start(argc, argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_specials),
                                     cmocka_unit_test(test_unseen), cmocka_unit_test(test_rotary),
                                     cmocka_unit_test(test_times)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
