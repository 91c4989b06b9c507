/* Regular expressions in RE2's syntax, matched in time linear in the text: a set of states moves over it (Thompson's simulation), so no
 * pattern can make it run away.  Only "does the whole text match?" is answered: no captures, so lazy and greedy are the same.
 *
 * Known: literals, ., [...] with ranges, negation, [:names:] and [:^names:], \d \w \s \D \W \S (ASCII), \pL \p{Lu} \p{Greek} \p{^L} \P...,
 * \t \n \r \f \v \a \xHH \x{HHHH} \0 \12 \123 (octal) \Q...\E,
 * ( ) (?: ) (?P<name> ) (?flags) (?flags: ) with i m s U, |, * + ? {n} {n,} {n,m} (also lazy), ^ $ \A \z \b \B.
 * Of RE2's syntax that is all but \C, a byte of a character.  Back references and look-around are in no linear-time syntax. */
#ifndef TERCEL_OPS_REGEX_H
#define TERCEL_OPS_REGEX_H

#include "base/base.h"

typedef struct tercel_regex tercel_regex;

/* All it makes lives in the arena.  INVALID_MODEL: a wrong pattern (says where and why); UNSUPPORTED: one that would take too many
 * states, or uses what isn't known. */
tercel_status tercel_regex_compile(const char *pattern, size_t length, tercel_arena *arena, tercel_regex **out,
                                   tercel_error *err);
/* Does all of the text (UTF-8) match?  Changes the regex's own scratch: one thread at a time. */
bool tercel_regex_matches(tercel_regex *regex, const char *text, size_t length);

#endif
