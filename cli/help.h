#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stddef.h>

/* Show the help of a subcommand, or with "" that of the command, on stdout. The exit code. */
int help_show(const char *subcommand);
int help_version(void);

/* There is no such subcommand: say which was meant, if one is near. The exit code. */
int help_no_subcommand(const char *word);

/* Call `each` with the long options of a subcommand, as its help has them: "--wait", not ended
   by a NUL. */
void help_long_options(const char *subcommand,
                       void (*each)(void *arg, const char *option, size_t length), void *arg);

#endif
