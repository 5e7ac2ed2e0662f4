#ifndef CLI_INSPECT_LIST_H
#define CLI_INSPECT_LIST_H

/* `holdfast list …`; argv[0] is "list". 0 if there is something to list, 1 if not, or what went
   wrong. */
int list_main(int argc, char **argv);

#endif
