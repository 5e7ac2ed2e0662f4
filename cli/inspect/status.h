#ifndef CLI_INSPECT_STATUS_H
#define CLI_INSPECT_STATUS_H

/* `holdfast status …`; argv[0] is "status". 0 if it is held, 1 if it is free, or what went
   wrong. */
int status_main(int argc, char **argv);

#endif
