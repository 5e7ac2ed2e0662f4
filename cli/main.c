/* SPDX-License-Identifier: Apache-2.0 */
/* The command `holdfast`. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "common/message.h"
#include "help.h"
#include "subcommands.h"

/* Opens /dev/null for standard streams that are closed. Otherwise the next file would get their
   descriptor, and messages would be written into it. The command that is run does not inherit
   them. */
static int fill_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        if (open("/dev/null", O_RDWR | O_CLOEXEC) < 0) return EXIT_SYSTEM;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (fill_streams() != 0) return EXIT_SYSTEM;
    if (argc < 2) return usage_error("", "a subcommand is missing: run, status, list, ...");
    const char *word = argv[1];
    subcommand_main *main_of = find_subcommand(word);
    if (main_of) return main_of(argc - 1, argv + 1);
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return help_show("");
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return help_version();
    return help_no_subcommand(word);
}
