/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_INSPECT_STATUS_H
#define CLI_INSPECT_STATUS_H

/* `holdfast status …`; argv[0] is "status". Returns 0 if held, 1 if free, or an error code. */
int status_main(int argc, char **argv);

#endif
