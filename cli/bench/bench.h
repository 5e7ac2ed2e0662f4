/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast bench`: measures how fast locks are in a store. */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

int bench_main(int argc, char **argv);

#endif
