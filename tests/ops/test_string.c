/* string_concat, string_split, string_normalize, string_format, string_parse, regex_match, label_encode, tfidf. */
#include <string.h>

#include "ops/check.h"
#include "ops/regex.h"

static void test_concat(void **state) {
  (void)state;
  check_type("%a: string[n, 1], %b: string[3]", "%y = string_concat(%a, %b)\nreturn %y", "string[n, 3]");
  check_rejects("%a: string[2], %b: f32[2]", "%y = string_concat(%a, %b)\nreturn %y", TERCEL_INVALID_MODEL,
                "input 1 is f32, want string");
  check_rejects("%a: string[2], %b: string[3]", "%y = string_concat(%a, %b)\nreturn %y", TERCEL_INVALID_MODEL, "");
  check_values(
      "%a: string[2, 1] = constant data(\"x\", \"\")\n%b: string[2] = constant data(\"1\", \"é\")\n"
      "%y = string_concat(%a, %b)\n%w: string[2, 2] = constant data(\"x1\", \"xé\", \"1\", \"é\")\nreturn %y, %w",
      0);
}

static void test_split(void **state) {
  (void)state;
  check_type("%x: string[n, 2]", "%y = string_split(%x)\nreturn %y", "string[n, 2, ?3]");
  check_values("%x: string[2] = constant data(\"a,b,,c\", \"\")\n%y, %n = string_split(%x) {delimiter = \",\"}\n"
               "%w: string[2, 4] = constant data(\"a\", \"b\", \"\", \"c\", \"\", \"\", \"\", \"\")\n"
               "%m: i64[2] = constant data(4, 1)\nreturn %y, %w, %n, %m",
               0);
  check_values("%x: string[2] = constant data(\"  a  b c \", \" \")\n%y, %n = string_split(%x) {maxsplit = 1}\n"
               "%w: string[2, 2] = constant data(\"a\", \"b c \", \"\", \"\")\n"
               "%m: i64[2] = constant data(2, 0)\nreturn %y, %w, %n, %m",
               0);
}

static void test_normalize(void **state) {
  (void)state;
  check_type("%x: string[1, n]", "%y = string_normalize(%x)\nreturn %y", "string[1, ?2]");
  check_rejects("%x: string[2, 3]", "%y = string_normalize(%x)\nreturn %y", TERCEL_INVALID_MODEL, "[n] or [1, n]");
  check_values("%x: string[4] = constant data(\"Über\", \"ÜBER\", \"жук\", \"ß\")\n"
               "%y = string_normalize(%x) {case = \"upper\"}\n"
               "%w: string[4] = constant data(\"ÜBER\", \"ÜBER\", \"ЖУК\", \"ß\")\nreturn %y, %w",
               0);
  check_values("%x: string[3] = constant data(\"Über\", \"ÜBER\", \"Ω\")\n"
               "%y = string_normalize(%x) {case = \"lower\", stopwords = [\"über\"]}\n"
               "%w: string[1] = constant data(\"ω\")\nreturn %y, %w",
               0);
  check_values("%x: string[2] = constant data(\"a\", \"a\")\n"
               "%y = string_normalize(%x) {case_sensitive = 1, stopwords = [\"a\"]}\n"
               "%w: string[1] = constant data(\"\")\nreturn %y, %w",
               0);
}

static void test_normalize_turkic(void **state) {
  (void)state;
  check_values("%x: string[4] = constant data(\"Irak\", \"İz\", \"ılık\", \"iki\")\n"
               "%y = string_normalize(%x) {case = \"lower\", turkic = 1, stopwords = [\"ılık\"]}\n"
               "%w: string[3] = constant data(\"ırak\", \"iz\", \"iki\")\nreturn %y, %w",
               0);
  check_values("%x: string[2] = constant data(\"ılık\", \"iki\")\n"
               "%y = string_normalize(%x) {case = \"upper\", turkic = 1}\n"
               "%w: string[2] = constant data(\"ILIK\", \"İKİ\")\nreturn %y, %w",
               0);
  check_values("%x: string[2] = constant data(\"İI\", \"iı\")\n%y = string_normalize(%x) {case = \"lower\"}\n"
               "%w: string[2] = constant data(\"ii\", \"iı\")\nreturn %y, %w",
               0);
}

static void test_cast(void **state) {
  (void)state;
  check_values("%x: bool[2] = constant data(1, 0)\n%y = string_format(%x)\n"
               "%w: string[2] = constant data(\"1\", \"0\")\nreturn %y, %w",
               0);
  check_values("%x: string[6] = constant data(\"1\", \"0\", \"2\", \" 0.5\", \"0.0\", \"nan\")\n"
               "%y = string_parse(%x) {dtype = bool}\n%w: bool[6] = constant data(1, 0, 1, 1, 0, 1)\nreturn %y, %w",
               0);
  check_values("%x: string[5] = constant data(\"100.5\", \"-3.7\", \"1e3\", \" +7\\n\", \"9007199254740993\")\n"
               "%y = string_parse(%x) {dtype = i64}\n"
               "%w: i64[5] = constant data(100, -3, 1000, 7, 9007199254740993)\nreturn %y, %w",
               0);
  check_values("%x: string[2] = constant data(\"18446744073709551615\", \"+3\")\n"
               "%y = string_parse(%x) {dtype = u64}\n%w: u64[2] = constant data(18446744073709551615, 3)\n"
               "return %y, %w",
               0);
  check_eval_fails("%x: string[1] = constant data(\"True\")\n%y = string_parse(%x) {dtype = bool}\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "is no bool");
  check_eval_fails("%x: string[1] = constant data(\"-1\")\n%y = string_parse(%x) {dtype = u64}\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "is no u64");
  check_eval_fails("%x: string[1] = constant data(\"inf\")\n%y = string_parse(%x) {dtype = i64}\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "is no i64");
  check_eval_fails("%x: string[1] = constant data(\"18446744073709551616\")\n%y = string_parse(%x) {dtype = u64}\n"
                   "return %y",
                   TERCEL_INVALID_ARGUMENT, "is no u64");
  check_values("%x: f32[6] = constant data(0.1, -2, 1e20, inf, -inf, nan)\n%y = string_format(%x)\n"
               "%w: string[6] = constant data(\"0.1\", \"-2\", \"1e+20\", \"INF\", \"-INF\", \"NaN\")\nreturn %y, %w",
               0);
  check_values("%x: u64[2] = constant data(18446744073709551615, 7)\n%y = string_format(%x)\n"
               "%w: string[2] = constant data(\"18446744073709551615\", \"7\")\nreturn %y, %w",
               0);
  check_values("%x: string[5] = constant data(\"3.25\", \"-1E2\", \"+INF\", \"-inf\", \"NAN\")\n"
               "%y = string_parse(%x) {dtype = f32}\n"
               "%w: f32[5] = constant data(3.25, -100, inf, -inf, nan)\nreturn %y, %w",
               0);
  check_eval_fails("%x: string[2] = constant data(\"1\", \"300\")\n%y = string_parse(%x) {dtype = u8}\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "element 1, \"300\", is no u8");
  check_eval_fails("%x: string[1] = constant data(\"\")\n%y = string_parse(%x) {dtype = f32}\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "is no f32");
}

static bool matches(const char *pattern, const char *text) {
  tercel_arena arena = {0};
  tercel_regex *regex = NULL;
  tercel_error err = {0};
  if (tercel_regex_compile(pattern, strlen(pattern), &arena, &regex, &err) != TERCEL_OK)
    fail_msg("\"%s\": %s", pattern, err.message);
  const bool result = tercel_regex_matches(regex, text, strlen(text));
  tercel_arena_deinit(&arena);
  return result;
}

static void test_regex(void **state) {
  (void)state;
  /* As RE2's FullMatch answers. */
  static const struct {
    const char *pattern, *text;
    bool want;
  } cases[] = {{"", "", true},
               {"", "a", false},
               {"a|ab", "ab", true},
               {"(a*)*", "aaaa", true},
               {"(a*)+b", "aaab", true},
               {"a{2,3}", "a", false},
               {"a{2,3}", "aaa", true},
               {"a{2,3}", "aaaa", false},
               {"a{,3}", "a{,3}", true},
               {".", "\n", false},
               {"(?s).", "\n", true},
               {".", "的", true},
               {"[^a-c]+", "xyz", true},
               {"[^a-c]+", "xbz", false},
               {"[]a]+", "]a", true},
               {"[a\\]-]+", "a]-", true},
               {"[[:alpha:]_]+\\d", "ab_1", true},
               {"[\\D]+", "ab", true},
               {"[\\D]+", "a1", false},
               {"(?i)straße", "STRAßE", true},
               {"(?i:a)b", "Ab", true},
               {"(?i:a)b", "AB", false},
               {"(?P<x>a)\\x41\\x{42}", "aAB", true},
               {"\\Qa.b\\E", "a.b", true},
               {"\\Qa.b\\E", "axb", false},
               {"a\\b.\\bb", "a b", true},
               {"a\\Bb", "ab", true},
               {"^a$", "a", true},
               {"a$\nb", "a\nb", false},
               {"(?m)a$\n^b", "a\nb", true},
               {"a??b*?", "bb", true},
               {"[[:^alpha:]]+", "12 的", true},
               {"[[:^alpha:]]+", "1a", false},
               {"\\101\\x42\\0", "AB", false},
               {"\\101\\12", "A\n", true},
               {"\\pL+", "aÄж的", true},
               {"\\pL+", "a1", false},
               {"\\p{Lu}\\p{Ll}", "Äb", true},
               {"\\p{Lu}\\p{Ll}", "äB", false},
               {"\\p{Greek}+\\P{Greek}", "αβω!", true},
               {"\\p{Greek}+", "abc", false},
               {"[\\p{Han}\\d]+", "的1的", true},
               {"[^\\p{Han}]+", "的", false},
               {"\\p{^L}\\P{^L}", "1a", true},
               {"\\pN\\p{Nd}\\p{Any}", "1٣x", true},
               {"\\pN", "x", false},
               {"(?i)\\p{Lu}+", "aB", true},
               {"\\p{Zs}\\p{Sc}", " €", true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (matches(cases[i].pattern, cases[i].text) != cases[i].want)
      fail_msg("\"%s\" on \"%s\": want %d", cases[i].pattern, cases[i].text, cases[i].want);
}

static void test_hostile_regex(void **state) {
  (void)state;
  static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
  assert_false(matches("(a|aa)+", text));
  assert_false(matches("(a*)*(a*)*(a*)*(a*)*c", text));
  static const struct {
    const char *pattern;
    tercel_status status;
    const char *part;
  } wrong[] = {{"(", TERCEL_INVALID_MODEL, "a ( without its )"},
               {")", TERCEL_INVALID_MODEL, "a ) without its ("},
               {"[a", TERCEL_INVALID_MODEL, "a [ without its ]"},
               {"*", TERCEL_INVALID_MODEL, "nothing to repeat"},
               {"a**", TERCEL_INVALID_MODEL, "repetition of a repetition"},
               {"a{1001}", TERCEL_INVALID_MODEL, "counts"},
               {"[b-a]", TERCEL_INVALID_MODEL, "backwards"},
               {"\\", TERCEL_INVALID_MODEL, "backslash at the end"},
               {"(?=a)", TERCEL_UNSUPPORTED, "group is not supported"},
               {"(a)\\1", TERCEL_UNSUPPORTED, "escape is not supported"},
               {"a\\Cb", TERCEL_UNSUPPORTED, "escape is not supported"},
               {"\\p", TERCEL_INVALID_MODEL, "want \\pL"},
               {"\\p{", TERCEL_INVALID_MODEL, "want \\pL"},
               {"\\p{L", TERCEL_INVALID_MODEL, "want \\pL"},
               {"\\p{Klingon}", TERCEL_INVALID_MODEL, "no category or script"},
               {"\\pX", TERCEL_INVALID_MODEL, "no category or script"},
               {"[[:foo:]]", TERCEL_INVALID_MODEL, "no class has this name"},
               {"\\ä", TERCEL_UNSUPPORTED, "escape is not supported"},
               {"((a{1000}){1000}){1000}", TERCEL_UNSUPPORTED, "too many states"},
               {"(((((((){1000}){1000}){1000}){1000}){1000}){1000}){1000}", TERCEL_UNSUPPORTED, "too many states"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tercel_arena arena = {0};
    tercel_regex *regex = NULL;
    tercel_error err = {0};
    assert_int_equal(tercel_regex_compile(wrong[i].pattern, strlen(wrong[i].pattern), &arena, &regex, &err),
                     wrong[i].status);
    if (strstr(err.message, wrong[i].part) == NULL) fail_msg("\"%s\": %s", wrong[i].pattern, err.message);
    tercel_arena_deinit(&arena);
  }
}

static void test_regex_match(void **state) {
  (void)state;
  check_type("%x: string[n, 2]", "%y = regex_match(%x) {pattern = \"a+\"}\nreturn %y", "bool[n, 2]");
  check_rejects("%x: f32[2]", "%y = regex_match(%x) {pattern = \"a+\"}\nreturn %y", TERCEL_INVALID_MODEL,
                "want string");
  check_values("%x: string[2] = constant data(\"aa\", \"ab\")\n%y = regex_match(%x) {pattern = \"a+\"}\n"
               "%w: bool[2] = constant data(1, 0)\nreturn %y, %w",
               0);
}

static void test_label_encode(void **state) {
  (void)state;
  check_type("%x: string[n], %k: string[2], %v: i64[2], %d: i64[]", "%y = label_encode(%x, %k, %v, %d)\nreturn %y",
             "i64[n]");
  check_rejects("%x: f32[n], %k: string[2], %v: i64[2], %d: i64[]", "%y = label_encode(%x, %k, %v, %d)\nreturn %y",
                TERCEL_INVALID_MODEL, "input is f32, the keys string");
  check_values("%x: f32[4] = constant data(nan, -0.0, 2, 3)\n%k: f32[3] = constant data(0, nan, 2)\n"
               "%v: string[3] = constant data(\"zero\", \"none\", \"two\")\n%d: string[] = constant data(\"?\")\n"
               "%y = label_encode(%x, %k, %v, %d)\n"
               "%w: string[4] = constant data(\"none\", \"zero\", \"two\", \"?\")\nreturn %y, %w",
               0);
  check_eval_fails("%x: i64[1] = constant data(1)\n%k: i64[2] = constant data(1, 2)\n%v: i64[1] = constant data(1)\n"
                   "%d: i64[] = constant data(0)\n%y = label_encode(%x, %k, %v, %d)\nreturn %y",
                   TERCEL_INVALID_MODEL, "2 keys, 1 values");
}

static void test_tfidf(void **state) {
  (void)state;
  check_type("%x: i64[n, 9], %p: i64[3]",
             "%y = tfidf(%x, %p) {min = 1, max = 2, mode = \"tf\", counts = [0, 1], indexes = [2, 0]}\nreturn %y",
             "f32[n, 3]");
  check_values("%x: string[2, 3] = constant data(\"a\", \"b\", \"a\", \"b\", \"b\", \"b\")\n"
               "%p: string[3] = constant data(\"a\", \"a\", \"b\")\n%s: f32[2] = constant data(0.5, 3)\n"
               "%y = tfidf(%x, %p, %s) {min = 1, max = 2, mode = \"tfidf\", counts = [0, 1], indexes = [1, 0]}\n"
               "%w: f32[2, 2] = constant data(3, 1, 0, 0)\nreturn %y, %w",
               0);
  check_eval_fails("%x: i64[3] = constant data(1, 2, 3)\n%p: i64[4] = constant data(1, 2, 3, 4)\n"
                   "%y = tfidf(%x, %p) {min = 1, max = 2, mode = \"tf\", counts = [0, 1], indexes = [1, 0]}\nreturn %y",
                   TERCEL_INVALID_MODEL, "2-grams at 1 to 4");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_concat),        cmocka_unit_test(test_split),
      cmocka_unit_test(test_normalize),     cmocka_unit_test(test_normalize_turkic),
      cmocka_unit_test(test_cast),          cmocka_unit_test(test_regex),
      cmocka_unit_test(test_hostile_regex), cmocka_unit_test(test_regex_match),
      cmocka_unit_test(test_label_encode),  cmocka_unit_test(test_tfidf),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
