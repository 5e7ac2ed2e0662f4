/*
 * What is shown of locks, to people on a terminal and to programs behind a pipe. Names, labels and
 * programs are what others chose: none of their bytes may write on a person's terminal.
 */
#ifndef CLI_COMMON_SHOW_H
#define CLI_COMMON_SHOW_H

#include <stddef.h>
#include <stdint.h>

#include "common/store.h"
#include "holdfast.h"

#define SHOW_TEXT 4096 /* of a name, a URL, a person's line */

/* How wide the terminal on stdout is; 0: it is none. */
size_t show_width(void);

/* How many columns a text takes, as far as UTF-8 goes. */
size_t show_columns(const char *text);

/* Up to so many columns of a text, and ".." if that was not all; the bytes it took. */
size_t show_cut(char *to, size_t size, const char *text, size_t columns);

/* "state      held": a word and what it is. On a terminal it goes on in the second column where
   it is too long for a line; words stay whole. */
void show_line(const char *word, const char *text);

/* "holdfast, pid 311 on host-7 (nightly)": who that is, as far as it is known. */
void show_who(char *text, size_t size, const char *program, int64_t pid, const char *host,
              const char *label);
void show_holder(char *text, size_t size, const hf_info *info);

/* "held", "shared, by 3", "2 of 5 permits in use, by 2", "free". */
void show_state(char *text, size_t size, const hf_info *info);

/* The same in a column: "held", "read 3", "write", "permits 2/5", "free". */
void show_state_word(char *text, size_t size, const hf_info *info);

/* "mutex", "read", "write", "upgradable", "permits". */
const char *show_kind(uint32_t kind);

/* How long the lease lasts: "25 s, unless it is renewed", "as long as its holder runs". */
void show_remaining(char *text, size_t size, const hf_info *info, const store *s);

/* How long it has been held, by our clock; 0 if that is not known or in the future. */
int64_t show_held_ms(const hf_info *info);

/* A command as it can be typed: "holdfast status -S redis://locks 'my lock'". */
void show_command(char *text, size_t size, const char *subcommand, const store *s,
                  const char *name);

/* The members of an object: of one who holds or waits, and of a lock. */
void show_json_lock(const char *name, const hf_info *info, const store *s);

/* Whether all of stdout was written: `code`, or the exit code with the failure said. */
int show_end(int code);

#endif
