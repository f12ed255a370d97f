/* How usual steps are told, for whoever tells them within the library. */
#include <stdint.h>

/* Newest steps, by which it is told what is usual. */
#define REMEMBERED 64

/* What each row tells, and how far steps were told. As in tfscale/trainer/probe/native.py, each field has 8 bytes. */
typedef struct {
    int64_t kind;                                     /* Of all rows. */
    int64_t asked, ready, entering, reduced, updated; /* The places of a step's edges in its row, */
    int64_t examples, bytes;                          /* and of what is beyond the fixed; 0 where nothing is. */
    int64_t collectives;                              /* Of a row: 1 where replicas reduce its gradients, or 0. */
    int64_t counts;                                   /* Whether the optimizer's iterations are known. */
    double idle;                                      /* Seconds on the host beyond which they may be a pause. */
    const unsigned char *head;                        /* What a batch of steps begins with, */
    int64_t head_length;                              /* at most HEAD bytes. */
    int64_t sequence, iteration;                      /* Of the next step. */
    double exit, after_update, after_reduction;       /* Where the steps so far end: `Tail`. */
    int64_t entered, left, waiting;                   /* Collectives so far; those that rows tell which wait; */
    double entered_at;                                /* when the newest was entered, NaN without any. */
    double most_examples, newest_bytes;               /* Of the newest read, beyond the fixed. */
    double most_bytes;                                /* Of all steps, beyond the fixed. */
    int64_t steps;                                    /* So far. */
    double lasted[REMEMBERED];                        /* Seconds from end to end, of step n at n % REMEMBERED. */
} Course;

/* A report of some steps. */
typedef struct {
    const void *message;
    uint64_t length;
    Course after;   /* The course, once it was told. */
    uint64_t taken; /* Rows of the ring that it tells. */
} Told;

/* The report of the usual steps that were over by `horizon`, of which `number` rows came `early`, before those in the ring.
 * NULL where something else has come, or nothing. But for the collectives that were entered nothing is changed. It lasts
 * until the next call. */
const Told *steps_told(Course *course, const double *early, uint64_t number, double horizon);

/* Has it be told. */
void steps_go_on(Course *course, const Told *told);
