/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_INSPECT_WAIT_H
#define CLI_INSPECT_WAIT_H

/* `holdfast wait …`; argv[0] is "wait". Returns 0 once the lock was seen free, 1 on a timeout. */
int wait_main(int argc, char **argv);

#endif
