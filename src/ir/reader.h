/* Reading texts word by word, with errors that name line and column.  For parse*.c only. */
#ifndef TERCEL_IR_READER_H
#define TERCEL_IR_READER_H

#include "ir/graph_text.h"

typedef struct tercel_reader {
  const char *text, *at, *end;
  const tercel_op *const *ops;
  tercel_graph *graph; /* the one being filled */
  tercel_arena scratch;
  int depth;              /* of nested subgraphs and types */
  size_t generated_bytes; /* of data that the text only describes: zeros, fill, ramp */
  tercel_error *err;
} tercel_reader;

enum { TERCEL_READER_MAX_DEPTH = 16, TERCEL_READER_MAX_GENERATED_BYTES = 64 << 20 };

/* INVALID_MODEL: "line 3, column 7: ...", at the reader's place. */
tercel_status tercel_reader_fail(const tercel_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
tercel_status tercel_reader_no_memory(const tercel_reader *r);

/* Skips blanks and comments, then tells the next character (0 at the end). */
char tercel_reader_peek(tercel_reader *r);
/* Moves behind the mark (of punctuation) if it comes next. */
bool tercel_reader_accept(tercel_reader *r, const char *mark);
tercel_status tercel_reader_expect(tercel_reader *r, const char *mark);
/* A word of letters, digits and _ if it comes next. */
bool tercel_reader_accept_word(tercel_reader *r, const char *word);
tercel_status tercel_reader_expect_word(tercel_reader *r, const char *word);
/* Any word; valid as long as the text. */
tercel_status tercel_reader_word(tercel_reader *r, const char *what, const char **out, size_t *length);
/* A quoted string; lives in scratch. */
tercel_status tercel_reader_string(tercel_reader *r, const char **out);
tercel_status tercel_reader_i64(tercel_reader *r, int64_t *out);
tercel_status tercel_reader_f64(tercel_reader *r, double *out);
/* An integer of [0, most]. */
tercel_status tercel_reader_count(tercel_reader *r, const char *what, uint32_t most, uint32_t *out);
/* A name without blanks after %: bare or quoted; lives in scratch. */
tercel_status tercel_reader_value_name(tercel_reader *r, const char **out);

/* parse_value.c */
tercel_status tercel_reader_dtype(tercel_reader *r, tercel_dtype *out);
tercel_status tercel_reader_type(tercel_reader *r, tercel_type *out);
tercel_status tercel_reader_attr(tercel_reader *r, tercel_node *node);
/* parse_data.c: fills the constant, which has memory. */
tercel_status tercel_reader_data(tercel_reader *r, const tercel_tensor *tensor, const char *kind, size_t kind_length);

/* Room for one more entry in a scratch array; *array moves. */
tercel_status tercel_reader_grow(tercel_reader *r, void **array, size_t count, size_t entry_bytes);

#endif
