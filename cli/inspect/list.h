/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_INSPECT_LIST_H
#define CLI_INSPECT_LIST_H

/* `holdfast list …`; argv[0] is "list". Returns 0 if there are locks, 1 if not, or an error
   code. */
int list_main(int argc, char **argv);

#endif
