/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HOLD_ACQUIRE_H
#define CLI_HOLD_ACQUIRE_H

/* `holdfast acquire …`, `release …`, `extend …`; argv[0] is that word. They return the exit
   code. */
int acquire_main(int argc, char **argv);
int release_main(int argc, char **argv);
int extend_main(int argc, char **argv);

#endif
