/* A configuration file: `store = URL`, blank lines, and comments that begin with '#'. */
#ifndef CLI_COMMON_CONFIG_H
#define CLI_COMMON_CONFIG_H

/*
 * Set *url, and *from to "PATH:LINE", both on the heap, if the file is there and names a store. 0,
 * or the exit code with the failure said. A file that is there is never passed over: who believes
 * in locks that hold across machines must not get those of one machine.
 */
int config_read(const char *path, char **url, char **from);

#endif
