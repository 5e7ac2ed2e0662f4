#ifndef CLI_INSPECT_BREAK_H
#define CLI_INSPECT_BREAK_H

/* `holdfast break …`; argv[0] is "break". 0 if it was broken, 1 if there was nothing to break or
   the answer was no. */
int break_main(int argc, char **argv);

#endif
