/* SPDX-License-Identifier: Apache-2.0 */
/* The table of subcommands. */
#ifndef CLI_SUBCOMMANDS_H
#define CLI_SUBCOMMANDS_H

typedef int subcommand_main(int argc, char **argv);

/* The main function of a subcommand, or NULL. Its argv begins with the word. */
subcommand_main *find_subcommand(const char *word);

#endif
