/* SPDX-License-Identifier: Apache-2.0 */
/* The default label of a holder or waiter. */
#ifndef CLI_RUN_COMMAND_LABEL_H
#define CLI_RUN_COMMAND_LABEL_H

#include <stdbool.h>

#include "base/url.h"

#define LABEL_TEXT (HF__LABEL_MAX + 1)

/* The first words of a command, or of a shell command line. "" if there are none. */
void label_from_command(char label[LABEL_TEXT], char *const *command);
void label_from_shell(char label[LABEL_TEXT], const char *line);

#endif
