#ifndef CLI_HELP_H
#define CLI_HELP_H

/* Show the help of a subcommand, or with "" that of the command, on stdout. The exit code. */
int help_show(const char *subcommand);
int help_version(void);

#endif
