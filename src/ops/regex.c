/* Regular expressions: a pattern is parsed to a tree, the tree is written as a small program, and matching runs all its threads at
 * once, one code point after the other (R. Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009). */
#include "ops/regex.h"

#include <string.h>

#include "ops/text.h"
#include "ops/unicode.h"

enum {
  MAX_INSTRS = 1 << 16, /* of a program; time a code point is at most this */
  MAX_DEPTH = 200,      /* of parentheses */
  MAX_REPEAT = 1000,    /* RE2's own limit */
};

/* ---- the tree ------------------------------------------------------------------------------------------------------ */

/* Code points from first to last; or those that have the property (or have it not). */
typedef struct range {
  uint32_t first, last;
  bool is_property, negated;
  tercel_unicode_property property;
  struct range *next;
} range;

typedef struct set {
  range *ranges;
  bool negated, fold; /* fold: upper and lower case are the same */
} set;

typedef enum assertion { TEXT_BEGIN, TEXT_END, LINE_BEGIN, LINE_END, WORD_EDGE, NO_WORD_EDGE } assertion;
typedef enum tree_kind { EMPTY, SET, ASSERT, CAT, ALT, REPEAT } tree_kind;

typedef struct tree {
  tree_kind kind;
  assertion assertion;
  const set *set;
  struct tree *a, *b; /* CAT, ALT: both; REPEAT: a */
  int min, max;       /* REPEAT; max -1: no end */
} tree;

typedef struct flags {
  bool fold, lines, dot_all;
} flags;

typedef struct parser {
  const char *start, *at, *end;
  tercel_arena *arena;
  flags flags;
  int depth;
  bool quoted; /* inside \Q...\E */
  tercel_error *err;
} parser;

static tercel_status fail(const parser *p, tercel_status status, const char *what) {
  return tercel_fail(p->err, status, "regular expression \"%.*s\", at byte %zu: %s", (int)(p->end - p->start), p->start,
                     (size_t)(p->at - p->start), what);
}

static tercel_status no_memory(const parser *p) { return tercel_fail_memory(p->err, sizeof(tree), "a pattern"); }

static tercel_status new_tree(parser *p, tree from, tree **out) {
  *out = tercel_arena_copy(p->arena, &from, sizeof from);
  return *out != NULL ? TERCEL_OK : no_memory(p);
}

static tercel_status add_to_set(parser *p, set *to, range r) {
  r.next = to->ranges;
  to->ranges = tercel_arena_copy(p->arena, &r, sizeof r);
  return to->ranges != NULL ? TERCEL_OK : no_memory(p);
}

static tercel_status add_range(parser *p, set *to, uint32_t first, uint32_t last) {
  return add_to_set(p, to, (range){.first = first, .last = last});
}

static tercel_status set_tree(parser *p, set from, tree **out) {
  const set *const copy = tercel_arena_copy(p->arena, &from, sizeof from);
  return copy != NULL ? new_tree(p, (tree){.kind = SET, .set = copy}, out) : no_memory(p);
}

static tercel_status assert_tree(parser *p, assertion what, tree **out) {
  return new_tree(p, (tree){.kind = ASSERT, .assertion = what}, out);
}

static bool accept(parser *p, const char *text) {
  const size_t length = strlen(text);
  if ((size_t)(p->end - p->at) < length || memcmp(p->at, text, length) != 0) return false;
  p->at += length;
  return true;
}

/* ---- classes ------------------------------------------------------------------------------------------------------- */

enum { MAX_CLASS_RANGES = 4, LAST_CODE = 0x10FFFF };

/* In order, as ranges that do not touch: so the complement is easy to write too. */
typedef struct named_class {
  const char *name;
  uint32_t ranges[MAX_CLASS_RANGES][2]; /* ended by 0, 0 */
} named_class;

static const named_class perl_classes[] = {{"d", {{'0', '9'}}},
                                           {"w", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
                                           {"s", {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}}};

static const named_class posix_classes[] = {
    {"[:alnum:]", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"[:alpha:]", {{'A', 'Z'}, {'a', 'z'}}},
    {"[:ascii:]", {{0, 0x7F}}},
    {"[:blank:]", {{'\t', '\t'}, {' ', ' '}}},
    {"[:cntrl:]", {{0, 0x1F}, {0x7F, 0x7F}}},
    {"[:digit:]", {{'0', '9'}}},
    {"[:graph:]", {{'!', '~'}}},
    {"[:lower:]", {{'a', 'z'}}},
    {"[:print:]", {{' ', '~'}}},
    {"[:punct:]", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"[:space:]", {{'\t', '\r'}, {' ', ' '}}},
    {"[:upper:]", {{'A', 'Z'}}},
    {"[:word:]", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"[:xdigit:]", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};

static tercel_status add_class(parser *p, set *to, const named_class *c, bool negated) {
  uint32_t from = 0;
  for (int i = 0; i < MAX_CLASS_RANGES && c->ranges[i][1] != 0; ++i) {
    const uint32_t first = c->ranges[i][0], last = c->ranges[i][1];
    if (!negated) TERCEL_TRY(add_range(p, to, first, last));
    if (negated && first > from) TERCEL_TRY(add_range(p, to, from, first - 1));
    from = last + 1;
  }
  return negated ? add_range(p, to, from, LAST_CODE) : TERCEL_OK;
}

/* p or P, behind the backslash, then a letter, or a name in braces; ^ there negates once more. */
static tercel_status property_class(parser *p, set *to) {
  range r = {.is_property = true, .negated = *p->at++ == 'P'};
  const bool braces = accept(p, "{");
  if (braces && accept(p, "^")) r.negated = !r.negated;
  const char *const name = p->at;
  while (p->at < p->end && *p->at != '}' && (braces || p->at == name)) ++p->at;
  const size_t length = (size_t)(p->at - name);
  if (length == 0 || (braces && !accept(p, "}"))) return fail(p, TERCEL_INVALID_MODEL, "want \\pL or \\p{Name}");
  if (!tercel_unicode_parse(name, length, &r.property))
    return fail(p, TERCEL_INVALID_MODEL, "no category or script of Unicode has this name");
  return add_to_set(p, to, r);
}

/* \d, \p{L} and their like at p->at (the letter); *found false: none of them. */
static tercel_status escaped_class(parser *p, set *to, bool *found) {
  *found = p->at < p->end && (*p->at == 'p' || *p->at == 'P');
  if (*found) return property_class(p, to);
  for (size_t i = 0; p->at < p->end && i < sizeof perl_classes / sizeof *perl_classes; ++i) {
    const char lower = perl_classes[i].name[0];
    if (*p->at != lower && *p->at != lower - 'a' + 'A') continue;
    const bool negated = *p->at != lower;
    ++p->at;
    *found = true;
    return add_class(p, to, &perl_classes[i], negated);
  }
  return TERCEL_OK;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Behind \x: two digits, or any number in braces. */
static tercel_status hex_escape(parser *p, uint32_t *code) {
  const bool braces = accept(p, "{");
  int digits = 0;
  *code = 0;
  for (; p->at < p->end && hex_digit(*p->at) >= 0 && (braces || digits < 2); ++digits) {
    *code = *code << 4 | (uint32_t)hex_digit(*p->at++);
    if (*code > LAST_CODE) return fail(p, TERCEL_INVALID_MODEL, "no such code point");
  }
  if (digits == 0 || (!braces && digits < 2) || (braces && !accept(p, "}")))
    return fail(p, TERCEL_INVALID_MODEL, "want \\xHH or \\x{HHHH}");
  return TERCEL_OK;
}

static bool is_octal(const parser *p, ptrdiff_t at) {
  return p->end - p->at > at && p->at[at] >= '0' && p->at[at] <= '7';
}

/* Up to three digits.  One alone that is not 0 would be a back reference. */
static tercel_status octal_escape(parser *p, uint32_t *code) {
  *code = 0;
  for (int digits = 0; digits < 3 && is_octal(p, 0); ++digits) *code = 8 * *code + (uint32_t)(*p->at++ - '0');
  return TERCEL_OK;
}

/* An escape that means one code point; p->at behind the backslash. */
static tercel_status escape(parser *p, uint32_t *code) {
  static const char letters[] = "tnrfva", meant[] = "\t\n\r\f\v\a";
  if (p->at == p->end) return fail(p, TERCEL_INVALID_MODEL, "a backslash at the end");
  if (accept(p, "x")) return hex_escape(p, code);
  const char c = *p->at;
  const char *const letter = strchr(letters, c);
  if (c != 0 && letter != NULL) {
    ++p->at;
    *code = (uint32_t)meant[letter - letters];
    return TERCEL_OK;
  }
  if (c >= '0' && c <= '7' && (c == '0' || is_octal(p, 1))) return octal_escape(p, code);
  const bool is_word = (c & 0x80) != 0 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (is_word) return fail(p, TERCEL_UNSUPPORTED, "this escape is not supported");
  *code = tercel_utf8_next(&p->at, p->end);
  return TERCEL_OK;
}

static tercel_status class_code(parser *p, uint32_t *code) {
  if (p->at == p->end) return fail(p, TERCEL_INVALID_MODEL, "a [ without its ]");
  if (accept(p, "\\")) return escape(p, code);
  *code = tercel_utf8_next(&p->at, p->end);
  return TERCEL_OK;
}

/* Is there a :] behind the [: at hand? */
static bool closes_name(const parser *p) {
  for (const char *at = p->at + 2; p->end - at >= 2; ++at)
    if (at[0] == ':' && at[1] == ']') return true;
  return false;
}

static tercel_status posix_class(parser *p, set *to, bool *found) {
  *found = false;
  for (size_t i = 0; i < sizeof posix_classes / sizeof *posix_classes; ++i) {
    char negated[16] = "[:^"; /* and the rest of the name */
    memcpy(negated + 3, posix_classes[i].name + 2, strlen(posix_classes[i].name) - 1);
    *found = true;
    if (accept(p, posix_classes[i].name)) return add_class(p, to, &posix_classes[i], false);
    if (accept(p, negated)) return add_class(p, to, &posix_classes[i], true);
    *found = false;
  }
  return p->end - p->at >= 2 && memcmp(p->at, "[:", 2) == 0 && closes_name(p)
             ? fail(p, TERCEL_INVALID_MODEL, "no class has this name")
             : TERCEL_OK;
}

static tercel_status class_item(parser *p, set *to) {
  bool found = false;
  TERCEL_TRY(posix_class(p, to, &found));
  if (found) return TERCEL_OK;
  if (p->end - p->at >= 2 && *p->at == '\\') {
    ++p->at;
    TERCEL_TRY(escaped_class(p, to, &found));
    if (found) return TERCEL_OK;
    --p->at;
  }
  uint32_t first, last;
  TERCEL_TRY(class_code(p, &first));
  last = first;
  if (p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
    ++p->at;
    TERCEL_TRY(class_code(p, &last));
    if (last < first) return fail(p, TERCEL_INVALID_MODEL, "a range that runs backwards");
  }
  return add_range(p, to, first, last);
}

/* Behind the [. */
static tercel_status parse_class(parser *p, tree **out) {
  set s = {.negated = accept(p, "^"), .fold = p->flags.fold};
  for (bool first = true; first || !accept(p, "]"); first = false) {
    if (p->at == p->end) return fail(p, TERCEL_INVALID_MODEL, "a [ without its ]");
    TERCEL_TRY(class_item(p, &s));
  }
  return set_tree(p, s, out);
}

/* ---- the grammar --------------------------------------------------------------------------------------------------- */

static tercel_status parse_alternatives(parser *p, tree **out);

static tercel_status literal(parser *p, uint32_t code, tree **out) {
  set s = {.fold = p->flags.fold};
  TERCEL_TRY(add_range(p, &s, code, code));
  return set_tree(p, s, out);
}

static tercel_status parse_escape(parser *p, tree **out) {
  if (accept(p, "b")) return assert_tree(p, WORD_EDGE, out);
  if (accept(p, "B")) return assert_tree(p, NO_WORD_EDGE, out);
  if (accept(p, "A")) return assert_tree(p, TEXT_BEGIN, out);
  if (accept(p, "z")) return assert_tree(p, TEXT_END, out);
  set s = {.fold = p->flags.fold};
  bool found = false;
  TERCEL_TRY(escaped_class(p, &s, &found));
  if (found) return set_tree(p, s, out);
  uint32_t code;
  TERCEL_TRY(escape(p, &code));
  return literal(p, code, out);
}

/* Behind (?: flags up to : or ).  *group: what follows is inside the parentheses. */
static tercel_status parse_flags(parser *p, bool *group) {
  bool on = true;
  for (; p->at < p->end; ++p->at) {
    switch (*p->at) {
    case 'i': p->flags.fold = on; break;
    case 'm': p->flags.lines = on; break;
    case 's': p->flags.dot_all = on; break;
    case 'U': break; /* greedy or lazy: all the same here */
    case '-':
      if (!on) return fail(p, TERCEL_INVALID_MODEL, "a second -");
      on = false;
      break;
    case ':':
    case ')': *group = *p->at++ == ':'; return TERCEL_OK;
    default: return fail(p, TERCEL_UNSUPPORTED, "this kind of group is not supported");
    }
  }
  return fail(p, TERCEL_INVALID_MODEL, "a ( without its )");
}

/* Behind the (. */
static tercel_status parse_group(parser *p, tree **out) {
  const flags outer = p->flags;
  bool group = true;
  if (accept(p, "?P<") || accept(p, "?<")) {
    if (p->at < p->end && (*p->at == '=' || *p->at == '!'))
      return fail(p, TERCEL_UNSUPPORTED, "look-behind is not supported");
    while (p->at < p->end && *p->at != '>') ++p->at;
    if (!accept(p, ">")) return fail(p, TERCEL_INVALID_MODEL, "a name without its >");
  } else if (accept(p, "?")) {
    TERCEL_TRY(parse_flags(p, &group));
  }
  if (!group) return new_tree(p, (tree){.kind = EMPTY}, out); /* they hold up to the end of the group around */
  if (++p->depth > MAX_DEPTH) return fail(p, TERCEL_UNSUPPORTED, "too many parentheses inside each other");
  TERCEL_TRY(parse_alternatives(p, out));
  --p->depth;
  if (!accept(p, ")")) return fail(p, TERCEL_INVALID_MODEL, "a ( without its )");
  p->flags = outer;
  return TERCEL_OK;
}

static tercel_status parse_atom(parser *p, tree **out) {
  if (p->quoted) return literal(p, tercel_utf8_next(&p->at, p->end), out);
  if (accept(p, "(")) return parse_group(p, out);
  if (accept(p, "[")) return parse_class(p, out);
  if (accept(p, "\\")) return parse_escape(p, out);
  if (accept(p, "^")) return assert_tree(p, p->flags.lines ? LINE_BEGIN : TEXT_BEGIN, out);
  if (accept(p, "$")) return assert_tree(p, p->flags.lines ? LINE_END : TEXT_END, out);
  if (accept(p, ".")) {
    set s = {.negated = true};
    if (!p->flags.dot_all) TERCEL_TRY(add_range(p, &s, '\n', '\n'));
    return set_tree(p, s, out);
  }
  if (*p->at == '*' || *p->at == '+' || *p->at == '?') return fail(p, TERCEL_INVALID_MODEL, "nothing to repeat");
  return literal(p, tercel_utf8_next(&p->at, p->end), out);
}

static bool number(parser *p, int *out) {
  const char *const begin = p->at;
  for (*out = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9'; ++p->at)
    if (*out <= MAX_REPEAT) *out = 10 * *out + (*p->at - '0');
  return p->at > begin;
}

/* {n}, {n,}, {n,m}; anything else in braces is text. */
static bool accept_counts(parser *p, int *min, int *max) {
  const char *const begin = p->at;
  if (accept(p, "{") && number(p, min)) {
    *max = *min;
    if (accept(p, ",") && !number(p, max)) *max = -1;
    if (accept(p, "}")) return true;
  }
  p->at = begin;
  return false;
}

static tercel_status parse_repeat(parser *p, tree **out) {
  TERCEL_TRY(parse_atom(p, out));
  bool repeated = false;
  for (;; repeated = true) {
    int min = 0, max = -1;
    if (p->quoted || p->at == p->end) return TERCEL_OK;
    if (accept(p, "*")) {
    } else if (accept(p, "+")) {
      min = 1;
    } else if (accept(p, "?")) {
      max = 1;
    } else if (!accept_counts(p, &min, &max)) {
      return TERCEL_OK;
    }
    if (repeated) return fail(p, TERCEL_INVALID_MODEL, "a repetition of a repetition");
    accept(p, "?"); /* lazy */
    if (min > MAX_REPEAT || max > MAX_REPEAT || (max >= 0 && max < min))
      return fail(p, TERCEL_INVALID_MODEL, "wrong counts of a repetition (at most 1000)");
    TERCEL_TRY(new_tree(p, (tree){.kind = REPEAT, .a = *out, .min = min, .max = max}, out));
  }
}

static tercel_status parse_sequence(parser *p, tree **out) {
  TERCEL_TRY(new_tree(p, (tree){.kind = EMPTY}, out));
  for (;;) {
    if (!p->quoted && accept(p, "\\Q")) p->quoted = true;
    if (p->quoted && accept(p, "\\E")) {
      p->quoted = false;
      continue;
    }
    if (p->at == p->end || (!p->quoted && (*p->at == '|' || *p->at == ')'))) return TERCEL_OK;
    tree *next = NULL;
    TERCEL_TRY(parse_repeat(p, &next));
    TERCEL_TRY(new_tree(p, (tree){.kind = CAT, .a = *out, .b = next}, out));
  }
}

static tercel_status parse_alternatives(parser *p, tree **out) {
  TERCEL_TRY(parse_sequence(p, out));
  while (accept(p, "|")) {
    tree *other = NULL;
    TERCEL_TRY(parse_sequence(p, &other));
    TERCEL_TRY(new_tree(p, (tree){.kind = ALT, .a = *out, .b = other}, out));
  }
  return TERCEL_OK;
}

/* ---- the program --------------------------------------------------------------------------------------------------- */

typedef enum instr_kind { I_SET, I_ASSERT, I_SPLIT, I_MATCH } instr_kind;

/* What comes behind: x, or (SPLIT) both x and y. */
typedef struct instr {
  instr_kind kind;
  assertion assertion;
  const set *set;
  uint32_t x, y;
} instr;

struct tercel_regex {
  instr *instrs;
  uint32_t count, start;
  uint32_t *now, *next, *stack; /* instructions: threads that wait for a code point, and those to be followed */
  uint32_t *seen, generation;   /* by instruction: the position it was last reached at */
};

typedef struct writer {
  tercel_regex *regex;
  uint32_t steps; /* parts written so far: repetitions of nothing make no instructions, but take time */
  bool full;
} writer;

static uint32_t emit(writer *w, instr i) {
  if (w->regex->count == MAX_INSTRS) {
    w->full = true;
    return 0;
  }
  w->regex->instrs[w->regex->count] = i;
  return w->regex->count++;
}

/* Writes what matches `t` and then goes on at `then`: from the end to the start.  Its entry. */
static uint32_t write_tree(writer *w, const tree *t, uint32_t then);

static uint32_t write_repeat(writer *w, const tree *t, uint32_t then) {
  if (t->max < 0) {
    const uint32_t split = emit(w, (instr){.kind = I_SPLIT, .y = then});
    const uint32_t body = write_tree(w, t->a, split);
    if (w->full) return then;
    w->regex->instrs[split].x = body;
    then = split;
  }
  const uint32_t end = then;
  for (int i = t->min; i < t->max && !w->full; ++i)
    then = emit(w, (instr){.kind = I_SPLIT, .x = write_tree(w, t->a, then), .y = end});
  for (int i = 0; i < t->min && !w->full; ++i) then = write_tree(w, t->a, then);
  return then;
}

static uint32_t write_tree(writer *w, const tree *t, uint32_t then) {
  /* A sequence hangs to the left, so a long one is a loop, not a recursion. */
  for (; t->kind == CAT && !w->full; t = t->a) then = write_tree(w, t->b, then);
  if (++w->steps > 8 * MAX_INSTRS) w->full = true;
  if (w->full) return then;
  switch (t->kind) {
  case SET: return emit(w, (instr){.kind = I_SET, .set = t->set, .x = then});
  case ASSERT: return emit(w, (instr){.kind = I_ASSERT, .assertion = t->assertion, .x = then});
  case REPEAT: return write_repeat(w, t, then);
  case ALT: {
    uint32_t entry = 0;
    const uint32_t behind = then;
    const tree *last = t;
    while (last->kind == ALT) last = last->a;
    entry = write_tree(w, last, behind);
    for (; t->kind == ALT && !w->full; t = t->a)
      entry = emit(w, (instr){.kind = I_SPLIT, .x = entry, .y = write_tree(w, t->b, behind)});
    return entry;
  }
  default: return then;
  }
}

tercel_status tercel_regex_compile(const char *pattern, size_t length, tercel_arena *arena, tercel_regex **out,
                                   tercel_error *err) {
  parser p = {.start = pattern, .at = pattern, .end = pattern + length, .arena = arena, .err = err};
  tree *root = NULL;
  TERCEL_TRY(parse_alternatives(&p, &root));
  if (p.at != p.end) return fail(&p, TERCEL_INVALID_MODEL, "a ) without its (");
  tercel_regex *const regex = tercel_arena_alloc(arena, sizeof *regex);
  if (regex == NULL) return no_memory(&p);
  instr *const room = tercel_alloc_array(MAX_INSTRS, sizeof *room);
  if (room == NULL) return no_memory(&p);
  *regex = (tercel_regex){.instrs = room};
  writer w = {.regex = regex};
  const uint32_t match = emit(&w, (instr){.kind = I_MATCH});
  regex->start = write_tree(&w, root, match);
  const size_t count = regex->count;
  regex->instrs = tercel_arena_copy(arena, room, count * sizeof *room);
  tercel_free(room);
  regex->now = tercel_arena_alloc_array(arena, count, sizeof *regex->now);
  regex->next = tercel_arena_alloc_array(arena, count, sizeof *regex->next);
  regex->stack = tercel_arena_alloc_array(arena, 2 * count + 1, sizeof *regex->stack);
  regex->seen = tercel_arena_alloc_array(arena, count, sizeof *regex->seen);
  if (!regex->instrs || !regex->now || !regex->next || !regex->stack || !regex->seen) return no_memory(&p);
  if (w.full) return fail(&p, TERCEL_UNSUPPORTED, "it would take too many states");
  *out = regex;
  return TERCEL_OK;
}

/* ---- matching ------------------------------------------------------------------------------------------------------ */

/* Where the text stands: the code points around, or NONE. */
typedef struct place {
  uint32_t before, after;
} place;

enum { NONE = UINT32_MAX };

static bool is_word(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

static bool holds(assertion what, place at) {
  switch (what) {
  case TEXT_BEGIN: return at.before == NONE;
  case TEXT_END: return at.after == NONE;
  case LINE_BEGIN: return at.before == NONE || at.before == '\n';
  case LINE_END: return at.after == NONE || at.after == '\n';
  case WORD_EDGE: return is_word(at.before) != is_word(at.after);
  case NO_WORD_EDGE: return is_word(at.before) == is_word(at.after);
  }
  return false;
}

static bool lies_in(const range *r, uint32_t code) {
  for (; r != NULL; r = r->next)
    if (r->is_property ? tercel_unicode_has(r->property, code) != r->negated : code >= r->first && code <= r->last)
      return true;
  return false;
}

static bool in_set(const set *s, uint32_t code) {
  bool in = lies_in(s->ranges, code);
  if (!in && s->fold) in = lies_in(s->ranges, tercel_to_upper(code)) || lies_in(s->ranges, tercel_to_lower(code));
  return in != s->negated;
}

/* Follows all that needs no code point from `from` on; threads that need one are appended to list.  True: a match ends here. */
static bool follow(tercel_regex *r, uint32_t from, place at, uint32_t *list, uint32_t *count) {
  bool matched = false;
  uint32_t depth = 0;
  r->stack[depth++] = from;
  while (depth > 0) {
    const uint32_t i = r->stack[--depth];
    if (r->seen[i] == r->generation) continue;
    r->seen[i] = r->generation;
    const instr *const instruction = &r->instrs[i];
    switch (instruction->kind) {
    case I_SET: list[(*count)++] = i; break;
    case I_ASSERT:
      if (holds(instruction->assertion, at)) r->stack[depth++] = instruction->x;
      break;
    case I_SPLIT:
      r->stack[depth++] = instruction->x;
      r->stack[depth++] = instruction->y;
      break;
    case I_MATCH: matched = true; break;
    }
  }
  return matched;
}

static void new_generation(tercel_regex *r) {
  if (++r->generation != 0) return;
  memset(r->seen, 0, r->count * sizeof *r->seen);
  r->generation = 1;
}

bool tercel_regex_matches(tercel_regex *r, const char *text, size_t length) {
  const char *at = text, *const end = length > 0 ? text + length : text;
  uint32_t count = 0;
  place here = {NONE, at < end ? tercel_utf8_next(&at, end) : NONE};
  new_generation(r);
  bool matched = follow(r, r->start, here, r->now, &count);
  while (here.after != NONE) {
    const uint32_t code = here.after;
    uint32_t next_count = 0;
    here = (place){code, at < end ? tercel_utf8_next(&at, end) : NONE};
    new_generation(r);
    matched = false;
    for (uint32_t i = 0; i < count; ++i) {
      const instr *const instruction = &r->instrs[r->now[i]];
      if (in_set(instruction->set, code)) matched |= follow(r, instruction->x, here, r->next, &next_count);
    }
    uint32_t *const swapped = r->now;
    r->now = r->next;
    r->next = swapped;
    count = next_count;
    if (count == 0 && here.after != NONE) return false;
  }
  return matched;
}
