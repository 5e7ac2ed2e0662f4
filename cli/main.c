/* The command: which subcommand is meant. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "acquire.h"
#include "bench.h"
#include "break.h"
#include "doctor.h"
#include "exits.h"
#include "help.h"
#include "list.h"
#include "run.h"
#include "say.h"
#include "status.h"
#include "top.h"
#include "wait.h"

/* A stream that is closed would otherwise become the place of the next descriptor we open, and our
   messages would go there. The stand-ins are gone when the command is run. */
static int fill_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        if (open("/dev/null", O_RDWR | O_CLOEXEC) < 0) return EXIT_SYSTEM;
    }
    return 0;
}

static int help_main(int argc, char **argv) {
    if (argc > 2) return usage_error("", "help explains one subcommand at a time");
    return help_show(argc == 2 ? argv[1] : "");
}

static const struct {
    const char *word;
    int (*main)(int argc, char **argv);
} subcommands[] = {
    {"run", run_main},       {"acquire", acquire_main}, {"release", release_main},
    {"extend", extend_main}, {"status", status_main},   {"list", list_main},
    {"wait", wait_main},     {"break", break_main},     {"doctor", doctor_main},
    {"bench", bench_main},   {"top", top_main},         {"help", help_main},
};

int main(int argc, char **argv) {
    if (fill_streams() != 0) return EXIT_SYSTEM;
    if (argc < 2) return usage_error("", "say what to do: run, status, list, ...");
    const char *word = argv[1];
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        if (strcmp(word, subcommands[i].word) == 0) return subcommands[i].main(argc - 1, argv + 1);
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return help_show("");
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return help_version();
    return help_no_subcommand(word);
}
