/* SPDX-License-Identifier: Apache-2.0 */
#include "subcommands.h"

#include <stddef.h>
#include <string.h>

#include "bench/bench.h"
#include "common/message.h"
#include "doctor/doctor.h"
#include "help.h"
#include "hold/acquire.h"
#include "inspect/break.h"
#include "inspect/list.h"
#include "inspect/status.h"
#include "inspect/wait.h"
#include "run/run.h"
#include "top/top.h"

static int help_main(int argc, char **argv) {
    if (argc > 2) return usage_error("", "help takes at most one subcommand");
    return help_show(argc == 2 ? argv[1] : "");
}

static const struct {
    const char *word;
    subcommand_main *main;
} subcommands[] = {
    {"run", run_main},       {"acquire", acquire_main}, {"release", release_main},
    {"extend", extend_main}, {"status", status_main},   {"list", list_main},
    {"wait", wait_main},     {"break", break_main},     {"doctor", doctor_main},
    {"bench", bench_main},   {"top", top_main},         {"help", help_main},
};

subcommand_main *find_subcommand(const char *word) {
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        if (strcmp(word, subcommands[i].word) == 0) return subcommands[i].main;
    return NULL;
}
