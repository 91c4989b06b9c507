/* What tercel explain gathered, shared by its files. */
#ifndef TERCEL_CLI_EXPLAIN_H
#define TERCEL_CLI_EXPLAIN_H

#include "cli.h"

/* The decisions of one rule, either made or refused. */
typedef struct tercel_explain_rule {
  const char *pass, *rule;
  const tercel_decision **items;
  size_t count;
  double bytes, flops; /* saved by all of them */
} tercel_explain_rule;

/* A pass: what it took and, when measured, what it is worth. */
typedef struct tercel_explain_pass {
  tercel_pass_time time;
  const char *what;
  size_t num_made;
  double with_ms, without_ms; /* medians of runs with all passes, and without this one; 0: not measured */
  double won; /* the share of the time without it: of the median of pairs, so that a busy machine counts less */
} tercel_explain_pass;

/* A step of the engine. */
typedef struct tercel_explain_step {
  const char *name, *op, *tactic, *sources;
} tercel_explain_step;

typedef struct tercel_explanation {
  const char *path;
  tercel_arena arena; /* holds all below */
  tercel_work before, after;
  tercel_decision *decisions;
  size_t num_decisions, num_made;
  tercel_explain_rule *made, *refused; /* by rule: those that save most bytes first, then the most frequent */
  size_t num_made_rules, num_refused_rules;
  tercel_explain_pass *passes;
  size_t num_passes;
  tercel_explain_step *steps;
  size_t num_steps;
  double optimizer_ms;
  bool is_measured;
} tercel_explanation;

/* Of a session that was built with savings counted, and whose context has a profile. */
tercel_status tercel_explain_gather(const tercel_cli_session *session, const char *path, tercel_explanation *out,
                                    tercel_error *err);
void tercel_explain_free(tercel_explanation *explanation); /* safe on a zeroed struct */

/* explain_measure.c: times the model with and without each pass that did something. */
tercel_status tercel_explain_measure(const tercel_cli_engine *options, const tercel_cli_inputs *inputs,
                                     const tercel_cli_session *session, tercel_explanation *explanation,
                                     tercel_error *err);

/* explain_print.c: for people.  all: every decision, not only the first ones of each rule. */
void tercel_explain_print(const tercel_explanation *explanation, bool all);
void tercel_explain_print_passes(const tercel_explanation *explanation);

/* explain_html.c: one page with the graph before and after. */
tercel_status tercel_explain_write_html(const tercel_explanation *explanation, const tercel_cli_session *session,
                                        const char *path, tercel_error *err);

/* explain_json.c: everything, as a text; to a file or ("-") to stdout. */
void tercel_explain_add_json(const tercel_explanation *explanation, tercel_text *out);
tercel_status tercel_explain_write_json(const tercel_explanation *explanation, const char *path, tercel_error *err);

#endif
