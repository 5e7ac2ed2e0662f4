/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast top`: watches locks on a terminal. */
#ifndef CLI_TOP_TOP_H
#define CLI_TOP_TOP_H

int top_main(int argc, char **argv);

#endif
