/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources that the processes and the stores of a soak use, sampled over the run. Each sample
 * is a line in a CSV, and each figure has a series that is judged at the end. Only processes that
 * live for the whole run are judged.
 */
#ifndef HF_SOAK_SAMPLE_H
#define HF_SOAK_SAMPLE_H

#include <stdio.h>

#include "fault_injector.h"
#include "judge.h"

enum { SAMPLE_LASTING = SOAK_PROCESSES - SOAK_MORTAL };

/* In a shorter run the figures are not stable when the second quarter begins. */
#define SAMPLE_HOURS_MIN 0.5

/* Figures of a process. */
enum { SAMPLE_PSS, SAMPLE_HEAP, SAMPLE_FDS, SAMPLE_FIGURES };

typedef struct samples {
    FILE *csv;
    const char *directory; /* of the file store */
    judge_series of[SAMPLE_LASTING][SAMPLE_FIGURES];
    judge_series all[SAMPLE_FIGURES]; /* of those processes together */
    judge_series memory[2], keys[2];  /* of the servers */
    judge_series files;
    double now[SAMPLE_FIGURES]; /* the last sample of `all` */
} samples;

void samples_begin(samples *m, FILE *csv, const char *directory);
void samples_take(samples *m, fault_injector *d);

/* Print each verdict; returns how many are not flat. */
int samples_judge(const samples *m);
void samples_end(samples *m);

#endif
