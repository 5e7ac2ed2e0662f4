/* The command: which subcommand is meant. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "doctor.h"
#include "exits.h"
#include "help.h"
#include "run.h"
#include "say.h"
#include "status.h"

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

int main(int argc, char **argv) {
    if (fill_streams() != 0) return EXIT_SYSTEM;
    if (argc < 2) return usage_error("", "say what to do: run, status, doctor or bench");
    const char *word = argv[1];
    if (strcmp(word, "run") == 0) return run_main(argc - 1, argv + 1);
    if (strcmp(word, "status") == 0) return status_main(argc - 1, argv + 1);
    if (strcmp(word, "doctor") == 0) return doctor_main(argc - 1, argv + 1);
    if (strcmp(word, "bench") == 0) return bench_main(argc - 1, argv + 1);
    if (strcmp(word, "help") == 0) return help_main(argc - 1, argv + 1);
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return help_show("");
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return help_version();
    return usage_error("", "there is no subcommand %.40s", word);
}
