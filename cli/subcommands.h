/* Which subcommand a word means. */
#ifndef CLI_SUBCOMMANDS_H
#define CLI_SUBCOMMANDS_H

typedef int subcommand_main(int argc, char **argv);

/* Its main, whose argv begins with that word; NULL: there is none. */
subcommand_main *subcommand(const char *word);

#endif
