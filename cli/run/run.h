/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_RUN_RUN_H
#define CLI_RUN_RUN_H

/* `holdfast run …`; argv[0] is "run". Returns the exit code. */
int run_main(int argc, char **argv);

#endif
