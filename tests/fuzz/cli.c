/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the command line of every subcommand, and the files that the command reads: its
 * configuration and its handles. No subcommand runs its action: where it would choose its store,
 * the store's URL is checked and the subcommand ends.
 *
 * The first byte is `c` or `h` for a configuration or a handle. With any other first byte the words
 * follow, each ended by a newline; the first word is the subcommand.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <getopt.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/config.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/store.h"
#include "help.h"
#include "hold/handle.h"
#include "subcommands.h"

enum { UNDERSTOOD = 250, WORDS_MAX = 80, LINE_MAX_BYTES = 2100 };

/* ---- Actions of the command, replaced ---- */

static unsigned lines; /* on stderr */
static bool helped;

int __real_store_choose(store *s, const char *option);
int __wrap_store_choose(store *s, const char *option);
int __wrap_help_show(const char *subcommand);
int __wrap_isatty(int fd);
void __wrap_signals_begin(void);
int __real_handle_read(const char *path, handle *h);
int __wrap_handle_read(const char *path, handle *h);
ssize_t __wrap_write(int fd, const void *bytes, size_t length);
ssize_t __real_write(int fd, const void *bytes, size_t length);

/* The URL is checked as usual. A URL from outside the command line would not be part of the
   input. */
int __wrap_store_choose(store *s, const char *option) {
    *s = (store){0};
    if (!option) return UNDERSTOOD;
    size_t length = strlen(option);
    int code = __real_store_choose(s, option);
    FUZZ_CHECK(strlen(option) == length);
    FUZZ_CHECK(code || (s->url && s->shown && s->from && strlen(s->shown) <= length));
    return code ? code : UNDERSTOOD;
}

int __wrap_help_show(const char *subcommand) {
    FUZZ_CHECK(subcommand);
    helped = true;
    return 0;
}

int __wrap_isatty(int fd) {
    (void)fd;
    return 1;
}

void __wrap_signals_begin(void) {}

int __wrap_handle_read(const char *path, handle *h) {
    FUZZ_CHECK(path);
    *h = (handle){0};
    return UNDERSTOOD;
}

/* Each write is one complete line that a terminal can show unchanged. */
ssize_t __wrap_write(int fd, const void *bytes, size_t length) {
    const char *text = bytes;
    if (fd != STDERR_FILENO) return __real_write(fd, bytes, length);
    FUZZ_CHECK(length > 1 && length < LINE_MAX_BYTES && text[length - 1] == '\n');
    for (size_t i = 0; i + 1 < length; i++)
        FUZZ_CHECK((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
    lines++;
    return (ssize_t)length;
}

/* ---- Words ---- */

static void run_subcommand(int argc, char **argv) {
    subcommand_main *meant = find_subcommand(argv[0]);
    if (!meant) return;
    lines = 0;
    helped = false;
    optind = 0; /* makes glibc's getopt start again */
    set_verbosity(NORMAL);
    int code = meant(argc, argv);
    FUZZ_CHECK(code == UNDERSTOOD || code == EXIT_USAGE || code == EXIT_REFUSED ||
               code == EXIT_SYSTEM || code == EXIT_STORE || code == EXIT_CANNOT_EXEC ||
               (code == 0 && helped));
    if (code == EXIT_USAGE && get_verbosity() != QUIET) FUZZ_CHECK(lines == 1);
}

static void try_words(input *in) {
    char *words[WORDS_MAX + 1] = {0}, *kept[WORDS_MAX];
    int count = 0;
    while (count < WORDS_MAX && in->left) words[count++] = input_text(in, '\n');
    memcpy(kept, words, sizeof kept); /* getopt reorders them */
    if (count) run_subcommand(count, words);
    for (int i = 0; i < count; i++) free(kept[i]);
}

/* ---- Files ---- */

/* A path from which the bytes of the input can be read. */
static int file_of(input *in, char path[32]) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && fchmod(fd, 0600) == 0);
    FUZZ_CHECK(!in->left || __real_write(fd, in->at, in->left) == (ssize_t)in->left);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static void try_config(input *in) {
    char path[32], *url = NULL, *from = NULL;
    int fd = file_of(in, path);
    lines = 0;
    int code = config_read(path, &url, &from);
    FUZZ_CHECK(code == 0 ? lines == 0 : lines == 1);
    FUZZ_CHECK(code == 0 ? !url == !from : code >= EXIT_USAGE);
    free(url);
    free(from);
    close(fd);
}

static void try_handle(input *in) {
    char path[32];
    handle h;
    int fd = file_of(in, path);
    lines = 0;
    int code = __real_handle_read(path, &h);
    FUZZ_CHECK(code == 0 ? lines == 0 : lines == 1);
    if (!code) FUZZ_CHECK(h.name && h.store && (h.exported || h.helper > 0));
    handle_fini(&h);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    set_verbosity(NORMAL);
    switch (input_byte(&in)) {
    case 'c': try_config(&in); break;
    case 'h': try_handle(&in); break;
    default: try_words(&in); break;
    }
    return 0;
}
