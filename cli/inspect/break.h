/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_INSPECT_BREAK_H
#define CLI_INSPECT_BREAK_H

/* `holdfast break …`; argv[0] is "break". Returns 0 if the lock was broken, 1 if not. */
int break_main(int argc, char **argv);

#endif
