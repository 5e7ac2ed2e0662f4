/* `holdfast bench`: how fast locks are, on the user's own store. */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

int bench_main(int argc, char **argv);

#endif
