/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How locks are shown, to people on a terminal and to programs behind a pipe. Names, labels and
 * programs are chosen by others, so their control characters must never reach a terminal.
 */
#ifndef CLI_COMMON_SHOW_H
#define CLI_COMMON_SHOW_H

#include <stddef.h>
#include <stdint.h>

#include "common/store.h"
#include "holdfast.h"

#define SHOW_TEXT 4096 /* bytes of a name, a URL or a line for people */

/* The width of the terminal on stdout; 0 if it is not a terminal. */
size_t show_width(void);

/* The number of columns of a text, counted as UTF-8 characters. */
size_t show_columns(const char *text);

/* Copies a text of up to `columns` columns, and ends it with ".." if it was cut. Returns the number
   of bytes. */
size_t show_cut(char *to, size_t size, const char *text, size_t columns);

/* Prints a label and a text: "state      held". On a terminal, long texts continue in the second
   column, and words are not broken. */
void show_line(const char *word, const char *text);

/* "holdfast, pid 311 on host-7 (nightly)", as far as it is known. */
void show_who(char *text, size_t size, const char *program, int64_t pid, const char *host,
              const char *label);
void show_holder(char *text, size_t size, const hf_info *info);

/* "held", "shared, by 3", "2 of 5 permits in use, by 2", "free". */
void show_state(char *text, size_t size, const hf_info *info);

/* The same in a column: "held", "read 3", "write", "permits 2/5", "free". */
void show_state_word(char *text, size_t size, const hf_info *info);

/* "mutex", "read", "write", "upgradable", "permits". */
const char *show_kind(uint32_t kind);

/* How long the lease lasts: "25 s of its lease; a renewal extends it", "as long as its holder
   runs". */
void show_remaining(char *text, size_t size, const hf_info *info, const store *s);

/* How long the lock has been held, by the local clock; 0 if unknown or in the future. */
int64_t show_held_ms(const hf_info *info);

/* A command ready to type: "holdfast status -S redis://locks 'my lock'". */
void show_command(char *text, size_t size, const char *subcommand, const store *s,
                  const char *name);

/* Prints a lock as one JSON object, with its holder and waiters. */
void show_json_lock(const char *name, const hf_info *info, const store *s);

/* Returns `code` if all of stdout was written. Otherwise prints the error and returns its exit
   code. */
int show_end(int code);

#endif
