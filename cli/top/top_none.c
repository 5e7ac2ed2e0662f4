/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces `holdfast top` in a build without ncurses. */
#include "common/exit_codes.h"
#include "common/message.h"
#include "top/top.h"

int top_main(int argc, char **argv) {
    (void)argc;
    (void)argv;
    return fail(EXIT_CANNOT_EXEC, "this build of holdfast has no top, because ncurses was missing; "
                                  "use holdfast list for a single listing");
}
